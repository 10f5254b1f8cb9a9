// Where the words of the two rows stand, measured once for a text, so that any stretch of it can be drawn alone.

import { h } from "../dom.js";

const GAP = 8; // pixels between words
const WIDEST_GAP = 40; // … where keys are left out, and in a row that is spread out
const LONG = 400; // keys; a longer text shows only the neighbourhoods of the heaviest keys
const HEAVIEST = 6; // keys whose neighbourhoods are shown
const NEIGHBOURS = 2; // keys shown on each side of a heavy one

// update(width): measure again where the text, the width in pixels or the shown keys changed.
// places.key and places.query: left(i), middle(i) in pixels, length; keys are counted in slots, see slotOf and keyOf.
export function linesLayout(view) {
  const context = h("canvas").getContext("2d");
  const layout = { places: { key: null, query: null }, width: 0 };
  let layoutKey = "";
  let shownKeys = null; // the keys of a long text that are drawn, in order; null: all
  let slots = null; // and the slot of each
  layout.keyOf = (slot) => (shownKeys ? shownKeys[slot] : slot);
  layout.slotOf = (k) => (shownKeys ? slots.get(k) : k);

  function keyEdges() {
    const { entry, sighting } = view;
    const tokenAt = (slot) => sighting.keyToken(entry, layout.keyOf(slot));
    const gapAfter = (slot) => (shownKeys && shownKeys[slot + 1] !== shownKeys[slot] + 1 ? WIDEST_GAP : GAP);
    return wordEdges(context, shownKeys ? shownKeys.length : entry.S, tokenAt, gapAfter);
  }
  const queryEdges = () => wordEdges(context, view.entry.L, (i) => view.sighting.queryToken(view.entry, i));

  layout.update = (available) => {
    const { entry, state } = view;
    const long = entry.S > LONG;
    let key = `${entry.index}.${view.root.clientWidth}`;
    if (long) key += `.${state.head}.${state.q}.${view.row && view.row.complete}`;
    if (layoutKey === key) return;
    layoutKey = key;
    shownKeys = long ? neighbourhoods(view.row ? view.row.pairs : [], entry.S) : null;
    slots = shownKeys && new Map(shownKeys.map((k, slot) => [k, slot]));
    context.font = `16px ${getComputedStyle(view.root).fontFamily}`;
    const keys = keyEdges();
    const queries = entry.self && entry.L === entry.S && !shownKeys ? keys : queryEdges();
    layout.width = Math.max(keys.at(-1), queries.at(-1), available);
    layout.places.query = spread(queries, layout.width);
    layout.places.key = shownKeys ? over(keys, layout.width, state.q === null ? 0 : queries[state.q]) : spread(keys, layout.width);
  };
  return layout;
}

// The keys near the heaviest, in order.
function neighbourhoods(pairs, length) {
  const near = new Set();
  for (const [k] of pairs.slice(0, HEAVIEST)) {
    for (let i = Math.max(0, k - NEIGHBOURS); i <= Math.min(length - 1, k + NEIGHBOURS); i++) near.add(i);
  }
  return [...near].sort((a, b) => a - b);
}

// The left edge of every word of a row, and where the row ends.
function wordEdges(context, length, tokenAt, gapAfter = () => GAP) {
  const edges = new Float32Array(length + 1);
  const widths = new Map();
  for (let i = 0; i < length; i++) {
    const token = tokenAt(i);
    const id = token.text + token.mark + (token.part ? "/" : "");
    if (!widths.has(id)) widths.set(id, Math.max(16, context.measureText(token.text || "␣").width) + (token.part ? 40 : 16));
    edges[i + 1] = edges[i] + widths.get(id) + gapAfter(i);
  }
  return edges;
}

// edges: left edges and the end of the last word; gap: added between words; shift: of the whole row.
function placed(edges, gap, shift) {
  const left = (i) => edges[i] + gap * i + shift;
  const middle = (i) => (edges[i] + edges[i + 1] - GAP) / 2 + gap * i + shift;
  return { left, middle, length: edges.length - 1 };
}
// The shorter row is spread out in the middle of the longer.
function spread(edges, room) {
  const length = edges.length - 1;
  const width = edges[length];
  const gap = length > 1 ? Math.min((room - width) / (length + 1), WIDEST_GAP) : 0;
  return placed(edges, gap, (room - width - gap * (length - 1)) / 2);
}
// The few keys of a long text stand over the current query.
function over(edges, room, queryX) {
  const width = edges.at(-1);
  return placed(edges, 0, Math.min(Math.max(0, room - width), Math.max(0, queryX - width / 2)));
}
