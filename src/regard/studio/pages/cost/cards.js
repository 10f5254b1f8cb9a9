// What a model costs, as cards: parameters by part, shapes, arithmetic, memory, and how they grow with the context.

import { h, withSubscripts } from "../../../web/dom.js";
import { chart } from "../../../web/chart.js";
import { count, number, short, tokenCount } from "../../../web/numbers.js";
import { card, tableOf } from "../../static/widgets.js";

const PART_COLOURS = {
  "token embedding": "#5b6b7a",
  "position embedding": "#7a8794",
  embeddings: "#5b6b7a",
  query: "#0072b2",
  key: "#2a5d9c",
  value: "#1f7a8c",
  output: "#5a4fa2",
  attention: "#0072b2",
  up: "#8a5a00",
  gate: "#6f4e00",
  down: "#a0522d",
  mlp: "#8a5a00",
  unembedding: "#4a6572",
};
const OTHER_COLOURS = ["#6e6e6e", "#4d6b4d", "#7a4a6a", "#3f6f6f", "#76603a"];

function partColour(name, i) {
  const like = Object.keys(PART_COLOURS).find((part) => name.includes(part));
  return PART_COLOURS[name] || PART_COLOURS[like] || OTHER_COLOURS[i % OTHER_COLOURS.length];
}
const sum = (quantities) => Object.values(quantities).reduce((total, quantity) => total + quantity.value, 0);
const positive = (quantities) => Object.entries(quantities).filter(([, quantity]) => quantity.value > 0);

// Parameters by part: a bar to scale, the formula of the chosen part, and a table.
export function parametersCard(texts, plan, { part: wanted }, width, choose) {
  const { parameters: parts, total } = plan;
  const list = positive(parts);
  const chosen = parts[wanted] ? wanted : list[0][0];
  const quantity = parts[chosen];
  const segment = ([name, { value }], i) => {
    const share = value / total.value;
    const label = `${texts.part(name)} ${count(value)}`;
    const fits = share * (width - 72) > 8 * texts.part(name).length + 18;
    return h("button", {
      type: "button",
      "aria-pressed": String(name === chosen),
      "aria-label": label,
      title: label,
      css: { flex: `${value} 1 0`, background: partColour(name, i), padding: share < 0.02 ? "0" : "" },
      onclick: () => choose({ part: name }),
      text: fits ? texts.part(name) : "",
    });
  };
  return h(
    "div",
    { class: "st-card" },
    h(
      "div",
      { class: "st-row" },
      h("span", { class: "st-big", "data-total": "", text: count(total.value) }),
      h("span", { class: "rv-quiet", text: texts.parameters(plan.architecture.name) }),
    ),
    h("div", { class: "st-stack", role: "group", "aria-label": texts.byPart }, list.map(segment)),
    h(
      "p",
      { class: "st-formula", "data-formula": "" },
      h("b", { text: texts.part(chosen) }),
      h("span", {}, "  ", withSubscripts(`${texts.formula(quantity.formula)} = ${quantity.numbers} = `)),
      h("b", { class: "rv-num", text: count(quantity.value) }),
    ),
    parametersTable(texts, list, total.value),
  );
}

function parametersTable(texts, list, total) {
  const { part, count: counted, share, formula } = texts.columns;
  const columns = [
    [part, ""],
    [counted, "st-n"],
    [share, "st-n"],
    [formula, ""],
  ];
  const heads = columns.map(([text, align]) => h("th", { scope: "col", class: align, text }));
  const row = ([name, quantity], i) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("i", { class: "st-dot", css: { background: partColour(name, i) } }), texts.part(name)),
      h("td", { class: "st-n", text: count(quantity.value) }),
      h("td", { class: "st-n", text: `${number((100 * quantity.value) / total, 2)} %` }),
      h("td", { class: "rv-quiet" }, withSubscripts(texts.formula(quantity.formula))),
    );
  const table = h("table", { class: "st-table" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, list.map(row)));
  return h("div", { class: "st-scroll", tabindex: "0" }, table);
}

export function piecesCard(texts, pieces) {
  const row = ([name, { value, formula, numbers }]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", text: texts.piece(name) }),
      h("td", { class: "st-n", text: count(value) }),
      h("td", { class: "rv-quiet" }, withSubscripts(`${texts.formula(formula)} = ${numbers}`)),
    );
  return card(texts.pieces, tableOf(Object.entries(pieces).map(row)));
}

// A row for a sum, then its parts with their formulas.
function sumRows(name, total, note, parts, unit, texts) {
  const head = h(
    "tr",
    {},
    h("th", { scope: "row", text: name }),
    h("td", { class: "st-n" }, h("b", { text: short(total, unit) })),
    h("td", { class: "rv-quiet", text: note }),
  );
  const part = ([partName, { value, formula, numbers }]) =>
    h(
      "tr",
      {},
      h("td", { text: texts.part(partName) }),
      h("td", { class: "st-n", text: short(value, unit) }),
      h("td", { class: "rv-quiet", title: `${texts.formula(formula)} = ${numbers}` }, withSubscripts(texts.formula(formula))),
    );
  return [head, positive(parts).map(part)];
}

export function arithmeticCard(texts, steps) {
  const rows = ({ title, needed, moved }) =>
    sumRows(texts.step(title), sum(needed), `${short(sum(moved), "B")} ${texts.moved}`, needed, "FLOP", texts);
  return card(texts.work, tableOf(Object.values(steps).map(rows)));
}

export function memoryCard(texts, memory) {
  const rows = ([kind, parts]) => sumRows(texts.attention[kind], sum(parts), "", parts, "B", texts);
  return card(texts.memory, tableOf(Object.entries(memory).map(rows)));
}

// Memory and arithmetic by context length.
export function growthCharts(texts, growth) {
  const every = Math.ceil(growth.context.length / 7);
  const size = { width: 560, height: 330 };
  const x = { label: texts.contextLength, log: true, ticks: growth.context.filter((_, i) => i % every === 0), show: tokenCount };
  const y = (label, unit) => ({ label, log: true, show: (v) => short(v, unit) });
  const line = (name, look, values) => ({ name, look, dots: true, points: growth.context.map((n, i) => [n, values[i]]) });
  const series = [line(texts.dense, "b", growth.dense), line(texts.streamed, "a", growth.streamed)];
  if (growth.cache.some((bytes) => bytes > 0)) series.push(line(texts.cache, "c", growth.cache));
  return {
    memory: chart({ title: texts.growth, x, y: y(texts.bytes, "B"), series, ...size }),
    flops: chart({
      title: texts.flopsGrowth,
      x,
      y: y("FLOP", "FLOP"),
      series: [line(texts.flops, "a", growth.flops)],
      legend: false,
      ...size,
    }),
  };
}
