// One word, several sentences: its vector moving apart through the layers, in a plane and as cosines.

import { h, svg, number } from "./dom.js";
import { job } from "./server.js";
import { card, problem, select, slider } from "./widgets.js";
import { chart } from "./chart.js";

const LOOKS = ["a", "b", "c", "e", "d", "a"];

export function meanings(studio, memory, able) {
  const say = studio.say.look.meanings;
  able = able.filter((model) => !model.about.includes("bahdanau")); // a recurrent encoder has no layers to walk through
  if (!able.length) return h("div", {});
  const best = able.find((model) => model.name === "minilm") || able.find((model) => model.name.includes("smollm")) || able.find((model) => model.source === "zh" && model.about.includes("transformer")) || able.find((model) => model.kind === "text") || able[0];
  memory.n ||= { model: best.name, example: best.source === "zh" ? 2 : 0, layer: null, answer: null };
  const n = memory.n, wrong = problem(studio.say), out = h("div", { class: "st-pair" }), example = () => say.examples[n.example];
  const word = h("input", { type: "text", maxlength: "40", value: n.word || example().word, "aria-label": say.word, onchange: () => run() });
  const lines = h("textarea", { class: "st-text", rows: "3", "aria-label": say.sentences, value: (n.sentences || example().sentences).join("\n"), onchange: () => run() });
  let turn = 0; // only the newest question may answer
  async function run() {
    const mine = ++turn;
    n.word = word.value.trim(); n.sentences = lines.value.split("\n").map((x) => x.trim()).filter(Boolean).slice(0, 6);
    if (!n.word || n.sentences.length < 2) { wrong.show({ code: "few", message: "" }); return; }
    try {
      const answer = await job("/api/look/meanings", { model: n.model, word: n.word, sentences: n.sentences }).done;
      if (mine !== turn) return;
      n.answer = answer; n.layer = null; wrong.clear(); draw();
    } catch (error) { if (mine === turn) { wrong.show(error); n.answer = null; out.replaceChildren(); } }
  }
  function draw() {
    const a = n.answer, last = a.layers.length - 1, layer = n.layer === null ? last : Math.min(n.layer, last);
    const reach = Math.max(1e-6, ...a.layers.flat(2).map(Math.abs)), X = (v) => 280 + (230 * v) / reach, Y = (v) => 200 - (160 * v) / reach;
    const colour = (i) => `ch-series ch-${LOOKS[i]}`;
    const plane = svg("svg", { viewBox: "0 0 560 400", class: "st-plane", role: "img", "aria-label": say.plane },
      svg("circle", { cx: 280, cy: 200, r: 2, fill: "currentColor" }), svg("path", { class: "st-ring", d: "M20 200H540M280 10V390" }),
      a.sentences.map((_, i) => svg("g", { class: colour(i) }, svg("path", { d: a.layers.slice(0, layer + 1).map((points, l) => `${l ? "L" : "M"}${X(points[i][0])} ${Y(points[i][1])}`).join("") }), a.layers.slice(0, layer + 1).map((points, l) => svg("circle", { cx: X(points[i][0]), cy: Y(points[i][1]), r: l === layer ? 6 : 2.5 })))),
      a.sentences.map((one, i) => svg("text", { x: X(a.layers[layer][i][0]), y: Y(a.layers[layer][i][1]) + (a.layers[layer][i][1] > 0 ? -14 : 24), "text-anchor": ["start", "middle", "end"][1 + Math.round(a.layers[layer][i][0] / reach)], text: one.text.length > 34 ? one.text.slice(0, 33) + "…" : one.text })));
    const pairs = [];
    for (let i = 0; i < a.sentences.length; i++) for (let j = i + 1; j < a.sentences.length; j++) pairs.push([i, j]);
    const cosines = chart({ title: say.cosine, x: { label: say.layer, ticks: a.cosine.map((_, l) => l), show: String }, y: { label: "cos", high: 1 }, width: 560, height: 320,
      series: pairs.slice(0, 6).map(([i, j], k) => ({ name: `${i + 1} · ${j + 1}`, look: LOOKS[k % 5], dots: true, points: a.cosine.map((grid, l) => [l, grid[i][j]]) })) });
    const walk = slider(say.layer, { low: 0, high: last, value: layer, step: 1, show: String }, (v) => { n.layer = v; draw(); const again = out.querySelector("input[type=range]"); if (again) again.focus(); });
    out.replaceChildren(h("div", { class: "st-flow" }, plane, walk.element), h("div", { class: "st-flow" }, cosines.element, h("ol", { class: "st-hint" }, a.sentences.map((one) => h("li", { text: one.text }))), h("p", { class: "st-formula", "data-apart": "" }, pairs.slice(0, 3).map(([i, j]) => h("span", { text: `cos(${i + 1}, ${j + 1}): ${number(a.cosine[0][i][j], 3)} → ${number(a.cosine[last][i][j], 3)}   ` })))));
  }
  const chips = h("div", { class: "st-row" }, h("span", { class: "st-label", text: say.examplesTitle }), say.examples.map((one, i) => h("button", { type: "button", class: "st-chip", onclick: () => { n.example = i; word.value = one.word; lines.value = one.sentences.join("\n"); run(); }, text: one.word })));
  const element = card(say.title, h("p", { class: "st-hint", text: say.about }), h("div", { class: "st-bar" }, select(say.model, able.map((one) => [one.name, one.name]), n.model, (v) => { n.model = v; run(); }).element, h("label", { class: "st-field" }, h("span", { class: "st-label", text: say.word }), word), chips), lines, wrong.element, out);
  if (n.answer) draw(); else setTimeout(() => { if (element.isConnected) run(); }, 400);
  return element;
}
