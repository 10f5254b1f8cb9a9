// Where things stand on the canvas of a pattern: margins for the labels, the size of a cell.

import { tokenLabel } from "./tokens.js";

const LABEL_FROM = 9.5; // pixels a cell must have for words beside it; smaller cells get numbers of places
const LARGEST_CELL = 52;
const WIDEST_LABEL = 112;
const LONGEST_LABEL = 16; // characters

const mostHeight = () => Math.max(320, Math.min(680, window.innerHeight * 0.72));

export function axisLabel(token) {
  const text = token.text || "␣";
  return tokenLabel({ ...token, text: text.length > LONGEST_LABEL ? text.slice(0, LONGEST_LABEL - 1) + "…" : text });
}

// box: the visible cells; labelAt(axis, i): the token beside a column or row. All in CSS pixels.
export function patternLayout(context, fontFamily, box, available, labelAt) {
  const room = Math.max(240, available || 600);
  context.font = `12px ${fontFamily}`;
  const widestLabel = (axis, start, length) => {
    let widest = 0;
    for (let i = Math.floor(start); i < start + length; i++) {
      widest = Math.max(widest, context.measureText(axisLabel(labelAt(axis, i))).width);
    }
    return Math.min(WIDEST_LABEL, widest);
  };
  const roughCell = Math.min(44, (room - 120) / box.width, mostHeight() / box.height);
  const words = roughCell >= LABEL_FROM;
  const labelWidth = words ? widestLabel("x", box.x0, box.width) : 0;
  const slanted = words && labelWidth > roughCell - 6;
  const margin = {
    left: words ? widestLabel("y", box.y0, box.height) + 12 : 52,
    top: slanted ? Math.min(96, labelWidth * 0.72 + 20) : 24,
    right: slanted ? 48 : 8,
    bottom: 8,
  };
  const { width, height } = gridSize(box, room - margin.left - margin.right, words);
  return {
    box: { ...box },
    margin,
    words,
    slanted,
    width,
    height,
    cellWidth: width / box.width,
    cellHeight: height / box.height,
    totalWidth: Math.ceil(margin.left + width + margin.right),
    totalHeight: Math.ceil(margin.top + height + margin.bottom),
  };
}

// Cells are square unless that would leave a sliver.
function gridSize(box, free, words) {
  const most = mostHeight();
  const cell = Math.min(free / box.width, most / box.height, words ? LARGEST_CELL : Infinity);
  const sliver = !words && Math.min(box.width, box.height) * cell < 80;
  return {
    width: Math.max(40, sliver ? free : cell * box.width),
    height: Math.max(24, sliver ? Math.min(most, Math.max(cell * box.height, 240)) : cell * box.height),
  };
}

// From cells to pixels.
export const toX = (plot, x) => plot.margin.left + (x - plot.box.x0) * plot.cellWidth;
export const toY = (plot, y) => plot.margin.top + (y - plot.box.y0) * plot.cellHeight;
