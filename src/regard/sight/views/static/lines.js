// Two rows of words joined by lines: keys above, queries below; the heavier the weight, the stronger the line.

function linesView(view) {
  const svg = make("svg:svg", { class: "rv-links", "aria-hidden": "true" });
  const above = make("div", { class: "rv-wordrow", role: "listbox", "aria-orientation": "horizontal", tabindex: "0" });
  const below = make("div", { class: "rv-wordrow", role: "listbox", "aria-orientation": "horizontal", tabindex: "0" });
  const inner = make("div", { class: "rv-two" }, above, svg, below);
  const keyTitle = make("div", { class: "rv-side" }), queryTitle = make("div", { class: "rv-side" });
  const strip = make("div", { class: "rv-strip" }, inner);
  const element = make("div", { class: "rv-linesview" }, keyTitle, strip, queryTitle);
  const HEIGHT = 168;
  const LONG = 400; // keys; a longer text shows only the neighbourhoods of the keys looked at
  let key = "", spots = { key: null, query: null }, asked = "", list = null, slots = null;
  const keyOf = (slot) => (list ? list[slot] : slot), slotOf = (k) => (list ? slots.get(k) : k);
  const pen = make("canvas", {}).getContext("2d");

  // Left edge of every word, and where the row ends: measured once for a text, so that any stretch of it can be drawn alone.
  function measure(side) {
    const e = view.entry, n = side === "query" ? e.L : list ? list.length : e.S, piece = side === "key" ? (i) => view.sight.keyPiece(e, keyOf(i)) : (i) => view.sight.queryPiece(e, i);
    const edges = new Float32Array(n + 1), known = new Map();
    pen.font = `16px ${getComputedStyle(view.root).fontFamily}`;
    for (let i = 0; i < n; i++) {
      const p = piece(i), id = p.text + p.mark + (p.part ? "/" : "");
      if (!known.has(id)) known.set(id, Math.max(16, pen.measureText(p.text || "␣").width) + (p.part ? 40 : 16));
      edges[i + 1] = edges[i] + known.get(id) + (list && side === "key" && list[i + 1] !== list[i] + 1 ? 40 : 8);
    }
    return edges;
  }
  function layout() {
    const e = view.entry, long = e.S > LONG, now = `${e.index}.${view.root.clientWidth}` + (long ? `.${view.state.head}.${view.state.q}.${view.row && view.row.whole}` : "");
    if (key === now) return;
    key = now; list = null;
    if (long) {
      const near = new Set();
      for (const [k] of (view.row ? view.row.pairs : []).slice(0, 6)) for (let i = Math.max(0, k - 2); i <= Math.min(e.S - 1, k + 2); i++) near.add(i);
      list = [...near].sort((a, b) => a - b);
      slots = new Map(list.map((k, slot) => [k, slot]));
    }
    const edges = { key: measure("key"), query: e.self && e.L === e.S && !list ? null : measure("query") };
    edges.query = edges.query || edges.key;
    const keys = list ? list.length : e.S, room = Math.max(edges.key[keys], edges.query[e.L], strip.clientWidth - 2);
    // The shorter row is spread out in the middle of the longer; the keys of a long text stand over what is in sight.
    for (const [side, n] of [["key", keys], ["query", e.L]]) {
      const own = edges[side][n], gap = n > 1 && !(list && side === "key") ? Math.min((room - own) / (n + 1), 40) : 0, shift = side === "key" && list ? Math.min(Math.max(0, room - own), Math.max(0, (view.state.q === null ? 0 : edges.query[view.state.q]) - own / 2)) : (room - own - gap * (n - 1)) / 2;
      spots[side] = { left: (i) => edges[side][i] + gap * i + shift, mid: (i) => (edges[side][i] + edges[side][i + 1] - 8) / 2 + gap * i + shift, n };
    }
    inner.style.width = room + "px";
  }
  function visible(spot) { // the first and last word in sight, by halving
    const find = (x) => { let a = 0, b = spot.n; while (a < b) { const m = (a + b) >> 1; if (spot.left(m) < x) a = m + 1; else b = m; } return a; };
    return [Math.max(0, find(strip.scrollLeft) - 2), Math.min(spot.n, find(strip.scrollLeft + (strip.clientWidth || 800)) + 2)];
  }

  function draw() {
    layout();
    const e = view.entry, { q, k, head } = view.state;
    keyTitle.textContent = view.sideName("key"); queryTitle.textContent = view.sideName("query");
    if (q !== null && asked !== `${q}.${e.index}`) {
      asked = `${q}.${e.index}`;
      const x = spots.query.mid(q);
      if (!view.pointing && (x < strip.scrollLeft + 20 || x > strip.scrollLeft + strip.clientWidth - 20)) strip.scrollLeft = x - strip.clientWidth / 2;
    }
    const [q0, q1] = visible(spots.query), [k0, k1] = visible(spots.key);
    const links = [], strong = [];
    const add = (row, i, loud) => {
      for (const [key2, w] of row.pairs) {
        if (w < (loud ? 0.005 : 0.02)) break;
        const slot = slotOf(key2);
        if (slot !== undefined && (loud || (slot >= k0 && slot < k1))) (loud ? strong : links).push([i, key2, w, loud]);
        if (!loud && links.length > 4000) return;
      }
    };
    const byKey = view.side === "key" && k !== null;
    for (let i = q0; i < q1; i++) if (i !== q && q1 - q0 < 400) add(view.sight.row(e, head, i), i, false);
    if (q !== null && !byKey) add(view.row, q, true);
    if (byKey) for (let i = q0; i < q1; i++) { const w = view.sight.weight(e, head, i, k); if (w > 0.005 && slotOf(k) !== undefined) strong.push([i, k, w, true]); }
    svg.setAttribute("width", inner.style.width.replace("px", "")); svg.setAttribute("height", HEIGHT);
    const some = q !== null;
    svg.replaceChildren(...[...links, ...strong].map(([i, j, w, loud]) => {
      const x0 = spots.query.mid(i), x1 = spots.key.mid(slotOf(j)), t = view.place(w);
      return make("svg:path", {
        d: `M${x1.toFixed(1)} 2C${x1.toFixed(1)} ${HEIGHT * 0.5} ${x0.toFixed(1)} ${HEIGHT * 0.5} ${x0.toFixed(1)} ${HEIGHT - 2}`,
        stroke: rampColour(loud ? 0.35 + 0.65 * t : t, view.dark), "stroke-width": (0.75 + 5 * Math.sqrt(t)).toFixed(2), "stroke-opacity": loud ? 1 : some ? 0.28 : 0.9, fill: "none",
      });
    }));
    const shade = byKey ? () => ({ place: 0 }) : shading(view, view.row);
    above.setAttribute("aria-label", view.sideName("key")); below.setAttribute("aria-label", view.sideName("query"));
    above.replaceChildren(...span(k0, k1).map((slot) => { const i = keyOf(slot), s = shade(i); return word("key", i, view.sight.keyPiece(e, i), { place: s.place, masked: s.masked, key: i === k }, slot); }));
    below.replaceChildren(...span(q0, q1).map((i) => {
      const w = byKey ? view.sight.weight(e, head, i, k) : 0;
      return word("query", i, view.sight.queryPiece(e, i), { current: i === q && !byKey, place: w > 0 ? view.place(w) : 0 });
    }));
    for (const [row, i] of [[above, k], [below, q]]) if (i !== null && row.querySelector(`[data-i="${i}"]`)) row.setAttribute("aria-activedescendant", `${view.id}-${row === above ? "lk" : "lq"}-${i}`); else row.removeAttribute("aria-activedescendant");
  }
  function span(a, b) { return Array.from({ length: Math.max(0, b - a) }, (_, i) => a + i); }
  function word(side, i, piece, options, slot = i) {
    const node = token(view, { ...piece, mark: piece.mark === "_" ? "." : piece.mark }, { ...options, id: `${view.id}-${side === "key" ? "lk" : "lq"}-${i}` });
    node.dataset.i = i; node.dataset.side = side;
    node.setAttribute("role", "option"); node.setAttribute("aria-selected", options.current || options.key ? "true" : "false");
    node.style.left = spots[side].mid(slot) + "px";
    return node;
  }
  const act = (event, how) => {
    const node = event.target.closest && event.target.closest("[data-side]");
    if (!node) return;
    const i = Number(node.dataset.i);
    if (node.dataset.side === "query") how(i, null); else if (view.state.pinned && how === view.look) how(view.state.q, i); else how(view.state.q, i, "key");
  };
  for (const row of [above, below]) {
    row.addEventListener("pointerover", (event) => act(event, view.look));
    row.addEventListener("click", (event) => act(event, view.pin));
    row.addEventListener("pointerleave", () => view.leave());
  }
  above.addEventListener("focus", () => { if (view.state.k === null) view.look(view.state.q, 0, "key"); else view.look(view.state.q, view.state.k, "key"); });
  above.addEventListener("keydown", (event) => { // here the arrows walk the keys: who looks at this word
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !spots.key.n) return;
    event.preventDefault(); event.stopPropagation();
    const slot = Math.max(0, Math.min(spots.key.n - 1, (view.state.k === null ? -1 : slotOf(view.state.k) ?? -1) + step)), x = spots.key.mid(slot);
    if (x < strip.scrollLeft + 20 || x > strip.scrollLeft + strip.clientWidth - 20) strip.scrollLeft = x - strip.clientWidth / 2;
    view.look(view.state.q, keyOf(slot), "key");
  });
  strip.addEventListener("scroll", () => requestAnimationFrame(draw));
  return { element, draw };
}
