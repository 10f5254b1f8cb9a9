// Many heads: the same words, four patterns.

import { h } from "../../../../web/dom.js";
import { choice } from "../../../static/widgets.js";
import { computeExample, exampleWords } from "../example_steps.js";
import { weightTable } from "../weight_table.js";

export function mount(place, { studio, words, error }) {
  const names = exampleWords(studio.lang);
  const output = h("div");
  let computed = null;
  const draw = (head) => {
    if (!computed) return;
    const { weights } = computed.answer.heads[head];
    output.replaceChildren(
      weightTable({ rows: names, columns: names, weights, dark: studio.dark, label: words.heads[head] }),
      h("p", { class: "st-hint", "data-head": "", text: words.heads[head] }),
    );
  };
  const control = choice(
    words.head,
    words.heads.map((_, i) => [i, String(i + 1)]),
    0,
    draw,
  );
  place.replaceChildren(control.element, output);
  computeExample(names, 4)
    .then((answer) => {
      computed = answer;
      draw(0);
    })
    .catch(error);
  return {};
}
