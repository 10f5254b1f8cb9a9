// The controls around the pictures: buttons, the menu for saving, the choice of layer, head, picture and scale.

import { h } from "../dom.js";
import { copyText } from "../clipboard.js";
import { drawRamp, rampCanvas } from "../colours.js";
import { htmlLanguage, otherLanguage } from "../preferences.js";
import { saveView } from "./save.js";
import { SCALES } from "./scales.js";

export const button = (props, ...children) => h("button", { type: "button", ...props }, ...children);

// Copying the address, theme, language, keys.
export function toolButtons(view, options, toggleKeys) {
  const address = () => (options.fragment ? location.href : location.href.split("#")[0]);
  const link = button({
    class: "rv-plain rv-link",
    hidden: !options.fragment,
    onclick: () => copyText(address(), link, view.texts.copied),
  });
  const theme = button({ class: "rv-plain", onclick: () => view.set({ theme: view.dark ? "light" : "dark" }) });
  const lang = button({ class: "rv-plain", onclick: () => view.set({ lang: otherLanguage(view.state.lang) }) });
  const keys = button({ class: "rv-plain", text: "?", onclick: toggleKeys });
  const name = (node, text) => {
    node.title = text;
    node.setAttribute("aria-label", text);
  };
  function draw() {
    const { texts } = view;
    link.textContent = texts.link;
    theme.textContent = view.dark ? "☀" : "☾";
    name(theme, `${texts.theme}: ${view.dark ? texts.light : texts.dark}`);
    lang.textContent = texts.other;
    lang.title = texts.otherTitle;
    lang.lang = htmlLanguage(otherLanguage(view.state.lang));
    name(keys, texts.keys);
  }
  return { elements: [link, theme, lang, keys], draw };
}

export function saveMenu(view, alignment) {
  const summary = h("summary");
  const item = (kind, picture) =>
    button({
      "data-kind": kind,
      "data-which": picture,
      onclick: () => {
        element.open = false;
        saveView(view, kind, picture || view.state.picture);
      },
    });
  // An alignment shows two pictures at once; otherwise the visible one is saved.
  const items = alignment
    ? [item("svg", "lines"), item("png", "lines"), item("svg", "pattern"), item("png", "pattern"), item("json", "pattern")]
    : [item("svg"), item("png"), item("json")];
  const element = h("details", { class: "rv-save rv-pop" }, summary, h("div", { class: "rv-sheet rv-menu" }, items));
  function draw() {
    summary.textContent = view.texts.save;
    for (const one of items) {
      const { kind, which } = one.dataset;
      one.textContent = kind.toUpperCase() + (which && kind !== "json" ? ` · ${view.texts[which]}` : "");
    }
  }
  return { element, draw };
}

// Layer, head and, in a generation, step.
export function headSelectors(view) {
  const selector = (name, choose) => {
    const select = h("select", { onchange: () => choose(Number(select.value)) });
    const label = h("span");
    return { name, select, label, element: h("label", { class: "rv-pick" }, label, select) };
  };
  const layer = selector("layer", (entry) => view.set({ entry }));
  const head = selector("head", (chosen) => view.set({ head: chosen }));
  const step = selector("step", (chosen) => {
    const { sighting } = view;
    const entry = sighting.entriesOfStep(chosen).find((one) => one.layer === view.entry.layer);
    view.set({ step: chosen, entry: entry.index });
  });
  const fill = ({ select }, items, value) => {
    const key = items.map((item) => item.join()).join("|");
    if (select.dataset.key !== key) {
      select.replaceChildren(...items.map(([v, text]) => h("option", { value: v, text })));
      select.dataset.key = key;
    }
    select.value = value;
  };
  function draw() {
    const { sighting, entry, state } = view;
    for (const one of [layer, head, step]) one.label.textContent = view.texts[one.name];
    const layers = sighting.entriesOfStep(state.step).map((one) => [one.index, `${one.layer}${one.kind.includes("cross") ? " ×" : ""}`]);
    fill(layer, layers, state.entry);
    fill(
      head,
      entry.ids.slice(0, entry.heads).map((id, i) => [i, id]),
      state.head,
    );
    step.element.hidden = sighting.steps < 2;
    if (sighting.steps > 1) {
      fill(
        step,
        Array.from({ length: sighting.steps }, (_, i) => [i, i]),
        state.step,
      );
    }
  }
  return { element: h("div", { class: "rv-picks" }, layer.element, head.element, step.element), draw };
}

export function pictureTabs(view, pictures) {
  const idOf = (name) => `${view.id}-tab-${name}`;
  const tabs = pictures.map((name) =>
    button({
      role: "tab",
      class: "rv-tab",
      id: idOf(name),
      "aria-controls": `${view.id}-panel`,
      "data-view": name,
      onclick: () => view.set({ picture: name }),
    }),
  );
  const element = h("div", { class: "rv-tabs", role: "tablist" }, tabs);
  element.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (pictures.indexOf(view.state.picture) + step + pictures.length) % pictures.length;
    view.set({ picture: pictures[next] });
    tabs[next].focus();
  });
  function draw() {
    element.setAttribute("aria-label", view.texts.pictures);
    for (const tab of tabs) {
      const chosen = tab.dataset.view === view.state.picture;
      tab.textContent = view.texts[tab.dataset.view];
      tab.setAttribute("aria-selected", chosen);
      tab.tabIndex = chosen ? 0 : -1;
    }
  }
  return { element, draw, idOf };
}

// Row or column form, the scale of the colours, and their legend.
export function scaleControls(view) {
  const choice = (name, values) => {
    const buttons = values.map((value) => button({ "data-v": value, onclick: () => view.set({ [name]: value }) }));
    return { name, buttons, element: h("span", { class: "rv-choice", role: "group" }, buttons) };
  };
  const form = choice("form", ["row", "column"]);
  const scale = choice("scale", SCALES);
  const ramp = rampCanvas();
  const low = h("span", { class: "rv-num" });
  const high = h("span", { class: "rv-num" });
  const masked = h("span", { class: "rv-hatch" });
  const drawChoice = ({ name, buttons, element }) => {
    element.setAttribute("aria-label", view.texts[name]);
    for (const one of buttons) one.setAttribute("aria-pressed", one.dataset.v === view.state[name]);
  };
  function draw() {
    const { texts, entry } = view;
    drawChoice(form);
    drawChoice(scale);
    const [row, column] = form.buttons;
    Object.assign(row, { textContent: texts.rowForm, title: texts.rowTitle });
    Object.assign(column, { textContent: texts.columnForm, title: texts.columnTitle });
    for (const one of scale.buttons) one.textContent = texts[one.dataset.v];
    form.element.hidden = view.state.picture !== "pattern";
    drawRamp(ramp, view.dark);
    [low.textContent, high.textContent] = view.legendEnds();
    masked.textContent = texts.masked;
    masked.hidden = !entry.mask || (!entry.weights && !entry.hidden);
  }
  return { elements: [form.element, scale.element, h("span", { class: "rv-legend" }, low, ramp, high, masked)], draw };
}
