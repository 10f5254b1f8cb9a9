// Line charts as SVG: named axes, and lines named in a legend or where they end.

import { h, svg } from "./dom.js";
import { niceStep, number, short } from "./numbers.js";

const LEFT = 64; // at least: a longer number moves the axis
const LETTER = 6.8; // the width of a digit or letter of the axes
const LARGEST_SCALE = 1.4; // a small chart is not blown up to the width of the page
const TOP = 28;
const BOTTOM = 44;

export const narrow = () => window.innerWidth < 700;

function linearTicks(low, high) {
  const step = niceStep((high - low) / 5);
  const ticks = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-6; v += step) ticks.push(Math.abs(v) < step * 1e-6 ? 0 : v);
  return ticks;
}

// Powers of ten, at most six of them; null if fewer than two lie inside.
function logTicks(low, high) {
  const powers = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) powers.push(10 ** p);
  const inside = powers.filter((v) => v >= low * 0.999 && v <= high * 1.001);
  if (inside.length < 2) return null;
  const every = Math.ceil(inside.length / 6);
  return inside.filter((_, i) => i % every === 0);
}

const shown = ({ show, log }, value) => (show ? show(value) : log ? short(value) : number(value, 2));
const ticksOf = ({ low, high, log }) => (log && logTicks(low, high)) || linearTicks(low, high);

// From a value to pixels and back. axis: { low, high, log }.
function axisScale({ low, high, log }, from, to) {
  const share = log ? (v) => Math.log(v / low) / Math.log(high / low || 2) : (v) => (v - low) / (high - low || 1);
  return (value) => from + share(value) * (to - from);
}
function axisInverse({ low, high, log }, from, to) {
  return (pixel) => {
    const share = (pixel - from) / (to - from);
    return log ? low * (high / low) ** share : low + share * (high - low);
  };
}

// The y axis reaches a little beyond the data; a logarithmic one to the next powers of ten.
function yRange(y, values) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (y.log) return { low: y.low ?? 10 ** Math.floor(Math.log10(least) + 1e-9), high: y.high ?? 10 ** Math.ceil(Math.log10(most) - 1e-9) };
  const [low, high] = [y.low ?? least, y.high ?? most];
  const pad = (high - low || 1) * 0.06;
  return { low: y.low ?? low - pad, high: y.high ?? high + pad };
}

// x, y: { label, log, low, high, show(value), ticks }.
// series: [{ name, points: [[x, y, title]], look: "a"…"e" (its colour), dots: true or a radius, dashed, line: false for dots alone }].
// within: more series whose points the axes must hold. under(X, Y), over(X, Y): further elements below and above the lines.
// namesAtEnd: lines are named where they end instead of in a legend.
// Returns { element, picture (the SVG), X, Y, inverseX }.
export function chart({
  title,
  label = title,
  x,
  y,
  series,
  width = 560,
  height = 320,
  under = null,
  over = null,
  namesAtEnd = false,
  legend = !namesAtEnd,
  within = [],
}) {
  if (narrow() && width > 440) [width, height] = [380, Math.min(height, 280)]; // keeps the letters readable on a phone
  const right = width - (namesAtEnd ? 56 : 16);
  const drawable = ([a, b]) => Number.isFinite(a) && Number.isFinite(b) && (!x.log || a > 0) && (!y.log || b > 0);
  const points = [...series, ...within].flatMap((one) => one.points.filter(drawable));
  const xs = points.map((point) => point[0]);
  const xAxis = { ...x, low: x.low ?? Math.min(...xs), high: x.high ?? Math.max(...xs) };
  const range = yRange(
    y,
    points.map((point) => point[1]),
  );
  const yAxis = { ...y, ...range };
  const left = Math.max(LEFT, 12 + LETTER * Math.max(...ticksOf(yAxis).map((value) => shown(yAxis, value).length)));
  const X = axisScale(xAxis, left, right);
  const Y = axisScale(yAxis, height - BOTTOM, TOP);
  const lines = series.map((one) => {
    const drawn = one.points.filter(drawable);
    return seriesElement(
      one,
      drawn.map(([a, b, text]) => [X(a), Y(b), text]),
    );
  });
  const named = series.filter((one) => one.name);
  const picture = svg(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      class: "st-chart",
      role: "img",
      "aria-label": `${label}: ${named.map((one) => one.name).join(", ")}`,
      css: { maxWidth: `${LARGEST_SCALE * width}px` },
    },
    axesElement(xAxis, yAxis, X, Y, { left, right, height }),
    under && under(X, Y),
    lines,
    over && over(X, Y),
    namesAtEnd ? endNames(named, Y, right) : null,
  );
  const element = h(
    "figure",
    { class: "st-figure" },
    title ? h("figcaption", {}, h("b", { text: title })) : null,
    picture,
    legend && named.length > 1 ? h("div", { class: "st-legend" }, named.map(legendItem)) : null,
  );
  return { element, picture, X, Y, inverseX: axisInverse(xAxis, left, right) };
}

function axesElement(x, y, X, Y, { left, right, height }) {
  const text = (at, top, anchor, content, props = {}) => svg("text", { ...props, x: at, y: top, "text-anchor": anchor, text: content });
  return svg(
    "g",
    { class: "ch-back" },
    ticksOf(y).map((v) => [svg("line", { x1: left, x2: right, y1: Y(v), y2: Y(v) }), text(left - 8, Y(v) + 4, "end", shown(y, v))]),
    (x.ticks || ticksOf(x)).map((v) => text(X(v), height - BOTTOM + 18, "middle", shown(x, v))),
    text((left + right) / 2, height - 6, "middle", x.label, { class: "ch-name" }),
    text(4, 12, "start", y.label, { class: "ch-name" }),
  );
}

const seriesClass = (one) => `ch-series ch-${one.look}${one.dashed ? " ch-dashed" : ""}`;

// points: [[x, y, title]] in pixels.
function seriesElement(one, points) {
  const path = points.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
  const radius = one.dots === true ? 3 : one.dots;
  const dot = ([px, py, text]) => svg("circle", { cx: px.toFixed(1), cy: py.toFixed(1), r: radius }, text ? svg("title", { text }) : null);
  return svg("g", { class: seriesClass(one) }, one.line === false ? null : svg("path", { d: path }), one.dots ? points.map(dot) : null);
}

function legendItem(one) {
  const line = one.line === false ? null : svg("path", { d: "M1 5H25" });
  const dot = one.dots || one.line === false ? svg("circle", { cx: 13, cy: 5, r: 3 }) : null;
  const sample = svg("svg", { width: 26, height: 10, "aria-hidden": "true" }, svg("g", { class: seriesClass(one) }, line, dot));
  return h("span", { class: "ch-key" }, sample, one.name);
}

// Names beside the last points, kept from standing on top of each other.
function endNames(named, Y, right) {
  const ends = named.map((one) => [one.name, Y(one.points.at(-1)[1]) + 4]).sort((a, b) => a[1] - b[1]);
  let above = -99;
  const texts = ends.map(([name, y]) => {
    above = Math.max(y, above + 14);
    return svg("text", { class: "ch-end", x: right + 8, y: above, text: name });
  });
  return svg("g", {}, texts);
}
