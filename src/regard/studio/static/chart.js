// Line charts as SVG: axes that say what they are, lines named where they end, one question a chart.

import { h, svg, number, short } from "./dom.js";

const W = 560, H = 320, LEFT = 64, TOP = 28, BOTTOM = 44;
export const narrow = () => window.innerWidth < 700;

function ticks(low, high, log) {
  if (log) {
    const found = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) found.push(10 ** p);
    const inside = found.filter((v) => v >= low * 0.999 && v <= high * 1.001);
    if (inside.length >= 2) { const every = Math.ceil(inside.length / 6); return inside.filter((_, i) => i % every === 0); }
    log = false;
  }
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough || 1)), step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) || 1;
  const found = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-6; v += step) found.push(Math.abs(v) < step * 1e-6 ? 0 : v);
  return found;
}

// within: more points the axes must hold. series: [{ name, points: [[x, y, what it says]], look: "a"…"d", dots, dashed, line }]. x, y: { label, log, low, high, show }.
// ends: lines are named where they end instead of in a legend.
export function chart({ title, label = title, x, y, series, width = W, height = H, extra = null, marks = null, ends = false, legend = !ends, within = [] }) {
  const RIGHT = ends ? 56 : 16;
  if (narrow() && width > 440) [width, height] = [380, Math.min(height, 280)]; // a phone's chart keeps its letters readable
  const all = [...series, ...within].flatMap((s) => s.points.filter(([a, b]) => Number.isFinite(a) && Number.isFinite(b) && (!x.log || a > 0) && (!y.log || b > 0)));
  const xs = all.map((p) => p[0]), ys = all.map((p) => p[1]);
  const xl = x.low ?? Math.min(...xs), xh = x.high ?? Math.max(...xs);
  let yl = y.low ?? Math.min(...ys), yh = y.high ?? Math.max(...ys);
  if (y.log) { yl = y.low ?? 10 ** Math.floor(Math.log10(yl) + 1e-9); yh = y.high ?? 10 ** Math.ceil(Math.log10(yh) - 1e-9); } // ends with a number at them
  if (!y.log) { const pad = (yh - yl || 1) * 0.06; yl = y.low ?? yl - pad; yh = y.high ?? yh + pad; }
  const scale = (v, low, high, log, from, to) => from + ((log ? Math.log(v / low) / Math.log(high / low || 2) : (v - low) / (high - low || 1)) * (to - from));
  const X = (v) => scale(v, xl, xh, x.log, LEFT, width - RIGHT), Y = (v) => scale(v, yl, yh, y.log, height - BOTTOM, TOP);
  const showX = x.show || ((v) => (x.log ? short(v) : number(v, 2))), showY = y.show || ((v) => (y.log ? short(v) : number(v, 2)));
  const back = svg("g", { class: "ch-back" },
    ticks(yl, yh, y.log).map((v) => [svg("line", { x1: LEFT, x2: width - RIGHT, y1: Y(v), y2: Y(v) }), svg("text", { x: LEFT - 8, y: Y(v) + 4, "text-anchor": "end", text: showY(v) })]),
    (x.ticks || ticks(xl, xh, x.log)).map((v) => svg("text", { x: X(v), y: height - BOTTOM + 18, "text-anchor": "middle", text: showX(v) })),
    svg("text", { class: "ch-name", x: (LEFT + width - RIGHT) / 2, y: height - 6, "text-anchor": "middle", text: x.label }),
    svg("text", { class: "ch-name", x: 4, y: 12, "text-anchor": "start", text: y.label }));
  const lines = series.map((s) => {
    const inside = s.points.filter(([a, b]) => Number.isFinite(a) && Number.isFinite(b) && (!x.log || a > 0) && (!y.log || b > 0));
    return svg("g", { class: `ch-series ch-${s.look}${s.dashed ? " ch-dashed" : ""}` },
      s.line === false ? null : svg("path", { d: inside.map(([a, b], i) => `${i ? "L" : "M"}${X(a).toFixed(1)} ${Y(b).toFixed(1)}`).join("") }),
      s.dots ? inside.map(([a, b, told]) => svg("circle", { cx: X(a).toFixed(1), cy: Y(b).toFixed(1), r: s.dots === true ? 3 : s.dots }, told ? svg("title", { text: told }) : null)) : null);
  });
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "st-chart", role: "img", "aria-label": `${label}: ${series.map((s) => s.name).filter(Boolean).join(", ")}` },
    back, extra ? extra(X, Y) : null, lines, marks ? marks(X, Y) : null);
  const named = series.filter((s) => s.name);
  if (ends) {
    let above = -99;
    const places = named.map((s) => [s, Y(s.points[s.points.length - 1][1]) + 4]).sort((a, b) => a[1] - b[1]).map(([s, at]) => [s, (above = Math.max(at, above + 14))]);
    picture.append(svg("g", {}, places.map(([s, at]) => svg("text", { class: "ch-end", x: width - RIGHT + 8, y: at, text: s.name }))));
  }
  const figure = h("figure", { class: "st-figure" }, title ? h("figcaption", {}, h("b", { text: title })) : null, picture,
    legend && named.length > 1 ? h("div", { class: "st-legend" }, named.map((s) => h("span", { class: `ch-key ch-${s.look}${s.dashed ? " ch-dashed" : ""}${s.line === false ? " ch-points" : ""}` }, svg("svg", { width: 26, height: 10, "aria-hidden": "true" }, svg("g", { class: `ch-series ch-${s.look}${s.dashed ? " ch-dashed" : ""}` }, s.line === false ? null : svg("path", { d: "M1 5H25" }), s.dots || s.line === false ? svg("circle", { cx: 13, cy: 5, r: 3 }) : null)), s.name))) : null);
  return { element: figure, picture, X, Y, unX: (px) => (x.log ? xl * (xh / xl) ** ((px - LEFT) / (width - RIGHT - LEFT)) : xl + ((px - LEFT) / (width - RIGHT - LEFT)) * (xh - xl)) };
}
