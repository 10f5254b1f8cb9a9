// One word, several sentences: its vector moving apart through the layers, in a plane and as cosines.

import { h, svg, number } from "../../dom.js";
import { job } from "../../server.js";
import { card, problem, progress, select, slider } from "../../widgets.js";
import { chart, narrow } from "../../chart.js";

const LOOKS = ["a", "b", "c", "e", "d", "a"];
const STEP = 350; // milliseconds a layer is shown while walking

// Which model shows an example best: one that knows the language's words, published weights and translators before our small writers.
function reader(able, lang) {
  const rank = (model) => (lang === "zh" ? [model.kind === "translator", model.name.includes("smollm")] : [model.name === "minilm", model.name.includes("smollm")]).indexOf(true);
  const order = (model) => (rank(model) < 0 ? 9 : rank(model));
  return able.filter((model) => model.reads.includes(lang) && model.about !== "lm").sort((a, b) => order(a) - order(b))[0] || null;
}

export function meanings(studio, memory, able) {
  const say = studio.say.meanings;
  able = able.filter((model) => !model.about.includes("bahdanau")); // a recurrent encoder has no layers to walk through
  if (!able.length) return h("div", {});
  const order = studio.lang === "zh" ? ["zh", "en"] : ["en", "zh"];
  const first = order.map((lang) => say.examples.findIndex((one) => one.lang === lang && reader(able, lang))).find((i) => i >= 0) ?? 0;
  memory.n ||= { example: first, model: (reader(able, say.examples[first].lang) || able[0]).name, layer: null, answer: null };
  const n = memory.n, wrong = problem(studio), out = h("div", { class: "st-pair" });
  const needs = h("p", { class: "st-problem", role: "status", "data-needs": "", hidden: true });
  const word = h("input", { type: "text", maxlength: "40", value: n.word || say.examples[n.example].word, "aria-label": say.word, onchange: () => run() });
  const lines = h("textarea", { class: "st-text", rows: "3", "aria-label": say.sentences, value: (n.sentences || say.examples[n.example].sentences).join("\n"), onchange: () => run() });
  let running = null, walking = 0;
  const bar = progress(studio.shell, () => running && running.cancel());
  async function run() {
    if (running) running.cancel();
    n.word = word.value.trim(); n.sentences = lines.value.split("\n").map((x) => x.trim()).filter(Boolean).slice(0, 6);
    if (!n.word || n.sentences.length < 2) { wrong.show({ code: "few", message: "" }); return; }
    bar.begin();
    const mine = (running = job("/api/look/meanings", { model: n.model, word: n.word, sentences: n.sentences }, (told) => bar.tell(told)));
    try {
      const answer = await mine.done;
      if (running !== mine) return; // only the newest question may answer
      n.answer = answer; n.layer = null; wrong.clear(); draw();
    } catch (error) { if (running === mine) { wrong.show(error); n.answer = null; out.replaceChildren(); } }
    if (running === mine) { running = null; bar.end(); }
  }
  function take(i) {
    const one = say.examples[i], best = reader(able, one.lang);
    n.example = i; word.value = one.word; lines.value = one.sentences.join("\n");
    needs.hidden = !!best; needs.textContent = best ? "" : say.needs[one.lang];
    drawChips();
    if (!best) { if (running) running.cancel(); running = null; bar.end(); wrong.clear(); n.answer = null; n.word = one.word; n.sentences = one.sentences; out.replaceChildren(); return; }
    n.model = models.box.value = best.name;
    run();
  }

  function draw() {
    const a = n.answer, last = a.layers.length - 1, layer = n.layer === null ? last : Math.min(n.layer, last);
    const reach = Math.max(1e-6, ...a.layers.flat(2).map(Math.abs)), [wide, spread] = narrow() ? [380, 150] : [640, 120];
    const X = (v) => wide / 2 + (spread * v) / reach, Y = (v) => 200 - (165 * v) / reach;
    const trail = (i) => svg("g", { class: `ch-series ch-${LOOKS[i]}` },
      svg("path", { d: a.layers.slice(0, layer + 1).map((points, l) => `${l ? "L" : "M"}${X(points[i][0])} ${Y(points[i][1])}`).join("") }),
      a.layers.slice(0, layer + 1).map((points, l) => svg("circle", { cx: X(points[i][0]), cy: Y(points[i][1]), r: l === layer ? 7 : 2.5 })));
    // Sentences stand outside of their points, away from the trails, and not on top of each other.
    const names = [-1, 1].flatMap((side) => {
      let above = -99;
      return a.layers[layer].map(([x, y], i) => [i, x, Y(y) + 5]).filter(([, x]) => (x < 0 ? -1 : 1) === side).sort((p, q) => p[2] - q[2])
        .map(([i, x, at]) => svg("text", { x: X(x) + 13 * side, y: (above = Math.max(at, above + 20)), "text-anchor": side < 0 ? "end" : "start", text: narrow() ? String(i + 1) : `${i + 1}  ${short(a.sentences[i].text)}` }));
    });
    const plane = svg("svg", { viewBox: `0 0 ${wide} 400`, class: "st-plane", role: "img", "aria-label": say.plane }, svg("path", { class: "st-ring", d: `M10 200H${wide - 10}M${wide / 2} 10V390` }), a.sentences.map((_, i) => trail(i)), names);
    const pairs = a.sentences.flatMap((_, i) => a.sentences.slice(i + 1).map((_, k) => [i, i + 1 + k])).slice(0, 6);
    const cosines = chart({ title: say.cosine, x: { label: say.layer, ticks: a.cosine.map((_, l) => l), show: String }, y: { label: "cos", high: 1 }, width: 560, height: 300, ends: true,
      series: pairs.map(([i, j]) => ({ name: `${i + 1} · ${j + 1}`, look: "d", dots: true, points: a.cosine.map((grid, l) => [l, grid[i][j]]) })) });
    const walk = slider(say.layer, { low: 0, high: last, value: layer, step: 1, show: (v) => (v === 0 ? say.before : String(v)) }, (v) => { stop(); go(v); focus("input[type=range]"); });
    const play = h("button", { type: "button", class: "rv-plain", "data-walk": "", onclick: () => { if (walking) stop(); else start(); draw(); focus("[data-walk]"); }, text: walking ? say.pause : say.walk });
    const shown = (one, i) => { const at = one.text.toLowerCase().lastIndexOf(a.word.toLowerCase()), end = at + a.word.length; return h("li", {}, `${i + 1}  `, h("i", { class: `st-dot ch-fill-${LOOKS[i]}`, "aria-hidden": "true" }), at < 0 ? one.text : [one.text.slice(0, at), h("b", { text: one.text.slice(at, end) }), one.text.slice(end)]); };
    out.replaceChildren(
      h("figure", { class: "st-figure" }, h("figcaption", {}, h("b", { text: say.planeTitle }), h("small", { text: ` ${say.planeNote}` })), plane, h("div", { class: "st-row" }, walk.element, play)),
      h("div", { class: "st-flow" }, cosines.element, h("ul", { class: "st-lines" }, a.sentences.map(shown)),
        h("p", { class: "st-formula", "data-apart": "" }, pairs.slice(0, 3).map(([i, j]) => h("span", { text: `cos(${i + 1}, ${j + 1}): ${number(a.cosine[0][i][j], 3)} → ${number(a.cosine[last][i][j], 3)}` })))));
  }
  const short = (text) => (text.length > 23 ? text.slice(0, 22) + "…" : text);
  const go = (v) => { n.layer = v; draw(); };
  const focus = (what) => { const again = out.querySelector(what); if (again) again.focus(); };
  function stop() { clearInterval(walking); walking = 0; }
  function start() {
    n.layer = 0;
    walking = setInterval(() => { if (!out.isConnected || !n.answer || n.layer >= n.answer.layers.length - 1) { stop(); if (n.answer) draw(); } else go(n.layer + 1); }, STEP);
  }

  const chips = h("div", { class: "st-row" });
  function drawChips() {
    chips.replaceChildren(h("span", { class: "st-label", text: say.examplesTitle }), ...say.examples.map((one, i) => { const best = reader(able, one.lang); return h("button", { type: "button", class: "st-chip", "aria-pressed": String(i === n.example), title: best ? say.readBy(best.name) : say.needs[one.lang], onclick: () => take(i), text: one.word }); }));
  }
  const models = select(say.model, able.map((one) => [one.name, one.name]), n.model, (v) => { n.model = v; needs.hidden = true; run(); });
  drawChips();
  const element = card(say.title, h("p", { class: "st-hint", text: say.about }), h("div", { class: "st-bar" }, chips, models.element, h("label", { class: "st-field" }, h("span", { class: "st-label", text: say.word }), word)), lines, needs, wrong.element, bar.element, out);
  if (n.answer) draw();
  else {
    // Begun when it is about to be seen: a published model takes a while to open, and looking above should not wait for it.
    const near = new IntersectionObserver((seen) => { if (seen.some((one) => one.isIntersecting)) { near.disconnect(); run(); } }, { rootMargin: "300px" });
    near.observe(element);
  }
  return element;
}
