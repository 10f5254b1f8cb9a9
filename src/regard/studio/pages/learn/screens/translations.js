// A sentence given to translators, for the first two screens.

import { h } from "../../../../web/dom.js";
import { job } from "../../../static/server.js";

// kinds: which models are shown, of those for Chinese: "fixed" (no attention) and "attention".
export function translationTrial(place, { studio, words, error }, kinds, drawMore = () => null) {
  const translators = studio.models.filter((model) => model.kind === "translator" && model.source === "zh");
  const best = (attends) => translators.filter((model) => model.attention === attends).sort((a, b) => b.bleu - a.bleu)[0];
  const models = kinds.map((kind) => best(kind === "attention")).filter(Boolean);
  if (models.length < kinds.length) {
    place.replaceChildren(h("p", { class: "st-problem", role: "status", text: words.missing }));
    return {};
  }
  const output = h("div", { class: "st-flow" });
  let running = null;
  async function show(i) {
    if (running) running.cancel();
    for (const button of choices.children) button.setAttribute("aria-pressed", String(Number(button.dataset.i) === i));
    const { text, meaning } = words.sentences[i];
    const mine = job("/api/translate", { models: models.map(({ name }) => name), text, width: 4, hard: false });
    running = mine;
    const sentence = () => [
      h("p", { class: "st-result", lang: "zh-CN", text }),
      h("p", { class: "st-hint", text: `${words.means} ${meaning}` }),
    ];
    output.replaceChildren(
      ...sentence(),
      h("p", { class: "st-hint", role: "status", "data-working": "", text: studio.shellTexts.working }),
    );
    try {
      const { translations } = await mine.done;
      if (running !== mine) return;
      const row = (one) =>
        h(
          "li",
          {},
          h("span", {
            class: "st-hint",
            text: words.names[models.find(({ name }) => name === one.model).attention ? "attention" : "fixed"],
          }),
          h("p", { class: "st-result", "data-result": one.model, text: one.candidates[0].text }),
        );
      output.replaceChildren(...sentence(), h("ul", { class: "st-plain" }, translations.map(row)), drawMore(translations) || "");
    } catch (reason) {
      if (running === mine && reason.code !== "cancelled") error(reason);
    }
  }
  const choice = (one, i) => h("button", { type: "button", class: "st-chip", "data-i": i, onclick: () => show(i), text: one.name });
  const choices = h("div", { class: "st-row", role: "group", "aria-label": words.choose }, words.sentences.map(choice));
  place.replaceChildren(choices, output);
  show(words.first);
  return { leave: () => running && running.cancel() };
}
