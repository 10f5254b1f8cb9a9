// The attention of a model on one held-out pair, or that it has none.

import { h } from "../../../web/dom.js";
import { weightTable } from "../learn/weight_table.js";

// heads: how many the model has; of several, the mean is shown, and said.
export function attentionTable({ texts, studio }, { source, target, weights }, heads) {
  if (!weights) return [h("p", { class: "st-hint", text: texts.noAttention })];
  const table = weightTable({
    rows: target,
    columns: source,
    weights,
    dark: studio.dark,
    label: texts.attention,
    numbers: source.length < 9,
  });
  return [table, heads > 1 ? h("p", { class: "st-hint", "data-averaged": "", text: texts.averaged(heads) }) : null];
}

export const headsOf = ({ kind, heads }) => (kind === "transformer" ? heads : 1);
