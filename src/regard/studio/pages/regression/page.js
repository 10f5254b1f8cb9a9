// Regression: data, fit and weights, redrawn as w moves, beside average pooling and the learned w.

import { h } from "../../../web/dom.js";
import { heatmap, rampLegend } from "../../../web/heatmap.js";
import { number } from "../../../web/numbers.js";
import { latest, post } from "../../static/server.js";
import { acceptDrops, card, choice, fileButton, foot, pageHead, problem, slider } from "../../static/widgets.js";
import { errorChart, fitChart } from "./charts.js";
import { readTable } from "./table.js";

const KERNELS = ["gaussian", "epanechnikov", "triangular", "box"];
const DEFAULTS = { width: 1, kernel: "gaussian", noise: 0.5, count: 50 };
const WIDTHS = [0.07, 30]; // until the learned w says better
const LARGEST_FILE = 1_000_000; // bytes

export function mount(container, studio) {
  const { texts, memory } = studio;
  memory.choices ||= beginWith(studio);
  const page = { studio, texts, memory, choices: memory.choices, picture: null };
  page.error = problem(studio);
  page.left = h("div", { class: "st-flow" });
  page.right = h("div", { class: "st-flow" });
  page.facts = h("dl", { class: "st-facts" });
  page.fit = latest(() => fit(page));
  page.learn = latest(() => learn(page));
  page.line = foot(studio.shellTexts, {
    code: () => pythonOf(page.choices),
    saves: {
      svg: () => page.picture,
      json: () => ({ asked: { ...pointsOf(page.choices), width: page.choices.width }, fit: memory.fit, learn: memory.learn }),
    },
  });
  const split = h("div", { class: "st-split" }, h("div", { class: "st-flow" }, page.left, dataCard(page)), page.right);
  container.append(pageHead(texts), kernelControls(page), page.facts, split, page.line.element);
  draw(page);
  keep(page);
  if (memory.fit) studio.ready();
  else page.fit();
  if (!memory.learn) page.learn();
  return {};
}

// The choices of the address. data: { x, y } of a file; row: the query row pointed at. The defaults come with their answers.
function beginWith({ params, memory, initial }) {
  const choices = {
    width: Number(params.width) > 0 ? Number(params.width) : DEFAULTS.width,
    kernel: KERNELS.includes(params.kernel) ? params.kernel : DEFAULTS.kernel,
    noise: params.noise === undefined ? DEFAULTS.noise : Number(params.noise),
    count: Number(params.count) || DEFAULTS.count,
    data: null,
    name: "",
    row: null,
  };
  const isDefault = Object.entries(DEFAULTS).every(([name, value]) => choices[name] === value);
  if (isDefault) Object.assign(memory, initial); // { fit, learn }
  return choices;
}

const pointsOf = ({ kernel, data, noise, count }) => (data ? { kernel, x: data.x, y: data.y } : { kernel, noise, count });

function pythonOf({ width, kernel, data, name }) {
  const file = data ? name.split(" · ")[0] : "data.csv";
  return `NadarayaWatson(width=${number(width, 4)}, kernel="${kernel}").fit(X, y).predict(Z)    # regard fit ${file}`;
}

function keep({ studio, choices }) {
  const { width, kernel, noise, count, data } = choices;
  studio.keep({ width: number(width, 4), kernel, noise: data ? null : noise, count: data ? null : count });
}

async function fit(page) {
  const { choices, memory, error, studio } = page;
  try {
    memory.fit = await post("/api/regression/fit", { ...pointsOf(choices), width: choices.width });
    error.clear();
    draw(page);
  } catch (reason) {
    error.show(reason);
  }
  studio.ready();
}

async function learn(page) {
  try {
    page.memory.learn = await post("/api/regression/learn", pointsOf(page.choices));
    draw(page);
  } catch (reason) {
    page.error.show(reason);
  }
}

function setWidth(page, width) {
  page.choices.width = width;
  keep(page);
  page.fit();
}

function setData(page, changes) {
  Object.assign(page.choices, changes);
  keep(page);
  page.fit();
  page.learn();
}

function draw(page) {
  if (!page.memory.fit) return;
  drawFit(page);
  drawWeights(page);
  drawFacts(page);
  page.line.draw();
}

// The query row that is drawn: the one pointed at, else one right of the middle.
function currentRow({ choices, memory }) {
  const { rows } = memory.fit;
  return Math.min(choices.row ?? Math.round(rows.length * 0.55), rows.length - 1);
}

function pointAt(page, row) {
  const { choices, left } = page;
  if (row === choices.row) return;
  choices.row = row;
  const focused = left.contains(document.activeElement);
  draw(page);
  if (focused) left.querySelector("input").focus();
}

const nearest = (list, x) => list.reduce((best, v, i) => (Math.abs(v - x) < Math.abs(list[best] - x) ? i : best), 0);

// The chart of the fit, and the slider of the query under it.
function drawFit(page) {
  const { studio, texts, memory, choices, left } = page;
  const { rows, curve } = memory.fit;
  const row = currentRow(page);
  const value = curve[Math.round((row / (rows.length - 1)) * (curve.length - 1))];
  const { picture, element, inverseX } = fitChart(studio, memory, choices.width, row, value);
  page.picture = picture;
  picture.addEventListener("pointermove", (event) => {
    const rectangle = picture.getBoundingClientRect();
    const x = inverseX(((event.clientX - rectangle.left) / rectangle.width) * picture.viewBox.baseVal.width);
    pointAt(page, nearest(rows, x));
  });
  const show = (i) => `x = ${number(rows[i], 2)} → ${number(value, 3)}`;
  const options = { low: 0, high: rows.length - 1, value: row, step: 1, show };
  left.replaceChildren(element, slider(texts.query, options, (i) => pointAt(page, i)).element);
}

function drawWeights(page) {
  const { studio, texts, memory, choices, right } = page;
  const { fit: fitted, learn: learned } = memory;
  const onRow = (row) => pointAt(page, row);
  const map = heatmap(fitted.weights, { label: texts.matrix, dark: studio.dark, current: currentRow(page), onRow });
  const caption = h("figcaption", {}, h("b", { text: texts.matrix }), h("small", { text: ` ${texts.matrixNote}` }));
  const legend = rampLegend(number(map.largest, 2), studio.dark);
  right.replaceChildren(
    h("figure", { class: "st-figure" }, caption, map.element, legend),
    learned ? errorChart(texts, learned, choices.width, fitted.error) : "",
  );
}

function drawFacts({ texts, memory, facts }) {
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

// w and the kernel.
function kernelControls(page) {
  const { texts, memory, choices } = page;
  const [low, high] = memory.learn ? [memory.learn.widths[0], memory.learn.widths.at(-1)] : WIDTHS;
  const value = Math.min(high, Math.max(low, choices.width));
  const options = { low, high, value, log: true, show: (v) => `w = ${number(v, 2)}` };
  const widthSlider = slider(texts.width, options, (width) => setWidth(page, width));
  const useLearned = () => {
    widthSlider.set(memory.learn.width);
    setWidth(page, memory.learn.width);
  };
  const kernels = KERNELS.map((kernel) => [kernel, texts.kernels[kernel]]);
  return h(
    "div",
    { class: "st-bar" },
    widthSlider.element,
    h("button", { type: "button", class: "rv-plain", onclick: useLearned, text: texts.useLearned }),
    choice(texts.kernel, kernels, choices.kernel, (kernel) => setData(page, { kernel })).element,
  );
}

// Where the points come from: the built-in example, with its noise and size, or a file.
function dataCard(page) {
  const { texts, choices, error } = page;
  const noiseOptions = { low: 0, high: 2, value: choices.noise, step: 0.1, show: (v) => number(v, 1) };
  const noise = slider(texts.noise, noiseOptions, (v) => setData(page, { noise: v }));
  const size = slider(texts.count, { low: 10, high: 200, value: choices.count, step: 5 }, (count) => setData(page, { count }));
  const fileName = h("span", { class: "rv-quiet" });
  const set = (source) => {
    setData(page, source);
    drawSource();
  };
  const useExample = () => set({ data: null, name: "" });
  const back = h("button", { type: "button", class: "rv-plain", onclick: useExample, text: texts.builtIn });
  function drawSource() {
    fileName.textContent = choices.name;
    back.hidden = !choices.data;
    noise.element.hidden = size.element.hidden = Boolean(choices.data);
  }
  const readFile = async (file) => {
    const source = await sourceOf(page, file);
    if (source) set(source);
  };
  const element = card(
    texts.dataTitle,
    h("div", { class: "st-bar" }, fileButton(texts.open, ".csv,.tsv,.txt,text/csv", readFile), back, fileName, noise.element, size.element),
    h("p", { class: "st-hint", text: texts.dropHere }),
    error.element,
  );
  acceptDrops(element, readFile);
  drawSource();
  return element;
}

// The points of a file and how they are named; null where it has none, which is said.
async function sourceOf({ texts, error }, file) {
  try {
    if (file.size > LARGEST_FILE) throw new Error(texts.tooLarge);
    const data = readTable(await file.text(), texts);
    const dropped = data.dropped ? ` · ${texts.dropped(data.dropped)}` : "";
    return { data, name: `${file.name} · ${texts.points(data.x.length)}${dropped}` };
  } catch (reason) {
    error.show({ code: "csv", message: reason.message });
    return null;
  }
}
