// A matrix of weights as a picture: the shared blue, zero exactly the page.

import { h } from "./dom.js";

export function heat(studio, weights, { label, current = null, top = null, onlook = null }) {
  const rows = weights.length, columns = weights[0].length;
  const most = top ?? Math.max(1e-9, ...weights.map((row) => Math.max(...row)));
  const canvas = h("canvas", { width: columns, height: rows, class: "st-heat", role: "img", "aria-label": label });
  const context = canvas.getContext("2d"), pixels = context.createImageData(columns, rows), ramp = studio.colours.weight.map((c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)));
  weights.forEach((row, r) => row.forEach((w, c) => { const at = 4 * (r * columns + c), [red, green, blue] = ramp[Math.round(255 * Math.min(1, w / most))]; pixels.data.set([red, green, blue, 255], at); }));
  context.putImageData(pixels, 0, 0);
  const line = h("i", { class: "st-heat-now", hidden: current === null });
  const place = (r) => { line.hidden = r === null; if (r !== null) { line.style.top = `${(100 * r) / rows}%`; line.style.height = `${100 / rows}%`; } };
  place(current);
  if (onlook) canvas.addEventListener("pointermove", (event) => { const box = canvas.getBoundingClientRect(); onlook(Math.min(rows - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * rows)))); });
  return { element: h("div", { class: "st-heat-box" }, canvas, line), place, most };
}

// The ramp with its numbers, wherever weights are coloured.
export function legend(studio, high, text) {
  const canvas = h("canvas", { class: "rv-ramp", width: 128, height: 1, "aria-hidden": "true" }), pen = canvas.getContext("2d");
  for (let i = 0; i < 128; i++) { pen.fillStyle = studio.colours.weight[Math.round((255 * i) / 127)]; pen.fillRect(i, 0, 1, 1); }
  return h("span", { class: "rv-legend" }, h("span", { class: "rv-num", text: "0" }), canvas, h("span", { class: "rv-num", text: high }), text ? h("span", { text }) : null);
}

export const shade = (studio, w) => { const i = Math.round(255 * Math.min(1, Math.max(0, w))); return w > 0 ? { backgroundColor: studio.colours.weight[i], color: studio.colours.weightInk[i] } : {}; };
export const tint = (studio, d) => { const i = Math.round(127.5 + 127.5 * Math.min(1, Math.max(-1, d))); return Math.abs(d) > 0.004 ? { backgroundColor: studio.colours.difference[i], color: studio.colours.differenceInk[i] } : {}; };
