// The few controls every page uses.

import { h } from "./dom.js";

export function copy(text, button, copied) {
  const was = button.textContent, done = () => { button.textContent = copied; setTimeout(() => { button.textContent = was; }, 1200); };
  const old = () => { const area = h("textarea", { value: text }); document.body.append(area); area.select(); document.execCommand("copy"); area.remove(); done(); };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, old); else old();
}

// One of several, side by side. options: [[value, text, title]].
export function choice(label, options, value, act) {
  const buttons = options.map(([v, text, title]) => h("button", { type: "button", "data-v": v, "aria-pressed": String(v === value), title, onclick: () => set(v, true), text }));
  function set(v, tell = false) { value = v; for (const b of buttons) b.setAttribute("aria-pressed", String(b.dataset.v === String(v))); if (tell) act(v); }
  const element = h("span", { class: "st-field" }, h("span", { class: "st-label", "aria-hidden": "true", text: label }), h("span", { class: "rv-choice", role: "group", "aria-label": label }, buttons));
  return { element, set, get value() { return value; } };
}

export function select(label, options, value, act) {
  const box = h("select", { onchange: () => act(box.value) }, options.map(([v, text]) => h("option", { value: v, text })));
  box.value = value;
  return { element: h("label", { class: "st-field" }, h("span", { class: "st-label", text: label }), box), box };
}

// A slider over [low, high], even in the logarithm if log. show(value) writes the number beside it.
export function slider(label, { low, high, value, log = false, step = null, show = String }, act) {
  const to = (v) => (log ? Math.log(v) : v), from = (v) => (log ? Math.exp(v) : v);
  const out = h("output", { class: "rv-num st-out", text: show(value) });
  const box = h("input", { type: "range", min: to(low), max: to(high), step: step ?? (to(high) - to(low)) / 400, "aria-label": label, "aria-valuetext": show(value), oninput: () => { value = from(Number(box.value)); tell(); act(value); } });
  function tell() { out.textContent = show(value); box.setAttribute("aria-valuetext", show(value)); }
  box.value = to(value);
  return { element: h("label", { class: "st-field st-slide" }, h("span", { class: "st-label", text: label }), box, out), set(v) { value = v; box.value = to(v); tell(); }, get value() { return value; } };
}

export function toggle(label, value, act) {
  const box = h("input", { type: "checkbox", checked: value, onchange: () => act(box.checked) });
  return { element: h("label", { class: "st-check" }, box, h("span", { text: label })), box };
}

// Where something went wrong: what, and what to do. Nothing typed is lost.
export function problem(studio) {
  const texts = [studio.say, studio.shell]; // a page may have refusals of its own
  const element = h("p", { class: "st-problem", role: "alert", hidden: true });
  return {
    element,
    clear() { element.hidden = true; element.textContent = ""; },
    show(error) {
      if (error.code === "cancelled") { this.clear(); return; }
      const known = texts.map((one) => one.refusals?.[error.code]).find(Boolean), both = texts.some((one) => one.refusalsWithMessage?.includes(error.code));
      const text = typeof known === "function" ? known(error.values || {}) : known;
      element.replaceChildren(h("span", { text: text || "" }), text && !both ? "" : h("span", { text: (text ? " " : "") + error.message }));
      element.hidden = false;
    },
  };
}

// How far a heavy job is, with its way out.
export function progress(say, cancel) {
  const bar = h("progress", { max: "1", "aria-label": say.working }), told = h("span", { class: "rv-quiet" });
  const element = h("div", { class: "st-progress", role: "status", hidden: true }, bar, told, h("button", { type: "button", class: "rv-plain", onclick: () => cancel(), text: say.cancel }));
  let timer = 0;
  return {
    element,
    begin() { bar.removeAttribute("value"); told.textContent = say.working; clearTimeout(timer); timer = setTimeout(() => { element.hidden = false; }, 120); },
    tell({ state, before, share }) { if (state === "waiting") told.textContent = say.inLine(before); else if (share > 0) { bar.value = share; told.textContent = `${Math.round(100 * share)} %`; } else told.textContent = say.working; },
    end() { clearTimeout(timer); element.hidden = true; },
  };
}

function download(name, text, kind) {
  const url = URL.createObjectURL(new Blob([text], { type: kind })), link = h("a", { href: url, download: name });
  document.body.append(link); link.click(); link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 5000);
}

// A chart as a file of its own: what the page's style says of it is written into it.
function alone(picture) {
  const copyOf = picture.cloneNode(true), from = [picture, ...picture.querySelectorAll("*")], to = [copyOf, ...copyOf.querySelectorAll("*")];
  from.forEach((node, i) => { const style = getComputedStyle(node); for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-family", "font-weight", "text-anchor", "opacity"]) { const v = style.getPropertyValue(name); if (v) to[i].setAttribute(name, v); } });
  const box = picture.viewBox.baseVal;
  copyOf.setAttribute("xmlns", "http://www.w3.org/2000/svg"); copyOf.setAttribute("width", box.width); copyOf.setAttribute("height", box.height);
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copyOf)}`;
}

// The foot of a view: the same in Python or as a command, and ways to take it along. saves: { json: () => value, svg: () => element }.
export function foot(say, { code, saves = {} }) {
  const line = h("code", { tabindex: "0", text: code() });
  const element = h("footer", { class: "rv-python st-foot" }, h("span", { class: "rv-quiet", text: say.same }), line,
    h("button", { type: "button", class: "rv-plain", onclick: (event) => copy(line.textContent, event.currentTarget, say.copied), text: say.copy }),
    Object.entries(saves).map(([kind, make]) => h("button", { type: "button", class: "rv-plain", "data-save": kind, onclick: () => { const made = make(); if (made) download(`regard.${kind}`, kind === "svg" ? alone(made) : JSON.stringify(made, null, 1), kind === "svg" ? "image/svg+xml" : "application/json"); }, text: `${say.save} ${kind.toUpperCase()}` })));
  return { element, draw() { line.textContent = code(); } };
}

export const card = (title, ...children) => h("section", { class: "st-card" }, h("h2", { text: title }), children);
