// Cost: what a model costs, each number with its formula; and this machine's curves beside the predicted ones.

import { h, marked, number, count, short, time, tokens } from "../../dom.js";
import { ask, job, latest } from "../../server.js";
import { choice, select, foot, problem, progress, card } from "../../widgets.js";
import { chart } from "../../chart.js";

const COLOURS = { "token embedding": "#5b6b7a", "position embedding": "#7a8794", embeddings: "#5b6b7a", query: "#0072b2", key: "#2a5d9c", value: "#1f7a8c", output: "#5a4fa2", attention: "#0072b2", up: "#8a5a00", gate: "#6f4e00", down: "#a0522d", mlp: "#8a5a00", unembedding: "#4a6572" };
const OTHERS = ["#6e6e6e", "#4d6b4d", "#7a4a6a", "#3f6f6f", "#76603a"];

export function mount(container, studio) {
  const say = studio.say, m = studio.memory, p = studio.params;
  m.s ||= { preset: p.preset || "gpt3", config: "", context: Number(p.context) || 0, batch: Number(p.batch) || 1, dtype: p.dtype || "bf16", mode: p.mode || "infer", counting: p.counting || "textbook", part: p.part || "query" };
  const s = m.s, wrong = problem(studio), out = h("div", { class: "st-flow" }), measured = h("div", { class: "st-flow" });
  const plain = s.preset === "gpt3" && !s.config && !s.context && s.batch === 1 && s.dtype === "bf16" && s.mode === "infer";
  const { presets, ...gpt3 } = studio.initial;
  if (!m.answer && plain) m.answer = gpt3;
  const request = () => ({ preset: s.config ? "gpt3" : s.preset, config: s.config ? JSON.parse(s.config) : null, context: s.context, batch: s.batch, dtype: s.dtype, mode: s.mode });
  const run = latest(async () => {
    try { m.answer = await ask("/api/cost/plan", request()); wrong.clear(); draw(); } catch (error) { wrong.show(error instanceof SyntaxError ? { code: "json", message: error.message } : error); }
    studio.ready();
  });
  function change() { keep(); run(); }
  function keep() { studio.keep({ preset: s.config ? null : s.preset, context: s.context || null, batch: s.batch === 1 ? null : s.batch, dtype: s.dtype, mode: s.mode, counting: s.counting, part: s.part }); }

  const preset = select(say.model, presets.map((name) => [name, name]), s.preset, (v) => { s.preset = v; s.config = ""; area.value = ""; change(); });
  const field = (label, name, least) => { const box = h("input", { type: "number", min: least, step: "1", value: s[name] ? String(s[name]) : "", placeholder: least ? null : say.itsOwn, onchange: () => { const v = Math.round(Number(box.value)); if (v >= least) { s[name] = v; change(); } else box.value = s[name] || ""; } }); return h("label", { class: "st-field" }, h("span", { class: "st-label", text: label }), box); };
  const area = h("textarea", { class: "st-text", rows: "3", spellcheck: "false", placeholder: '{"model_type": "llama", "num_hidden_layers": 32, …}', "aria-label": say.paste, value: s.config });
  const paste = h("details", { open: !!s.config }, h("summary", { text: say.paste }), h("div", { class: "st-drop" }, area, h("div", {}, h("button", { type: "button", class: "rv-plain", onclick: () => { s.config = area.value.trim(); change(); }, text: say.countIt }))));

  let growing = null;
  function draw() {
    const a = m.answer.plan, textbook = s.counting === "textbook", parts = textbook ? a.textbook : a.parameters, total = textbook ? a.textbook_total : a.total;
    const list = Object.entries(parts).filter(([, q]) => q.value > 0), colour = (name, i) => COLOURS[name] || COLOURS[Object.keys(COLOURS).find((k) => name.includes(k))] || OTHERS[i % OTHERS.length];
    if (!parts[s.part]) s.part = list[0][0];
    const shown = parts[s.part];
    const stack = h("div", { class: "st-stack", role: "group", "aria-label": say.byPart }, list.map(([name, q], i) => h("button", { type: "button", "aria-pressed": String(name === s.part), "aria-label": `${say.part(name)} ${count(q.value)}`, title: `${say.part(name)} ${count(q.value)}`, css: { flex: `${q.value} 1 0`, background: colour(name, i), padding: q.value / total.value < 0.02 ? "0" : "" }, onclick: () => pick(name), text: (q.value / total.value) * (container.clientWidth - 72) > 8 * say.part(name).length + 18 ? say.part(name) : "" })));
    const rows = list.map(([name, q], i) => h("tr", {}, h("th", { scope: "row" }, h("i", { class: "st-dot", css: { background: colour(name, i) } }), say.part(name)), h("td", { class: "st-n", text: count(q.value) }), h("td", { class: "st-n", text: `${number((100 * q.value) / total.value, 2)} %` }), h("td", { class: "rv-quiet" }, marked(q.formula))));
    const pieces = Object.entries(a.pieces).map(([name, q]) => h("tr", {}, h("th", { scope: "row", text: say.piece(name) }), h("td", { class: "st-n", text: count(q.value) }), h("td", { class: "rv-quiet" }, marked(`${q.formula} = ${q.numbers}`))));
    const steps = Object.values(a.steps), flops = (parts2) => Object.values(parts2).reduce((x, q) => x + q.value, 0);
    const memory = Object.entries(a.memory).map(([kind, found]) => [kind, Object.values(found).reduce((x, q) => x + q.value, 0), found]);
    const g = m.answer.growth;
    const line2 = (values) => g.context.map((n, i) => [n, values[i]]);
    growing = chart({ title: say.growth, x: { label: say.contextLength, log: true, ticks: g.context.filter((_, i) => i % Math.ceil(g.context.length / 7) === 0), show: tokens }, y: { label: "bytes", log: true, show: (v) => short(v, "B") }, width: 560, height: 330,
      series: [{ name: say.dense, points: line2(g.dense), look: "b", dots: true }, { name: say.streamed, points: line2(g.streamed), look: "a", dots: true }, ...(g.cache.some((v) => v > 0) ? [{ name: say.cache, points: line2(g.cache), look: "c", dots: true }] : [])] });
    const working = chart({ title: say.flopsGrowth, x: { label: say.contextLength, log: true, ticks: g.context.filter((_, i) => i % Math.ceil(g.context.length / 7) === 0), show: tokens }, y: { label: "FLOP", log: true, show: (v) => short(v, "FLOP") }, width: 560, height: 330, series: [{ name: say.flops, points: line2(g.flops), look: "a", dots: true }], legend: false });
    out.replaceChildren(
      h("div", { class: "st-card" }, h("div", { class: "st-row" }, h("span", { class: "st-big", "data-total": "", text: count(total.value) }), h("span", { class: "rv-quiet", text: say.parameters(a.architecture.name) })), stack,
        h("p", { class: "st-formula", "data-formula": "" }, h("b", { text: say.part(s.part) }), h("span", {}, "  ", marked(`${shown.formula} = ${shown.numbers} = `)), h("b", { class: "rv-num", text: count(shown.value) })),
        h("div", { class: "st-scroll" }, h("table", { class: "st-table" }, h("thead", {}, h("tr", {}, [say.columns.part, say.columns.count, say.columns.share, say.columns.formula].map((text, i) => h("th", { scope: "col", class: i === 1 || i === 2 ? "st-n" : "", text })))), h("tbody", {}, rows)))),
      h("div", { class: "st-cards" },
        h("div", { class: "st-flow" }, card(say.pieces, h("div", { class: "st-scroll" }, h("table", { class: "st-table" }, h("tbody", {}, pieces)))),
          card(say.byContext, growing.element), card(say.flopsTitle, working.element)),
        h("div", { class: "st-flow" }, card(say.work, h("div", { class: "st-scroll" }, h("table", { class: "st-table" }, h("tbody", {}, steps.map((step) => [h("tr", {}, h("th", { scope: "row", text: say.step(step.title) }), h("td", { class: "st-n" }, h("b", { text: short(flops(step.needed), "FLOP") })), h("td", { class: "rv-quiet", text: `${short(flops(step.moved), "B")} ${say.moved}` })), Object.entries(step.needed).filter(([, q]) => q.value > 0).map(([name, q]) => h("tr", {}, h("td", { text: say.part(name) }), h("td", { class: "st-n", text: short(q.value, "FLOP") }), h("td", { class: "rv-quiet" }, marked(q.formula))))]))))),
          card(say.memory, h("div", { class: "st-scroll" }, h("table", { class: "st-table" }, h("tbody", {}, memory.map(([kind, sum, found]) => [h("tr", {}, h("th", { scope: "row", text: say.attention[kind] }), h("td", { class: "st-n" }, h("b", { text: short(sum, "B") })), h("td", {})), Object.entries(found).filter(([, q]) => q.value > 0).map(([name, q]) => h("tr", {}, h("td", { text: say.part(name) }), h("td", { class: "st-n", text: short(q.value, "B") }), h("td", { class: "rv-quiet", title: `${q.formula} = ${q.numbers}` }, marked(q.formula.length > 90 ? q.formula.slice(0, 88) + "…" : q.formula))))]))))))));
    line.draw();
  }
  const pick = (name) => { s.part = name; keep(); draw(); const button = out.querySelector('.st-stack [aria-pressed="true"]'); if (button) button.focus(); };

  // This machine's own curves: measured once, when the page is first opened.
  const bar = progress(studio.shell, () => m.job && m.job.cancel());
  const lost = problem(studio), again = h("button", { type: "button", class: "rv-plain", hidden: true, onclick: () => measure(), text: say.measure });
  function measure() {
    lost.clear(); again.hidden = true; bar.begin();
    m.bar = bar; // drawn anew in another language, the page goes on waiting for the same measurement
    m.job ||= job("/api/cost/measure", {}, (told) => m.bar.tell(told));
    m.job.done.then((found) => { m.machine = found; if (measured.isConnected) drawMachine(); }, (error) => { lost.show(error); again.hidden = false; }).finally(() => { m.job = null; bar.end(); });
  }
  function drawMachine() {
    const a = m.machine;
    if (!a) return;
    const looks = ["d", "b", "a"];
    const both = (curves, show) => curves.flatMap((curve, i) => [{ name: `${say.curve(curve.name)} · ${say.measured}`, points: curve.points.map((q) => [q.tokens, q.measured]), look: looks[i + (curves.length === 2 ? 1 : 0)], dots: 4, line: false }, { name: `${say.curve(curve.name)} · ${say.predicted}`, points: curve.points.filter((q) => q.predicted).map((q) => [q.tokens, q.predicted]), look: looks[i + (curves.length === 2 ? 1 : 0)] }]);
    const sizes = a.times[0].points.map((q) => q.tokens), x = () => ({ label: "N", log: true, ticks: sizes, show: (v) => count(v) });
    const laws = Object.entries(a.formulas).map(([name, q]) => h("tr", {}, h("th", { scope: "row", text: say.law(name) }), h("td", { class: "rv-quiet" }, marked(q.split(" = ").slice(0, -1).join(" = "))), h("td", { class: "st-n", text: q.split(" = ").pop() })));
    measured.replaceChildren(
      h("p", { class: "st-hint", text: say.machineFacts(a.machine.name || "", short(a.machine.flops, "FLOP/s"), time(a.seconds), a.kernel) }),
      h("div", { class: "st-cards" }, chart({ title: say.timeTitle, x: x(), y: { label: "s", log: true, show: (v) => time(v) }, series: both(a.times), width: 560, height: 330 }).element, a.bytes.length ? chart({ title: say.bytesTitle, x: x(), y: { label: "bytes", log: true, show: (v) => short(v, "B") }, series: both(a.bytes), width: 560, height: 330 }).element : h("p", { class: "st-hint", text: say.noMemory })),
      h("p", { "data-recurrence": "" , text: say.recurrence(count(a.recurrence.tokens), time(a.recurrence["seconds at once"]), time(a.recurrence["seconds in turn"]), number(a.recurrence["times slower"], 1)) }),
      h("div", { class: "st-scroll" }, h("table", { class: "st-table" }, h("tbody", {}, laws))));
  }

  const line = foot(studio.shell, { code: () => `regard plan ${s.config ? "config.json" : s.preset}${s.context ? ` --context ${s.context}` : ""}${s.batch > 1 ? ` --batch ${s.batch}` : ""} --dtype ${s.dtype}${s.mode === "train" ? " --train" : ""} --explain`, saves: { svg: () => growing && growing.picture, json: () => ({ ...m.answer, machine: m.machine || null }) } });
  container.append(h("div", { class: "st-head" }, h("h1", { text: say.title }), h("p", { class: "st-lead", text: say.lead })),
    h("div", { class: "st-bar" }, preset.element, field(say.context, "context", 0), field(say.batch, "batch", 1), select(say.dtype, ["fp32", "bf16", "fp16", "fp8", "int8", "int4"].map((v) => [v, v]), s.dtype, (v) => { s.dtype = v; change(); }).element,
      choice(say.mode, [["infer", say.modes.infer], ["train", say.modes.train]], s.mode, (v) => { s.mode = v; change(); }).element,
      choice(say.counting, [["textbook", say.countings.textbook, say.countingsTitle.textbook], ["stored", say.countings.stored, say.countingsTitle.stored]], s.counting, (v) => { s.counting = v; keep(); draw(); }).element),
    paste, wrong.element, out, card(say.machine, bar.element, lost.element, again, measured), line.element);
  keep();
  if (m.answer) { draw(); studio.ready(); } else run();
  // Passing through costs nothing; who stays sees the machine measured. Leaving does not stop it: the server keeps what it finds.
  const timer = m.machine ? 0 : setTimeout(measure, m.job ? 0 : 2000);
  if (m.machine) drawMachine();
  return { leave() { clearTimeout(timer); } };
}
