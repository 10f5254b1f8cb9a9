// BLEU by sentence length, as the models' cards say: without attention the score falls with length, with attention it does not.

import { h } from "../../../web/dom.js";
import { chart } from "../../../web/chart.js";
import { count, decimals, number } from "../../../web/numbers.js";
import { card, choice } from "../../static/widgets.js";

const LOOKS = ["a", "c", "e", "b"]; // the colours of models with attention

// models: the translators of one language. Returns null if no card has the scores.
export function scoresByLength(texts, models) {
  const scored = models.filter((model) => Object.keys(model.lengths).length);
  const scoredOn = (testSet) => scored.filter((model) => model.lengths[testSet]);
  const testSets = [...new Set(scored.flatMap((model) => Object.keys(model.lengths)))];
  testSets.sort((a, b) => scoredOn(b).length - scoredOn(a).length); // those with most models first
  if (!testSets.length) return null;
  const place = h("div", { class: "st-pair", "data-lengths": "" });
  const draw = (testSet) =>
    place.replaceChildren(lengthChart(texts, testSet, scoredOn(testSet)), lengthTable(texts, testSet, scoredOn(testSet)));
  draw(testSets[0]);
  const nameOf = (testSet) => texts.testSets[testSet] || testSet;
  const options = testSets.map((testSet) => [testSet, nameOf(testSet)]);
  const which =
    testSets.length > 1
      ? choice(texts.testSet, options, testSets[0], draw).element
      : h("p", { class: "st-hint", text: `${texts.testSet}: ${nameOf(testSets[0])}` });
  return card(texts.byLength, which, place, h("p", { class: "st-hint", text: texts.fromCards }));
}

function lengthChart(texts, testSet, models) {
  const looks = LOOKS.values();
  const point = (name, { least, most, sentences, bleu }) => {
    const title = `${name}, ${texts.lengthRow(least, most, sentences)}: BLEU ${number(bleu, 1)}`;
    return [Math.sqrt(least * most), bleu, title];
  };
  const series = models.map(({ name, attention, lengths }) => ({
    name,
    look: attention ? (looks.next().value ?? LOOKS[0]) : "d",
    dashed: !attention,
    dots: 4,
    points: lengths[testSet].map((row) => point(name, row)),
  }));
  const axes = { x: { label: texts.sourceLength, log: true }, y: { label: "BLEU", low: 0 } };
  return chart({ title: "", label: `${texts.byLength}, ${testSet}`, ...axes, width: 560, height: 280, series }).element;
}

function lengthTable(texts, testSet, models) {
  const groups = models[0].lengths[testSet];
  const nameOf = ({ least, most }) => (least === most ? String(least) : `${least}–${most}`);
  const bleuOf = (model, { least, most }) => {
    const row = model.lengths[testSet].find((one) => one.least === least && one.most === most);
    return row ? decimals(row.bleu, 1) : "—";
  };
  const line = (name, cell) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", text: name }),
      groups.map((group) => h("td", { class: "st-n", text: cell(group) })),
    );
  const head = groups.map((group) => h("th", { scope: "col", class: "st-n", text: nameOf(group) }));
  const table = h(
    "table",
    { class: "st-table" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col", text: texts.sourceLength }), head)),
    h(
      "tbody",
      {},
      line(texts.sentences, (group) => count(group.sentences)),
      models.map((model) => line(model.name, (group) => bleuOf(model, group))),
    ),
  );
  return h("div", { class: "st-scroll", tabindex: "0" }, table);
}
