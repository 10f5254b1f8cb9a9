// What surrounds the pictures: title, proof, switches, search, keys, the line of Python, and the note.

function frame(view, parts, { VIEWS, options, python }) {
  const { state, root } = view;
  const button = (props, ...children) => make("button", { type: "button", ...props }, ...children);
  const title = make("h1", { class: "rv-title" }), facts = make("p", { class: "rv-facts" });
  const proof = make("details", { class: "rv-proof rv-pop" }), proofName = make("summary", {}), proofBody = make("div", { class: "rv-sheet" });
  proof.append(proofName, proofBody);
  const lang = button({ class: "rv-plain", onclick: () => view.set({ lang: state.lang === "en" ? "zh" : "en" }) });
  const theme = button({ class: "rv-plain", onclick: () => view.set({ theme: view.dark ? "light" : "dark" }) });
  const keys = button({ class: "rv-plain", text: "?", onclick: () => help() });
  const save = make("details", { class: "rv-save rv-pop" }), saveName = make("summary", {});
  save.append(saveName, make("div", { class: "rv-sheet rv-menu" }, (options.alignment ? ["lines", "pattern"] : [null]).flatMap((which) => (which === "pattern" || !which ? ["svg", "png", "json"] : ["svg", "png"]).map((kind) => make("button", { type: "button", "data-kind": kind, "data-which": which, onclick: () => { save.open = false; saveAs(view, kind, which || state.view); } })))));
  const link = button({ class: "rv-plain rv-link", onclick: () => copyText(options.fragment ? location.href : location.href.split("#")[0], link) });
  if (!options.fragment) link.hidden = true;
  const dialog = make("dialog", { class: "rv-dialog" });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

  const pick = (name, act) => { const select = make("select", { onchange: () => act(Number(select.value)) }); const label = make("label", { class: "rv-pick" }, make("span", {}), select); label.dataset.say = name; return { label, select }; };
  const layer = pick("layer", (v) => view.set({ entry: v })), head = pick("head", (v) => view.set({ head: v })), step = pick("step", (v) => view.set({ step: v, entry: view.sight.entries.findIndex((e) => e.layer === view.entry.layer && e.call === Math.min(v, lastCall(view.sight, e.layer))) }));
  const search = make("input", { type: "search", class: "rv-search", autocomplete: "off", spellcheck: "false" }), found = make("span", { class: "rv-quiet rv-found", role: "status" });
  let hits = [], at = -1;
  search.addEventListener("input", () => { at = -1; look(0); });
  search.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); look(event.shiftKey ? -1 : 1); } });

  const tabs = VIEWS.map((name) => button({ role: "tab", class: "rv-tab", id: `${view.id}-tab-${name}`, "aria-controls": `${view.id}-panel`, "data-view": name, onclick: () => view.set({ view: name }) }));
  const tablist = make("div", { class: "rv-tabs", role: "tablist" }, tabs);
  tablist.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    event.preventDefault();
    const next = (VIEWS.indexOf(state.view) + move + VIEWS.length) % VIEWS.length;
    view.set({ view: VIEWS[next] }); tabs[next].focus();
  });
  const choice = (name, values) => {
    const group = make("span", { class: "rv-choice", role: "group" }, values.map((v) => button({ "data-v": v, onclick: () => view.set({ [name]: v }) })));
    return group;
  };
  const scale = choice("scale", ["linear", "log", "rank"]), form = choice("form", ["row", "column"]);
  const ramp = make("canvas", { class: "rv-ramp", "aria-hidden": "true", width: 128, height: 1 }), low = make("span", { class: "rv-num" }), high = make("span", { class: "rv-num" }), hatch = make("span", { class: "rv-hatch" });
  const legend = make("span", { class: "rv-legend" }, low, ramp, high, hatch);
  const panel = make("div", { class: "rv-panel", role: "tabpanel", id: `${view.id}-panel`, tabindex: "-1" });
  const text = make("div", { class: "rv-text" });
  const code = make("code", {}), codeName = make("span", { class: "rv-quiet" }), codeCopy = button({ class: "rv-plain", onclick: () => copyText(code.textContent, codeCopy) });
  const line = make("div", { class: "rv-python" }, codeName, code, codeCopy);
  const note = make("details", { class: "rv-note" }), missed = make("div", { class: "rv-missed", role: "alert" });

  const side = options.alignment ? null : make("aside", { class: "rv-aside-col" }, make("div", { class: "rv-picks" }, layer.label, head.label, step.label), parts.grid.element, parts.card.element);
  const work = make("div", { class: "rv-work" }, panel, parts.numbers.element);
  const main = make("div", { class: "rv-main" }, text, make("div", { class: "rv-controls" }, options.alignment ? null : tablist, form, scale, legend), work, line, note);
  const whole = make("div", { class: "rv-frame" + (options.alignment ? " rv-alone" : "") },
    make("header", { class: "rv-head" }, make("div", { class: "rv-names" }, title, facts), make("div", { class: "rv-actions" }, proof, options.alignment ? null : make("span", { class: "rv-find" }, search, found), save, link, theme, lang, keys)),
    missed, make("div", { class: "rv-body" }, side, main), dialog);

  const pops = [proof, save];
  root.addEventListener("click", (event) => { for (const pop of pops) if (pop.open && !pop.contains(event.target)) pop.open = false; });

  view.proofText = () => {
    const p = view.entry.proof, say = view.say;
    if (!p) return { holds: true, text: say.noProof };
    const worst = p.output_error ?? p.row_sum_error;
    return { holds: p.holds, text: `${p.holds ? "✓" : "✗"} ${p.holds ? say.proof : say.fails} ${number(worst)}` };
  };
  const textShown = () => !options.alignment && state.view !== "words" && state.view !== "lines" && state.view !== "stacked";

  function draw() {
    const say = view.say, e = view.entry, sight = view.sight;
    title.textContent = view.title() || say.pattern;
    const tokens = Math.max(0, ...sight.entries.map((x) => x.S));
    const most = new Set(sight.entries.map((x) => x.heads)).size === 1 ? say.layersHeads(sight.layers.length, e.heads) : say.headsAll(sight.entries.filter((x) => x.call === 0).reduce((n, x) => n + x.heads, 0));
    facts.textContent = options.alignment ? `${say.source} ${sight.entries[0].S} · ${say.target} ${sight.entries[0].L}` : [most, say.tokens(count(tokens))].join(" · ");
    drawProof(say);
    lang.textContent = say.other; lang.title = say.otherTitle; lang.lang = state.lang === "en" ? "zh-CN" : "en";
    theme.textContent = view.dark ? "☀" : "☾"; theme.title = `${say.theme}: ${view.dark ? say.light : say.dark}`; theme.setAttribute("aria-label", theme.title);
    keys.title = say.keys; keys.setAttribute("aria-label", say.keys); saveName.textContent = say.save; for (const b of save.querySelectorAll("[data-kind]")) b.textContent = b.dataset.kind.toUpperCase() + (b.dataset.which && b.dataset.kind !== "json" ? ` · ${say[b.dataset.which]}` : ""); link.textContent = say.link;
    search.placeholder = say.search + "  /"; search.setAttribute("aria-label", say.search);
    for (const p of [layer, head, step]) p.label.firstChild.textContent = say[p.label.dataset.say];
    const here = sight.entries.filter((x) => x.call === Math.min(state.step, lastCall(sight, x.layer)));
    fill(layer.select, here.map((x) => [x.index, `${x.layer}` + (x.kind.includes("cross") ? " ×" : "")]), state.entry); fill(head.select, Array.from({ length: e.heads }, (_, h) => [h, e.ids[h]]), state.head);
    step.label.hidden = sight.steps < 2;
    if (sight.steps > 1) fill(step.select, Array.from({ length: sight.steps }, (_, s) => [s, s]), state.step);
    tabs.forEach((tab) => { const on = tab.dataset.view === state.view; tab.textContent = say[tab.dataset.view]; tab.setAttribute("aria-selected", on); tab.tabIndex = on ? 0 : -1; });
    tablist.setAttribute("aria-label", say.pattern); panel.setAttribute("aria-labelledby", `${view.id}-tab-${state.view}`);
    for (const b of scale.children) { b.textContent = say[b.dataset.v]; b.setAttribute("aria-pressed", b.dataset.v === state.scale); }
    for (const b of form.children) { b.textContent = b.dataset.v === "row" ? say.rowForm : say.columnForm; b.title = b.dataset.v === "row" ? say.rowTitle : say.columnTitle; b.setAttribute("aria-pressed", b.dataset.v === state.form); }
    scale.setAttribute("aria-label", say.scale); form.setAttribute("aria-label", say.form); form.hidden = state.view !== "pattern";
    const pen = ramp.getContext("2d");
    for (let i = 0; i < 128; i++) { pen.fillStyle = rampColour(i / 127, view.dark); pen.fillRect(i, 0, 1, 1); }
    [low.textContent, high.textContent] = view.legendEnds();
    hatch.textContent = say.masked; hatch.hidden = !e.mask || (!e.weights && !e.hidden);
    work.dataset.view = state.view; panel.classList.toggle("rv-pair-up", !!options.alignment && rowWidth(e) < root.clientWidth / 2 - 48);
    if (panel.lastChild !== parts[state.view].element) panel.replaceChildren(...(options.alignment ? [parts.lines.element] : []), parts[state.view].element);
    text.hidden = !textShown();
    if (textShown() && text.firstChild !== parts.words.element) text.replaceChildren(parts.words.element);
    codeName.textContent = say.python; codeCopy.textContent = say.copy;
    const open = note.open;
    note.replaceChildren(make("summary", { text: say.noteTitle }), ...say.note.map((p) => make("p", { text: p }))); note.open = open;
    const lost = sight.payload.missed;
    missed.hidden = !lost.length;
    missed.replaceChildren(...(lost.length ? [make("b", { text: say.missed }), ...lost.map((m) => make("p", { text: m.join(" · ") }))] : []));
    drawPython();
  }
  // Roughly how wide the longer row of words is: beside the heat map only if it fits there.
  function rowWidth(e) {
    const wide = (text) => view.sight.texts[text].pieces.reduce((sum, word) => sum + 24 + [...word].reduce((w, c) => w + (c > "\u2e80" ? 16 : 9), 0), 0);
    return Math.max(wide(e.query.text), wide(e.key.text));
  }
  function fill(select, items, value) {
    const key = items.map((i) => i.join()).join("|");
    if (select.dataset.key !== key) { select.replaceChildren(...items.map(([v, t]) => make("option", { value: v, text: t }))); select.dataset.key = key; }
    select.value = value;
  }
  function drawProof(say) {
    const p = view.entry.proof, all = view.sight.entries.map((e) => e.proof), holds = all.every((x) => !x || x.holds), some = all.some(Boolean);
    proof.classList.toggle("rv-bad", !holds); proof.classList.toggle("rv-none", !some);
    const worst = Math.max(...all.map((x) => (x ? x.output_error ?? x.row_sum_error ?? 0 : 0)));
    proofName.textContent = !some ? say.noProof : holds ? `✓ ${say.proof} ${number(worst)}` : `✗ ${say.fails}`;
    const rows = p ? [[say.rowSum, number(p.row_sum_error)], p.output_error === undefined || p.output_error === null ? null : [say.output, number(p.output_error)], p.rows_checked ? [say.checked(count(p.rows_checked)), ""] : null, p.mask ? [say.mask, p.mask] : null, p.kernel ? [say.kernel, p.kernel] : null] : [];
    proofBody.replaceChildren(make("b", { text: `${view.headName()} ${p ? (p.holds ? "✓ " + say.holds : "✗ " + say.fails) : say.noProof}` }), ...rows.filter(Boolean).map(([a, b]) => make("div", {}, make("span", { text: a + " " }), make("span", { class: "rv-num", text: b }))));
  }
  function drawPython() {
    const e = view.entry, h = e.ids[state.head], box = parts.pattern.box(), call = e.call ? `, call=${e.call}` : "";
    line.hidden = !!options.alignment;
    if (state.view === "pattern" && box && (box.w < (state.form === "row" ? e.S : e.L) || box.h < (state.form === "row" ? e.L : e.S))) {
      const [q0, q1, k0, k1] = (state.form === "row" ? [box.y0, box.y0 + box.h, box.x0, box.x0 + box.w] : [box.x0, box.x0 + box.w, box.y0, box.y0 + box.h]).map(Math.round);
      code.textContent = `${python}.head(${e.layer}, ${h}${call}).tile(rows=slice(${q0}, ${q1}), cols=slice(${k0}, ${k1}))`;
    } else {
      const extra = state.view === "pattern" ? (state.form === "column" ? ', form="column"' : "") + (state.scale === "linear" ? "" : `, scale="${state.scale}"`) : state.q !== null && (state.view === "words" || (state.view === "stacked" && e.L * e.S > 6000)) ? `, query=${state.q}` : "";
      code.textContent = `regard.sight.figures.${{ pattern: "pattern", words: "words", stacked: "words", lines: "alignment" }[state.view]}(${python}, layer=${e.layer}, head=${h}${call}${extra})`;
    }
  }

  // Search runs over what people see; a phrase may cross tokens.
  function look(move) {
    const want = search.value.trim().toLowerCase(), e = view.entry;
    if (move === 0 || !hits.length) {
      hits = [];
      if (want) {
        const starts = [];
        let all = "";
        for (let i = 0; i < e.L; i++) { const p = view.sight.queryPiece(e, i); if (p.part && p.part[0] > 1) { continue; } all += p.mark === "_" && all ? " " : ""; starts.push([all.length, i]); all += p.text.toLowerCase(); }
        let from = 0, n = 0;
        for (let where = all.indexOf(want, from); where >= 0 && hits.length < 10000; where = all.indexOf(want, from)) { while (n + 1 < starts.length && starts[n + 1][0] <= where) n++; hits.push(starts[n][1]); from = where + want.length; }
      }
      at = hits.length ? 0 : -1;
    } else at = (at + move + hits.length) % hits.length;
    view.hits = new Set(hits.map((i) => `${e.query.text}.${e.queryPlace(i)}`));
    found.textContent = !want ? "" : hits.length ? view.say.found(count(at + 1), count(hits.length)) : view.say.none;
    if (at >= 0) { view.pointing = false; Object.assign(state, { q: hits[at], k: null, pinned: true }); parts.pattern.reveal(); }
    view.refresh("look");
  }
  function help() {
    if (dialog.open) return dialog.close();
    const close = button({ text: "×", class: "rv-plain rv-close", "aria-label": "Esc", onclick: () => dialog.close() });
    dialog.setAttribute("aria-label", view.say.keys);
    dialog.replaceChildren(close, make("h2", { text: view.say.keys }), make("dl", {}, view.say.keyList.flatMap(([k, what]) => [make("dt", {}, make("kbd", { text: k })), make("dd", { text: what })])));
    dialog.showModal();
  }
  function copyText(value, node) {
    const was = node.textContent, done = () => { node.textContent = view.say.copied; setTimeout(() => { node.textContent = was; }, 1200); };
    const old = () => { const area = make("textarea", {}); area.value = value; root.append(area); area.select(); document.execCommand("copy"); area.remove(); done(); };
    if (navigator.clipboard) navigator.clipboard.writeText(value).then(done, old); else old();
  }
  function closeAll() {
    let any = dialog.open;
    if (any) dialog.close();
    for (const pop of pops) if (pop.open) { pop.open = false; any = true; }
    return any;
  }
  return { frame: whole, draw, drawPython, help, closeAll, textShown, find: () => { search.focus(); search.select(); } };
}
