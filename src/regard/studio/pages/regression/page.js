// Regression: data, fit and weight matrix, live as the width moves; average pooling and the learned width beside it.

import { h, svg, number } from "../../dom.js";
import { ask, latest } from "../../server.js";
import { choice, slider, foot, problem, card } from "../../widgets.js";
import { chart, narrow } from "../../chart.js";
import { heat, legend, shade } from "../../heat.js";

const KERNELS = ["gaussian", "epanechnikov", "triangular", "box"];

export function mount(container, studio) {
  const say = studio.say, m = studio.memory, first = studio.initial;
  if (!m.s) {
    const p = studio.params;
    m.s = { width: Number(p.width) > 0 ? Number(p.width) : 1, kernel: KERNELS.includes(p.kernel) ? p.kernel : "gaussian", noise: p.noise === undefined ? 0.5 : Number(p.noise), count: Number(p.count) || 50, data: null, name: "", at: null };
    if (m.s.width === 1 && m.s.kernel === "gaussian" && m.s.noise === 0.5 && m.s.count === 50) Object.assign(m, first);
  }
  const s = m.s, wrong = problem(studio);
  const points = () => ({ kernel: s.kernel, ...(s.data ? { x: s.data.x, y: s.data.y } : { noise: s.noise, count: s.count }) });
  const left = h("div", { class: "st-flow" }), right = h("div", { class: "st-flow" }), facts = h("dl", { class: "st-facts" });

  const fit = latest(async () => { try { m.fit = await ask("/api/regression/fit", { ...points(), width: s.width }); wrong.clear(); draw(); } catch (error) { wrong.show(error); } studio.ready(); });
  const learn = latest(async () => { try { m.learn = await ask("/api/regression/learn", points()); draw(); } catch (error) { wrong.show(error); } });
  function keep() { studio.keep({ width: number(s.width, 4), kernel: s.kernel, noise: s.data ? null : s.noise, count: s.data ? null : s.count }); }
  function change(data) { keep(); fit(); if (data) learn(); }

  const span = () => (m.learn ? [m.learn.widths[0], m.learn.widths[m.learn.widths.length - 1]] : [0.07, 30]);
  let wide = null;
  const widthBox = h("span", {});
  function widths() { const [low, high] = span(); wide = slider(say.width, { low, high, value: Math.min(high, Math.max(low, s.width)), log: true, show: (v) => `w = ${number(v, 2)}` }, (v) => { s.width = v; change(false); }); widthBox.replaceChildren(wide.element); }
  const kernel = choice(say.kernel, KERNELS.map((v) => [v, say.kernels[v]]), s.kernel, (v) => { s.kernel = v; change(true); });
  const noise = slider(say.noise, { low: 0, high: 2, value: s.noise, step: 0.1, show: (v) => number(v, 1) }, (v) => { s.noise = v; change(true); });
  const size = slider(say.count, { low: 10, high: 200, value: s.count, step: 5, show: (v) => String(v) }, (v) => { s.count = v; change(true); });
  const file = h("input", { type: "file", accept: ".csv,.tsv,.txt,text/csv", hidden: true, onchange: () => { if (file.files[0]) take(file.files[0]); file.value = ""; } });
  const named = h("span", { class: "rv-quiet", text: s.name });
  const back = h("button", { type: "button", class: "rv-plain", hidden: !s.data, onclick: () => { s.data = null; s.name = ""; told(); change(true); }, text: say.builtIn });
  const useLearned = h("button", { type: "button", class: "rv-plain", onclick: () => { s.width = m.learn.width; wide.set(s.width); change(false); }, text: say.useLearned });
  function told() { named.textContent = s.name; back.hidden = !s.data; noise.element.hidden = size.element.hidden = !!s.data; }
  async function take(given) {
    try {
      if (given.size > 1_000_000) throw Object.assign(new Error(say.tooLarge), { code: "csv" });
      s.data = readTable(await given.text(), say); s.name = `${given.name} · ${say.points(s.data.x.length)}${s.data.dropped ? " · " + say.dropped(s.data.dropped) : ""}`;
      told(); change(true);
    } catch (error) { wrong.show(Object.assign(error, { code: "csv" })); }
  }
  function drop(element) {
    element.addEventListener("dragover", (event) => { event.preventDefault(); element.classList.add("st-over"); });
    element.addEventListener("dragleave", () => element.classList.remove("st-over"));
    element.addEventListener("drop", (event) => { event.preventDefault(); element.classList.remove("st-over"); if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]); });
  }

  let picture = null;
  function draw() {
    const f = m.fit, l = m.learn;
    if (!f) return;
    const [width, height] = narrow() ? [440, 330] : [860, 440];
    const pair = (xs, ys) => xs.map((x, i) => [x, ys[i]]);
    const row = s.at === null ? Math.round(f.rows.length * 0.55) : Math.min(s.at, f.rows.length - 1);
    const shades = new Map(f.columns.map((column, i) => [column, f.weights[row][i] / Math.max(...f.weights[row])]));
    const value = f.curve[Math.round((row / (f.rows.length - 1)) * (f.curve.length - 1))];
    const made = chart({
      title: say.chart, x: { label: "x" }, y: { label: "y" }, height, width, within: [{ points: pair(f.x, f.y) }],
      series: [{ name: say.fit(number(s.width, 2)), points: pair(f.grid, f.curve), look: "a" }, { name: say.average, points: [[f.grid[0], f.average], [f.grid[f.grid.length - 1], f.average]], look: "d", dashed: true },
        ...(l && l.grid.length === f.grid.length ? [{ name: say.learned(number(l.width, 2)), points: pair(l.grid, l.curve), look: "c", dashed: true }] : []), ...(f.truth ? [{ name: say.truth, points: pair(f.grid, f.truth), look: "e", dashed: true }] : [])],
      // Points as blue as the current query looks at them; the query itself is red.
      extra: (X, Y) => svg("g", {}, f.x.map((x, i) => svg("circle", { cx: X(x), cy: Y(f.y[i]), r: 4.5, fill: shade(studio, shades.get(i) || 0).backgroundColor || "var(--page)", stroke: "var(--quiet)", "stroke-width": 1 }))),
      marks: (X, Y) => [svg("line", { class: "ch-now", x1: X(f.rows[row]), x2: X(f.rows[row]), y1: 28, y2: height - 44 }), svg("circle", { class: "ch-now-dot", cx: X(f.rows[row]), cy: Y(value), r: 5 })],
    });
    picture = made.picture;
    picture.addEventListener("pointermove", (event) => { const box = picture.getBoundingClientRect(), x = made.unX(((event.clientX - box.left) / box.width) * width); look(nearest(f.rows, x)); });
    left.replaceChildren(made.element, h("label", { class: "st-field st-slide" }, h("span", { class: "st-label", text: say.query }), ranger(f, row), h("output", { class: "rv-num", text: `x = ${number(f.rows[row], 2)} → ${number(value, 3)}` })));
    const map = heat(studio, f.weights, { label: say.matrix, current: row, onlook: look });
    const errors = l ? chart({ title: say.errors, x: { label: "w", log: true, ticks: [0.1, 1, 10, 100].filter((v) => v >= l.widths[0] && v <= l.widths[l.widths.length - 1]), show: (v) => number(v, 1) }, y: { label: say.mse, low: 0, high: Math.max(...l.errors) * 1.05 }, height: 220, width: 420, legend: false,
      series: [{ name: say.errors, points: pair(l.widths, l.errors), look: "a" }],
      marks: (X, Y) => [svg("line", { x1: X(l.width), x2: X(l.width), y1: 28, y2: 176, stroke: "var(--quiet)", "stroke-dasharray": "4 4" }), svg("circle", { cx: X(Math.max(l.widths[0], s.width)), cy: Y(f.error), r: 5, class: "ch-now-dot" })] }).element : "";
    right.replaceChildren(h("figure", { class: "st-figure" }, h("figcaption", {}, h("b", { text: say.matrix }), h("small", { text: ` ${say.matrixNote}` })), map.element, legend(studio, number(map.most, 2))), errors);
    facts.replaceChildren(...[[say.loo, number(f.error, 4), "now"], [say.looLearned, l ? `${number(l.error, 4)}` : "…", "learned"], [say.looAverage, number(f.average_error, 4), "average"], [say.widthLearned, l ? `w = ${number(l.width, 3)}` : "…", "width"]].map(([name, text, key]) => h("div", {}, h("dt", { text: name }), h("dd", { "data-fact": key, text }))));
    line.draw();
  }
  const ranger = (f, row) => { const box = h("input", { type: "range", min: 0, max: f.rows.length - 1, step: 1, "aria-label": say.query, oninput: () => look(Number(box.value)) }); box.value = row; return box; };
  function look(row) { if (row !== s.at) { s.at = row; const focused = document.activeElement && left.contains(document.activeElement); draw(); if (focused) left.querySelector("input").focus(); } }

  const line = foot(studio.shell, { code: () => `NadarayaWatson(width=${number(s.width, 4)}, kernel="${s.kernel}").fit(X, y).predict(Z)    # regard fit ${s.data ? s.name.split(" · ")[0] : "data.csv"}`, saves: { svg: () => picture, json: () => ({ asked: { ...points(), width: s.width }, fit: m.fit, learn: m.learn }) } });
  const zone = card(say.dataTitle, h("div", { class: "st-bar" }, h("button", { type: "button", class: "rv-plain", onclick: () => file.click(), text: say.open }), file, back, named, noise.element, size.element), h("p", { class: "st-hint", text: say.dropHere }), wrong.element);
  drop(zone);
  container.append(h("div", { class: "st-head" }, h("h1", { text: say.title }), h("p", { class: "st-lead", text: say.lead })),
    h("div", { class: "st-bar" }, widthBox, useLearned, kernel.element), facts, h("div", { class: "st-split" }, h("div", { class: "st-flow" }, left, zone), right), line.element);
  widths(); told(); draw(); keep();
  if (m.fit) studio.ready(); else fit();
  if (!m.learn) learn();
  return {};
}

const nearest = (list, x) => list.reduce((best, v, i) => (Math.abs(v - x) < Math.abs(list[best] - x) ? i : best), 0);

// A table dropped on the page: its first two columns that hold numbers.
function readTable(text, say) {
  const lines = text.replace(/^\ufeff/, "").split(/\r?\n/).filter((line) => line.trim() && !line.startsWith("#"));
  if (!lines.length) throw new Error(say.empty);
  const mark = ["\t", ";", ",", " "].find((c) => lines[0].includes(c)) || ",";
  const rows = lines.map((line) => (mark === " " ? line.trim().split(/\s+/) : line.split(mark)).map((cell) => cell.trim().replace(/^"|"$/g, "")));
  const value = (cell) => (cell === undefined || cell === "" ? NaN : Number(mark === ";" ? cell.replace(",", ".") : cell));
  const columns = Math.max(...rows.map((row) => row.length));
  const numeric = Array.from({ length: columns }, (_, c) => c).filter((c) => rows.filter((row) => Number.isFinite(value(row[c]))).length >= Math.max(2, rows.length * 0.5));
  if (numeric.length < 2) throw new Error(say.noColumns);
  const kept = rows.map((row) => [value(row[numeric[0]]), value(row[numeric[1]])]).filter(([a, b]) => Number.isFinite(a) && Number.isFinite(b) && Math.abs(a) <= 1e6 && Math.abs(b) <= 1e6);
  if (kept.length < 2) throw new Error(say.noColumns);
  if (kept.length > 2000) throw new Error(say.tooMany(kept.length));
  return { x: kept.map((p) => p[0]), y: kept.map((p) => p[1]), dropped: rows.length - kept.length - (Number.isFinite(value(rows[0][numeric[0]])) ? 0 : 1) };
}
