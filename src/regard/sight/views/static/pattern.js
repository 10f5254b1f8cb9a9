// One head's pattern on a canvas: exact weights or a pooled map, zoomed and panned, in row or column form.

function patternView(view) {
  const canvas = make("canvas", { class: "rv-canvas", tabindex: "0", role: "img" });
  const range = make("span", { class: "rv-range" });
  const button = (text, name, act) => make("button", { type: "button", class: "rv-tool", "data-say": name, onclick: act, text });
  const buttons = [button("+", "zoomIn", () => zoom(0.5)), button("−", "zoomOut", () => zoom(2)), button("⤢", "fit", () => fit())];
  const element = make("div", { class: "rv-pattern" }, make("div", { class: "rv-bar" }, make("span", { class: "rv-tools", role: "group" }, buttons), range), make("div", { class: "rv-stage" }, canvas));
  let box = null, shape = "", image = null, imageKey = "", tile = null, wanted = "";
  const margin = { left: 0, top: 0, right: 8, bottom: 8 };

  // In row form x runs over keys; in column form over queries. Only these four know.
  const across = () => (view.state.form === "row" ? view.entry.S : view.entry.L);
  const down = () => (view.state.form === "row" ? view.entry.L : view.entry.S);
  const cellOf = (x, y) => (view.state.form === "row" ? { q: y, k: x } : { q: x, k: y });
  const labelOf = (side, i) => ((side === "x") === (view.state.form === "row") ? view.sight.keyPiece(view.entry, i) : view.sight.queryPiece(view.entry, i));

  function fit() { box = { x0: 0, y0: 0, w: across(), h: down() }; draw(); }
  function zoom(factor, fx = null, fy = null) {
    const { q, k } = view.state, row = view.state.form === "row";
    if (fx === null) { fx = ((row ? k ?? q : q) ?? box.x0 + box.w / 2) + 0.5; fy = ((row ? q : k ?? q) ?? box.y0 + box.h / 2) + 0.5; }
    const w = Math.min(across(), Math.max(2, box.w * factor)), h = Math.min(down(), Math.max(2, box.h * factor));
    const px = Math.min(1, Math.max(0, (fx - box.x0) / box.w)), py = Math.min(1, Math.max(0, (fy - box.y0) / box.h));
    const keepX = factor < 1 && (fx < box.x0 || fx > box.x0 + box.w) ? 0.5 : px, keepY = factor < 1 && (fy < box.y0 || fy > box.y0 + box.h) ? 0.5 : py;
    box = clamp({ x0: fx - keepX * w, y0: fy - keepY * h, w, h });
    draw();
  }
  function clamp(b) { return { ...b, x0: Math.min(Math.max(0, b.x0), across() - b.w), y0: Math.min(Math.max(0, b.y0), down() - b.h) }; }
  function reveal() { // a token walked to by key must be in sight
    if (!box || view.state.q === null) return;
    const x = view.state.form === "row" ? view.state.k : view.state.q, y = view.state.form === "row" ? view.state.q : view.state.k;
    const moved = { ...box };
    if (x !== null && (x < box.x0 || x + 1 > box.x0 + box.w)) moved.x0 = x + 0.5 - box.w / 2;
    if (y !== null && (y < box.y0 || y + 1 > box.y0 + box.h)) moved.y0 = y + 0.5 - box.h / 2;
    box = clamp(moved);
  }

  // The grid as pixels, one a cell: redrawn only when what it shows changes.
  function paint(grid, place) {
    const row = view.state.form === "row", w = row ? grid.cols : grid.rows, h = row ? grid.rows : grid.cols;
    const out = make("canvas", {}); out.width = w; out.height = h;
    const pixels = new ImageData(w, h), table = rgbTable(view.dark), data = pixels.data;
    for (let y = 0; y < h; y++) for (let x = 0; x < w; x++) {
      const weight = row ? grid.get(y, x) : grid.get(x, y), at = 4 * (y * w + x);
      if (weight < 0) continue; // masked: left clear, the hatch shows through
      const [r, g, b] = table[Math.round(255 * place(weight))];
      data[at] = r; data[at + 1] = g; data[at + 2] = b; data[at + 3] = 255;
    }
    out.getContext("2d").putImageData(pixels, 0, 0);
    return out;
  }

  function draw() {
    const e = view.entry, { head, form, scale, q, k } = view.state, grid = view.grid;
    const now = `${e.L}.${e.S}.${form}`;
    if (shape !== now || !box) { shape = now; box = { x0: 0, y0: 0, w: across(), h: down() }; }
    for (const b of buttons) { b.title = view.say[b.dataset.say]; b.setAttribute("aria-label", b.title); }
    const room = Math.max(240, canvas.parentElement.clientWidth || 600), ratio = window.devicePixelRatio || 1;
    const text = getComputedStyle(view.root), ink = text.getPropertyValue("--ink").trim(), faint = text.getPropertyValue("--faint").trim(), red = text.getPropertyValue("--red").trim();
    const context = canvas.getContext("2d");
    const font = (px) => `${px}px ${text.fontFamily}`;
    context.font = font(12);

    // Labels where a cell is tall enough for a word; otherwise numbers of places.
    const guess = Math.min(44, (room - 120) / box.w, Math.max(320, Math.min(680, window.innerHeight * 0.72)) / box.h);
    const words = guess >= 9.5;
    const widest = (side, from, n) => { let m = 0; for (let i = Math.floor(from); i < from + n; i++) m = Math.max(m, context.measureText(shown(labelOf(side, i))).width); return Math.min(112, m); };
    margin.left = words ? widest("y", box.y0, box.h) + 12 : 52;
    const slanted = words && widest("x", box.x0, box.w) > guess - 6;
    margin.top = words ? (slanted ? Math.min(96, widest("x", box.x0, box.w) * 0.72 + 20) : 24) : 24;
    margin.right = slanted ? 48 : 8;
    // Cells are square unless that would leave a sliver.
    const most = Math.max(320, Math.min(680, window.innerHeight * 0.72)), free = room - margin.left - margin.right;
    const cell = Math.min(free / box.w, most / box.h, words ? 52 : Infinity), sliver = Math.min(box.w, box.h) * cell < 80;
    const width = Math.max(40, sliver && !words ? free : cell * box.w), height = Math.max(24, sliver && !words ? Math.min(most, Math.max(cell * box.h, 240)) : cell * box.h);
    const cw = width / box.w, ch = height / box.h;
    const W = Math.ceil(margin.left + width + margin.right), H = Math.ceil(margin.top + height + margin.bottom);
    if (canvas.width !== Math.round(W * ratio) || canvas.height !== Math.round(H * ratio)) {
      canvas.width = Math.round(W * ratio); canvas.height = Math.round(H * ratio); canvas.style.width = W + "px"; canvas.style.height = H + "px";
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, W, H);
    Object.assign(view, { plot: { cw, ch, width, height, box: { ...box }, margin: { ...margin } } });
    canvas.setAttribute("aria-label", view.headName() + ": " + (form === "row" ? view.say.rowTitle : view.say.columnTitle));
    if (!grid && !e.top) { context.fillStyle = ink; wrap(context, view.say.noMap, 12, 40, W - 24); range.textContent = ""; return; }

    context.save();
    context.beginPath(); context.rect(margin.left, margin.top, width, height); context.clip();
    if (grid) {
      const masked = e.weights ? true : !!e.hidden;
      if (masked) { context.fillStyle = view.hatch(context); context.fillRect(margin.left, margin.top, width, height); }
      const key = [e.index, head, form, scale, view.dark].join();
      if (imageKey !== key) { image = paint(grid, view.place); imageKey = key; }
      const sx = image.width / across(), sy = image.height / down();
      context.imageSmoothingEnabled = cw * across() < image.width * 0.75;
      context.drawImage(image, box.x0 * sx, box.y0 * sy, box.w * sx, box.h * sy, margin.left, margin.top, width, height);
    }
    if (!e.weights) detail(context, cw, ch);
    const X = (x) => margin.left + (x - box.x0) * cw, Y = (y) => margin.top + (y - box.y0) * ch;
    if (cw >= 36 && ch >= 20 && e.weights) { // room for the numbers themselves
      context.font = font(11); context.textAlign = "center"; context.textBaseline = "middle";
      for (let y = Math.floor(box.y0); y < box.y0 + box.h; y++) for (let x = Math.floor(box.x0); x < box.x0 + box.w; x++) {
        const c = cellOf(x, y), w = view.sight.weight(e, head, c.q, c.k);
        if (w < 0 || w === undefined) continue;
        context.fillStyle = rampInk(view.place(w), view.dark);
        context.fillText(w >= 0.005 ? w.toFixed(2) : "·", X(x + 0.5), Y(y + 0.5));
      }
    }
    if (q !== null) { // the current query's line, and the cell looked at
      context.lineWidth = 1.5; context.strokeStyle = red;
      if (form === "row") context.strokeRect(margin.left + 0.75, Y(q), width - 1.5, Math.max(ch, 2)); else context.strokeRect(X(q), margin.top + 0.75, Math.max(cw, 2), height - 1.5);
      if (k !== null) {
        context.strokeStyle = ink; context.lineWidth = 2;
        if (form === "row") context.strokeRect(X(k), Y(q), Math.max(cw, 3), Math.max(ch, 3)); else context.strokeRect(X(q), Y(k), Math.max(cw, 3), Math.max(ch, 3));
      }
    }
    context.restore();
    context.strokeStyle = faint; context.lineWidth = 1; context.strokeRect(margin.left - 0.5, margin.top - 0.5, width + 1, height + 1);
    axis(context, "y", words, font, ink, red, Y, ch); axis(context, "x", words, font, ink, red, X, cw, slanted);
    const what = grid && grid.pooled ? view.say.pooledCell(number(e.L / grid.rows, 0), number(e.S / grid.cols, 0)) : view.say.exactCell;
    const part = box.w < across() || box.h < down() ? ` · ${span(form === "row" ? "y" : "x", view.say.query)} · ${span(form === "row" ? "x" : "y", view.say.key)}` : "";
    range.textContent = what + part;
    if (view.zoomed) view.zoomed();
  }
  function span(side, word) { const a = Math.floor(side === "x" ? box.x0 : box.y0), b = Math.ceil(side === "x" ? box.x0 + box.w : box.y0 + box.h) - 1; return `${word} ${count(a)}–${count(b)}`; }
  function shown(piece) { const t = piece.text || "␣"; return (t.length > 16 ? t.slice(0, 15) + "…" : t) + (piece.part ? ` ${piece.part[0]}/${piece.part[1]}` : ""); }

  function axis(context, side, words, font, ink, red, at, size, slanted = false) {
    const from = side === "x" ? box.x0 : box.y0, n = side === "x" ? box.w : box.h, queries = (side === "y") === (view.state.form === "row");
    const current = queries ? view.state.q : view.state.k;
    const put = (i, text) => {
      const here = i === current;
      context.fillStyle = here && queries ? red : ink;
      context.font = (here ? "600 " : "") + font(words ? Math.min(13, Math.max(9, size * 0.62)) : 11);
      context.textBaseline = "middle"; context.fontVariantCaps = words && labelOf(side, i).mark === "*" ? "all-small-caps" : "normal";
      if (side === "y") { context.textAlign = "right"; context.fillText(text, margin.left - 6, at(i + 0.5), margin.left - 8); }
      else if (slanted) { context.save(); context.translate(at(i + 0.5), margin.top - 8); context.rotate(-Math.PI / 4); context.textAlign = "left"; context.fillText(text, 0, 0, 110); context.restore(); }
      else { context.textAlign = "center"; context.fillText(text, at(i + 0.5), margin.top - 11, Math.max(size + 30, 24)); }
    };
    if (words) for (let i = Math.max(0, Math.ceil(from - 0.5)); i < Math.min(from + n - 0.4, side === "x" ? across() : down()); i++) put(i, shown(labelOf(side, i)));
    else {
      const step = nice((n * (side === "x" ? 70 : 32)) / (side === "x" ? size * n : size * n));
      for (let i = Math.ceil(from / step) * step; i < from + n; i += step) if (current === null || Math.abs(i - current) * size > 30) put(i, count(i));
      if (current !== null && current >= from && current < from + n) put(current, count(current));
    }
  }

  // Beyond the map's own resolution: exact tiles if someone serves them, otherwise the heaviest keys as points.
  function detail(context, cw, ch) {
    const e = view.entry, row = view.state.form === "row", h = view.state.head;
    const q0 = Math.floor(row ? box.y0 : box.x0), q1 = Math.min(e.L, Math.ceil(q0 + (row ? box.h : box.w) + 1)), k0 = Math.floor(row ? box.x0 : box.y0), k1 = Math.min(e.S, Math.ceil(k0 + (row ? box.w : box.h) + 1));
    const put = (q, k, w) => {
      const x = margin.left + ((row ? k : q) - box.x0) * cw, y = margin.top + ((row ? q : k) - box.y0) * ch;
      context.fillStyle = rampColour(view.place(w), view.dark);
      context.fillRect(x, y, Math.max(cw, 1.5), Math.max(ch, 1.5));
    };
    const key = [e.index, h, q0, q1, k0, k1].join();
    if (view.sight.fetchTile && (q1 - q0) * (k1 - k0) <= 1 << 18) {
      if (tile && tile.key === key) {
        const back = getComputedStyle(view.root).getPropertyValue("--page").trim();
        context.fillStyle = back; context.fillRect(margin.left, margin.top, cw * box.w, ch * box.h);
        for (let q = q0; q < q1; q++) for (let k = k0; k < k1; k++) { const w = tile.weights[(q - q0) * (k1 - k0) + k - k0]; if (w > 0) put(q, k, w); }
        return;
      }
      if (wanted !== key) {
        wanted = key;
        setTimeout(() => wanted === key && Promise.resolve(view.sight.fetchTile(e, h, [q0, q1], [k0, k1])).then((got) => { if (got && wanted === key) { tile = { key, weights: got }; draw(); } }, () => {}), 120);
      }
    }
    if (!view.grid || ((q1 - q0) * (view.grid.rows / e.L) < 64 && view.grid.pooled)) {
      if (!view.sight.tops(e)) return;
      const n = e.top.k;
      for (let q = q0; q < q1; q++) for (let j = 0; j < n; j++) {
        const at = (h * e.L + q) * n + j, k = e.topKeys[at];
        if (k !== e.top.absent && k >= k0 && k < k1 && e.topWeights[at] > 0) put(q, k, e.topWeights[at]);
      }
    }
  }

  // Pointer: hover looks, click pins, drag pans, two fingers or ctrl+wheel zoom.
  const at = (event) => {
    const p = view.plot, r = canvas.getBoundingClientRect();
    const x = Math.floor(p.box.x0 + (event.clientX - r.left - p.margin.left) / p.cw), y = Math.floor(p.box.y0 + (event.clientY - r.top - p.margin.top) / p.ch);
    return x < 0 || y < 0 || x >= across() || y >= down() || event.clientX - r.left < p.margin.left - 60 ? null : cellOf(x, y);
  };
  const fingers = new Map();
  let press = null, spread = 0;
  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, event);
    press = { x: event.clientX, y: event.clientY, box: { ...box }, moved: false };
    if (event.pointerType !== "mouse") { const c = at(event); if (c) view.look(c.q, c.k); }
  });
  canvas.addEventListener("pointermove", (event) => {
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, event);
    if (fingers.size === 2) {
      const [a, b] = [...fingers.values()], d = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
      if (spread) zoom(spread / d);
      spread = d; return;
    }
    const zoomed = box.w < across() || box.h < down();
    if (press && zoomed && (press.moved || Math.hypot(event.clientX - press.x, event.clientY - press.y) > 4)) {
      press.moved = true;
      box = clamp({ ...box, x0: press.box.x0 - (event.clientX - press.x) / view.plot.cw, y0: press.box.y0 - (event.clientY - press.y) / view.plot.ch });
      draw(); return;
    }
    const c = at(event);
    if (c) view.look(c.q, c.k);
  });
  const up = (event) => {
    fingers.delete(event.pointerId); spread = 0;
    if (press && !press.moved && event.type === "pointerup") { const c = at(event); if (c) view.pin(c.q, c.k); }
    press = null;
  };
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, up);
  canvas.addEventListener("pointerleave", () => { if (!fingers.size) view.leave(); });
  canvas.addEventListener("dblclick", (event) => { const c = at(event); if (c) zoom(0.4, ...(view.state.form === "row" ? [c.k + 0.5, c.q + 0.5] : [c.q + 0.5, c.k + 0.5])); });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const p = view.plot, r = canvas.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, p.box.x0 + (event.clientX - r.left - p.margin.left) / p.cw, p.box.y0 + (event.clientY - r.top - p.margin.top) / p.ch);
  }, { passive: false });
  return { element, draw, zoom, fit, reveal, box: () => box, setBox: (b) => { box = clamp(b); draw(); } };
}

function nice(x) { const p = 10 ** Math.floor(Math.log10(Math.max(x, 1))); return Math.max(1, [1, 2, 5, 10].map((m) => m * p).find((v) => v >= x)); }

function wrap(context, text, x, y, width) {
  let line = "";
  context.textAlign = "left";
  for (const word of text.split(/(?<=[\s，。：])/)) {
    if (context.measureText(line + word).width > width) { context.fillText(line, x, y); y += 20; line = ""; }
    line += word;
  }
  context.fillText(line, x, y);
}
