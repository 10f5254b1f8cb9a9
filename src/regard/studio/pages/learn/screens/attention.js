// With attention: the same sentences, and the words each target word looked at.

import { weightTable } from "../weight_table.js";
import { translationTrial } from "./translations.js";

export function mount(place, context) {
  const { studio, words } = context;
  return translationTrial(place, context, ["fixed", "attention"], (translations) => {
    const { target, source, weights } = translations.at(-1).candidates[0];
    return weights && weightTable({ rows: target, columns: source, weights, dark: studio.dark, label: words.table, numbers: false });
  });
}
