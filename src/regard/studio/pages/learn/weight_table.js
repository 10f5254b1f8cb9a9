// A table of weights between two rows of words, coloured as weights are everywhere.

import { h } from "../../../web/dom.js";
import { weightStyle } from "../../../web/colours.js";
import { twoDecimals } from "../../../web/numbers.js";

// rows: queries, columns: keys; numbers: write them into the cells; current: the row framed.
export function weightTable({ rows, columns, weights, dark, label, numbers = true, current = null }) {
  const cell = (w, r, c) =>
    h("td", {
      css: weightStyle(w, dark),
      "aria-label": `${rows[r]}, ${columns[c]}: ${twoDecimals(w)}`,
      text: numbers ? twoDecimals(w) : "",
    });
  const line = (row, r) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", class: r === current ? "st-now" : "", text: rows[r] }),
      row.map((w, c) => cell(w, r, c)),
    );
  const head = h(
    "tr",
    {},
    h("td", { class: "st-corner" }),
    columns.map((word) => h("th", { scope: "col", text: word })),
  );
  const look = numbers ? "st-matrix st-weight" : "st-matrix st-weight st-unnumbered"; // without numbers more columns fit
  const table = h("table", { class: look, "aria-label": label }, h("thead", {}, head), h("tbody", {}, weights.map(line)));
  return h("div", { class: "st-scroll", tabindex: "0", role: "group", "aria-label": label }, table); // a wide one is scrolled by keys
}
