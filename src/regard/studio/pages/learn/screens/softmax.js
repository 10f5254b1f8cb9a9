// Softmax and temperature: scores become shares of 1; a low temperature favours the largest, a high one makes them equal.

import { h } from "../../../../web/dom.js";
import { number } from "../../../../web/numbers.js";
import { latest } from "../../../static/server.js";
import { meterRow, slider } from "../../../static/widgets.js";
import { computeExample, exampleWords } from "../example_steps.js";

const QUERY = 3; // the noun

export function mount(place, { studio, words, error }) {
  const names = exampleWords(studio.lang);
  const output = h("div", { class: "st-flow" });
  const compute = latest(async (temperature) => {
    try {
      const { answer } = await computeExample(names, 1, { temperature, mask: "none" });
      const { scaled, weights } = answer.heads[0];
      const row = (word, i) => meterRow(`${word}  ${number(scaled[QUERY][i], 2)}`, weights[QUERY][i], number(weights[QUERY][i], 3));
      output.replaceChildren(
        h("div", { class: "st-bars st-moving", "data-weights": "" }, names.map(row)),
        h("p", {
          class: "st-formula",
          text: `${words.sum} ${number(
            weights[QUERY].reduce((a, b) => a + b, 0),
            3,
          )}`,
        }),
      );
    } catch (reason) {
      error(reason);
    }
  });
  const control = slider(words.temperature, { low: 0.05, high: 20, value: 1, log: true, show: (v) => number(v, 2) }, compute);
  place.replaceChildren(h("p", { class: "st-hint", text: words.scores(names[QUERY]) }), control.element, output);
  compute(1);
  return {};
}
