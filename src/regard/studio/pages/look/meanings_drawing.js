// The drawings of "one word, several meanings": the plane, the cosines by layer, and what the comparison of senses comes to.

import { h, svg } from "../../../web/dom.js";
import { chart, narrow } from "../../../web/chart.js";
import { number } from "../../../web/numbers.js";

const LOOKS = ["a", "b", "c", "e", "d"]; // the colours of senses, or of sentences where no senses are told
const LONGEST_NAME = 23; // characters of a sentence beside its point
const MOST_LINES = 6; // pairs in the chart
const CHANCE = 0.05; // shuffled senses rarely give a gap as large: the layer tells them apart

const hasSenses = ({ senses }) => senses.at(-1) > 0;
const lookOf = (answer, i) => LOOKS[(hasSenses(answer) ? answer.senses[i] : i) % LOOKS.length];

// The word's vectors up to a layer, in the plane that shows most of their difference: one trail a sentence.
export function plane(answer, layer, label) {
  const { layers, sentences } = answer;
  const reach = Math.max(1e-6, ...layers.flat(2).map(Math.abs));
  const numbered = narrow() || sentences.length > 4; // no room for the sentences themselves
  const [width, spread] = narrow() ? [380, 150] : [640, numbered ? 280 : 120];
  const X = (v) => width / 2 + (spread * v) / reach;
  const Y = (v) => 200 - (165 * v) / reach;
  const shown = layers.slice(0, layer + 1);
  const trail = (_, i) =>
    svg(
      "g",
      { class: `ch-series ch-${lookOf(answer, i)}` },
      svg("path", { d: shown.map((points, l) => `${l ? "L" : "M"}${X(points[i][0])} ${Y(points[i][1])}`).join("") }),
      shown.map((points, l) => svg("circle", { cx: X(points[i][0]), cy: Y(points[i][1]), r: l === layer ? 7 : 2.5 })),
    );
  const short = (text) => (text.length > LONGEST_NAME ? text.slice(0, LONGEST_NAME - 1) + "…" : text);
  const nameOf = (i) => (numbered ? String(i + 1) : `${i + 1}  ${short(sentences[i].text)}`);
  // Names stand outside of their points, away from the trails, and not on top of each other.
  const names = [-1, 1].flatMap((side) => {
    let above = -99;
    const points = layers[layer].map(([x, y], i) => ({ i, x, y: Y(y) + 5 }));
    const ofSide = points.filter(({ x }) => (x < 0 ? -1 : 1) === side).sort((a, b) => a.y - b.y);
    return ofSide.map(({ i, x, y }) => {
      above = Math.max(y, above + 20);
      return svg("text", { x: X(x) + 13 * side, y: above, "text-anchor": side < 0 ? "end" : "start", text: nameOf(i) });
    });
  });
  return svg(
    "svg",
    { viewBox: `0 0 ${width} 400`, class: "st-plane", role: "img", "aria-label": label },
    svg("path", { class: "st-ring", d: `M10 200H${width - 10}M${width / 2} 10V390` }),
    sentences.map(trail),
    names,
  );
}

const pairsOf = ({ sentences }) => sentences.flatMap((_, i) => sentences.slice(i + 1).map((__, k) => [i, i + 1 + k])).slice(0, MOST_LINES);

// Cosines by layer: within and between senses where these are told, else pair by pair.
export function cosineChart(texts, answer) {
  const { cosine, control } = answer;
  const compared = control && !control.refused;
  const line = (name, look, values, dashed = false) => ({ name, look, dashed, dots: true, points: values.map((v, layer) => [layer, v]) });
  const series = compared
    ? [
        line(
          texts.within,
          "a",
          control.layers.map(({ within }) => within),
        ),
        line(
          texts.between,
          "b",
          control.layers.map(({ between }) => between),
          true,
        ),
      ]
    : pairsOf(answer).map(([i, j], n) =>
        line(
          `${i + 1} · ${j + 1}`,
          LOOKS[n % LOOKS.length],
          cosine.map((table) => table[i][j]),
        ),
      );
  const x = { label: texts.layer, ticks: cosine.map((_, layer) => layer), show: String };
  const title = compared ? texts.controlTitle : texts.cosine;
  return chart({ title, x, y: { label: "cos", high: 1 }, width: 560, height: 300, namesAtEnd: !compared, series }).element;
}

// What the comparison comes to at a layer; without senses, the cosines of the first pairs and how to get a comparison.
export function controlElement(texts, answer, layer) {
  const { control, cosine } = answer;
  if (control && !control.refused) {
    const { within, between, chance } = control.layers[layer];
    const apart = chance <= CHANCE && within > between;
    return h(
      "div",
      { class: "st-formula", "data-control": apart ? "apart" : "not" },
      h("p", { text: texts.compared(layer, number(within, 3), control.within_pairs, number(between, 3), control.between_pairs) }),
      h("p", {}, h("b", { text: texts.verdict(apart, number(within - between, 3), number(100 * chance, 1)) })),
    );
  }
  const value = (at, [i, j]) => number(cosine[at][i][j], 3);
  const apart = pairsOf(answer)
    .slice(0, 3)
    .map((pair) => h("span", { text: `cos(${pair.map((i) => i + 1).join(", ")}): ${value(0, pair)} → ${value(cosine.length - 1, pair)}` }));
  const reason = control ? texts.notComparable : texts.noControl;
  return h(
    "div",
    {},
    h("p", { class: "st-formula", "data-apart": "" }, apart),
    h("p", { class: "st-hint", "data-control": "", text: reason }),
  );
}

// The sentences, with the word in bold and the colour of their sense.
export function sentenceList(answer) {
  const item = ({ text }, i) => {
    const at = text.toLowerCase().lastIndexOf(answer.word.toLowerCase());
    const end = at + answer.word.length;
    const parts = at < 0 ? text : [text.slice(0, at), h("b", { text: text.slice(at, end) }), text.slice(end)];
    const dot = h("i", { class: `st-dot ch-fill-${lookOf(answer, i)}`, "aria-hidden": "true" });
    return h("li", {}, `${i + 1}  `, dot, hasSenses(answer) ? `${String.fromCharCode(65 + answer.senses[i])}  ` : "", parts);
  };
  return h("ul", { class: "st-lines" }, answer.sentences.map(item));
}
