// One score: the numbers of a query and of a key are multiplied pair by pair, and their sum flows into one cell.

import { h } from "../../../../web/dom.js";
import { number } from "../../../../web/numbers.js";
import { choice } from "../../../static/widgets.js";
import { computeExample, exampleWords } from "../example_steps.js";

export function mount(place, { studio, words, error }) {
  const names = exampleWords(studio.lang);
  const state = { query: 3, key: 1 };
  const output = h("div", { class: "st-flow" });
  let computed = null;
  function draw() {
    const { query, key, raw } = computed.answer.heads[0];
    const [q, k] = [query[state.query], key[state.key]];
    const vector = (name, numbers) =>
      h(
        "tr",
        {},
        h("th", { scope: "row", text: name }),
        numbers.map((v) => h("td", { text: number(v, 2) })),
      );
    const products = q.map((x, i) => x * k[i]);
    const flowing = h(
      "tr",
      { class: "st-flowing" },
      h("th", { scope: "row", text: words.products }),
      products.map((v, i) => h("td", { css: { "--turn": String(i) }, text: number(v, 2) })),
      h("td", { class: "st-cell", "data-score": "", text: number(raw[state.query][state.key], 2) }),
    );
    const body = [vector(words.queryOf(names[state.query]), q), vector(words.keyOf(names[state.key]), k), flowing];
    output.replaceChildren(
      h(
        "div",
        { class: "st-scroll", tabindex: "0", role: "group", "aria-label": words.products },
        h("table", { class: "st-matrix st-large" }, h("tbody", {}, body)),
      ),
      h("p", { class: "st-formula", text: `${products.map((v) => number(v, 2)).join(" + ")} = ${number(raw[state.query][state.key], 2)}` }),
    );
  }
  const pick = (label, name) =>
    choice(
      label,
      names.map((word, i) => [i, word]),
      state[name],
      (i) => {
        state[name] = i;
        if (computed) draw();
      },
    ).element;
  place.replaceChildren(h("div", { class: "st-bar" }, pick(words.query, "query"), pick(words.key, "key")), output);
  computeExample(names)
    .then((answer) => {
      computed = answer;
      draw();
    })
    .catch(error);
  return {};
}
