// A small matrix as a table: words at its sides, numbers in its cells, editable where they are inputs.

import { h, withSubscripts } from "./dom.js";
import { differenceStyle, weightStyle } from "./colours.js";
import { twoDecimals } from "./numbers.js";

const STEPS = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
const LARGEST = 1000; // that may be typed

// name: of the figure in the page; title: above it, with a note; values[i][j], null for a masked score.
// rows, columns: the words at the sides; transposed: draw columns down and rows across.
// kind: "number", "weight" (blue) or "difference" (blue to orange).
// current: the row of the current query. masked(i, j): cells to hatch.
// onCell(i, j, clicked): a cell is pointed at. onEdit(i, j, value): makes the cells editable.
export function matrix({
  name,
  title = name,
  note = "",
  values,
  rows,
  columns,
  transposed = false,
  kind = "number",
  current = null,
  masked = null,
  onCell = () => {},
  onEdit = null,
  dark,
}) {
  const [down, across] = transposed ? [columns, rows] : [rows, columns];
  const indices = (r, c) => (transposed ? [c, r] : [r, c]);
  const cells = [];

  function cell(r, c) {
    const [i, j] = indices(r, c);
    const label = `${title}, ${rows[i]}, ${columns[j]}`;
    const node = onEdit ? inputCell(i, j, r, c, label) : numberCell(i, j, r, c, label);
    (cells[r] ||= [])[c] = node;
    return node;
  }

  function inputCell(i, j, r, c, label) {
    const change = () => {
      const value = Number(input.value.replace("−", "-").replace(",", "."));
      const valid = Number.isFinite(value) && Math.abs(value) <= LARGEST;
      if (valid) input.removeAttribute("aria-invalid");
      else input.setAttribute("aria-invalid", "true");
      if (valid) onEdit(i, j, value);
    };
    const input = h("input", {
      type: "text",
      inputmode: "decimal",
      value: String(Number(values[i][j].toFixed(4))),
      "aria-label": label,
      onfocus: () => onCell(i, j, false),
      onkeydown: (event) => moveFocus(event, r, c),
      onchange: change,
    });
    return h("td", { onpointerenter: () => onCell(i, j, false) }, input);
  }

  function numberCell(i, j, r, c, label) {
    const value = values[i][j];
    let css = {};
    if (kind === "weight" && value !== null) css = weightStyle(value, dark);
    if (kind === "difference") css = differenceStyle(value, dark);
    return h("td", {
      class: value === null || (masked && masked(i, j)) ? "rv-masked" : "",
      css,
      tabindex: r === 0 && c === 0 ? "0" : "-1",
      "aria-label": `${label}: ${twoDecimals(value)}`,
      onpointerenter: () => onCell(i, j, false),
      onfocus: () => onCell(i, j, false),
      onclick: () => onCell(i, j, true),
      onkeydown: (event) => moveFocus(event, r, c),
      text: twoDecimals(value),
    });
  }

  // Arrows move from cell to cell; within an input left and right move the caret.
  function moveFocus(event, r, c) {
    const [dr, dc] = STEPS[event.key] || [0, 0];
    if ((!dr && !dc) || (onEdit && dc)) return;
    const next = cells[r + dr] && cells[r + dr][c + dc];
    if (!next) return;
    event.preventDefault();
    const target = next.querySelector("input") || next;
    if (!onEdit) {
      cells[r][c].tabIndex = -1;
      target.tabIndex = 0;
    }
    target.focus();
  }

  const header = (scope, word, isCurrent) => h("th", { scope, class: isCurrent ? "st-now" : "", text: word });
  const head = h(
    "tr",
    {},
    h("td", { class: "st-corner" }),
    across.map((word, c) => header("col", word, transposed && c === current)),
  );
  const body = down.map((word, r) =>
    h(
      "tr",
      {},
      header("row", word, !transposed && r === current),
      across.map((_, c) => cell(r, c)),
    ),
  );
  const table = h("table", { class: `st-matrix st-${kind}` }, h("thead", {}, head), h("tbody", {}, body));
  const caption = h("figcaption", {}, h("b", {}, withSubscripts(title)), note ? h("small", { text: ` ${note}` }) : null);
  return h("figure", { class: "st-matrix-box", "data-matrix": name }, caption, h("div", { class: "st-scroll" }, table));
}
