// Every layer and head as a thumbnail, and the card of the chosen one: labels, readings, how far it looks.

function gridView(view) {
  const canvas = make("canvas", { class: "rv-grid", tabindex: "0", role: "application" });
  const element = make("div", { class: "rv-gridbox" }, canvas);
  const thumbs = new Map();
  const LEFT = 26, TOP = 20, GAP = 3;
  let side = 24, hover = null, drawn = "";
  const entries = () => view.sight.entries.filter((e) => e.call === Math.min(view.state.step, lastCall(view.sight, e.layer)));

  // The heaviest weight under each pixel: a thin diagonal must not fade. Log and rank, which show the faint, are averaged.
  function thumb(e, h) {
    const key = [e.index, h, side, view.state.scale, view.state.form, view.dark].join();
    if (thumbs.has(key)) return thumbs.get(key);
    const grid = view.sight.grid(e, h);
    if (!grid) return null;
    const row = view.state.form === "row", across = row ? grid.cols : grid.rows, down = row ? grid.rows : grid.cols;
    const px = Math.min(across, Math.round(side * Math.min(2, devicePixelRatio || 1))), py = Math.min(down, Math.round(side * Math.min(2, devicePixelRatio || 1)));
    const out = make("canvas", {}); out.width = px; out.height = py;
    const pixels = new ImageData(px, py), table = rgbTable(view.dark), place = scaling(view.state.scale, view.sight, grid);
    for (let y = 0; y < py; y++) for (let x = 0; x < px; x++) {
      let most = -1, sum = 0, seen = 0;
      const y1 = Math.max(Math.floor((y * down) / py) + 1, Math.floor(((y + 1) * down) / py)), x1 = Math.max(Math.floor((x * across) / px) + 1, Math.floor(((x + 1) * across) / px));
      for (let j = Math.floor((y * down) / py); j < y1; j++) for (let i = Math.floor((x * across) / px); i < x1; i++) { const w = row ? grid.get(j, i) : grid.get(i, j); if (w > most) most = w; if (w >= 0) { sum += place(w); seen++; } }
      if (most < 0) continue;
      const shade = view.state.scale === "linear" ? place(most) : sum / seen;
      const [r, g, b] = table[Math.round(255 * shade)], at = 4 * (y * px + x);
      pixels.data[at] = r; pixels.data[at + 1] = g; pixels.data[at + 2] = b; pixels.data[at + 3] = 255;
    }
    out.getContext("2d").putImageData(pixels, 0, 0);
    if (thumbs.size > 12000) thumbs.clear();
    thumbs.set(key, out);
    return out;
  }

  function draw() {
    const list = entries(), most = Math.max(...list.map((e) => e.heads)), room = Math.max(200, element.clientWidth || 280), ratio = devicePixelRatio || 1;
    side = Math.max(20, Math.min(64, Math.floor((room - LEFT - 4) / most) - GAP));
    const cell = side + GAP, W = LEFT + most * cell + 4, H = TOP + list.length * cell + 4;
    const key = [list.map((e) => e.index), side, view.state.scale, view.state.form, view.dark, view.state.entry, view.state.head, hover && `${hover.e.index}.${hover.h}`, ratio].join("|");
    if (key === drawn) return;
    drawn = key;
    const chosenRow = list.findIndex((e) => e.index === view.state.entry), y0 = TOP + chosenRow * cell, x0 = LEFT + view.state.head * cell;
    if (!hover && chosenRow >= 0) requestAnimationFrame(() => { // the chosen head stays in sight
      if (y0 < element.scrollTop + TOP || y0 + cell > element.scrollTop + element.clientHeight) element.scrollTop = y0 - element.clientHeight / 2;
      if (x0 < element.scrollLeft || x0 + cell > element.scrollLeft + element.clientWidth) element.scrollLeft = x0 - element.clientWidth / 2;
    });
    canvas.width = W * ratio; canvas.height = H * ratio; canvas.style.width = W + "px"; canvas.style.height = H + "px";
    canvas.setAttribute("aria-label", `${view.say.gridHelp} ${view.headName()}`);
    const context = canvas.getContext("2d"), style = getComputedStyle(view.root);
    const quiet = style.getPropertyValue("--quiet").trim(), ink = style.getPropertyValue("--ink").trim(), faint = style.getPropertyValue("--faint").trim();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = `11px ${style.fontFamily}`; context.textBaseline = "middle";
    const stride = side >= 20 ? 1 : 2;
    for (let h = 0; h < most; h += stride) { context.textAlign = "center"; context.fillStyle = h === view.state.head ? ink : quiet; context.fillText((list.find((e) => h < e.heads) || list[0]).ids[h], LEFT + h * cell + side / 2, TOP / 2); }
    list.forEach((e, n) => {
      const y = TOP + n * cell;
      context.textAlign = "right"; context.fillStyle = e.index === view.state.entry ? ink : quiet; context.fillText(e.layer, LEFT - 7, y + side / 2);
      for (let h = 0; h < e.heads; h++) {
        const x = LEFT + h * cell, image = thumb(e, h), chosen = e.index === view.state.entry && h === view.state.head;
        if (image) {
          context.fillStyle = view.hatch(context); context.fillRect(x, y, side, side);
          context.imageSmoothingEnabled = image.width > side; context.drawImage(image, x, y, side, side);
        }
        context.lineWidth = chosen ? 2.5 : 1; context.strokeStyle = chosen || (hover && hover.e === e && hover.h === h) ? ink : faint;
        context.strokeRect(x - 0.5, y - 0.5, side + 1, side + 1);
      }
    });
  }
  const at = (event) => {
    const r = canvas.getBoundingClientRect(), cell = side + GAP, list = entries();
    const n = Math.floor((event.clientY - r.top - TOP) / cell), h = Math.floor((event.clientX - r.left - LEFT) / cell), e = list[n];
    return e && h >= 0 && h < e.heads ? { e, h } : null;
  };
  canvas.addEventListener("pointermove", (event) => {
    hover = at(event); draw();
    canvas.title = hover ? view.headName(hover.e, hover.h) + (hover.e.labels[hover.h] || []).slice(0, 2).map(([n, s]) => ` · ${labelWord(view.say, n)} ${number(s, 2)}`).join("") : "";
  });
  canvas.addEventListener("pointerleave", () => { hover = null; draw(); });
  canvas.addEventListener("click", (event) => { const c = at(event); if (c) view.set({ entry: c.e.index, head: c.h }); });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!move) return;
    event.preventDefault(); event.stopPropagation();
    if (move[1]) view.turnHead(move[1]); else view.turnLayer(move[0]);
  });
  return { element, draw };
}

function lastCall(sight, layer) { return Math.max(...sight.entries.filter((e) => e.layer === layer).map((e) => e.call)); }

function headCard(view) {
  const element = make("section", { class: "rv-card" });
  function draw() {
    const e = view.entry, h = view.state.head, say = view.say;
    const labels = (e.labels[h] || []).slice(0, 4).map(([name, score], n) => make("span", { class: "rv-chip" + (n === 0 && score >= 0.3 ? " rv-chip-first" : "") }, make("b", { "aria-hidden": "true", text: SHAPES[name] || "●" }), ` ${labelWord(say, name)} `, make("span", { class: "rv-num", text: number(score, 2) })));
    const rows = [];
    const put = (name, text, share) => rows.push(make("div", { class: "rv-reading" }, make("span", { text: name }), make("span", { class: share === null ? "" : "rv-meter", "aria-hidden": "true" }, share === null ? null : make("i", { css: { width: `${(100 * Math.min(1, Math.max(0, share))).toFixed(1)}%` } })), make("span", { class: "rv-num", text })));
    if (e.means.entropy) put(say.entropy, `${number(e.means.entropy[h], 2)} ${say.nats}`, e.means.entropy[h] / Math.log(Math.max(2, e.S)));
    if (e.means.sink) put(say.sink, number(e.means.sink[h], 2), e.means.sink[h]);
    if (e.means.max_logit) put(say.max_logit, number(e.means.max_logit[h], 2), null);
    element.replaceChildren(
      make("h2", {}, make("i", { class: "rv-dot", "aria-hidden": "true", css: { background: RAMP.heads[h % RAMP.heads.length] } }), view.headName()),
      make("div", { class: "rv-quiet rv-name", text: [e.name, e.mask].filter(Boolean).join(" · ") }),
      make("div", { class: "rv-chips" }, labels),
      ...rows, e.distance && e.self ? profile(e, h) : ""); // how far has no meaning between two texts
  }
  // Mean weight by distance, nearest in the middle: to the left what lies before the query.
  function profile(e, h) {
    const { offsets, mass } = e.distance, all = mass[h];
    let from = 0, to = all.length;
    while (from < to - 1 && !(all[from] > 0)) from++;
    while (to > from + 1 && !(all[to - 1] > 0)) to--;
    const most = Math.max(...all.slice(from, to), 1e-9), n = to - from, W = 260, H = 56, w = W / n;
    const bars = [];
    for (let i = from; i < to; i++) {
      const height = Math.max(all[i] > 0 ? 1 : 0, (H * all[i]) / most), [a, b] = offsets[i];
      const bar = make("svg:rect", { x: ((i - from) * w + 0.5).toFixed(1), y: (H - height).toFixed(1), width: Math.max(0.5, w - 1).toFixed(1), height: height.toFixed(1), class: "rv-fill" });
      bar.append(make("svg:title", { text: `${a === b ? a : `${a} … ${b}`}: ${number(all[i])}` }));
      bars.push(bar);
    }
    const zero = offsets.findIndex(([a, b]) => a === 0 && b === 0) - from;
    const ends = [[0, offsets[from][0], "start"], [W, offsets[to - 1][1], "end"]].filter(([, v], i) => (i === 0 ? v < 0 : v > 0));
    const marks = ends.map(([x, v, anchor]) => make("svg:text", { x, y: H + 13, "text-anchor": anchor, text: (v > 0 ? "+" : "−") + count(Math.abs(v)) }));
    if (zero >= 0 && zero < n) marks.push(make("svg:text", { x: Math.min(W - 2, Math.max(2, (zero + 0.5) * w)), y: H + 13, "text-anchor": zero + 0.5 > n - 1 ? "end" : zero < 1 ? "start" : "middle", text: view.say.here }));
    return make("figure", { class: "rv-profile" }, make("figcaption", { text: view.say.distance }), make("svg:svg", { viewBox: `0 0 ${W} ${H + 18}`, role: "img", "aria-label": view.say.distance }, bars, make("svg:line", { x1: 0, x2: W, y1: H + 0.5, y2: H + 0.5, class: "rv-axis" }), marks));
  }
  return { element, draw };
}

// The numbers of what is looked at: the pair, then the row's heaviest keys with bars.
function numbersView(view, options) {
  const said = make("p", { class: "rv-said", role: "status", "aria-live": "polite" });
  const list = make("ol", { class: "rv-list" });
  const element = make("section", { class: "rv-numbers" }, said, list);
  function draw() {
    const e = view.entry, { q, k, head, pinned } = view.state, say = view.say;
    if (view.side === "key" && k !== null && (q === null || options.alignment)) return partners(e, k, head);
    if (q === null) { said.textContent = say.hint; list.replaceChildren(); return; }
    const row = view.row, name = (piece, red) => token(view, { ...piece, mark: piece.mark === "*" ? "*" : "." }, { current: red });
    const parts = [name(view.sight.queryPiece(e, q), true), make("small", { text: count(e.queryPlace(q)) })];
    if (k !== null) {
      const w = view.sight.weight(e, head, q, k);
      parts.push(" → ", name(view.sight.keyPiece(e, k), false), make("small", { text: count(e.keyPlace(k)) }), " ");
      if (w !== null && w < 0) parts.push(say.masked);
      else if (w !== null) {
        const place = row.pairs.findIndex((p) => p[0] === k) + 1;
        const score = view.sight.score(e, head, q, w, row);
        if (score !== null) parts.push(make("small", { class: "rv-score rv-num", title: say.scoreIs, text: `${say.score} ${number(score, 2)} → ` }));
        parts.push(make("b", { class: "rv-num", text: (row.rounded ? "≈ " : "") + number(w, 4) }), place ? make("small", { text: ` ${say.rankOf(place, row.whole ? row.pairs.length : count(e.S))}` }) : "");
      } else {
        const grid = view.grid;
        if (grid) { const m = grid.get(Math.floor((q * grid.rows) / e.L), Math.floor((k * grid.cols) / e.S)); parts.push(m < 0 ? say.masked : `${say.mass} ${number(m, 4)} `, make("small", { text: say.pooledCell(number(e.L / grid.rows, 0), number(e.S / grid.cols, 0)) })); }
      }
    }
    const entropy = view.sight.track(e, "entropy", head, q, e.L);
    if (entropy !== null) parts.push(make("small", { class: "rv-aside", text: `${say.entropy} ${number(entropy, 2)} ${say.nats}` }));
    if (pinned) parts.push(make("small", { class: "rv-aside", text: `⚲ ${say.pinned}` }));
    said.replaceChildren(...parts);
    const shownPairs = row.pairs.slice(0, 8), rest = Math.max(0, 1 - shownPairs.reduce((s, p) => s + p[1], 0));
    list.replaceChildren(...shownPairs.map(([key, w]) => {
      const item = make("li", {}, make("button", { type: "button", "aria-pressed": key === k ? "true" : "false", onclick: () => view.pin(q, key) }, make("span", { class: "rv-word" }, name(view.sight.keyPiece(e, key), false), make("small", { text: count(e.keyPlace(key)) })), make("span", { class: "rv-meter" }, make("i", { css: { width: `${(100 * Math.min(1, w)).toFixed(2)}%` } })), make("span", { class: "rv-num", text: number(w) })));
      item.addEventListener("pointerenter", () => view.look(q, key, "list"));
      return item;
    }), row.pairs.length && rest > 0.0005 ? make("li", { class: "rv-rest" }, make("span", { class: "rv-word", text: say.rest }), make("span", { class: "rv-meter" }, make("i", { css: { width: `${(100 * rest).toFixed(2)}%` } })), make("span", { class: "rv-num", text: number(rest) })) : "", !row.whole && e.top ? make("li", { class: "rv-quiet", text: say.topOnly(e.top.k) }) : "");
  }
  // The other way round: who looks at this key.
  function partners(e, k, head) {
    const name = (piece) => token(view, { ...piece, mark: piece.mark === "*" ? "*" : "." });
    const found = [];
    for (let q = 0; q < Math.min(e.L, 4096); q++) { const w = view.sight.weight(e, head, q, k); if (w > 0) found.push([q, w]); }
    found.sort((a, b) => b[1] - a[1]);
    said.replaceChildren(name(view.sight.keyPiece(e, k)), make("small", { text: count(e.keyPlace(k)) }), " ←");
    list.replaceChildren(...found.slice(0, 8).map(([q, w]) => make("li", {}, make("button", { type: "button", onclick: () => view.pin(q, k) }, make("span", { class: "rv-word" }, name(view.sight.queryPiece(e, q)), make("small", { text: count(e.queryPlace(q)) })), make("span", { class: "rv-meter" }, make("i", { css: { width: `${(100 * Math.min(1, w)).toFixed(2)}%` } })), make("span", { class: "rv-num", text: number(w) })))));
  }
  return { element, draw };
}
