// Words coloured by weight: the current word red, the others blue. One flowing text, and the stacked form, one row per word.

// One token as people read it. Long lists make only the tokens in sight.
function token(view, piece, options = {}) {
  const node = make("span", { class: "rv-token" + (piece.mark === "*" ? " rv-special" : "") + (options.current ? " rv-now" : "") + (options.key ? " rv-key" : "") + (options.masked ? " rv-masked" : "") + (options.hit ? " rv-hit" : "") });
  if (options.id) node.id = options.id;
  if (piece.mark === "_") node.append(make("i", { class: "rv-space", "aria-hidden": "true", text: "·" }));
  if (piece.mark === "+" && !piece.part) node.classList.add("rv-on");
  node.append(piece.part && piece.part[0] > 1 ? "⋯" : piece.text || "");
  if (piece.part) { node.append(make("sub", { text: `${piece.part[0]}/${piece.part[1]}` })); }
  if (options.place > 0 && !options.current) { node.style.backgroundColor = rampColour(options.place, view.dark); node.style.color = rampInk(options.place, view.dark); }
  if (options.title) node.title = options.title;
  return node;
}

// A text broken into lines by measured width, so that only the lines in sight need elements.
function flow(view, role) {
  const inner = make("div", { class: "rv-lines-in", role: "none" });
  const element = make("div", { class: "rv-flow", role: "listbox", tabindex: "0", "aria-orientation": "horizontal" }, inner);
  const LINE = 32;
  let lines = [], key = "", asked = "";
  const widths = new Map(), pen = make("canvas", {}).getContext("2d");
  const place = (i) => (role === "query" ? view.entry.queryPlace(i) : view.entry.keyPlace(i));
  const size = () => (role === "query" ? view.entry.L : view.entry.S);
  const textOf = () => (role === "query" ? view.entry.query.text : view.entry.key.text);

  function layout() {
    const room = Math.max(160, element.clientWidth - 20);
    const now = `${textOf()}.${place(0)}.${size()}.${room}`;
    if (key === now) return;
    key = now; lines = [];
    pen.font = `16px ${getComputedStyle(view.root).fontFamily}`;
    let x = 0, first = 0;
    for (let i = 0; i < size(); i++) {
      const p = view.sight.piece(textOf(), place(i)), id = p.mark + p.text + (p.part ? "/" : "");
      if (!widths.has(id)) widths.set(id, pen.measureText(p.part && p.part[0] > 1 ? "⋯" : p.text).width * (p.mark === "*" ? 0.9 : 1) + (p.mark === "_" ? 7 : 0) + (p.part ? 18 : 0) + 7);
      const w = widths.get(id);
      if (x + w > room && i > first) { lines.push([first, i]); first = i; x = 0; }
      x += w;
      if (p.text.endsWith("⏎")) { lines.push([first, i + 1]); first = i + 1; x = 0; }
    }
    if (first < size()) lines.push([first, size()]);
    inner.style.height = lines.length * LINE + "px";
  }

  // On self-attention one text shows both: the current word in red and the shade of what it looks at.
  function draw() {
    layout();
    const e = view.entry, { q, k } = view.state, both = e.self, row = view.row;
    const mine = role === "query" || both ? (both && q !== null ? e.keyAt(e.queryPlace(q)) : q) : null;
    const shade = role === "key" || both ? shading(view, row) : null;
    element.setAttribute("aria-label", (both ? view.say.words : role === "query" ? view.say.looking : view.say.looked) + ": " + view.headName());
    if (asked !== `${mine}.${key}`) {
      asked = `${mine}.${key}`;
      if (mine !== null && mine >= 0 && !view.pointing) show(mine); // hovering must not move the text under the pointer
    }
    const from = Math.max(0, Math.floor(element.scrollTop / LINE) - 2), to = Math.min(lines.length, Math.ceil((element.scrollTop + (element.clientHeight || 300)) / LINE) + 2);
    inner.replaceChildren(...lines.slice(from, to).map(([a, b], n) => {
      const line = make("div", { class: "rv-line", role: "none", css: { top: (from + n) * LINE + "px" } });
      for (let i = a; i < b; i++) {
        const piece = view.sight.piece(textOf(), place(i)), s = shade ? shade(i) : null;
        const node = token(view, piece, { current: i === mine, place: s ? s.place : 0, masked: s && s.masked, key: shade && i === k, id: `${view.id}-${role}-${i}`, hit: view.hits.has(`${textOf()}.${place(i)}`) });
        node.dataset.i = i;
        node.setAttribute("role", "option"); node.setAttribute("aria-selected", i === mine ? "true" : "false");
        node.setAttribute("aria-setsize", size()); node.setAttribute("aria-posinset", i + 1);
        const name = (piece.text || "").trim() || "␣"; // a space has a name too
        node.setAttribute("aria-label", s && s.weight !== null && s.weight >= 0 ? `${name} ${number(s.weight)}` : name);
        line.append(node);
      }
      return line;
    }));
    if (mine !== null && mine >= 0 && inner.querySelector(`[data-i="${mine}"]`)) element.setAttribute("aria-activedescendant", `${view.id}-${role}-${mine}`);
    else element.removeAttribute("aria-activedescendant");
  }
  function show(i) {
    const n = lines.findIndex(([a, b]) => i >= a && i < b);
    if (n < 0) return;
    const top = n * LINE, height = element.clientHeight;
    if (top < element.scrollTop || top + LINE > element.scrollTop + height) element.scrollTop = Math.max(0, top - LINE * Math.floor(height / LINE / 2));
  }
  const target = (event) => { const node = event.target.closest && event.target.closest("[data-i]"); return node ? Number(node.dataset.i) : null; };
  const touch = (event, act) => {
    const i = target(event);
    if (i === null) return;
    const e = view.entry;
    if (role === "query") return act(i, null);
    if (e.self && (!view.state.pinned || act === view.pin)) { const q = e.queryAt(e.keyPlace(i)); if (q >= 0) return act(q, null); }
    act(view.state.q, i);
  };
  element.addEventListener("pointerover", (event) => touch(event, view.look));
  element.addEventListener("click", (event) => touch(event, view.pin));
  element.addEventListener("pointerleave", () => view.leave());
  element.addEventListener("scroll", () => requestAnimationFrame(draw));
  return { element, draw };
}

// What each key of the current row looks like: its place on the ramp, its weight, whether it is masked.
function shading(view, row) {
  if (!row) return () => ({ place: 0, weight: null });
  if (row.weights) return (k) => { const w = row.weights[k]; return w < 0 ? { place: 0, weight: -1, masked: true } : { place: view.place(w), weight: w }; };
  const known = new Map(row.pairs);
  return (k) => (known.has(k) ? { place: view.place(known.get(k)), weight: known.get(k) } : { place: 0, weight: null });
}

function wordsView(view) {
  const keys = flow(view, "key"), queries = flow(view, "query");
  const keyTitle = make("div", { class: "rv-side" }), queryTitle = make("div", { class: "rv-side" });
  const element = make("div", { class: "rv-words" }, keyTitle, keys.element, queryTitle, queries.element);
  return {
    element,
    draw() {
      const self = view.entry.self;
      queries.element.hidden = queryTitle.hidden = keyTitle.hidden = self;
      keyTitle.textContent = view.sideName("key"); queryTitle.textContent = view.sideName("query");
      keys.draw();
      if (!self) queries.draw();
    },
  };
}

// One row per query. A short text is written whole in every row; a long one lists each row's heaviest keys.
function stackedView(view) {
  const inner = make("div", { class: "rv-lines-in", role: "none" });
  const element = make("div", { class: "rv-stacked", role: "listbox", tabindex: "0" }, inner);
  const LINE = 32, SHORT = 64;
  let asked = null;
  function draw() {
    const e = view.entry, short = e.S <= SHORT && e.weights;
    inner.style.height = e.L * LINE + "px";
    element.classList.toggle("rv-short", !!short);
    element.setAttribute("aria-label", view.say.stacked + ": " + view.headName());
    const q = view.state.q;
    if (q !== null && asked !== `${q}.${e.index}`) {
      asked = `${q}.${e.index}`;
      const top = q * LINE;
      if (!view.pointing && (top < element.scrollTop || top + LINE > element.scrollTop + element.clientHeight)) element.scrollTop = Math.max(0, top - element.clientHeight / 2);
    }
    const from = Math.max(0, Math.floor(element.scrollTop / LINE) - 4), to = Math.min(e.L, Math.ceil((element.scrollTop + (element.clientHeight || 480)) / LINE) + 4);
    const rows = [];
    for (let i = from; i < to; i++) rows.push(line(e, i, short));
    inner.replaceChildren(...rows);
  }
  function line(e, i, short) {
    const row = view.sight.row(e, view.state.head, i), current = i === view.state.q;
    const node = make("div", { class: "rv-line" + (current ? " rv-row-now" : ""), role: "option", "aria-selected": current ? "true" : "false", "aria-setsize": e.L, "aria-posinset": i + 1, css: { top: i * LINE + "px" } });
    node.dataset.q = i;
    const own = e.self ? e.keyAt(e.queryPlace(i)) : -1;
    if (!short || !e.self) node.append(make("span", { class: "rv-query" }, token(view, view.sight.queryPiece(e, i), { current: true })));
    if (short) {
      const shade = shading(view, row);
      for (let k = 0; k < e.S; k++) {
        const s = shade(k), t = token(view, view.sight.keyPiece(e, k), { current: k === own, place: s.place, masked: s.masked, key: current && k === view.state.k, title: s.weight >= 0 ? number(s.weight, 4) : view.say.masked });
        t.dataset.k = k;
        node.append(t);
      }
    } else {
      node.prepend(make("span", { class: "rv-count", text: count(e.queryPlace(i)) }));
      for (const [k, w] of row.pairs.slice(0, 8)) {
        const t = token(view, view.sight.keyPiece(e, k), { place: view.place(w), key: current && k === view.state.k });
        t.dataset.k = k;
        node.append(make("span", { class: "rv-pair" }, t, make("small", { text: `${number(w)} @${count(e.keyPlace(k))}` })));
      }
    }
    return node;
  }
  const act = (event, how) => {
    const row = event.target.closest("[data-q]");
    if (!row) return;
    const t = event.target.closest("[data-k]");
    how(Number(row.dataset.q), t ? Number(t.dataset.k) : null);
  };
  element.addEventListener("pointerover", (event) => act(event, view.look));
  element.addEventListener("click", (event) => act(event, view.pin));
  element.addEventListener("pointerleave", () => view.leave());
  element.addEventListener("scroll", () => requestAnimationFrame(draw));
  return { element, draw };
}
