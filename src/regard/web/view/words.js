// Words coloured by weight in flowing text: the current query red, the keys blue. Self-attention shows one text, cross-attention two.

import { h } from "../dom.js";
import { decimals } from "../numbers.js";
import { rowShading, shownText, tokenElement } from "./tokens.js";

const LINE = 32; // pixels

export function wordsView(view) {
  const keys = flowingText(view, "key");
  const queries = flowingText(view, "query");
  const keyTitle = h("div", { class: "rv-side" });
  const queryTitle = h("div", { class: "rv-side" });
  const element = h("div", { class: "rv-words" }, keyTitle, keys.element, queryTitle, queries.element);
  function draw() {
    const self = view.entry.self;
    queries.element.hidden = queryTitle.hidden = keyTitle.hidden = self;
    keyTitle.textContent = view.sideName("key");
    queryTitle.textContent = view.sideName("query");
    keys.draw();
    if (!self) queries.draw();
  }
  return { element, draw };
}

// A text broken into lines by measured width, so that only the visible lines need elements. side: "query" or "key".
function flowingText(view, side) {
  const inner = h("div", { class: "rv-lines-in", role: "none" });
  const element = h("div", { class: "rv-flow", role: "listbox", tabindex: "0", "aria-orientation": "horizontal" }, inner);
  const widthOf = tokenWidths();
  let lines = []; // [first token, end]
  let layoutKey = "";
  let revealed = "";
  const placeOf = (i) => (side === "query" ? view.entry.queryPlace(i) : view.entry.keyPlace(i));
  const length = () => (side === "query" ? view.entry.L : view.entry.S);
  const text = () => view.entry[side].text;
  const tokenAt = (i) => view.sighting.token(text(), placeOf(i));

  function layout() {
    const room = Math.max(160, element.clientWidth - 20);
    const key = `${text()}.${placeOf(0)}.${length()}.${room}`;
    if (layoutKey === key) return;
    layoutKey = key;
    lines = brokenLines(length(), room, tokenAt, widthOf(getComputedStyle(view.root).fontFamily));
    inner.style.height = lines.length * LINE + "px";
  }

  function draw() {
    layout();
    const { entry } = view;
    const { q, k } = view.state;
    // In self-attention one text shows both: the current query in red, and the weights of its keys.
    const isKeys = side === "key";
    let current = isKeys ? null : q;
    if (entry.self && q !== null) current = entry.keyAt(entry.queryPlace(q));
    const shading = isKeys || entry.self ? rowShading(view.row, view.scale) : null;
    const title = entry.self ? view.texts.words : view.texts[side];
    element.setAttribute("aria-label", `${title}: ${view.headName()}`);
    revealCurrent(current);
    const first = Math.max(0, Math.floor(element.scrollTop / LINE) - 2);
    const last = Math.min(lines.length, Math.ceil((element.scrollTop + (element.clientHeight || 300)) / LINE) + 2);
    const optionAt = (i) => {
      const match = view.matches.has(`${text()}.${placeOf(i)}`);
      const marks = { current: i === current, key: Boolean(shading) && i === k, match, id: `${view.id}-${side}-${i}` };
      return tokenOption(tokenAt(i), view.dark, marks, shading ? shading(i) : null, { place: i, length: length() });
    };
    inner.replaceChildren(
      ...lines.slice(first, last).map(([start, end], n) => {
        const line = h("div", { class: "rv-line", role: "none", css: { top: (first + n) * LINE + "px" } });
        for (let i = start; i < end; i++) line.append(optionAt(i));
        return line;
      }),
    );
    const drawn = current !== null && current >= 0 && inner.querySelector(`[data-i="${current}"]`);
    if (drawn) element.setAttribute("aria-activedescendant", drawn.id);
    else element.removeAttribute("aria-activedescendant");
  }

  // Scroll to the current token when it changes, but not while the pointer hovers: the text would move under it.
  function revealCurrent(current) {
    const key = `${current}.${layoutKey}`;
    if (revealed === key) return;
    revealed = key;
    if (current === null || current < 0 || view.pointing) return;
    const n = lines.findIndex(([start, end]) => current >= start && current < end);
    const top = n * LINE;
    const height = element.clientHeight;
    if (n >= 0 && (top < element.scrollTop || top + LINE > element.scrollTop + height)) {
      element.scrollTop = Math.max(0, top - LINE * Math.floor(height / LINE / 2));
    }
  }

  // act: view.hover or view.pin. A token of self-attention becomes the query, unless a query is pinned: then the hovered token is its key.
  function point(event, act) {
    const node = event.target.closest && event.target.closest("[data-i]");
    if (!node) return;
    const i = Number(node.dataset.i);
    const { entry } = view;
    if (side === "query") return act(i, null);
    const q = entry.self ? entry.queryAt(entry.keyPlace(i)) : -1;
    if (q >= 0 && (!view.state.pinned || act === view.pin)) act(q, null);
    else act(view.state.q, i);
  }
  element.addEventListener("pointerover", (event) => point(event, view.hover));
  element.addEventListener("click", (event) => point(event, view.pin));
  element.addEventListener("pointerleave", () => view.leave());
  element.addEventListener("scroll", () => requestAnimationFrame(draw));
  return { element, draw };
}

// A token as an option of the list, named with its weight. shade: { share, weight, masked } of a key, null of a query.
function tokenOption(token, dark, marks, shade, { place, length }) {
  const node = tokenElement(token, dark, { ...marks, share: shade ? shade.share : 0, masked: shade && shade.masked });
  const name = (token.text || "").trim() || "␣"; // a space has a name too
  node.dataset.i = place;
  node.setAttribute("role", "option");
  node.setAttribute("aria-selected", String(marks.current));
  node.setAttribute("aria-setsize", length);
  node.setAttribute("aria-posinset", place + 1);
  node.setAttribute("aria-label", shade && shade.weight !== null && shade.weight >= 0 ? `${name} ${decimals(shade.weight)}` : name);
  return node;
}

// A function that measures tokens in a font, each kind of token once.
function tokenWidths() {
  const widths = new Map();
  const context = h("canvas").getContext("2d");
  return (fontFamily) => {
    context.font = `16px ${fontFamily}`;
    return (token) => {
      const id = token.mark + token.text + (token.part ? "/" : "");
      if (!widths.has(id)) {
        const text = context.measureText(shownText(token)).width * (token.mark === "*" ? 0.9 : 1); // small capitals
        widths.set(id, text + (token.mark === "_" ? 7 : 0) + (token.part ? 18 : 0) + 7);
      }
      return widths.get(id);
    };
  };
}

function brokenLines(length, room, tokenAt, widthOf) {
  const lines = [];
  let x = 0;
  let first = 0;
  for (let i = 0; i < length; i++) {
    const token = tokenAt(i);
    const width = widthOf(token);
    if (x + width > room && i > first) {
      lines.push([first, i]);
      first = i;
      x = 0;
    }
    x += width;
    if (token.text.endsWith("⏎")) {
      lines.push([first, i + 1]);
      first = i + 1;
      x = 0;
    }
  }
  if (first < length) lines.push([first, length]);
  return lines;
}
