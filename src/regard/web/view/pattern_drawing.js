// What stands on the canvas of a pattern: cells, numbers in them, the selected row and cell, the axes.

import { weightInk } from "../colours.js";
import { count, niceStep, twoDecimals } from "../numbers.js";
import { axisLabel, toX, toY } from "./pattern_layout.js";

// image: the whole grid, a pixel a cell; hatch: the pattern under masked cells, null if none is masked.
export function drawCells(context, plot, image, { across, down, hatch }) {
  const { margin, width, height, box } = plot;
  if (hatch) {
    context.fillStyle = hatch;
    context.fillRect(margin.left, margin.top, width, height);
  }
  const [sx, sy] = [image.width / across, image.height / down];
  context.imageSmoothingEnabled = plot.cellWidth * across < image.width * 0.75;
  const source = [box.x0 * sx, box.y0 * sy, box.width * sx, box.height * sy];
  context.drawImage(image, ...source, margin.left, margin.top, width, height);
}

// The weights themselves, where a cell is large enough. numberAt(x, y): { weight, share of the ramp }, null if masked.
export function drawNumbers(context, plot, fontFamily, numberAt, dark) {
  if (plot.cellWidth < 36 || plot.cellHeight < 20) return;
  const { box } = plot;
  Object.assign(context, { font: `11px ${fontFamily}`, textAlign: "center", textBaseline: "middle" });
  for (let y = Math.floor(box.y0); y < box.y0 + box.height; y++) {
    for (let x = Math.floor(box.x0); x < box.x0 + box.width; x++) {
      const cell = numberAt(x, y);
      if (!cell) continue;
      context.fillStyle = weightInk(cell.share, dark);
      context.fillText(cell.weight >= 0.005 ? twoDecimals(cell.weight) : "·", toX(plot, x + 0.5), toY(plot, y + 0.5));
    }
  }
}

// A red frame around the current query's row, an ink one around the selected cell.
export function drawSelection(context, plot, { q, k }, byRow, { red, ink }) {
  const { margin, width, height, cellWidth, cellHeight } = plot;
  context.lineWidth = 1.5;
  context.strokeStyle = red;
  if (byRow) context.strokeRect(margin.left + 0.75, toY(plot, q), width - 1.5, Math.max(cellHeight, 2));
  else context.strokeRect(toX(plot, q), margin.top + 0.75, Math.max(cellWidth, 2), height - 1.5);
  if (k === null) return;
  context.lineWidth = 2;
  context.strokeStyle = ink;
  const [x, y] = byRow ? [k, q] : [q, k];
  context.strokeRect(toX(plot, x), toY(plot, y), Math.max(cellWidth, 3), Math.max(cellHeight, 3));
}

// Words beside the cells, or numbers of places. label(i): the token there; current: the selected row or column, null if none.
export function drawAxis(context, plot, axis, { fontFamily, label, length, current, currentColour, ink }) {
  const horizontal = axis === "x";
  const { box, words } = plot;
  const [start, shown, size] = horizontal ? [box.x0, box.width, plot.cellWidth] : [box.y0, box.height, plot.cellHeight];
  const write = (i, text) => {
    context.fillStyle = i === current ? currentColour : ink;
    const pixels = words ? Math.min(13, Math.max(9, size * 0.62)) : 11;
    context.font = `${i === current ? "600 " : ""}${pixels}px ${fontFamily}`;
    context.textBaseline = "middle";
    context.fontVariantCaps = words && label(i).mark === "*" ? "all-small-caps" : "normal";
    if (horizontal) writeAbove(context, plot, text, toX(plot, i + 0.5));
    else {
      context.textAlign = "right";
      context.fillText(text, plot.margin.left - 6, toY(plot, i + 0.5), plot.margin.left - 8);
    }
  };
  if (words) {
    const end = Math.min(start + shown - 0.4, length);
    for (let i = Math.max(0, Math.ceil(start - 0.5)); i < end; i++) write(i, axisLabel(label(i)));
    return;
  }
  const step = niceStep(Math.max(1, (horizontal ? 70 : 32) / size));
  const free = (i) => current === null || Math.abs(i - current) * size > 30; // of the current place's own number
  for (let i = Math.ceil(start / step) * step; i < start + shown; i += step) if (free(i)) write(i, count(i));
  if (current !== null && current >= start && current < start + shown) write(current, count(current));
}

function writeAbove(context, plot, text, x) {
  const { margin } = plot;
  if (!plot.slanted) {
    context.textAlign = "center";
    context.fillText(text, x, margin.top - 11, Math.max(plot.cellWidth + 30, 24));
    return;
  }
  context.save();
  context.translate(x, margin.top - 8);
  context.rotate(-Math.PI / 4);
  context.textAlign = "left";
  context.fillText(text, 0, 0, 110);
  context.restore();
}

// A sentence broken into lines.
export function drawWrapped(context, text, x, y, width) {
  let line = "";
  context.textAlign = "left";
  for (const word of text.split(/(?<=[\s，。：])/)) {
    if (context.measureText(line + word).width > width) {
      context.fillText(line, x, y);
      y += 20;
      line = "";
    }
    line += word;
  }
  context.fillText(line, x, y);
}
