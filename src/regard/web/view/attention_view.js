// The interactive view of a sighting's attention, the same in a report, in a notebook and in the studio.

import { h } from "../dom.js";
import { number } from "../numbers.js";
import { htmlLanguage, isDark, LANGUAGES, onPrinting, preferredLanguage, preferredTheme, store, systemTheme } from "../preferences.js";
import { addressWriter, stateFromAddress } from "./address.js";
import { frame } from "./frame.js";
import { headCard } from "./head_card.js";
import { headGrid } from "./head_grid.js";
import { listenToKeys, takePageKeys } from "./keyboard.js";
import { linesView } from "./lines.js";
import { patternView } from "./pattern.js";
import { proofText } from "./proof.js";
import { SCALES, scaleFunction } from "./scales.js";
import { Sighting, unpack } from "./sighting.js";
import { stackedView } from "./stacked.js";
import { EN, ZH } from "./texts.js";
import { weightList } from "./weight_list.js";
import { wordsView } from "./words.js";

const TEXTS = { en: EN, zh: ZH };
const PICTURES = ["pattern", "words", "stacked", "lines"];
let views = 0;

// Draw a payload (regard/sight/views/payload.py) into an element. options:
//   lang "en" or "zh", theme "auto", "light" or "dark"; without them the reader's preferences
//   fragment    keep the state in the page's address
//   alignment   one head: the lines and the pattern, without grid and tabs
//   fetchTile(entry, head, [q0, q1], [k0, k1])   exact weights, row by row, or a promise of them
//   onState(state)   called after every change
//   python      the name of the sighting in the line of Python
// Returns a promise of { state, set(changes), pin(q, k), hover(q, k), setPayload(payload), destroy(), view }.
export async function attentionView(element, payload, options = {}) {
  const root = h("div", { class: "regard", id: `rv${++views}` });
  element.replaceChildren(root);
  if (typeof DecompressionStream === "undefined") {
    root.append(h("p", { class: "rv-error", role: "alert", text: TEXTS[options.lang || "en"].unsupported }));
    return null;
  }
  const pictures = options.alignment ? ["pattern"] : PICTURES;
  const sighting = new Sighting(payload, await unpack(payload), options.fetchTile);
  const view = createView(root, sighting, pictures, options);
  const parts = {
    pattern: patternView(view),
    words: wordsView(view),
    stacked: stackedView(view),
    lines: linesView(view),
    grid: headGrid(view),
    card: headCard(view),
    weights: weightList(view, options),
  };
  const surroundings = frame(view, parts, { pictures, options, python: options.python || "seen" });
  root.append(surroundings.element);
  view.onZoom = surroundings.drawPython;
  view.reveal = parts.pattern.reveal;
  connectDrawing(view, parts, surroundings, options);

  const listeners = new AbortController();
  const { signal } = listeners;
  if (options.fragment) {
    window.addEventListener("hashchange", () => view.set(stateFromAddress(view.sighting)), { signal });
    takePageKeys(root, signal);
  }
  listenToKeys(view, parts, surroundings, pictures);
  systemTheme.addEventListener("change", () => view.refresh(), { signal });
  onPrinting((printing) => {
    view.printing = printing;
    view.drawAll(); // at once: nothing waits for the next frame of the screen
  }, signal);
  let width = 0;
  const resizing = new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    view.refresh();
  });
  resizing.observe(root);

  selectClearestHead(view, options);
  view.set(options.fragment ? stateFromAddress(sighting) : {});
  const controller = {
    state: view.state,
    set: view.set,
    pin: view.pin,
    hover: view.hover,
    view,
    async setPayload(next) {
      view.sighting = new Sighting(next, await unpack(next), options.fetchTile);
      view.sighting.onRowArrived = view.refreshSelection;
      selectClearestHead(view, options);
      view.set({});
    },
    destroy() {
      listeners.abort();
      resizing.disconnect();
      element.replaceChildren();
    },
  };
  root.regard = controller;
  return controller;
}

// What the parts share: the sighting, the state, what is derived from both, and the ways to change the state.
// state: entry (index), head, step, the selected query q and key k (or null), pinned, picture, scale, form, lang, theme.
function createView(root, sighting, pictures, options) {
  const state = {
    entry: 0,
    head: 0,
    step: 0,
    q: null,
    k: null,
    pinned: false,
    picture: pictures[0],
    scale: "linear",
    form: "row",
    lang: options.lang || preferredLanguage(),
    theme: options.theme || preferredTheme(),
  };
  const view = {
    root,
    id: root.id,
    state,
    sighting,
    pointing: false, // was the selection made with the pointer? Then nothing may scroll
    side: null, // "key": a key was selected rather than a query
    matches: new Set(), // of a search: "text.place"
    row: null, // of the selected query
    grid: null, // of the chosen head
    scale: () => 0, // from a weight to its share of the colour ramp
    get entry() {
      return this.sighting.entries[state.entry];
    },
    get texts() {
      return TEXTS[state.lang];
    },
    printing: false, // paper is white
    get dark() {
      return !this.printing && isDark(state.theme);
    },
  };
  addNames(view, options);
  addSelection(view);
  addChanges(view, pictures);
  view.hatch = hatchPattern(root);
  return view;
}

function addNames(view, { alignment }) {
  const { state } = view;
  view.title = () => view.sighting.payload.title || view.sighting.payload.model || "";
  view.headName = (entry = view.entry, head = state.head) => {
    if (alignment) return "";
    const { texts } = view;
    const names = [`${texts.layer} ${entry.layer}`, `${texts.head} ${entry.ids[head]}`];
    if (view.sighting.steps > 1) names.push(`${texts.step} ${entry.call}`);
    return names.join(" · ");
  };
  view.sideName = (side) => {
    if (alignment) return side === "key" ? view.texts.source : view.texts.target;
    return side === "key" ? view.texts.keySide : view.texts.querySide;
  };
  view.labelName = (name) => view.texts.labelNames[name] || name;
  view.legendEnds = () => {
    if (state.scale === "rank") return ["0%", "100%"];
    return [state.scale === "log" ? `≤${number(view.sighting.floor)}` : "0", number(view.sighting.ceiling)];
  };
  view.proofText = () => proofText(view.entry.proof, view.texts);
}

// Hover, focus and touch select a query and a key; a pinned query stays, and only its key changes.
function addSelection(view) {
  const { state } = view;
  const select = (q, k, side) => {
    const { L, S } = view.entry;
    const within = (i, length) => (i === null || i === undefined ? null : Math.max(0, Math.min(length - 1, i)));
    Object.assign(state, { q: within(q, L), k: within(k, S) });
    view.side = side;
  };
  view.hover = (q, k, side = null) => {
    view.pointing = true;
    if (state.pinned && (q !== state.q || side === "key")) {
      if (k === null) return;
      [q, side] = [state.q, null];
    }
    const before = [state.q, state.k, view.side].join();
    select(q, k, side);
    if ([state.q, state.k, view.side].join() !== before) view.refreshSelection();
  };
  view.pin = (q, k, side = null) => {
    const before = [state.pinned, state.q, state.k].join();
    select(q, k, side);
    state.pinned = [true, state.q, state.k].join() !== before; // a second time releases it
    view.refreshSelection();
  };
  view.unpin = () => {
    if (state.pinned) {
      state.pinned = false;
      select(state.q, null, null);
    }
    view.refreshSelection();
  };
  view.leave = () => {
    if (state.pinned || state.k === null) return;
    select(state.q, null, null);
    view.refreshSelection();
  };
  view.moveQuery = (step) => {
    view.pointing = false;
    select(state.q === null ? (step > 0 ? 0 : view.entry.L - 1) : state.q + step, null, null);
    view.reveal();
    view.refreshSelection();
  };
  view.moveKey = (step) => {
    if (state.q === null) return view.moveQuery(step);
    view.pointing = false;
    select(state.q, state.k === null ? (step > 0 ? 0 : view.entry.S - 1) : state.k + step, view.side);
    view.reveal();
    return view.refreshSelection();
  };
  view.keepSelectionInside = () => select(state.q, state.k, view.side);
}

function addChanges(view, pictures) {
  const { state } = view;
  const clamp = (i, length) => Math.max(0, Math.min(length - 1, i));
  const allowed = { picture: pictures, scale: SCALES, form: ["row", "column"], lang: LANGUAGES };
  view.set = (changes) => {
    Object.assign(state, changes);
    state.entry = clamp(state.entry, view.sighting.entries.length);
    state.head = clamp(state.head, view.entry.heads);
    if (changes.entry !== undefined && changes.step === undefined) {
      // The step follows the entry, but stays at a later step whose layers have no call of their own.
      const { call } = view.entry;
      state.step = Math.max(call, Math.min(state.step, Math.max(call, view.sighting.steps - 1)));
    }
    for (const [name, values] of Object.entries(allowed)) if (!values.includes(state[name])) state[name] = values[0];
    view.keepSelectionInside();
    for (const name of ["lang", "theme"]) if (changes[name]) store(name, changes[name]);
    view.refresh();
  };
  view.changeHead = (step) => view.set({ head: (state.head + step + view.entry.heads) % view.entry.heads });
  view.changeLayer = (step) => {
    const entries = view.sighting.entriesOfStep(state.step);
    const at = Math.max(
      0,
      entries.findIndex((entry) => entry.index === state.entry),
    );
    view.set({ entry: entries[(at + step + entries.length) % entries.length].index });
  };
}

// Drawing happens once a frame: all parts after refresh(), only what shows the selection after refreshSelection().
function connectDrawing(view, parts, surroundings, options) {
  const { state, root } = view;
  const writeAddress = options.fragment ? addressWriter(view) : () => {};
  let waiting = false;
  let everything = false;
  let scaleKey = "";

  function request(all) {
    everything ||= all;
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(draw);
  }
  view.refresh = () => request(true);
  view.drawAll = () => {
    everything = true;
    draw();
  };
  view.refreshSelection = () => request(false);
  view.sighting.onRowArrived = view.refreshSelection;

  function draw() {
    const all = everything;
    waiting = everything = false;
    root.dataset.theme = view.dark ? "dark" : "light";
    root.lang = htmlLanguage(state.lang);
    view.grid = view.sighting.grid(view.entry, state.head);
    const key = [state.entry, state.head, state.scale].join();
    if (all || scaleKey !== key) view.scale = scaleFunction(state.scale, view.sighting, view.grid);
    scaleKey = key;
    view.row = state.q === null ? null : view.sighting.row(view.entry, state.head, state.q);
    if (all) for (const part of [surroundings, parts.grid, parts.card]) part.draw();
    parts[state.picture].draw();
    if (options.alignment) parts.lines.draw();
    if (surroundings.textShown()) parts.words.draw();
    parts.weights.draw();
    surroundings.drawPython();
    writeAddress();
    root.dataset.ready = "1";
    if (options.onState) options.onState({ ...state });
  }
}

// A function that gives the hatch of masked cells as a canvas pattern.
function hatchPattern(root) {
  const size = 6;
  let drawnColour = "";
  let tile = null;
  return (context) => {
    const colour = getComputedStyle(root).getPropertyValue("--hatch").trim();
    if (!tile || drawnColour !== colour) {
      tile = h("canvas", { width: size, height: size });
      const pen = tile.getContext("2d");
      pen.strokeStyle = colour;
      pen.stroke(new Path2D("M-1 7L7 -1M-1 1L1 -1M5 7L7 5"));
      drawnColour = colour;
    }
    return context.createPattern(tile, "repeat");
  };
}

// What is shown first: the head with the clearest label, and the query with the heaviest key other than itself and the first token.
function selectClearestHead(view, { alignment }) {
  const { state, sighting } = view;
  let best = { entry: 0, head: 0, score: -1 };
  if (!alignment) {
    for (const entry of sighting.entries) {
      entry.labels.forEach((labels, head) => {
        for (const [name, score] of labels) {
          const telling = !["sink", "uniform", "local"].includes(name);
          if (telling && score > best.score + 1e-6) best = { entry: entry.index, head, score };
        }
      });
    }
  }
  const step = sighting.entries[best.entry] ? sighting.entries[best.entry].call : 0;
  Object.assign(state, { entry: best.entry, head: best.head, step, q: null, k: null, pinned: false });
  if (view.entry && !alignment) state.q = clearestQuery(sighting, view.entry, state.head);
}

function clearestQuery(sighting, entry, head) {
  let clearest = entry.L - 1;
  let heaviest = 0;
  for (let q = 3; q < Math.min(entry.L, 256); q++) {
    for (const [k, weight] of sighting.row(entry, head, q).pairs.slice(0, 3)) {
      const itself = entry.self && entry.keyPlace(k) === entry.queryPlace(q);
      if (k > 0 && !itself && weight > heaviest) [clearest, heaviest] = [q, weight];
    }
  }
  return clearest;
}
