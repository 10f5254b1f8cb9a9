// What surrounds the pictures: title, proof, search, saving, the choice of layer, head and picture, the scale with its legend, the line of
// Python, the keys and the note.

import { h } from "../dom.js";
import { copyText } from "../clipboard.js";
import { drawRamp, rampCanvas } from "../colours.js";
import { count } from "../numbers.js";
import { htmlLanguage, otherLanguage } from "../preferences.js";
import { proofMenu } from "./proof.js";
import { pythonLine } from "./python_line.js";
import { saveView } from "./save.js";
import { SCALES } from "./scales.js";
import { tokenSearch } from "./search.js";

const button = (props, ...children) => h("button", { type: "button", ...props }, ...children);

// parts: the elements the frame holds (pattern, words, stacked, lines, grid, card, weights); pictures: the names of its tabs.
export function frame(view, parts, { pictures, options, python }) {
  const { alignment } = options;
  const title = h("h1", { class: "rv-title" });
  const facts = h("p", { class: "rv-facts" });
  const proof = proofMenu(view);
  const search = tokenSearch(view, () => parts.pattern.reveal());
  const tools = toolButtons(view, options, () => toggleKeys());
  const save = saveMenu(view, alignment);
  const selectors = alignment ? null : headSelectors(view);
  const tabs = alignment ? null : pictureTabs(view, pictures);
  const scaleBar = scaleControls(view);
  const panel = h("div", { class: "rv-panel", role: "tabpanel", id: `${view.id}-panel`, tabindex: "-1" });
  const text = h("div", { class: "rv-text" });
  const code = alignment ? null : pythonLine(view, parts.pattern, python);
  const note = h("details", { class: "rv-note" });
  const missed = h("div", { class: "rv-missed", role: "alert" });
  const dialog = h("dialog", { class: "rv-dialog" });
  const work = h("div", { class: "rv-work" }, panel, parts.weights.element);
  const element = h(
    "div",
    { class: "rv-frame" + (alignment ? " rv-alone" : "") },
    h(
      "header",
      { class: "rv-head" },
      h("div", { class: "rv-names" }, title, facts),
      h("div", { class: "rv-actions" }, proof.element, alignment ? null : search.element, save.element, tools.elements),
    ),
    missed,
    h(
      "div",
      { class: "rv-body" },
      alignment ? null : h("aside", { class: "rv-aside-col" }, selectors.element, parts.grid.element, parts.card.element),
      h(
        "div",
        { class: "rv-main" },
        text,
        h("div", { class: "rv-controls" }, tabs && tabs.element, scaleBar.elements),
        work,
        code && code.element,
        note,
      ),
    ),
    dialog,
  );

  // The text stands above the pattern; the other pictures show it themselves.
  const textShown = () => !alignment && view.state.picture === "pattern";

  function draw() {
    const { texts, sighting } = view;
    title.textContent = view.title() || texts.pattern;
    facts.textContent = factsText();
    for (const part of [proof, search, tools, save, selectors, tabs, scaleBar, code]) if (part) part.draw();
    drawPanel();
    const { open } = note;
    note.replaceChildren(h("summary", { text: texts.noteTitle }), ...texts.note.map((paragraph) => h("p", { text: paragraph })));
    note.open = open;
    const lost = sighting.payload.missed;
    missed.hidden = !lost.length;
    missed.replaceChildren(
      ...(lost.length ? [h("b", { text: texts.missed })] : []),
      ...lost.map((one) => h("p", { text: one.join(" · ") })),
    );
  }

  function factsText() {
    const { texts, sighting } = view;
    const { entries } = sighting;
    if (alignment) return `${texts.source} ${entries[0].S} · ${texts.target} ${entries[0].L}`;
    const equal = new Set(entries.map((entry) => entry.heads)).size === 1;
    const heads = entries.filter((entry) => entry.call === 0).reduce((sum, entry) => sum + entry.heads, 0);
    const tokens = Math.max(0, ...entries.map((entry) => entry.S));
    return [equal ? texts.layersHeads(sighting.layers.length, view.entry.heads) : texts.headsAll(heads), texts.tokens(count(tokens))].join(
      " · ",
    );
  }

  function drawPanel() {
    const { picture } = view.state;
    work.dataset.view = picture;
    panel.classList.toggle("rv-pair-up", Boolean(alignment) && longerRow(view) < view.root.clientWidth / 2 - 48);
    if (tabs) panel.setAttribute("aria-labelledby", tabs.idOf(picture));
    if (panel.lastChild !== parts[picture].element) {
      panel.replaceChildren(...(alignment ? [parts.lines.element] : []), parts[picture].element);
    }
    text.hidden = !textShown();
    if (textShown() && text.firstChild !== parts.words.element) text.replaceChildren(parts.words.element);
  }

  function toggleKeys() {
    if (dialog.open) return dialog.close();
    const { texts } = view;
    const close = button({ text: "×", class: "rv-plain rv-close", "aria-label": "Esc", onclick: () => dialog.close() });
    const list = texts.keyList.map(([key, action]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: action })]);
    dialog.setAttribute("aria-label", texts.keys);
    dialog.replaceChildren(close, h("h2", { text: texts.keys }), h("dl", {}, list));
    return dialog.showModal();
  }
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });

  // Menus close when something else is clicked; closeAll says whether anything was open.
  const menus = [proof.element, save.element];
  view.root.addEventListener("click", (event) => {
    for (const menu of menus) if (menu.open && !menu.contains(event.target)) menu.open = false;
  });
  function closeAll() {
    const open = [dialog, ...menus].filter((one) => one.open);
    for (const one of open) {
      if (one === dialog) dialog.close();
      else one.open = false;
    }
    return open.length > 0;
  }
  return { element, draw, drawPython: () => code && code.draw(), toggleKeys, closeAll, textShown, focusSearch: search.focus };
}

// Copying the address, theme, language, keys.
function toolButtons(view, options, toggleKeys) {
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

function saveMenu(view, alignment) {
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
  // An alignment shows two pictures at once; otherwise the one in sight is saved.
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
function headSelectors(view) {
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

function pictureTabs(view, pictures) {
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
function scaleControls(view) {
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

// Roughly how wide the longer row of words is: the lines stand beside the pattern only if they fit there.
function longerRow({ sighting, entry }) {
  const letter = (c) => (c > "\u2e80" ? 16 : 9); // CJK characters are wider
  const width = (text) => {
    const words = sighting.texts[text].pieces;
    return words.reduce((sum, word) => sum + 24 + [...word].reduce((w, c) => w + letter(c), 0), 0);
  };
  return Math.max(width(entry.query.text), width(entry.key.text));
}
