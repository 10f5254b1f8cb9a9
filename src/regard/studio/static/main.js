// The shell: pages as tabs, language, theme, the address, keys. The server lists the pages; each is imported from pages/<name>/.

import { h } from "./dom.js";
import { copy } from "./widgets.js";
import * as shellTexts from "./texts.js";
import { PALETTE } from "./palette.js";

const known = JSON.parse(document.getElementById("known").textContent);
const NAMES = known.pages;
// page.js exports mount(container, studio) → { leave }, texts.js the tables EN and ZH.
const load = async (name) => { const [page, texts] = await Promise.all([import(`./pages/${name}/page.js`), import(`./pages/${name}/texts.js`)]); return [name, { mount: page.mount, texts }]; };
const PAGES = Object.fromEntries(await Promise.all(NAMES.map(load)));
const root = document.documentElement;
const remember = (name, value) => { try { localStorage.setItem("regard." + name, value); } catch { /* private windows forget */ } };

const studio = {
  known,
  lang: root.lang.startsWith("zh") ? "zh" : "en",
  memory: Object.fromEntries(NAMES.map((name) => [name, {}])), // what each page keeps while others are open
  get shell() { return inLanguage(shellTexts); },
  get theme() { return root.dataset.theme; },
  get dark() { return root.dataset.theme === "dark"; },
  get colours() { return PALETTE[root.dataset.theme]; },
  get heads() { return PALETTE.heads; },
  switchTo(changes) { if (changes.lang && changes.lang !== this.lang) setLang(changes.lang); if (changes.theme && changes.theme !== this.theme) setTheme(changes.theme); },
};

const inLanguage = (texts) => (studio.lang === "zh" ? texts.ZH : texts.EN), textsOf = (name) => inLanguage(PAGES[name].texts);
const top = document.getElementById("top"), container = document.getElementById("page");
let current = null, mounted = null;

function address(params) {
  const kept = Object.entries(params).filter(([, v]) => v !== null && v !== undefined && v !== "");
  const text = `#${current}${kept.length ? "?" + new URLSearchParams(kept) : ""}`;
  if (location.hash !== text) history.replaceState(null, "", text);
}

function fromAddress() {
  const [name, query] = location.hash.slice(1).split("?");
  return { name: NAMES.includes(name) ? name : NAMES[0], params: Object.fromEntries(new URLSearchParams(query || "")) };
}

function enter(name, params = null) {
  if (mounted && mounted.leave) mounted.leave();
  current = name;
  drawTop();
  container.replaceChildren();
  container.setAttribute("aria-label", textsOf(name).tab);
  container.dataset.page = name;
  delete container.dataset.ready;
  document.title = `${textsOf(name).tab} · regard`;
  const given = params || studio.memory[name].params || {};
  const view = Object.create(studio); // what a page is given: the shell's, and its own texts, initial results, parameters and memory
  view.say = textsOf(name);
  view.initial = known.initial[name] || null;
  view.params = given;
  Object.defineProperty(view, "memory", { value: studio.memory[name] });
  view.keep = (changes) => { view.memory.params = { ...view.memory.params, ...changes }; if (current === name) address(view.memory.params); };
  view.ready = () => { if (current === name) container.dataset.ready = "1"; };
  view.memory.params = given;
  address(given);
  mounted = PAGES[name].mount(container, view);
}

function drawTop() {
  const say = studio.shell;
  const tabs = NAMES.map((name, place) => h("a", { class: "st-tab", href: `#${name}`, "aria-current": name === current ? "page" : null, "aria-keyshortcuts": `Alt+${place + 1}`, text: textsOf(name).tab }));
  top.replaceChildren(
    h("a", { class: "st-skip", href: "#page", onclick: (event) => { event.preventDefault(); container.focus(); }, text: say.skip }),
    h("span", { class: "st-brand" }, h("img", { src: "/static/icon.svg", alt: "", width: "22", height: "22" }), h("b", { text: "regard" })),
    h("nav", { class: "st-tabs", "aria-label": say.pages }, tabs),
    h("span", { class: "st-tools" },
      h("button", { type: "button", class: "rv-plain st-link", onclick: (event) => copy(location.href, event.currentTarget, say.copied), text: say.link }),
      h("button", { type: "button", class: "rv-plain st-lang", lang: studio.lang === "en" ? "zh-CN" : "en", title: say.otherTitle, onclick: () => setLang(studio.lang === "en" ? "zh" : "en"), text: say.other }),
      h("button", { type: "button", class: "rv-plain st-theme", "aria-label": studio.dark ? say.light : say.dark, title: studio.dark ? say.light : say.dark, onclick: () => setTheme(studio.dark ? "light" : "dark"), text: studio.dark ? "☀" : "☾" }),
      h("button", { type: "button", class: "rv-plain st-keys", "aria-label": say.keys, title: say.keys, onclick: help, text: "?" })));
}

function setLang(lang) {
  studio.lang = lang;
  root.lang = lang === "zh" ? "zh-CN" : "en";
  remember("lang", lang);
  again();
}
function setTheme(theme) { root.dataset.theme = theme; remember("theme", theme); again(); }

// Everything is drawn anew from what the page keeps; the reader stays where they were.
function again() {
  const where = window.scrollY, focus = document.activeElement && document.activeElement.className;
  enter(current, studio.memory[current].params);
  window.scrollTo(0, where);
  const button = focus && focus.includes("st-") && top.querySelector("." + focus.split(" ").find((c) => c.startsWith("st-")));
  if (button) button.focus();
}

function help() {
  const say = studio.shell;
  const dialog = h("dialog", { class: "rv-dialog", "aria-label": say.keys, onclose: () => dialog.remove(), onclick: (event) => { if (event.target === dialog) dialog.close(); } },
    h("button", { type: "button", class: "rv-plain rv-close", "aria-label": say.close, onclick: () => dialog.close(), text: "×" }),
    h("h2", { text: say.keys }), h("dl", {}, say.keyList(NAMES.length).map(([key, what]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: what })])));
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  const numbered = event.altKey && /^[1-9]$/.test(event.key) && NAMES[event.key - 1];
  if (numbered) { event.preventDefault(); location.hash = numbered; return; }
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select") || event.target.closest(".rv-frame")) return;
  const act = { "?": help, l: () => setLang(studio.lang === "en" ? "zh" : "en"), t: () => setTheme(studio.dark ? "light" : "dark") }[event.key];
  if (act) { event.preventDefault(); act(); }
});
window.addEventListener("hashchange", () => {
  const { name, params } = fromAddress();
  enter(name, Object.keys(params).length ? params : null);
  window.scrollTo(0, 0);
});

const { name, params } = fromAddress();
enter(name, params);
