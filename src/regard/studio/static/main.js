// The shell around the pages: tabs, language, theme, the address, keyboard shortcuts. The server lists the pages; each is imported from
// pages/<name>/: page.js exports mount(container, studio) → { leave, drawnForPaper }, texts.js the tables EN and ZH. Only the page that is
// shown is loaded before the first paint.

import { h } from "../../web/dom.js";
import { copyText } from "../../web/clipboard.js";
import { htmlLanguage, onPrinting, otherLanguage, store } from "../../web/preferences.js";
import { remember } from "./recent.js";
import * as shellTexts from "./texts.js";

const root = document.documentElement;
const header = document.getElementById("top");
const container = document.getElementById("page");
const known = JSON.parse(document.getElementById("known").textContent); // { pages, models, initial } from the server
const names = known.pages;
const pages = {}; // the modules page.js that are loaded: first that of the page shown, then the others
load(readAddress().name); // while the texts come
const texts = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await import(`../pages/${name}/texts.js`)])));
const memories = Object.fromEntries(names.map((name) => [name, {}])); // what each page keeps while others are open
let lang = root.lang.startsWith("zh") ? "zh" : "en";
let current = null; // the name of the page shown
let mounted = null;

async function load(name) {
  pages[name] = await import(`../pages/${name}/page.js`);
}

const inLanguage = (tables) => (lang === "zh" ? tables.ZH : tables.EN);
const isDark = () => root.dataset.theme === "dark";

// What a page is given. memory: its own object, kept while other pages are open; params: the parameters of the address.
function studioFor(name, params) {
  const memory = memories[name];
  memory.params = params;
  return {
    models: known.models,
    initial: known.initial[name] || null, // results to show before anything is asked
    lang,
    theme: root.dataset.theme,
    dark: isDark(),
    texts: inLanguage(texts[name]),
    shellTexts: inLanguage(shellTexts),
    params,
    memory,
    // Write parameters into the address; null leaves one out.
    keep(changes) {
      memory.params = { ...memory.params, ...changes };
      if (current === name) writeAddress(memory.params);
    },
    // There is something to see.
    ready() {
      if (current !== name) return;
      container.dataset.ready = "1";
      setTimeout(loadOthers, 300);
    },
    // An attention view changed the language or the theme: the whole studio follows.
    follow(state) {
      if (printedDark) return; // drawn light for paper, not by choice
      if (state.lang !== lang) setLanguage(state.lang);
      if (state.theme !== "auto" && state.theme !== root.dataset.theme) setTheme(state.theme);
    },
  };
}

function writeAddress(params) {
  const written = Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const hash = `#${current}${written.length ? "?" + new URLSearchParams(written) : ""}`;
  if (location.hash !== hash) history.replaceState(null, "", hash);
  if (current !== names[0]) remember(current, hash, params); // the first page lists them
}

function readAddress() {
  const [name, query] = location.hash.slice(1).split("?");
  return { name: names.includes(name) ? name : names[0], params: Object.fromEntries(new URLSearchParams(query || "")) };
}

// Open a page, with the parameters it had last unless others are given.
function open(name, params = null) {
  if (mounted && mounted.leave) mounted.leave();
  mounted = null;
  current = name;
  const studio = studioFor(name, params || memories[name].params || {});
  drawHeader();
  container.replaceChildren();
  container.setAttribute("aria-label", studio.texts.tab);
  container.dataset.page = name;
  delete container.dataset.ready;
  document.title = `${studio.texts.tab} · regard`;
  writeAddress(studio.params);
  if (pages[name]) mount();
  else load(name).then(() => current === name && !mounted && mount());
}
function mount() {
  mounted = pages[current].mount(container, studioFor(current, memories[current].params));
}
// When the first page stands, the others are loaded, so that they open at once and also after the server has ended.
const loadOthers = () => names.filter((name) => !pages[name]).forEach(load);

function drawHeader() {
  const onTab = document.activeElement?.matches(".st-tab");
  const shell = inLanguage(shellTexts);
  const focusPage = (event) => {
    event.preventDefault();
    container.focus();
  };
  const tab = (name, i) =>
    h("a", {
      class: "st-tab",
      href: `#${name}`,
      "aria-current": name === current ? "page" : null,
      "aria-keyshortcuts": `Alt+${i + 1}`,
      text: inLanguage(texts[name]).tab,
    });
  header.replaceChildren(
    h("a", { class: "st-skip", href: "#page", onclick: focusPage, text: shell.skip }),
    h(
      "a",
      { class: "st-brand", href: `#${names[0]}` },
      h("img", { src: "/static/studio/static/icon.svg", alt: "", width: 22, height: 22 }),
      h("b", { text: "regard" }),
    ),
    h("nav", { class: "st-tabs", "aria-label": shell.pages }, names.map(tab)),
    h("span", { class: "st-tools" }, tools(shell)),
  );
  const tabs = header.querySelector(".st-tabs");
  const here = tabs.querySelector("[aria-current]");
  tabs.scrollLeft += here.getBoundingClientRect().left - tabs.getBoundingClientRect().left - (tabs.clientWidth - here.clientWidth) / 2;
  if (onTab) here.focus();
}

function tools(shell) {
  const button = (name, text, onclick, props = {}) => h("button", { type: "button", class: `rv-plain ${name}`, onclick, text, ...props });
  const named = (name) => ({ "aria-label": name, title: name });
  const link = button("st-link", shell.link, () => copyText(location.href, link, shell.copied));
  return [
    link,
    button("st-lang", shell.other, () => setLanguage(otherLanguage(lang)), {
      lang: htmlLanguage(otherLanguage(lang)),
      title: shell.otherTitle,
    }),
    button("st-theme", isDark() ? "☀" : "☾", toggleTheme, named(isDark() ? shell.light : shell.dark)),
    button("st-keys", "?", showKeys, named(shell.keys)),
  ];
}

function setLanguage(chosen) {
  lang = chosen;
  root.lang = htmlLanguage(lang);
  store("lang", lang);
  redraw();
}
function setTheme(theme) {
  root.dataset.theme = theme;
  store("theme", theme);
  redraw();
}
const toggleTheme = () => setTheme(isDark() ? "light" : "dark");

// Draw everything anew from what the page keeps; scrolling and the focused button of the header stay.
function redraw() {
  const scrolled = window.scrollY;
  const focused = header.contains(document.activeElement) && [...document.activeElement.classList].find((name) => name.startsWith("st-"));
  open(current, memories[current].params);
  window.scrollTo(0, scrolled);
  if (focused) header.querySelector(`.${focused}`).focus();
}

function showKeys() {
  const shell = inLanguage(shellTexts);
  const list = shell.keyList(names.length).map(([key, action]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: action })]);
  const closeOutside = (event) => {
    if (event.target === dialog) dialog.close();
  };
  const dialog = h(
    "dialog",
    { class: "rv-dialog", "aria-label": shell.keys, onclose: () => dialog.remove(), onclick: closeOutside },
    h("button", { type: "button", class: "rv-plain rv-close", "aria-label": shell.close, onclick: () => dialog.close(), text: "×" }),
    h("h2", { text: shell.keys }),
    h("dl", {}, list),
  );
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  const numbered = event.altKey && /^[1-9]$/.test(event.key) && names[event.key - 1];
  if (numbered) {
    event.preventDefault();
    location.hash = numbered;
    return;
  }
  const elsewhere = event.target.matches("input, textarea, select") || event.target.closest(".rv-frame");
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || elsewhere) return;
  const action = { "?": showKeys, l: () => setLanguage(otherLanguage(lang)), t: toggleTheme }[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

// Paper is white: while it is printed, a dark page is drawn light. The choice is not stored.
let printedDark = false;
function forPaper(printing) {
  if (printing ? !isDark() : !printedDark) return;
  printedDark = printing;
  root.dataset.theme = printing ? "light" : "dark";
  if (!mounted?.drawnForPaper) redraw();
}
onPrinting(forPaper);

window.addEventListener("hashchange", () => {
  const { name, params } = readAddress();
  open(name, Object.keys(params).length ? params : null);
  window.scrollTo(0, 0);
});

const { name, params } = readAddress();
open(name, params);
