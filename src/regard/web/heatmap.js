// Weights as pictures: a grid of pixels, a heatmap with a current row, and the legend that belongs beside them.

import { h } from "./dom.js";
import { drawRamp, rampCanvas, weightTable } from "./colours.js";

export function setPixel(data, at, [red, green, blue]) {
  data[4 * at] = red;
  data[4 * at + 1] = green;
  data[4 * at + 2] = blue;
  data[4 * at + 3] = 255;
}

// A canvas with one pixel a cell. scale: from a weight to its share of the ramp. A masked cell (get(x, y) < 0) stays transparent, so that a
// hatch shows through.
export function paintedGrid(columns, rows, get, scale, dark) {
  const canvas = h("canvas", { width: columns, height: rows });
  const image = new ImageData(columns, rows);
  const table = weightTable(dark);
  for (let y = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++) {
      const weight = get(x, y);
      if (weight >= 0) setPixel(image.data, y * columns + x, table[Math.round(255 * scale(weight))]);
    }
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

// A matrix of weights with one row framed in red. onRow(row): called when the pointer moves to a row.
export function heatmap(weights, { label, dark, current = null, onRow = null }) {
  const rows = weights.length;
  const largest = Math.max(1e-9, ...weights.map((row) => Math.max(...row)));
  const scale = (weight) => Math.min(1, weight / largest);
  const canvas = paintedGrid(weights[0].length, rows, (x, y) => weights[y][x], scale, dark);
  canvas.classList.add("st-heat");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  const frame = h("i", { class: "st-heat-now", hidden: current === null });
  if (current !== null) Object.assign(frame.style, { top: `${(100 * current) / rows}%`, height: `${100 / rows}%` });
  if (onRow) {
    canvas.addEventListener("pointermove", (event) => {
      const rectangle = canvas.getBoundingClientRect();
      const row = Math.floor(((event.clientY - rectangle.top) / rectangle.height) * rows);
      onRow(Math.min(rows - 1, Math.max(0, row)));
    });
  }
  return { element: h("div", { class: "st-heat-box" }, canvas, frame), largest };
}

// The ramp between 0 and the largest weight.
export function rampLegend(largest, dark) {
  const canvas = rampCanvas();
  drawRamp(canvas, dark);
  return h(
    "span",
    { class: "rv-legend" },
    h("span", { class: "rv-num", text: "0" }),
    canvas,
    h("span", { class: "rv-num", text: largest }),
  );
}
