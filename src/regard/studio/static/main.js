// The shell: rooms as tabs, language, theme, the address, keys.

import { h } from "./dom.js";
import { copy } from "./widgets.js";
import { EN } from "./speech_en.js";
import { ZH } from "./speech_zh.js";
import { PALETTE } from "./palette.js";
import * as translate from "./room_translate.js";
import * as look from "./room_look.js";
import * as steps from "./room_steps.js";
import * as regression from "./room_regression.js";
import * as cost from "./room_cost.js";

const ROOMS = { translate, look, steps, regression, cost };
const NAMES = Object.keys(ROOMS);
const root = document.documentElement;
const remember = (name, value) => { try { localStorage.setItem("regard." + name, value); } catch { /* private windows forget */ } };

const studio = {
  known: JSON.parse(document.getElementById("known").textContent),
  lang: root.lang.startsWith("zh") ? "zh" : "en",
  memory: Object.fromEntries(NAMES.map((name) => [name, {}])), // what each room keeps while others are open
  get say() { return this.lang === "zh" ? ZH : EN; },
  get theme() { return root.dataset.theme; },
  get dark() { return root.dataset.theme === "dark"; },
  get colours() { return PALETTE[root.dataset.theme]; },
  get heads() { return PALETTE.heads; },
  switchTo(changes) { if (changes.lang && changes.lang !== this.lang) setLang(changes.lang); if (changes.theme && changes.theme !== this.theme) setTheme(changes.theme); },
};

const top = document.getElementById("top"), room = document.getElementById("room");
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
  room.replaceChildren();
  room.setAttribute("aria-label", studio.say.rooms[name]);
  room.dataset.room = name;
  delete room.dataset.ready;
  document.title = `${studio.say.rooms[name]} · regard`;
  const given = params || studio.memory[name].params || {};
  const view = Object.create(studio);
  view.params = given;
  Object.defineProperty(view, "memory", { value: studio.memory[name] });
  view.keep = (changes) => { view.memory.params = { ...view.memory.params, ...changes }; if (current === name) address(view.memory.params); };
  view.ready = () => { if (current === name) room.dataset.ready = "1"; };
  view.memory.params = given;
  address(given);
  mounted = ROOMS[name].mount(room, view);
}

function drawTop() {
  const say = studio.say.shell;
  const tabs = NAMES.map((name, place) => h("a", { class: "st-tab", href: `#${name}`, "aria-current": name === current ? "page" : null, "aria-keyshortcuts": `Alt+${place + 1}`, text: studio.say.rooms[name] }));
  top.replaceChildren(
    h("a", { class: "st-skip", href: "#room", onclick: (event) => { event.preventDefault(); room.focus(); }, text: say.skip }),
    h("span", { class: "st-brand" }, h("img", { src: "/static/icon.svg", alt: "", width: "22", height: "22" }), h("b", { text: "regard" })),
    h("nav", { class: "st-tabs", "aria-label": say.rooms }, tabs),
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

// Everything is drawn anew from what the room keeps; the reader stays where they were.
function again() {
  const where = window.scrollY, focus = document.activeElement && document.activeElement.className;
  enter(current, studio.memory[current].params);
  window.scrollTo(0, where);
  const button = focus && focus.includes("st-") && top.querySelector("." + focus.split(" ").find((c) => c.startsWith("st-")));
  if (button) button.focus();
}

function help() {
  const say = studio.say.shell;
  const dialog = h("dialog", { class: "rv-dialog", "aria-label": say.keys, onclose: () => dialog.remove(), onclick: (event) => { if (event.target === dialog) dialog.close(); } },
    h("button", { type: "button", class: "rv-plain rv-close", "aria-label": say.close, onclick: () => dialog.close(), text: "×" }),
    h("h2", { text: say.keys }), h("dl", {}, say.keyList.map(([key, what]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: what })])));
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.altKey && /^[1-5]$/.test(event.key)) { event.preventDefault(); location.hash = NAMES[event.key - 1]; return; }
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
