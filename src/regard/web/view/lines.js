// Two rows of words joined by lines: keys above, queries below; the heavier the weight, the stronger the line.

import { h, svg } from "../dom.js";
import { weightColour } from "../colours.js";
import { rowShading, tokenElement } from "./tokens.js";

const HEIGHT = 168; // pixels between the rows
const GAP = 8; // pixels between words
const LONG = 400; // keys; a longer text shows only the neighbourhoods of the heaviest keys
const NEIGHBOURS = 2; // keys shown on each side of a heavy one
const FAINTEST = 0.02; // the least weight drawn for any query
const FAINTEST_CURRENT = 0.005; // … and for the current one
const MOST_LINES = 4000;
const EDGE = 20; // pixels within which a word counts as out of sight

// The curve of one line, from a key at x above to a query at x below.
export const linePath = (keyX, queryX, top, height) => {
  const [x1, x0] = [keyX.toFixed(1), queryX.toFixed(1)];
  const middle = top + height * 0.5;
  return `M${x1} ${top}C${x1} ${middle} ${x0} ${middle} ${x0} ${top + height}`;
};
export const lineWidth = (share) => (0.75 + 5 * Math.sqrt(share)).toFixed(2);

export function linesView(view) {
  const links = svg("svg", { class: "rv-links", "aria-hidden": "true" });
  const row = () => h("div", { class: "rv-wordrow", role: "listbox", "aria-orientation": "horizontal", tabindex: "0" });
  const keyRow = row();
  const queryRow = row();
  const inner = h("div", { class: "rv-two" }, keyRow, links, queryRow);
  const strip = h("div", { class: "rv-strip" }, inner);
  const keyTitle = h("div", { class: "rv-side" });
  const queryTitle = h("div", { class: "rv-side" });
  const element = h("div", { class: "rv-linesview" }, keyTitle, strip, queryTitle);
  const context = h("canvas").getContext("2d");
  let layoutKey = "";
  let revealed = "";
  let places = { key: null, query: null }; // of each row: left(i), middle(i) in pixels, length
  let shownKeys = null; // the keys of a long text that are drawn, in order; null: all
  let slots = null; // and the slot of each
  const keyOf = (slot) => (shownKeys ? shownKeys[slot] : slot);
  const slotOf = (k) => (shownKeys ? slots.get(k) : k);

  // The left edge of every word of a row and where the row ends, measured once for a text, so that any stretch of it can be drawn alone.
  function measure(side) {
    const { entry, sighting } = view;
    const isKeys = side === "key";
    const length = isKeys ? (shownKeys ? shownKeys.length : entry.S) : entry.L;
    const tokenAt = isKeys ? (i) => sighting.keyToken(entry, keyOf(i)) : (i) => sighting.queryToken(entry, i);
    const gapAfter = (i) => (isKeys && shownKeys && shownKeys[i + 1] !== shownKeys[i] + 1 ? 40 : GAP);
    const edges = new Float32Array(length + 1);
    const widths = new Map();
    context.font = `16px ${getComputedStyle(view.root).fontFamily}`;
    for (let i = 0; i < length; i++) {
      const token = tokenAt(i);
      const id = token.text + token.mark + (token.part ? "/" : "");
      if (!widths.has(id)) widths.set(id, Math.max(16, context.measureText(token.text || "␣").width) + (token.part ? 40 : 16));
      edges[i + 1] = edges[i] + widths.get(id) + gapAfter(i);
    }
    return edges;
  }

  function chooseKeys(entry) {
    const near = new Set();
    for (const [k] of (view.row ? view.row.pairs : []).slice(0, 6)) {
      for (let i = Math.max(0, k - NEIGHBOURS); i <= Math.min(entry.S - 1, k + NEIGHBOURS); i++) near.add(i);
    }
    shownKeys = [...near].sort((a, b) => a - b);
    slots = new Map(shownKeys.map((k, slot) => [k, slot]));
  }

  function layout() {
    const { entry, state } = view;
    const long = entry.S > LONG;
    let key = `${entry.index}.${view.root.clientWidth}`;
    if (long) key += `.${state.head}.${state.q}.${view.row && view.row.complete}`;
    if (layoutKey === key) return;
    layoutKey = key;
    shownKeys = null;
    if (long) chooseKeys(entry);
    const keyEdges = measure("key");
    const queryEdges = entry.self && entry.L === entry.S && !shownKeys ? keyEdges : measure("query");
    const room = Math.max(keyEdges.at(-1), queryEdges.at(-1), strip.clientWidth - 2);
    inner.style.width = room + "px";
    places.query = spread(queryEdges, room);
    places.key = shownKeys ? over(keyEdges, room, state.q === null ? 0 : queryEdges[state.q]) : spread(keyEdges, room);
  }

  function draw() {
    layout();
    const { entry } = view;
    const { q, k } = view.state;
    keyTitle.textContent = view.sideName("key");
    queryTitle.textContent = view.sideName("query");
    keyRow.setAttribute("aria-label", view.sideName("key"));
    queryRow.setAttribute("aria-label", view.sideName("query"));
    revealCurrent(q, entry);
    const queries = visible(places.query);
    const slotsInSight = visible(places.key);
    const byKey = view.side === "key" && k !== null; // a key is hovered: its queries are shown
    drawLines(queries, slotsInSight, byKey);
    const shading = byKey ? () => ({ share: 0 }) : rowShading(view.row, view.scale);
    keyRow.replaceChildren(
      ...range(slotsInSight).map((slot) => {
        const i = keyOf(slot);
        const { share, masked } = shading(i);
        return word("key", i, view.sighting.keyToken(entry, i), { share, masked, key: i === k }, slot);
      }),
    );
    queryRow.replaceChildren(
      ...range(queries).map((i) => {
        const weight = byKey ? view.sighting.weight(entry, view.state.head, i, k) : 0;
        return word("query", i, view.sighting.queryToken(entry, i), {
          current: i === q && !byKey,
          share: weight > 0 ? view.scale(weight) : 0,
        });
      }),
    );
    markActive(keyRow, k);
    markActive(queryRow, q);
  }

  function revealCurrent(q, entry) {
    const key = `${q}.${entry.index}`;
    if (q === null || revealed === key) return;
    revealed = key;
    if (!view.pointing) scrollTo(places.query.middle(q));
  }
  function scrollTo(x) {
    if (x < strip.scrollLeft + EDGE || x > strip.scrollLeft + strip.clientWidth - EDGE) strip.scrollLeft = x - strip.clientWidth / 2;
  }

  // The first word of a row in sight and the one after the last, by halving.
  function visible(place) {
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

  function drawLines(queries, slotsInSight, byKey) {
    const faint = otherLines(queries, slotsInSight);
    const strong = byKey ? linesOfKey(queries) : linesOfQuery();
    links.setAttribute("width", parseFloat(inner.style.width));
    links.setAttribute("height", HEIGHT);
    const faintOpacity = view.state.q === null ? 0.9 : 0.28;
    const path = (q, k, weight, current) => {
      const share = view.scale(weight);
      return svg("path", {
        d: linePath(places.key.middle(slotOf(k)), places.query.middle(q), 2, HEIGHT - 4),
        stroke: weightColour(current ? 0.35 + 0.65 * share : share, view.dark),
        "stroke-width": lineWidth(share),
        "stroke-opacity": current ? 1 : faintOpacity,
        fill: "none",
      });
    };
    links.replaceChildren(
      ...faint.map(([q, k, weight]) => path(q, k, weight, false)),
      ...strong.map(([q, k, weight]) => path(q, k, weight, true)),
    );
  }

  // [[query, key, weight]] of the queries in sight but the current one.
  function otherLines([first, end], [firstSlot, endSlot]) {
    const lines = [];
    if (end - first >= LONG) return lines;
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
  function linesOfQuery() {
    const { q } = view.state;
    if (q === null) return [];
    const drawn = view.row.pairs.filter(([k, weight]) => weight >= FAINTEST_CURRENT && slotOf(k) !== undefined);
    return drawn.map(([k, weight]) => [q, k, weight]);
  }
  function linesOfKey(queries) {
    const { head, k } = view.state;
    if (slotOf(k) === undefined) return [];
    const lines = range(queries).map((q) => [q, k, view.sighting.weight(view.entry, head, q, k)]);
    return lines.filter(([, , weight]) => weight > FAINTEST_CURRENT);
  }

  function word(side, i, token, options, slot = i) {
    const spaced = { ...token, mark: token.mark === "_" ? "." : token.mark }; // no mark for the space before a word of its own
    const node = tokenElement(spaced, view.dark, { ...options, id: `${view.id}-line-${side}-${i}` });
    node.dataset.i = i;
    node.dataset.side = side;
    node.setAttribute("role", "option");
    node.setAttribute("aria-selected", String(Boolean(options.current || options.key)));
    node.style.left = places[side].middle(slot) + "px";
    return node;
  }
  function markActive(row, i) {
    const drawn = i !== null && row.querySelector(`[data-i="${i}"]`);
    if (drawn) row.setAttribute("aria-activedescendant", drawn.id);
    else row.removeAttribute("aria-activedescendant");
  }

  function point(event, act) {
    const node = event.target.closest && event.target.closest("[data-side]");
    if (!node) return;
    const i = Number(node.dataset.i);
    if (node.dataset.side === "query") act(i, null);
    else if (view.state.pinned && act === view.hover) act(view.state.q, i);
    else act(view.state.q, i, "key");
  }
  for (const one of [keyRow, queryRow]) {
    one.addEventListener("pointerover", (event) => point(event, view.hover));
    one.addEventListener("click", (event) => point(event, view.pin));
    one.addEventListener("pointerleave", () => view.leave());
  }
  keyRow.addEventListener("focus", () => view.hover(view.state.q, view.state.k ?? 0, "key"));
  // In the row of keys the arrows move from key to key, and each shows its queries.
  keyRow.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !places.key.length) return;
    event.preventDefault();
    event.stopPropagation();
    const slot = view.state.k === null ? -1 : (slotOf(view.state.k) ?? -1);
    const next = Math.max(0, Math.min(places.key.length - 1, slot + step));
    scrollTo(places.key.middle(next));
    view.hover(view.state.q, keyOf(next), "key");
  });
  strip.addEventListener("scroll", () => requestAnimationFrame(draw));
  return { element, draw };
}

const range = ([first, end]) => Array.from({ length: Math.max(0, end - first) }, (_, i) => first + i);

// Where the words of a row stand. edges: left edges and the end of the last word; gap: added between words; shift: of the whole row.
function placed(edges, gap, shift) {
  const left = (i) => edges[i] + gap * i + shift;
  const middle = (i) => (edges[i] + edges[i + 1] - GAP) / 2 + gap * i + shift;
  return { left, middle, length: edges.length - 1 };
}
// The shorter row is spread out in the middle of the longer.
function spread(edges, room) {
  const length = edges.length - 1;
  const width = edges[length];
  const gap = length > 1 ? Math.min((room - width) / (length + 1), 40) : 0;
  return placed(edges, gap, (room - width - gap * (length - 1)) / 2);
}
// The few keys of a long text stand over the current query.
function over(edges, room, queryX) {
  const width = edges.at(-1);
  return placed(edges, 0, Math.min(Math.max(0, room - width), Math.max(0, queryX - width / 2)));
}
