// The charts of the regression page: the fit, and the error by w.

import { svg } from "../../../web/dom.js";
import { chart, narrow } from "../../../web/chart.js";
import { weightStyle } from "../../../web/colours.js";
import { number } from "../../../web/numbers.js";

const zip = (xs, ys) => xs.map((x, i) => [x, ys[i]]);

// The data, the fitted curves, and the current query in red; points are as blue as the query weighs them.
export function fitChart(studio, { fit, learn }, width, row, value) {
  const { texts } = studio;
  const [chartWidth, height] = narrow() ? [440, 330] : [860, 440];
  const heaviest = Math.max(...fit.weights[row]);
  const shares = new Map(fit.columns.map((column, i) => [column, fit.weights[row][i] / heaviest]));
  const { grid, curve, average, truth } = fit;
  const ends = [
    [grid[0], average],
    [grid.at(-1), average],
  ];
  const series = [
    { name: texts.fit(number(width, 2)), points: zip(grid, curve), look: "a" },
    { name: texts.average, points: ends, look: "d", dashed: true },
  ];
  if (learn && learn.grid.length === grid.length) {
    series.push({ name: texts.learned(number(learn.width, 2)), points: zip(learn.grid, learn.curve), look: "c", dashed: true });
  }
  if (truth) series.push({ name: texts.truth, points: zip(grid, truth), look: "e", dashed: true });
  const fill = (i) => weightStyle(shares.get(i) || 0, studio.dark).backgroundColor || "var(--page)";
  const dot = (X, Y) => (x, i) =>
    svg("circle", { cx: X(x), cy: Y(fit.y[i]), r: 4.5, fill: fill(i), stroke: "var(--quiet)", "stroke-width": 1 });
  return chart({
    title: texts.chart,
    x: { label: "x" },
    y: { label: "y" },
    width: chartWidth,
    height,
    within: [{ points: zip(fit.x, fit.y) }],
    series,
    under: (X, Y) => svg("g", {}, fit.x.map(dot(X, Y))),
    over: (X, Y) => [
      svg("line", { class: "ch-now", x1: X(fit.rows[row]), x2: X(fit.rows[row]), y1: 28, y2: height - 44 }),
      svg("circle", { class: "ch-now-dot", cx: X(fit.rows[row]), cy: Y(value), r: 5 }),
    ],
  });
}

// The leave-one-out error by w, with the learned w and the current one.
export function errorChart(texts, learned, width, error) {
  const { widths, errors } = learned;
  const ticks = [0.1, 1, 10, 100].filter((v) => v >= widths[0] && v <= widths.at(-1));
  return chart({
    title: texts.errors,
    x: { label: "w", log: true, ticks, show: (v) => number(v, 1) },
    y: { label: texts.mse, low: 0, high: Math.max(...errors) * 1.05 },
    height: 220,
    width: 420,
    legend: false,
    series: [{ name: texts.errors, points: zip(widths, errors), look: "a" }],
    over: (X, Y) => [
      svg("line", { x1: X(learned.width), x2: X(learned.width), y1: 28, y2: 176, stroke: "var(--quiet)", "stroke-dasharray": "4 4" }),
      svg("circle", { cx: X(Math.max(widths[0], width)), cy: Y(error), r: 5, class: "ch-now-dot" }),
    ],
  }).element;
}
