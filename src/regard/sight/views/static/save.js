// The view as a file: SVG drawn from the numbers (vector text), PNG of that SVG, JSON of the numbers.

function svgOf(view, which) {
  const style = getComputedStyle(view.root), v = (name) => style.getPropertyValue(name).trim();
  const page = v("--page"), ink = v("--ink"), red = v("--red"), quiet = v("--quiet"), font = style.fontFamily;
  const e = view.entry, { head, q } = view.state, pen = make("canvas", {}).getContext("2d");
  pen.font = `14px ${font}`;
  const wide = (text) => pen.measureText(text).width;
  const out = [];
  const put = (tag, props, text) => out.push(make("svg:" + tag, { ...props, text }));
  const label = (p) => (p.text || "␣") + (p.part ? ` ${p.part[0]}/${p.part[1]}` : "");
  const say = (x, y, text, props = {}) => put("text", { x: x.toFixed(1), y: y.toFixed(1), fill: ink, "font-size": 14, ...props }, text);
  let W = 640, H = 60;
  const PAD = 16;
  say(PAD, 26, [view.title(), view.headName()].filter(Boolean).join(" · "), { "font-weight": 600 });
  let y = 60;
  if (which === "pattern") ({ W, H } = svgPattern());
  else if (which === "lines") ({ W, H } = svgLines());
  else ({ W, H } = svgWords(which === "stacked"));
  const proof = view.proofText();
  say(PAD, H + 14, proof.text, { "font-size": 11, fill: proof.holds ? quiet : ink });
  W = Math.max(W, wide([view.title(), view.headName()].join(" · ")) * 1.1 + 2 * PAD, wide(proof.text) * 0.82 + 2 * PAD); H += 28;
  return make("svg:svg", { xmlns: "http://www.w3.org/2000/svg", width: Math.ceil(W), height: Math.ceil(H), viewBox: `0 0 ${Math.ceil(W)} ${Math.ceil(H)}`, "font-family": font.replace(/"/g, "'") }, make("svg:rect", { width: "100%", height: "100%", fill: page }), out);

  function svgPattern() {
    const grid = view.grid, row = view.state.form === "row";
    if (!grid) { say(PAD, y + 10, view.say.noMap); return { W, H: y + 30 }; }
    const across = row ? grid.cols : grid.rows, down = row ? grid.rows : grid.cols, small = !grid.pooled && across <= 64 && down <= 64;
    const side = small ? 26 : Math.max(1, 560 / Math.max(across, down));
    const xs = Array.from({ length: small ? across : 0 }, (_, i) => label(row ? view.sight.keyPiece(e, i) : view.sight.queryPiece(e, i)));
    const ys = Array.from({ length: small ? down : 0 }, (_, i) => label(row ? view.sight.queryPiece(e, i) : view.sight.keyPiece(e, i)));
    const left = PAD + (small ? Math.max(0, ...ys.map(wide)) + 8 : 48), top = y + Math.max(0, ...xs.map(wide)) * 0.72 + 12;
    const current = row ? (i) => i === q : () => false, currentX = row ? () => false : (i) => i === q;
    ys.forEach((t, i) => say(left - 6, top + (i + 0.5) * side + 5, t, { "text-anchor": "end", fill: current(i) ? red : ink }));
    xs.forEach((t, i) => say(0, 0, t, { transform: `translate(${(left + (i + 0.6) * side).toFixed(1)} ${(top - 6).toFixed(1)}) rotate(-45)`, fill: currentX(i) ? red : ink, x: 0, y: 0 }));
    const masked = Array.from({ length: across * down }, (_, n) => (row ? grid.get(Math.floor(n / across), n % across) : grid.get(n % across, Math.floor(n / across)))).some((w) => w < 0);
    if (masked) {
      out.push(make("svg:defs", {}, make("svg:pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse" }, make("svg:path", { d: "M-1 7L7 -1M-1 1L1 -1M5 7L7 5", stroke: v("--hatch"), "stroke-width": 1 }))));
      put("rect", { x: left, y: top, width: across * side, height: down * side, fill: "url(#hatch)" });
    }
    if (small) {
      for (let j = 0; j < down; j++) for (let i = 0; i < across; i++) {
        const w = row ? grid.get(j, i) : grid.get(i, j), x0 = left + i * side, y0 = top + j * side;
        if (w >= 0) put("rect", { x: x0, y: y0, width: side, height: side, fill: rampColour(view.place(w), view.dark) }, `${xs[i]}: ${w}`);
      }
      out.filter((n) => n.tagName === "rect" && n.textContent).forEach((n) => { const t = n.textContent; n.replaceChildren(make("svg:title", { text: t })); });
    } else {
      const c = make("canvas", {}); c.width = across; c.height = down;
      const context = c.getContext("2d");
      for (let j = 0; j < down; j++) for (let i = 0; i < across; i++) { const w = row ? grid.get(j, i) : grid.get(i, j); if (w >= 0) { context.fillStyle = rampColour(view.place(w), view.dark); context.fillRect(i, j, 1, 1); } }
      put("image", { x: left, y: top, width: across * side, height: down * side, href: c.toDataURL("image/png"), "image-rendering": "pixelated" });
      for (const [n, horizontal] of [[row ? e.S : e.L, true], [row ? e.L : e.S, false]]) for (let i = 0; i < n; i += nice(n / 6)) {
        const at = ((i + 0.5) / n) * (horizontal ? across : down) * side;
        say(horizontal ? left + at : left - 6, horizontal ? top - 6 : top + at + 4, count(i), { "font-size": 11, "text-anchor": horizontal ? "middle" : "end" });
      }
    }
    put("rect", { x: left, y: top, width: across * side, height: down * side, fill: "none", stroke: v("--faint") });
    const bottom = legend(left, top + down * side + 22);
    return { W: left + across * side + Math.max(PAD, Math.max(0, ...xs.map(wide)) * 0.72), H: bottom };
  }
  function svgWords(stacked) {
    const rows = stacked ? Array.from({ length: Math.min(e.L, 64) }, (_, i) => i) : q === null ? [] : [q];
    let most = 0;
    for (const i of rows) {
      const row = view.sight.row(e, head, i), shade = shading(view, row), own = e.self ? e.keyAt(e.queryPlace(i)) : -1;
      let x = PAD;
      const word = (text, fill, back) => { const w = wide(text) + 8; if (!stacked && x + w > 720) { x = PAD; y += 28; } if (back) put("rect", { x, y: y - 17, width: w, height: 24, rx: 3, fill: back }); say(x + 4, y, text, { fill }); x += w + 3; most = Math.max(most, x); };
      if (own < 0) { word(label(view.sight.queryPiece(e, i)), red, null); x += 12; }
      const near = e.S <= 400 ? Array.from({ length: e.S }, (_, k) => k) : around(row.pairs.map((p) => p[0]).concat(own < 0 ? [] : [own]));
      let last = -1;
      for (const k of near) {
        if (k > last + 1 && near.length < e.S) word("…", quiet, null);
        last = k;
        const s = shade(k); word(label(view.sight.keyPiece(e, k)), k === own ? red : s.place > 0 ? rampInk(s.place, view.dark) : ink, k !== own && s.place > 0 ? rampColour(s.place, view.dark) : null); }
      y += 30;
    }
    return { W: Math.max(most + PAD, 240), H: legend(PAD, y + 4) };
  }
  function around(keys) { // a long text is quoted only where it is looked at
    const near = new Set();
    for (const k of keys) for (let i = Math.max(0, k - 3); i <= Math.min(e.S - 1, k + 3); i++) near.add(i);
    return [...near].sort((a, b) => a - b);
  }
  function svgLines() {
    const shownKeys = Math.min(e.S, 200), shownQueries = Math.min(e.L, 200);
    const spread = (n, piece) => { let x = PAD; return Array.from({ length: n }, (_, i) => { const t = label(piece(i)), w = wide(t) + 16; x += w; return { t, mid: x - w / 2 }; }); };
    const keys = spread(shownKeys, (i) => view.sight.keyPiece(e, i)), queries = spread(shownQueries, (i) => view.sight.queryPiece(e, i));
    const room = Math.max(...[keys, queries].map((r) => (r.length ? r[r.length - 1].mid + wide(r[r.length - 1].t) / 2 + 24 : 0)));
    for (const r of [keys, queries]) { const shift = (room - (r.length ? r[r.length - 1].mid + wide(r[r.length - 1].t) / 2 + 24 : 0)) / 2; r.forEach((w) => { w.mid += shift; }); }
    const links = [];
    for (let i = 0; i < shownQueries; i++) for (const [k, w] of view.sight.row(e, head, i).pairs) {
      if (w < 0.02) break;
      if (k < shownKeys) links.push([w, i, k]);
    }
    for (const [w, i, k] of links.sort((a, b) => a[0] - b[0])) {
      put("path", { d: `M${keys[k].mid.toFixed(1)} ${y + 12}C${keys[k].mid.toFixed(1)} ${y + 80} ${queries[i].mid.toFixed(1)} ${y + 80} ${queries[i].mid.toFixed(1)} ${y + 148}`, fill: "none", stroke: rampColour(view.place(w), view.dark), "stroke-width": (0.75 + 5 * Math.sqrt(view.place(w))).toFixed(2) });
    }
    keys.forEach((w) => say(w.mid, y + 4, w.t, { "text-anchor": "middle" }));
    queries.forEach((w, i) => say(w.mid, y + 166, w.t, { "text-anchor": "middle", fill: i === q ? red : ink }));
    return { W: room, H: legend(PAD, y + 186) };
  }
  function legend(x, at) {
    for (let i = 0; i < 32; i++) put("rect", { x: x + 24 + i * 4, y: at - 9, width: 4.2, height: 10, fill: rampColour(i / 31, view.dark) });
    const ends = view.legendEnds();
    say(x, at, ends[0], { "font-size": 11 }); say(x + 24 + 136, at, `${ends[1]} (${view.say[view.state.scale]})`, { "font-size": 11 });
    return at + 10;
  }
}

function jsonOf(view) {
  const e = view.entry, { head, q } = view.state, n = Math.min(e.L, 4096);
  const rows = Array.from({ length: n }, (_, i) => view.sight.row(e, head, i).pairs.map(([k, w]) => [k, Number(w.toPrecision(6))]));
  return JSON.stringify({
    model: view.sight.payload.model, layer: e.layer, head: e.ids[head], call: e.call, name: e.name, mask: e.mask, proof: e.proof, labels: e.labels[head],
    queries: Array.from({ length: n }, (_, i) => view.sight.queryPiece(e, i).text), keys: Array.from({ length: Math.min(e.S, 4096) }, (_, i) => view.sight.keyPiece(e, i).text), current: q,
    means: Object.fromEntries(Object.entries(e.means).map(([name, values]) => [name, values[head]])), rows,
  }, null, 1);
}

async function saveAs(view, kind, which = view.state.view) {
  const e = view.entry, name = `attention-${e.layer}-${e.ids[view.state.head]}-${which}.${kind}`;
  let blob;
  if (kind === "json") blob = new Blob([jsonOf(view)], { type: "application/json" });
  else {
    const svg = svgOf(view, which), text = new XMLSerializer().serializeToString(svg);
    blob = new Blob([text], { type: "image/svg+xml" });
    if (kind === "png") {
      const image = new Image(), canvas = make("canvas", {});
      image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
      await image.decode();
      canvas.width = 2 * image.width; canvas.height = 2 * image.height;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
    }
  }
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  view.root.append(link); link.click(); link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
