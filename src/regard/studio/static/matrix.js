// A small matrix as a table: words at its sides, numbers in its cells, each with its arithmetic; editable where it is given.

import { h, marked, two } from "./dom.js";
import { shade, tint } from "./heat.js";

// hidden(i, j): cells that may not be looked at, hatched.
// kind: "number", "weight" (blue), "difference" (blue–orange). rows, columns: what stands at the sides. look(i, j) when a cell is looked at.
export function matrix(studio, { name, title, values, rows, columns, kind = "number", editable = null, look = null, current = null, turned = false, note = "", hidden = null }) {
  const across = turned ? rows : columns, down = turned ? columns : rows;
  const at = (r, c) => (turned ? [c, r] : [r, c]);
  const cells = [];
  const cell = (r, c) => {
    const [i, j] = at(r, c), v = values[i][j], said = `${title || name}, ${rows[i]}, ${columns[j]}`;
    const css = kind === "weight" && v !== null ? shade(studio, v) : kind === "difference" ? tint(studio, v) : {};
    let node;
    if (editable) {
      const box = h("input", { type: "text", inputmode: "decimal", value: String(Number(v.toFixed(4))), "aria-label": said, onfocus: () => look && look(i, j), onkeydown: (event) => walk(event, r, c), onchange: () => { const x = Number(box.value.replace("−", "-").replace(",", ".")); if (Number.isFinite(x) && Math.abs(x) <= 1000) { box.removeAttribute("aria-invalid"); editable(i, j, x); } else box.setAttribute("aria-invalid", "true"); } });
      node = h("td", { onpointerenter: () => look && look(i, j) }, box);
    } else {
      node = h("td", { class: v === null || (hidden && hidden(i, j)) ? "rv-masked" : "", css, tabindex: r === 0 && c === 0 ? "0" : "-1", "aria-label": `${said}: ${v === null ? "−∞" : two(v)}`, onpointerenter: () => look && look(i, j), onfocus: () => look && look(i, j), onclick: () => look && look(i, j, true), onkeydown: (event) => walk(event, r, c), text: two(v) });
    }
    (cells[r] ||= [])[c] = node;
    return node;
  };
  function walk(event, r, c) {
    const [dr, dc] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] || [0, 0];
    if ((!dr && !dc) || (editable && dc)) return;
    const next = cells[r + dr] && cells[r + dr][c + dc];
    if (!next) return;
    event.preventDefault();
    const target = next.querySelector("input") || next;
    if (!editable) { cells[r][c].tabIndex = -1; target.tabIndex = 0; }
    target.focus();
  }
  const queries = turned ? "across" : "down";
  const body = down.map((word, r) => h("tr", {}, h("th", { scope: "row", class: queries === "down" && r === current ? "st-now" : "", text: word }), across.map((_, c) => cell(r, c))));
  const table = h("table", { class: `st-matrix st-${kind}` }, h("thead", {}, h("tr", {}, h("td", { class: "st-corner" }), across.map((word, c) => h("th", { scope: "col", class: queries === "across" && c === current ? "st-now" : "", text: word })))), h("tbody", {}, body));
  return h("figure", { class: "st-matrix-box", "data-matrix": name }, h("figcaption", {}, h("b", {}, marked(title || name)), note ? h("small", { text: ` ${note}` }) : null), h("div", { class: "st-scroll" }, table));
}
