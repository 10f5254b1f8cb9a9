// What surrounds the pictures: title, proof, search, saving, the choice of layer, head and picture, the scale with its legend, the line of
// Python, the keys and the note.

import { h } from "../dom.js";
import { count } from "../numbers.js";
import { button, headSelectors, pictureTabs, saveMenu, scaleControls, toolButtons } from "./controls.js";
import { proofMenu } from "./proof.js";
import { pythonLine } from "./python_line.js";
import { tokenSearch } from "./search.js";

// parts: the elements the frame holds (pattern, words, stacked, lines, grid, card, weights); pictures: the names of its tabs.
export function frame(view, parts, { pictures, options, python }) {
  const { alignment } = options;
  const names = titleAndFacts(view, alignment);
  const proof = proofMenu(view);
  const save = saveMenu(view, alignment);
  const keys = keysDialog(view);
  const tools = toolButtons(view, options, keys.toggle);
  const scaleBar = scaleControls(view);
  const missed = missedCalls(view);
  const note = noteDetails(view);
  const search = tokenSearch(view, () => parts.pattern.reveal());
  const selectors = alignment ? null : headSelectors(view);
  const tabs = alignment ? null : pictureTabs(view, pictures);
  const code = alignment ? null : pythonLine(view, parts.pattern, python);
  const panel = picturePanel(view, parts, alignment, tabs);
  const element = h(
    "div",
    { class: "rv-frame" + (alignment ? " rv-alone" : "") },
    h(
      "header",
      { class: "rv-head" },
      names.element,
      h("div", { class: "rv-actions" }, proof.element, alignment ? null : search.element, save.element, tools.elements),
    ),
    missed.element,
    h(
      "div",
      { class: "rv-body" },
      alignment ? null : h("aside", { class: "rv-aside-col" }, selectors.element, parts.grid.element, parts.card.element),
      h(
        "div",
        { class: "rv-main" },
        panel.text,
        h("div", { class: "rv-controls" }, tabs && tabs.element, scaleBar.elements),
        panel.element,
        code && code.element,
        note.element,
      ),
    ),
    keys.element,
  );
  const drawn = [names, proof, search, tools, save, selectors, tabs, scaleBar, code, panel, note, missed].filter(Boolean);
  return {
    element,
    draw: () => drawn.forEach((part) => part.draw()),
    drawPython: () => code && code.draw(),
    toggleKeys: keys.toggle,
    closeAll: closing(view.root, keys.element, [proof.element, save.element]),
    textShown: panel.textShown,
    focusSearch: search.focus,
  };
}

function titleAndFacts(view, alignment) {
  const title = h("h1", { class: "rv-title" });
  const facts = h("p", { class: "rv-facts" });
  function draw() {
    title.textContent = view.title() || view.texts.pattern;
    facts.textContent = factsText(view, alignment);
  }
  return { element: h("div", { class: "rv-names" }, title, facts), draw };
}

// "6 layers × 8 heads · 42 tokens"
function factsText({ texts, sighting, entry }, alignment) {
  const { entries } = sighting;
  if (alignment) return `${texts.source} ${entries[0].S} · ${texts.target} ${entries[0].L}`;
  const equal = new Set(entries.map((one) => one.heads)).size === 1;
  const heads = entries.filter((one) => one.call === 0).reduce((sum, one) => sum + one.heads, 0);
  const tokens = Math.max(0, ...entries.map((one) => one.S));
  return [equal ? texts.layersHeads(sighting.layers.length, entry.heads) : texts.headsAll(heads), texts.tokens(count(tokens))].join(" · ");
}

// Attention that could not be captured: a wrong picture must not pass for a whole one.
function missedCalls(view) {
  const element = h("div", { class: "rv-missed", role: "alert" });
  function draw() {
    const { missed } = view.sighting.payload;
    element.hidden = !missed.length;
    element.replaceChildren(
      ...(missed.length ? [h("b", { text: view.texts.missed })] : []),
      ...missed.map((one) => h("p", { text: one.join(" · ") })),
    );
  }
  return { element, draw };
}

function noteDetails(view) {
  const element = h("details", { class: "rv-note" });
  function draw() {
    const { open } = element;
    const { noteTitle, note } = view.texts;
    element.replaceChildren(h("summary", { text: noteTitle }), ...note.map((paragraph) => h("p", { text: paragraph })));
    element.open = open;
  }
  return { element, draw };
}

// The chosen picture beside the list of weights. The text stands above the pattern; the other pictures show it themselves.
function picturePanel(view, parts, alignment, tabs) {
  const panel = h("div", { class: "rv-panel", role: "tabpanel", id: `${view.id}-panel`, tabindex: "-1" });
  const element = h("div", { class: "rv-work" }, panel, parts.weights.element);
  const text = h("div", { class: "rv-text" });
  const textShown = () => !alignment && view.state.picture === "pattern";
  function draw() {
    const { picture } = view.state;
    element.dataset.view = picture;
    panel.classList.toggle("rv-pair-up", Boolean(alignment) && longerRow(view) < view.root.clientWidth / 2 - 48);
    if (tabs) panel.setAttribute("aria-labelledby", tabs.idOf(picture));
    if (panel.lastChild !== parts[picture].element) {
      panel.replaceChildren(...(alignment ? [parts.lines.element] : []), parts[picture].element);
    }
    text.hidden = !textShown();
    if (textShown() && text.firstChild !== parts.words.element) text.replaceChildren(parts.words.element);
  }
  return { element, text, textShown, draw };
}

// All keys and what they do.
function keysDialog(view) {
  const element = h("dialog", { class: "rv-dialog" });
  function toggle() {
    if (element.open) return element.close();
    const { texts } = view;
    const close = button({ text: "×", class: "rv-plain rv-close", "aria-label": "Esc", onclick: () => element.close() });
    const list = texts.keyList.map(([key, action]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: action })]);
    element.setAttribute("aria-label", texts.keys);
    element.replaceChildren(close, h("h2", { text: texts.keys }), h("dl", {}, list));
    return element.showModal();
  }
  element.addEventListener("click", (event) => {
    if (event.target === element) element.close();
  });
  return { element, toggle };
}

// Menus close when something else is clicked. Returns a function that closes everything and says whether anything was open.
function closing(root, dialog, menus) {
  root.addEventListener("click", (event) => {
    for (const menu of menus) if (menu.open && !menu.contains(event.target)) menu.open = false;
  });
  return () => {
    const open = [dialog, ...menus].filter((one) => one.open);
    for (const one of open) {
      if (one === dialog) dialog.close();
      else one.open = false;
    }
    return open.length > 0;
  };
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
