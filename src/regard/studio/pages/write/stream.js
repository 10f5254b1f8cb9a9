// The residual stream: what is predicted after every layer and every prefix, and what attention and MLP of each block added.

import { h } from "../../../web/dom.js";
import { weightStyle } from "../../../web/colours.js";
import { decimals, number } from "../../../web/numbers.js";
import { card, meterRow } from "../../static/widgets.js";

const STEPS = { ArrowDown: [-1, 0], ArrowUp: [1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }; // the last layer stands on top

export function streamCard(studio) {
  const { texts } = studio;
  const table = h("div", { class: "st-scroll", tabindex: "-1" });
  const detail = h("div", { class: "st-flow", "data-cell": "", role: "status", "aria-live": "polite" });
  const element = card(texts.stream, h("p", { class: "st-hint", text: texts.streamAbout }), table, detail);
  element.classList.add("st-stream");
  let shown = null; // [layer, column]; null: the last prediction, also of the next answer

  function draw(answer) {
    const { rows, first } = answer.lens;
    const columns = rows[0].length;
    const [layer, column] = shown && shown[0] < rows.length && shown[1] < columns ? shown : [rows.length - 1, columns - 1];
    const cells = rows.map((row) => row.map(() => null));
    const select = (l, c) => {
      shown = l === rows.length - 1 && c === columns - 1 ? null : [l, c];
      for (const one of table.querySelectorAll("[aria-selected=true]")) one.setAttribute("aria-selected", "false");
      cells[l][c].setAttribute("aria-selected", "true");
      detail.replaceChildren(cellDetail(texts, answer, l, c));
    };
    const cell = (l, c) => {
      const [token, probability] = rows[l][c][0];
      cells[l][c] = h("td", {
        role: "gridcell",
        tabindex: l === layer && c === column ? "0" : "-1",
        css: weightStyle(probability, studio.dark),
        "aria-label": texts.cell(l, answer.tokens[first + c], token, number(probability, 3)),
        onpointerenter: () => select(l, c),
        onfocus: () => select(l, c),
        onkeydown: (event) => move(event, cells, l, c),
        text: token,
      });
      return cells[l][c];
    };
    const line = (row, l) =>
      h(
        "tr",
        { role: "row" },
        h("th", { scope: "row", text: texts.layerName(l) }),
        row.map((_, c) => cell(l, c)),
      );
    const head = answer.tokens.slice(first).map((token) => h("th", { scope: "col", text: token }));
    const body = rows.map(line).reverse();
    const foot = h("tr", {}, h("th", { scope: "row", text: texts.read }), head);
    table.replaceChildren(
      h("table", { class: "st-lens", role: "grid", "aria-label": texts.stream }, h("tbody", {}, body), h("tfoot", {}, foot)),
    );
    table.scrollLeft = table.scrollWidth;
    select(layer, column);
  }
  return { element, draw, clear: () => (table.replaceChildren(), detail.replaceChildren()) };
}

function move(event, cells, l, c) {
  const [dl, dc] = STEPS[event.key] || [0, 0];
  const next = (dl || dc) && cells[l + dl] && cells[l + dl][c + dc];
  if (!next) return;
  event.preventDefault();
  cells[l][c].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

// The five predictions of a cell, and the lengths of what its block added to the stream.
function cellDetail(texts, { lens, tokens, added }, layer, column) {
  const place = lens.first + column;
  const predictions = lens.rows[layer][column].map(([token, p]) => meterRow(token, p, decimals(p, 3)));
  const length = (name, value) => [h("dt", { text: name }), h("dd", { class: "rv-num", text: number(value, 2) })];
  const lengths = [length(texts.lengths.stream, added.stream[layer][place])];
  if (layer) {
    lengths.unshift(length(texts.lengths.mlp, added.mlp[layer - 1][place]));
    lengths.unshift(length(texts.lengths.attention, added.attention[layer - 1][place]));
    lengths.unshift(length(texts.lengths.before, added.stream[layer - 1][place]));
  }
  const prefix = tokens
    .slice(Math.max(0, place - 6), place + 1)
    .join("")
    .replaceAll("·", " ")
    .replaceAll("␣", " ");
  return h(
    "div",
    { class: "st-pair" },
    h("div", {}, h("h3", { text: texts.after(texts.layerName(layer), prefix.trim()) }), h("div", { class: "st-bars" }, predictions)),
    h(
      "div",
      {},
      h("h3", { text: texts.block }),
      h(
        "dl",
        { class: "st-lengths" },
        lengths.map((pair) => h("div", {}, pair)),
      ),
    ),
  );
}
