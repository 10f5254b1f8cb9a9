// Regression: data, fit and weights, redrawn as the width moves, beside average pooling and the learned width.

import { h, svg } from "../../../web/dom.js";
import { chart, narrow } from "../../../web/chart.js";
import { weightStyle } from "../../../web/colours.js";
import { heatmap, rampLegend } from "../../../web/heatmap.js";
import { number } from "../../../web/numbers.js";
import { latest, post } from "../../static/server.js";
import { acceptDrops, card, choice, fileButton, foot, pageHead, problem, slider } from "../../static/widgets.js";
import { readTable } from "./table.js";

const KERNELS = ["gaussian", "epanechnikov", "triangular", "box"];
const DEFAULTS = { width: 1, kernel: "gaussian", noise: 0.5, count: 50 };
const WIDTHS = [0.07, 30]; // until the learned width says better
const LARGEST_FILE = 1_000_000; // bytes

export function mount(container, studio) {
  const { texts, memory } = studio;
  if (!memory.choices) {
    memory.choices = { ...choicesOf(studio.params), data: null, name: "", row: null };
    const isDefault = Object.entries(DEFAULTS).every(([name, value]) => memory.choices[name] === value);
    if (isDefault) Object.assign(memory, studio.initial); // { fit, learn }
  }
  const choices = memory.choices; // data: { x, y } of a file; row: the query row pointed at
  const error = problem(studio);
  const left = h("div", { class: "st-flow" });
  const right = h("div", { class: "st-flow" });
  const facts = h("dl", { class: "st-facts" });
  let picture = null;

  const points = () => {
    const { kernel, data, noise, count } = choices;
    return data ? { kernel, x: data.x, y: data.y } : { kernel, noise, count };
  };
  const fit = latest(async () => {
    try {
      memory.fit = await post("/api/regression/fit", { ...points(), width: choices.width });
      error.clear();
      draw();
    } catch (reason) {
      error.show(reason);
    }
    studio.ready();
  });
  const learn = latest(async () => {
    try {
      memory.learn = await post("/api/regression/learn", points());
      draw();
    } catch (reason) {
      error.show(reason);
    }
  });
  function keep() {
    const { width, kernel, noise, count, data } = choices;
    studio.keep({ width: number(width, 4), kernel, noise: data ? null : noise, count: data ? null : count });
  }
  function setWidth(width) {
    choices.width = width;
    keep();
    fit();
  }
  function setData(changes) {
    Object.assign(choices, changes);
    keep();
    fit();
    learn();
  }

  function draw() {
    if (!memory.fit) return;
    drawFit();
    drawWeights();
    drawFacts();
    line.draw();
  }
  const currentRow = () => Math.min(choices.row ?? Math.round(memory.fit.rows.length * 0.55), memory.fit.rows.length - 1);
  function pointAt(row) {
    if (row === choices.row) return;
    choices.row = row;
    const focused = left.contains(document.activeElement);
    draw();
    if (focused) left.querySelector("input").focus();
  }

  function drawFit() {
    const { fit: fitted } = memory;
    const row = currentRow();
    const value = fitted.curve[Math.round((row / (fitted.rows.length - 1)) * (fitted.curve.length - 1))];
    const drawn = fitChart(studio, memory, choices.width, row, value);
    picture = drawn.picture;
    picture.addEventListener("pointermove", (event) => {
      const rectangle = picture.getBoundingClientRect();
      const x = drawn.inverseX(((event.clientX - rectangle.left) / rectangle.width) * picture.viewBox.baseVal.width);
      pointAt(nearest(fitted.rows, x));
    });
    const show = (i) => `x = ${number(fitted.rows[i], 2)} → ${number(value, 3)}`;
    const querySlider = slider(texts.query, { low: 0, high: fitted.rows.length - 1, value: row, step: 1, show }, pointAt);
    left.replaceChildren(drawn.element, querySlider.element);
  }

  function drawWeights() {
    const { fit: fitted, learn: learned } = memory;
    const map = heatmap(fitted.weights, { label: texts.matrix, dark: studio.dark, current: currentRow(), onRow: pointAt });
    const caption = h("figcaption", {}, h("b", { text: texts.matrix }), h("small", { text: ` ${texts.matrixNote}` }));
    const legend = rampLegend(number(map.largest, 2), studio.dark);
    right.replaceChildren(
      h("figure", { class: "st-figure" }, caption, map.element, legend),
      learned ? errorChart(texts, learned, choices.width, fitted.error) : "",
    );
  }

  function drawFacts() {
    const { fit: fitted, learn: learned } = memory;
    const list = [
      [texts.loo, number(fitted.error, 4), "now"],
      [texts.looLearned, learned ? number(learned.error, 4) : "…", "learned"],
      [texts.looAverage, number(fitted.average_error, 4), "average"],
      [texts.widthLearned, learned ? `w = ${number(learned.width, 3)}` : "…", "width"],
    ];
    const fact = ([name, text, key]) => h("div", {}, h("dt", { text: name }), h("dd", { "data-fact": key, text }));
    facts.replaceChildren(...list.map(fact));
  }

  const [low, high] = memory.learn ? [memory.learn.widths[0], memory.learn.widths.at(-1)] : WIDTHS;
  const widthSlider = slider(
    texts.width,
    { low, high, value: Math.min(high, Math.max(low, choices.width)), log: true, show: (v) => `w = ${number(v, 2)}` },
    setWidth,
  );
  const useLearned = () => {
    widthSlider.set(memory.learn.width);
    setWidth(memory.learn.width);
  };
  const controls = h(
    "div",
    { class: "st-bar" },
    widthSlider.element,
    h("button", { type: "button", class: "rv-plain", onclick: useLearned, text: texts.useLearned }),
    choice(
      texts.kernel,
      KERNELS.map((kernel) => [kernel, texts.kernels[kernel]]),
      choices.kernel,
      (kernel) => setData({ kernel }),
    ).element,
  );

  const showOne = (v) => number(v, 1);
  const noise = slider(texts.noise, { low: 0, high: 2, value: choices.noise, step: 0.1, show: showOne }, (v) => setData({ noise: v }));
  const size = slider(texts.count, { low: 10, high: 200, value: choices.count, step: 5 }, (count) => setData({ count }));
  const fileName = h("span", { class: "rv-quiet" });
  const useExample = () => {
    setData({ data: null, name: "" });
    drawSource();
  };
  const back = h("button", { type: "button", class: "rv-plain", onclick: useExample, text: texts.builtIn });
  // Noise and size belong to the built-in example only.
  function drawSource() {
    fileName.textContent = choices.name;
    back.hidden = !choices.data;
    noise.element.hidden = size.element.hidden = Boolean(choices.data);
  }
  async function readFile(file) {
    try {
      if (file.size > LARGEST_FILE) throw new Error(texts.tooLarge);
      const data = readTable(await file.text(), texts);
      const dropped = data.dropped ? ` · ${texts.dropped(data.dropped)}` : "";
      setData({ data, name: `${file.name} · ${texts.points(data.x.length)}${dropped}` });
      drawSource();
    } catch (reason) {
      error.show({ code: "csv", message: reason.message });
    }
  }
  const dataCard = card(
    texts.dataTitle,
    h("div", { class: "st-bar" }, fileButton(texts.open, ".csv,.tsv,.txt,text/csv", readFile), back, fileName, noise.element, size.element),
    h("p", { class: "st-hint", text: texts.dropHere }),
    error.element,
  );
  acceptDrops(dataCard, readFile);

  const command = () => {
    const file = choices.data ? choices.name.split(" · ")[0] : "data.csv";
    return `NadarayaWatson(width=${number(choices.width, 4)}, kernel="${choices.kernel}").fit(X, y).predict(Z)    # regard fit ${file}`;
  };
  const line = foot(studio.shellTexts, {
    code: command,
    saves: {
      svg: () => picture,
      json: () => ({ asked: { ...points(), width: choices.width }, fit: memory.fit, learn: memory.learn }),
    },
  });
  const split = h("div", { class: "st-split" }, h("div", { class: "st-flow" }, left, dataCard), right);
  container.append(pageHead(texts), controls, facts, split, line.element);
  drawSource();
  draw();
  keep();
  if (memory.fit) studio.ready();
  else fit();
  if (!memory.learn) learn();
  return {};
}

function choicesOf(params) {
  return {
    width: Number(params.width) > 0 ? Number(params.width) : DEFAULTS.width,
    kernel: KERNELS.includes(params.kernel) ? params.kernel : DEFAULTS.kernel,
    noise: params.noise === undefined ? DEFAULTS.noise : Number(params.noise),
    count: Number(params.count) || DEFAULTS.count,
  };
}

const nearest = (list, x) => list.reduce((best, v, i) => (Math.abs(v - x) < Math.abs(list[best] - x) ? i : best), 0);
const zip = (xs, ys) => xs.map((x, i) => [x, ys[i]]);

// The data, the fitted curves, and the current query in red; points are as blue as the query weighs them.
function fitChart(studio, { fit, learn }, width, row, value) {
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

// The leave-one-out error by width, with the learned width and the current one.
function errorChart(texts, learned, width, error) {
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
