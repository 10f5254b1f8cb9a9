// regardView(element, payload, options): the whole component. A report, a notebook and the studio use this one.
//
// options: lang "en"|"zh", theme "auto"|"light"|"dark", fragment (keep the state in the page's address), alignment (one head, no grid),
// fetchTile(entry, head, [q0, q1], [k0, k1]) → weights row by row or a promise of them, onState(state), python (the sighting's name).
// Gives back a promise of { state, set(changes), setPayload(payload), destroy() }.

let made = 0;

async function regardView(element, payload, options = {}) {
  const id = `rv${++made}`;
  const root = make("div", { class: "regard", id });
  element.replaceChildren(root);
  if (typeof DecompressionStream === "undefined") { root.append(make("p", { class: "rv-error", role: "alert", text: SPEECH[options.lang || "en"].unsupported })); return null; }
  const remembered = (name) => { try { return localStorage.getItem("regard." + name); } catch { return null; } };
  const remember = (name, value) => { try { localStorage.setItem("regard." + name, value); } catch { /* a page opened from disk may not remember */ } };
  const VIEWS = options.alignment ? ["pattern"] : ["pattern", "words", "stacked", "lines"];
  const state = { entry: 0, head: 0, step: 0, q: null, k: null, pinned: false, view: VIEWS[0], scale: "linear", form: "row", lang: options.lang || remembered("lang") || (navigator.language || "").startsWith("zh") && "zh" || "en", theme: options.theme || remembered("theme") || "auto" };
  const darkness = matchMedia("(prefers-color-scheme: dark)");
  const view = { root, id, state, pointing: false, side: null, hits: new Set(), sight: new Sight(payload, await unpack(payload), options) };
  const listeners = new AbortController();
  const python = options.python || "seen";

  Object.defineProperties(view, {
    entry: { get: () => view.sight.entries[state.entry] },
    say: { get: () => SPEECH[state.lang] },
    dark: { get: () => state.theme === "dark" || (state.theme === "auto" && darkness.matches) },
  });
  view.headName = (e = view.entry, h = state.head) => options.alignment ? "" : `${view.say.layer} ${e.layer} · ${view.say.head} ${e.ids[h]}` + (view.sight.steps > 1 ? ` · ${view.say.step} ${e.call}` : "");
  view.title = () => view.sight.payload.title || view.sight.payload.model || "";
  view.sideName = (side) => options.alignment ? view.say[side === "key" ? "source" : "target"] : side === "key" ? `${view.say.key} · ${view.say.looked}` : `${view.say.query} · ${view.say.looking}`;
  view.legendEnds = () => state.scale === "rank" ? ["0%", "100%"] : [state.scale === "log" ? `≤${number(view.sight.floor)}` : "0", number(view.sight.ceiling, 2).replace(/\.?0+$/, "")];
  let hatchKey = "", hatched = null;
  view.hatch = (context) => {
    const colour = getComputedStyle(root).getPropertyValue("--hatch").trim();
    if (hatchKey !== colour) {
      const c = make("canvas", {}); c.width = c.height = 6;
      const p = c.getContext("2d"); p.strokeStyle = colour; p.lineWidth = 1; p.beginPath(); p.moveTo(-1, 7); p.lineTo(7, -1); p.moveTo(-1, 1); p.lineTo(1, -1); p.moveTo(5, 7); p.lineTo(7, 5); p.stroke();
      hatched = c; hatchKey = colour;
    }
    return context.createPattern(hatched, "repeat");
  };

  // Looking: hover, focus and touch all come here. Pinned, the query stays and only the key moves.
  const within = (q, k) => [q === null ? null : Math.max(0, Math.min(view.entry.L - 1, q)), k === null || k === undefined ? null : Math.max(0, Math.min(view.entry.S - 1, k))];
  view.look = (q, k, side = null) => {
    view.pointing = true;
    if (state.pinned && (q !== state.q || side === "key")) { if (k === null) return; side = null; q = state.q; }
    [q, k] = within(q, k);
    if (q === state.q && k === state.k && side === view.side) return;
    Object.assign(state, { q, k }); view.side = side;
    refresh("look");
  };
  view.pin = (q, k, side = null) => {
    [q, k] = within(q, k);
    const again = state.pinned && state.q === q && state.k === k;
    Object.assign(state, { q, k, pinned: !again }); view.side = side;
    refresh("look");
  };
  view.leave = () => { if (!state.pinned && state.k !== null) { state.k = null; view.side = null; refresh("look"); } };
  view.turnHead = (step) => view.set({ head: (state.head + step + view.entry.heads) % view.entry.heads });
  view.turnLayer = (step) => {
    const list = view.sight.entries.filter((e) => e.call === Math.min(state.step, lastCall(view.sight, e.layer)));
    const at = Math.max(0, list.findIndex((e) => e.index === state.entry));
    view.set({ entry: list[(at + step + list.length) % list.length].index });
  };
  view.set = (changes) => {
    Object.assign(state, changes);
    state.entry = Math.max(0, Math.min(view.sight.entries.length - 1, state.entry));
    const e = view.entry;
    state.head = Math.max(0, Math.min(e.heads - 1, state.head));
    if (changes.entry !== undefined && changes.step === undefined) state.step = Math.max(state.step < e.call ? e.call : Math.min(state.step, Math.max(e.call, view.sight.steps - 1)), 0);
    if (!VIEWS.includes(state.view)) state.view = VIEWS[0];
    if (!["linear", "log", "rank"].includes(state.scale)) state.scale = "linear";
    if (!["row", "column"].includes(state.form)) state.form = "row";
    if (!SPEECH[state.lang]) state.lang = "en";
    [state.q, state.k] = within(state.q, state.k);
    if (changes.lang) remember("lang", changes.lang);
    if (changes.theme) remember("theme", changes.theme);
    refresh("all");
  };
  view.walk = (step) => {
    view.pointing = false;
    const q = state.q === null ? (step > 0 ? 0 : view.entry.L - 1) : state.q + step;
    state.k = null; view.side = null;
    [state.q] = within(q, null);
    parts.pattern.reveal(); refresh("look");
  };
  view.walkKey = (step) => {
    view.pointing = false;
    if (state.q === null) return view.walk(step);
    [, state.k] = within(state.q, state.k === null ? (step > 0 ? 0 : view.entry.S - 1) : state.k + step);
    parts.pattern.reveal(); refresh("look");
  };

  // Parts of the page
  const parts = {};
  Object.assign(parts, { pattern: patternView(view), words: wordsView(view), stacked: stackedView(view), lines: linesView(view), grid: gridView(view), card: headCard(view), numbers: numbersView(view, options) });
  const el = frame(view, parts, { VIEWS, options, python });
  root.append(el.frame);
  view.zoomed = el.drawPython;

  const queue = new Set();
  function refresh(what) {
    queue.add(what);
    if (queue.size > 1) return;
    requestAnimationFrame(paint);
  }
  function paint() {
    const all = queue.has("all"); queue.clear();
    root.dataset.theme = view.dark ? "dark" : "light"; root.lang = view.say.lang;
    view.grid = view.sight.grid(view.entry, state.head);
    const key = [state.entry, state.head, state.scale].join();
    if (all || view.placeKey !== key) { view.place = scaling(state.scale, view.sight, view.grid); view.placeKey = key; }
    view.row = state.q === null ? null : view.sight.row(view.entry, state.head, state.q);
    if (all) { el.draw(); parts.grid.draw(); parts.card.draw(); }
    parts[state.view].draw();
    if (options.alignment) parts.lines.draw();
    if (el.textShown()) parts.words.draw();
    parts.numbers.draw();
    el.drawPython();
    address();
    root.dataset.ready = "1";
    if (options.onState) options.onState({ ...state });
  }
  view.refresh = refresh;
  view.sight.onArrival = () => refresh("look");

  // The state in the page's address, so that a view can be shared.
  function address() {
    if (!options.fragment) return;
    const keep = { layer: view.entry.layer, call: view.entry.call || null, head: state.head, q: state.q, k: state.pinned ? state.k : null, pin: state.pinned ? 1 : null, view: state.view, scale: state.scale, form: state.form, lang: state.lang, theme: state.theme === "auto" ? null : state.theme };
    const text = "#" + Object.entries(keep).filter(([, v]) => v !== null && v !== undefined).map(([k, v]) => `${k}=${v}`).join("&");
    clearTimeout(address.timer);
    address.timer = setTimeout(() => { try { if (location.hash !== text) history.replaceState(null, "", text); } catch { /* a sandboxed frame has no address of its own */ } }, 120);
  }
  function fromAddress() {
    if (!options.fragment || location.hash.length < 2) return {};
    const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1))), out = {};
    const layer = Number(given.layer), call = Number(given.call || 0), found = view.sight.entries.findIndex((e) => e.layer === layer && e.call === call);
    if (given.layer !== undefined && found >= 0) Object.assign(out, { entry: found, step: call });
    for (const name of ["head", "q", "k"]) if (given[name] !== undefined && /^\d+$/.test(given[name])) out[name] = Number(given[name]);
    for (const name of ["view", "scale", "form", "lang", "theme"]) if (given[name]) out[name] = given[name];
    out.pinned = given.pin === "1";
    return out;
  }
  window.addEventListener("hashchange", () => view.set(fromAddress()), { signal: listeners.signal });
  darkness.addEventListener("change", () => refresh("all"), { signal: listeners.signal });
  let width = 0;
  const watcher = new ResizeObserver(() => { if (root.clientWidth !== width) { width = root.clientWidth; refresh("all"); } });
  watcher.observe(root);

  root.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "Escape") { if (el.closeAll()) return; if (typing) event.target.blur(); if (state.pinned) { state.pinned = false; state.k = null; view.side = null; } refresh("look"); return; }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const scales = ["linear", "log", "rank"];
    const act = {
      ArrowRight: () => view.walk(1), ArrowLeft: () => view.walk(-1), ArrowDown: () => view.walkKey(1), ArrowUp: () => view.walkKey(-1),
      "]": () => view.turnHead(1), "[": () => view.turnHead(-1), "}": () => view.turnLayer(1), "{": () => view.turnLayer(-1),
      "/": () => el.find(), "?": () => el.help(), s: () => view.set({ scale: scales[(scales.indexOf(state.scale) + 1) % 3] }),
      f: () => view.set({ form: state.form === "row" ? "column" : "row" }), t: () => view.set({ theme: view.dark ? "light" : "dark" }), l: () => view.set({ lang: state.lang === "en" ? "zh" : "en" }),
      "+": () => parts.pattern.zoom(0.5), "=": () => parts.pattern.zoom(0.5), "-": () => parts.pattern.zoom(2), 0: () => parts.pattern.fit(),
      Enter: () => { if (event.target.closest("button, summary, a")) return false; view.pin(state.q, state.k); },
    };
    for (let i = 0; i < VIEWS.length; i++) act[i + 1] = () => view.set({ view: VIEWS[i] });
    if (!act[event.key]) return;
    if (event.target.closest("[role=tab]") && event.key.startsWith("Arrow")) return;
    if (act[event.key]() !== false) event.preventDefault();
  });
  if (options.fragment) document.addEventListener("keydown", (event) => { if (event.target === document.body && !root.dispatchEvent(new KeyboardEvent("keydown", event))) event.preventDefault(); }, { signal: listeners.signal });

  // First paint: the clearest labelled head, and the word in it that looks hardest at another.
  function start() {
    let best = [0, 0, -1];
    if (!options.alignment) view.sight.entries.forEach((e) => e.labels.forEach((labels, h) => { for (const [name, score] of labels) if (!["sink", "uniform", "local"].includes(name) && score > best[2] + 1e-6) best = [e.index, h, score]; }));
    Object.assign(state, { entry: best[0], head: best[1], q: null, k: null, pinned: false, step: view.sight.entries[best[0]] ? view.sight.entries[best[0]].call : 0 });
    const e = view.entry;
    if (e && !options.alignment) {
      let most = [e.L - 1, 0];
      for (let q = 0; q < Math.min(e.L, 256); q++) for (const [k, w] of view.sight.row(e, state.head, q).pairs.slice(0, 3)) if (k > 0 && !(e.self && e.keyPlace(k) === e.queryPlace(q)) && q > 2 && w > most[1]) most = [q, w];
      state.q = most[0];
    }
  }
  start();
  view.set(fromAddress());
  const controller = {
    state, set: view.set, pin: view.pin, look: view.look, view,
    async setPayload(next) { view.sight = new Sight(next, await unpack(next), options); view.sight.onArrival = () => refresh("look"); start(); view.set({}); },
    destroy() { listeners.abort(); watcher.disconnect(); element.replaceChildren(); },
  };
  root.regard = controller;
  return controller;
}
