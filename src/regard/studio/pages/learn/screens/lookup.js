// Query, key, value: a soft lookup in a price list.

import { h } from "../../../../web/dom.js";
import { number } from "../../../../web/numbers.js";
import { latest, post } from "../../../static/server.js";
import { choice, meterRow, slider } from "../../../static/widgets.js";

const FRUIT = ["apple", "banana", "cherry", "durian"];

export function mount(place, { words, error }) {
  const settings = { asked: "cherry", toward: "apple", mix: 0, temperature: 0.2 };
  const output = h("div", { class: "st-flow" });
  const compute = latest(async () => {
    try {
      const { keys, values, weights, soft } = await post("/api/steps/lookup", settings);
      const row = (key, i) => meterRow(`${words.fruit[key]} → ${values[i]}`, weights[i], number(weights[i], 3));
      output.replaceChildren(
        h("div", { class: "st-bars st-moving" }, keys.map(row)),
        h(
          "p",
          { class: "st-formula" },
          h("span", { text: `${words.result} ` }),
          h("b", { class: "rv-num", "data-soft": "", text: number(soft, 3) }),
        ),
      );
    } catch (reason) {
      error(reason);
    }
  });
  const set = (name) => (value) => {
    settings[name] = value;
    compute();
  };
  const fruit = FRUIT.map((name) => [name, words.fruit[name]]);
  place.replaceChildren(
    h(
      "div",
      { class: "st-bar" },
      choice(words.query, fruit, settings.asked, set("asked")).element,
      slider(words.mix, { low: 0, high: 1, value: 0, step: 0.05, show: (v) => `${Math.round(100 * v)} %` }, set("mix")).element,
    ),
    output,
  );
  compute();
  return {};
}
