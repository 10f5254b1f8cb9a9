// A real head in a real model: its weights on a sentence, word by word.

import { h } from "../../../../web/dom.js";
import { weightStyle } from "../../../../web/colours.js";
import { number } from "../../../../web/numbers.js";
import { Sighting, unpack } from "../../../../web/view/sighting.js";
import { shownText } from "../../../../web/view/tokens.js";
import { job } from "../../../static/server.js";
import { select } from "../../../static/widgets.js";

export function mount(place, { studio, words, error }) {
  const models = studio.models.filter((model) => model.writes);
  const model = models.find(({ name }) => name === "english") || models.find(({ name }) => name === "shakespeare") || models[0];
  if (!model) {
    place.replaceChildren(h("p", { class: "st-problem", role: "status", text: words.missing }));
    return {};
  }
  const text = words.text;
  const output = h("div", { class: "st-flow" });
  const running = job("/api/look", { model: model.name, text, changes: [] });
  running.done
    .then(async ({ payload }) =>
      show(place, output, { studio, words, model, text, sighting: new Sighting(payload, await unpack(payload)) }),
    )
    .catch((reason) => reason.code !== "cancelled" && error(reason));
  place.replaceChildren(h("p", { class: "st-hint", text: words.model(model.name) }), output);
  return { leave: () => running.cancel() };
}

function show(place, output, { studio, words, model, text, sighting }) {
  const heads = sighting.entries.flatMap((entry) => entry.ids.map((id, head) => ({ entry, head, id, label: entry.labels[head]?.[0] })));
  const clear = (one) => (one.label && one.label[0] !== "uniform" ? one.label[1] : 0);
  heads.sort((a, b) => clear(b) - clear(a));
  const state = { head: 0, q: sighting.entries[0].L - 1 };
  const draw = () => {
    const { entry, head, id } = heads[state.head];
    const row = sighting.row(entry, head, state.q);
    const weight = (k) => row.weights[k] ?? 0;
    const word = (_, k) => {
      const token = sighting.keyToken(entry, k);
      return h("button", {
        type: "button",
        class: "st-word",
        "aria-pressed": String(k === state.q),
        "aria-label": `${token.text} ${number(Math.max(0, weight(k)), 2)}`,
        css: k === state.q ? {} : weightStyle(Math.max(0, weight(k)), studio.dark),
        onclick: () => ((state.q = k), draw()),
        text: shownText(token) || "␣",
      });
    };
    const best = row.pairs[0];
    const where = new URLSearchParams({ model: model.name, text, layer: entry.layer, head: id, q: state.q, k: best[0] });
    output.replaceChildren(
      h("div", { class: "st-words", role: "group", "aria-label": words.pick }, Array.from({ length: entry.S }, word)),
      h("p", { class: "st-hint", text: words.pick }),
      h(
        "p",
        { class: "st-row" },
        h("a", { href: `#steps?${where}`, text: words.how }),
        h("a", { href: `#look?${where}`, text: words.all }),
      ),
    );
  };
  const name = ({ entry, id, label }) => words.headName(entry.layer, id, label ? words.labels[label[0]] || label[0] : words.unlabelled);
  const options = heads.map((one, i) => [i, name(one)]);
  const control = select(words.head, options, 0, (i) => {
    state.head = Number(i);
    draw();
  });
  output.before(control.element);
  draw();
}
