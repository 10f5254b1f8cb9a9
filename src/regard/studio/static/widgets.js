// The controls every page uses: choices, sliders, switches, progress, problems, the line that makes the same, cards.

import { h } from "../../web/dom.js";
import { copyText } from "../../web/clipboard.js";
import { download } from "../../web/download.js";

const PROGRESS_DELAY = 120; // milliseconds: a quick answer shows no progress
const label = (text, props = {}) => h("span", { class: "st-label", ...props, text });

// One of several values, as buttons side by side. options: [[value, text, tooltip]].
export function choice(name, options, value, onChange) {
  const buttons = options.map(([v, text, title]) => h("button", { type: "button", "data-v": v, title, onclick: () => choose(v), text }));
  function set(chosen) {
    value = chosen;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.v === String(chosen)));
  }
  function choose(chosen) {
    set(chosen);
    onChange(chosen);
  }
  set(value);
  const group = h("span", { class: "rv-choice", role: "group", "aria-label": name }, buttons);
  return { element: h("span", { class: "st-field" }, label(name, { "aria-hidden": "true" }), group), set };
}

// One of many values. options: [[value, text]].
export function select(name, options, value, onChange) {
  const box = h(
    "select",
    { onchange: () => onChange(box.value) },
    options.map(([v, text]) => h("option", { value: v, text })),
  );
  box.value = value;
  return { element: h("label", { class: "st-field" }, label(name), box), box };
}

// A number in [low, high]; log: even in the logarithm. show(value): the text beside it.
export function slider(name, { low, high, value, log = false, step = null, show = String }, onChange) {
  const toPosition = log ? Math.log : (v) => v;
  const toValue = log ? Math.exp : (v) => v;
  const output = h("output", { class: "rv-num st-out" });
  const input = h("input", {
    type: "range",
    min: toPosition(low),
    max: toPosition(high),
    step: step ?? (toPosition(high) - toPosition(low)) / 400,
    "aria-label": name,
    oninput: () => {
      write(toValue(Number(input.value)));
      onChange(toValue(Number(input.value)));
    },
  });
  function write(v) {
    output.textContent = show(v);
    input.setAttribute("aria-valuetext", show(v));
  }
  function set(v) {
    input.value = toPosition(v);
    write(v);
  }
  set(value);
  return { element: h("label", { class: "st-field st-slide" }, label(name), input, output), set };
}

export function toggle(name, value, onChange) {
  const box = h("input", { type: "checkbox", checked: value, onchange: () => onChange(box.checked) });
  return { element: h("label", { class: "st-check" }, box, h("span", { text: name })) };
}

// A file chosen from the disk: a button, and the input it opens.
export function fileButton(text, accept, onFile) {
  const input = h("input", {
    type: "file",
    accept,
    hidden: true,
    onchange: () => {
      if (input.files[0]) onFile(input.files[0]);
      input.value = ""; // so that the same file can be chosen again
    },
  });
  return [h("button", { type: "button", class: "rv-plain", onclick: () => input.click(), text }), input];
}

// Let a file be dropped on an element.
export function acceptDrops(element, onFile) {
  const highlight = (on) => element.classList.toggle("st-over", on);
  element.addEventListener("dragover", (event) => {
    event.preventDefault();
    highlight(true);
  });
  element.addEventListener("dragleave", () => highlight(false));
  element.addEventListener("drop", (event) => {
    highlight(false);
    if (!event.dataTransfer.files.length) return; // dropped text goes where it was dropped
    event.preventDefault();
    onFile(event.dataTransfer.files[0]);
  });
}

// Where something went wrong: what, and what to do.
export function problem(studio) {
  const tables = [studio.texts, studio.shellTexts]; // a page may have refusals of its own
  const element = h("p", { class: "st-problem", role: "alert", hidden: true });
  function clear() {
    element.hidden = true;
    element.textContent = "";
  }
  // error: a Refused, or { code, values, message }.
  function show(error) {
    if (error.code === "cancelled") return clear();
    const sentence = tables.map((texts) => texts.refusals?.[error.code]).find(Boolean);
    const text = typeof sentence === "function" ? sentence(error.values || {}) : sentence;
    const withMessage = !text || tables.some((texts) => texts.refusalsWithMessage?.includes(error.code));
    element.textContent = [text, withMessage ? error.message : ""].filter(Boolean).join(" ");
    element.hidden = false;
    return undefined;
  }
  return { element, clear, show };
}

// How far a long job is, with a button to cancel it.
export function progress(texts, onCancel) {
  const bar = h("progress", { max: "1", "aria-label": texts.working });
  const status = h("span", { class: "rv-quiet" });
  const cancel = h("button", { type: "button", class: "rv-plain", onclick: () => onCancel(), text: texts.cancel });
  const element = h("div", { class: "st-progress", role: "status", hidden: true }, bar, status, cancel);
  let timer = 0;
  return {
    element,
    begin() {
      bar.removeAttribute("value");
      status.textContent = texts.working;
      clearTimeout(timer);
      timer = setTimeout(() => {
        element.hidden = false;
      }, PROGRESS_DELAY);
    },
    update({ state, before, share }) {
      if (state !== "waiting" && share > 0) bar.value = share;
      if (state === "waiting") status.textContent = texts.inLine(before);
      else status.textContent = share > 0 ? `${Math.round(100 * share)} %` : texts.working;
    },
    end() {
      clearTimeout(timer);
      element.hidden = true;
    },
  };
}

// A bar of a list of shares: its name, the bar, its number.
export function meterRow(name, share, text, current = false) {
  const bar = h("i", { css: { width: `${100 * Math.min(1, Math.max(0, share))}%` } });
  return [
    h("span", { class: current ? "st-now" : "", text: name }),
    h("span", { class: "rv-meter" }, bar),
    h("span", { class: "rv-num", text }),
  ];
}

// A chart as a file of its own: what the page's style sheet says of it is written into it.
const WRITTEN_STYLES = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "font-size",
  "font-family",
  "font-weight",
  "text-anchor",
  "opacity",
];
function standaloneSvg(picture) {
  const copy = picture.cloneNode(true);
  const copies = [copy, ...copy.querySelectorAll("*")];
  [picture, ...picture.querySelectorAll("*")].forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const name of WRITTEN_STYLES) if (style.getPropertyValue(name)) copies[i].setAttribute(name, style.getPropertyValue(name));
  });
  const { width, height } = picture.viewBox.baseVal;
  for (const [name, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", width, height })) copy.setAttribute(name, value);
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}`;
}

// The foot of a page: the same in Python or as a command, and what can be saved. saves: { json: () => value, svg: () => element }.
export function foot(texts, { code, saves = {} }) {
  const line = h("code", { tabindex: "0", text: code() });
  const copy = h("button", {
    type: "button",
    class: "rv-plain",
    onclick: () => copyText(line.textContent, copy, texts.copied),
    text: texts.copy,
  });
  const save = (kind) => {
    const value = saves[kind]();
    if (!value) return;
    const [text, type] = kind === "svg" ? [standaloneSvg(value), "image/svg+xml"] : [JSON.stringify(value, null, 1), "application/json"];
    download(`regard.${kind}`, new Blob([text], { type }));
  };
  const buttons = Object.keys(saves).map((kind) => {
    const text = `${texts.save} ${kind.toUpperCase()}`;
    return h("button", { type: "button", class: "rv-plain", "data-save": kind, onclick: () => save(kind), text });
  });
  const element = h("footer", { class: "rv-python st-foot" }, h("span", { class: "rv-quiet", text: texts.same }), line, copy, buttons);
  const draw = () => {
    line.textContent = code();
  };
  return { element, draw };
}

export const card = (title, ...children) => h("section", { class: "st-card" }, h("h2", { text: title }), children);
export const pageHead = (texts, ...more) =>
  h("div", { class: "st-head" }, h("h1", { text: texts.title }), h("p", { class: "st-lead", text: texts.lead }), more);

// The rows of a table without a head; a wide one is scrolled, by keys too.
export const tableOf = (rows) => h("div", { class: "st-scroll", tabindex: "0" }, h("table", { class: "st-table" }, h("tbody", {}, rows)));
