// Before a run is started: what the model that it begins with attends to and writes.

import { h } from "../../../web/dom.js";
import { post } from "../../static/server.js";
import { card } from "../../static/widgets.js";
import { attentionTable, headsOf } from "./attention.js";
import { requestOf, SMALL } from "./request.js";

// Draw the untrained model of the chosen switches into page.watch, unless a run is shown by then.
export async function previewRun(page) {
  const { choices, memory, texts, watch, error } = page;
  const hint = h("p", { class: "st-hint", text: SMALL.includes(choices.task) ? texts.beginSmall : texts.begin });
  page.stopSmall?.();
  if (SMALL.includes(choices.task)) return watch.replaceChildren(hint);
  const asked = requestOf(choices);
  page.previewed = asked;
  if (!watch.querySelector("[data-untrained]")) {
    watch.replaceChildren(hint, card(texts.untrained, h("p", { class: "st-hint", role: "status", text: texts.building })));
  }
  try {
    const { sentences } = await post("/api/train/untrained", asked);
    if (page.left || memory.run || page.previewed !== asked || SMALL.includes(choices.task)) return undefined;
    error.clear();
    return watch.replaceChildren(hint, untrainedCard(page, sentences[0]));
  } catch (reason) {
    if (!page.left && page.previewed === asked) error.show(reason);
    return undefined;
  }
}

function untrainedCard(page, sentence) {
  const { texts, choices } = page;
  const { weights, got, wanted } = sentence;
  return h(
    "div",
    { "data-untrained": "" },
    card(
      texts.untrained,
      ...attentionTable(page, sentence, headsOf({ kind: choices.model, heads: choices.heads })),
      weights ? h("p", { class: "st-hint", text: texts.untrainedAbout }) : null,
      h("p", { class: "st-formula" }, h("span", { text: `${texts.got} ` }), h("b", { text: got || "…" })),
      h("p", { class: "st-hint", text: `${texts.wanted} ${wanted}` }),
    ),
  );
}
