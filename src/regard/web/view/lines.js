// Two rows of words joined by lines: keys above, queries below; the heavier the weight, the stronger the line.

import { h, svg } from "../dom.js";
import { weightColour } from "../colours.js";
import { linesLayout } from "./lines_layout.js";
import { rowShading, tokenElement } from "./tokens.js";

const HEIGHT = 168; // pixels between the rows
const MOST_QUERIES = 400; // drawn with their lines at once
const FAINTEST = 0.02; // the least weight drawn for any query
const FAINTEST_CURRENT = 0.005; // … and for the current one
const MOST_LINES = 4000;
const EDGE = 20; // pixels within which a word counts as hidden

// The curve of one line, from a key at x above to a query at x below.
export const linePath = (keyX, queryX, top, height) => {
  const [x1, x0] = [keyX.toFixed(1), queryX.toFixed(1)];
  const middle = top + height * 0.5;
  return `M${x1} ${top}C${x1} ${middle} ${x0} ${middle} ${x0} ${top + height}`;
};
export const lineWidth = (share) => (0.75 + 5 * Math.sqrt(share)).toFixed(2);

export function linesView(view) {
  const links = svg("svg", { class: "rv-links", "aria-hidden": "true" });
  const rowElement = () => h("div", { class: "rv-wordrow", role: "listbox", "aria-orientation": "horizontal", tabindex: "0" });
  const rows = { key: rowElement(), query: rowElement() };
  const titles = { key: h("div", { class: "rv-side" }), query: h("div", { class: "rv-side" }) };
  const inner = h("div", { class: "rv-two" }, rows.key, links, rows.query);
  const strip = h("div", { class: "rv-strip" }, inner);
  const element = h("div", { class: "rv-linesview" }, titles.key, strip, titles.query);
  const layout = linesLayout(view);
  const { places } = layout;
  let revealed = "";

  function draw() {
    layout.update(strip.clientWidth - 2);
    inner.style.width = layout.width + "px";
    const { q, k } = view.state;
    for (const side of ["key", "query"]) {
      titles[side].textContent = view.sideName(side);
      rows[side].setAttribute("aria-label", view.sideName(side));
    }
    revealCurrent(q);
    const queries = visible(strip, places.query);
    const slots = visible(strip, places.key);
    const byKey = view.side === "key" && k !== null; // a key is hovered: its queries are shown
    const strong = byKey ? linesOfKey(view, layout, queries) : linesOfQuery(view, layout);
    links.setAttribute("width", layout.width);
    links.setAttribute("height", HEIGHT);
    links.replaceChildren(...linePaths(view, layout, otherLines(view, layout, queries, slots), strong));
    rows.key.replaceChildren(...keyWords(view, layout, slots, byKey));
    rows.query.replaceChildren(...queryWords(view, layout, queries, byKey));
    markActive(rows.key, k);
    markActive(rows.query, q);
  }
  function revealCurrent(q) {
    const key = `${q}.${view.entry.index}`;
    if (q === null || revealed === key) return;
    revealed = key;
    if (!view.pointing) scrollTo(places.query.middle(q));
  }
  function scrollTo(x) {
    if (x < strip.scrollLeft + EDGE || x > strip.scrollLeft + strip.clientWidth - EDGE) strip.scrollLeft = x - strip.clientWidth / 2;
  }
  listen(view, rows, layout, scrollTo);
  strip.addEventListener("scroll", () => requestAnimationFrame(draw));
  return { element, draw };
}

// The first visible word of a row and the one after the last, by bisection.
function visible(strip, place) {
  const firstAfter = (x) => {
    let low = 0;
    let high = place.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (place.left(middle) < x) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const end = strip.scrollLeft + (strip.clientWidth || 800);
  return [Math.max(0, firstAfter(strip.scrollLeft) - 2), Math.min(place.length, firstAfter(end) + 2)];
}
const range = ([first, end]) => Array.from({ length: Math.max(0, end - first) }, (_, i) => first + i);

// Lines are [query, key, weight]. Those of the visible queries but the current one:
function otherLines(view, { slotOf }, [first, end], [firstSlot, endSlot]) {
  const lines = [];
  if (end - first >= MOST_QUERIES) return lines;
  for (let q = first; q < end; q++) {
    if (q === view.state.q) continue;
    for (const [k, weight] of view.sighting.row(view.entry, view.state.head, q).pairs) {
      if (weight < FAINTEST || lines.length > MOST_LINES) break;
      const slot = slotOf(k);
      if (slot !== undefined && slot >= firstSlot && slot < endSlot) lines.push([q, k, weight]);
    }
  }
  return lines;
}
function linesOfQuery(view, { slotOf }) {
  const { q } = view.state;
  if (q === null) return [];
  const drawn = view.row.pairs.filter(([k, weight]) => weight >= FAINTEST_CURRENT && slotOf(k) !== undefined);
  return drawn.map(([k, weight]) => [q, k, weight]);
}
function linesOfKey(view, { slotOf }, queries) {
  const { head, k } = view.state;
  if (slotOf(k) === undefined) return [];
  const lines = range(queries).map((q) => [q, k, view.sighting.weight(view.entry, head, q, k)]);
  return lines.filter(([, , weight]) => weight > FAINTEST_CURRENT);
}
function linePaths(view, { places, slotOf }, faint, strong) {
  const faintOpacity = view.state.q === null ? 0.9 : 0.28;
  const path = ([q, k, weight], current) => {
    const share = view.scale(weight);
    return svg("path", {
      d: linePath(places.key.middle(slotOf(k)), places.query.middle(q), 2, HEIGHT - 4),
      stroke: weightColour(current ? 0.35 + 0.65 * share : share, view.dark),
      "stroke-width": lineWidth(share),
      "stroke-opacity": current ? 1 : faintOpacity,
      fill: "none",
    });
  };
  return [...faint.map((line) => path(line, false)), ...strong.map((line) => path(line, true))];
}

function keyWords(view, { places, keyOf }, slots, byKey) {
  const shading = byKey ? () => ({ share: 0 }) : rowShading(view.row, view.scale);
  return range(slots).map((slot) => {
    const k = keyOf(slot);
    const { share, masked } = shading(k);
    const token = view.sighting.keyToken(view.entry, k);
    return wordElement(view, "key", k, token, { share, masked, key: k === view.state.k }, places.key.middle(slot));
  });
}
function queryWords(view, { places }, queries, byKey) {
  const { head, q, k } = view.state;
  return range(queries).map((i) => {
    const weight = byKey ? view.sighting.weight(view.entry, head, i, k) : 0;
    const options = { current: i === q && !byKey, share: weight > 0 ? view.scale(weight) : 0 };
    return wordElement(view, "query", i, view.sighting.queryToken(view.entry, i), options, places.query.middle(i));
  });
}
function wordElement(view, side, i, token, options, x) {
  const spaced = { ...token, mark: token.mark === "_" ? "." : token.mark }; // no mark for the space before a word of its own
  const node = tokenElement(spaced, view.dark, { ...options, id: `${view.id}-line-${side}-${i}` });
  node.dataset.i = i;
  node.dataset.side = side;
  node.setAttribute("role", "option");
  node.setAttribute("aria-selected", String(Boolean(options.current || options.key)));
  node.style.left = x + "px";
  return node;
}
function markActive(row, i) {
  const drawn = i !== null && row.querySelector(`[data-i="${i}"]`);
  if (drawn) row.setAttribute("aria-activedescendant", drawn.id);
  else row.removeAttribute("aria-activedescendant");
}

function listen(view, rows, { places, slotOf, keyOf }, scrollTo) {
  // act: view.hover or view.pin.
  const point = (event, act) => {
    const node = event.target.closest && event.target.closest("[data-side]");
    if (!node) return;
    const i = Number(node.dataset.i);
    if (node.dataset.side === "query") act(i, null);
    else if (view.state.pinned && act === view.hover) act(view.state.q, i);
    else act(view.state.q, i, "key");
  };
  for (const row of Object.values(rows)) {
    row.addEventListener("pointerover", (event) => point(event, view.hover));
    row.addEventListener("click", (event) => point(event, view.pin));
    row.addEventListener("pointerleave", () => view.leave());
  }
  rows.key.addEventListener("focus", () => view.hover(view.state.q, view.state.k ?? 0, "key"));
  // In the row of keys the arrows move from key to key, and each shows its queries.
  rows.key.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !places.key.length) return;
    event.preventDefault();
    event.stopPropagation();
    const slot = view.state.k === null ? -1 : (slotOf(view.state.k) ?? -1);
    const next = Math.max(0, Math.min(places.key.length - 1, slot + step));
    scrollTo(places.key.middle(next));
    view.hover(view.state.q, keyOf(next), "key");
  });
}
