// How good translators are by the length of the sentence, as their cards say: the fixed context falls off where attention does not.

import { h, count, number } from "./dom.js";
import { card, choice } from "./widgets.js";
import { chart } from "./chart.js";

const LOOKS = ["a", "c", "e", "b"];

// models: those of one language. The test sets most of them were scored on come first; null if no card tells.
export function byLength(say, models) {
  const told = [...models].sort((a, b) => b.bleu - a.bleu).filter((model) => Object.keys(model.lengths).length);
  const on = (set) => told.filter((model) => model.lengths[set]);
  const sets = [...new Set(told.flatMap((model) => Object.keys(model.lengths)))].sort((a, b) => on(b).length - on(a).length);
  if (!sets.length) return null;
  const place = h("div", { class: "st-pair", "data-lengths": "" });
  function draw(set) {
    let look = 0;
    const series = on(set).map((model) => ({
      name: model.name, look: model.attention ? LOOKS[look++ % LOOKS.length] : "d", dashed: !model.attention, dots: 4,
      points: model.lengths[set].map((row) => [Math.sqrt(row.least * row.most), row.bleu, `${model.name}, ${say.lengthRow(row.least, row.most, row.sentences)}: BLEU ${number(row.bleu, 1)}`]),
    }));
    const groups = on(set)[0].lengths[set], same = (row) => (other) => other.least === row.least && other.most === row.most;
    const line = (name, cell) => h("tr", {}, h("th", { scope: "row", text: name }), groups.map((row) => h("td", { class: "st-n", text: cell(row) })));
    const table = h("table", { class: "st-table" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col", text: say.sourceLength }), groups.map((row) => h("th", { scope: "col", class: "st-n", text: row.least === row.most ? String(row.least) : `${row.least}–${row.most}` })))),
      h("tbody", {}, line(say.sentences, (row) => count(row.sentences)), on(set).map((model) => line(model.name, (row) => { const own = model.lengths[set].find(same(row)); return own ? own.bleu.toFixed(1) : "—"; }))));
    place.replaceChildren(chart({ title: "", label: `${say.byLength}, ${set}`, x: { label: say.sourceLength, log: true }, y: { label: "BLEU", low: 0 }, width: 560, height: 280, series }).element, h("div", { class: "st-scroll" }, table));
  }
  draw(sets[0]);
  return card(say.byLength, sets.length > 1 ? choice(say.testSet, sets.map((set) => [set, set]), sets[0], draw).element : h("p", { class: "st-hint", text: `${say.testSet}: ${sets[0]}` }), place, h("p", { class: "st-hint", text: say.fromCards }));
}
