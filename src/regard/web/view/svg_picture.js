// What the view shows as one SVG with vector text: the pattern, the words of a row or of all rows, or the lines between words.

import { h, svg } from "../dom.js";
import { weightColour, weightInk } from "../colours.js";
import { paintedGrid } from "../heatmap.js";
import { count, niceStep } from "../numbers.js";
import { linePath, lineWidth } from "./lines.js";
import { rowShading, tokenLabel } from "./tokens.js";

const PAD = 16;
const FIRST_LINE = 60; // y of what stands under the title
const SLANT = 0.72; // height of a slanted label over its width
const CELL = 26; // pixels of a cell that has a word beside it
const MOST_NAMED = 64; // cells with words beside them
const MOST_ROWS = 64;
const MOST_WORDS = 200; // in a row of the lines
const QUOTED = 3; // keys written on each side of a heavy one in a long text
const LONG = 400; // keys
const FAINTEST_LINE = 0.02;

// What a picture is drawn with: the theme's colours, a measure of text, and the nodes drawn so far.
class Sheet {
  constructor(root) {
    const style = getComputedStyle(root);
    this.font = style.fontFamily;
    this.colours = Object.fromEntries(
      ["page", "ink", "red", "quiet", "hatch", "faint"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
    );
    this.nodes = [];
    this.context = h("canvas").getContext("2d");
    this.context.font = `14px ${this.font}`;
  }
  width(text) {
    return this.context.measureText(text).width;
  }
  widest(texts) {
    return Math.max(0, ...texts.map((text) => this.width(text)));
  }
  draw(tag, props, ...children) {
    this.nodes.push(svg(tag, props, ...children));
  }
  write(x, y, text, props = {}) {
    this.draw("text", { x: x.toFixed(1), y: y.toFixed(1), fill: this.colours.ink, "font-size": 14, ...props, text });
  }
}

// picture: "pattern", "words", "stacked" or "lines".
export function viewSvg(view, picture) {
  const sheet = new Sheet(view.root);
  const title = [view.title(), view.headName()].filter(Boolean).join(" · ");
  sheet.write(PAD, 26, title, { "font-weight": 600 });
  const size = { pattern: patternPicture, words: wordsPicture, stacked: wordsPicture, lines: linesPicture }[picture](sheet, view, picture);
  const proof = view.proofText();
  sheet.write(PAD, size.height + 14, proof.text, { "font-size": 11, fill: proof.holds ? sheet.colours.quiet : sheet.colours.ink });
  const width = Math.ceil(Math.max(size.width, sheet.width(title) * 1.1 + 2 * PAD, sheet.width(proof.text) * 0.82 + 2 * PAD));
  const height = Math.ceil(size.height + 28);
  return svg(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, "font-family": sheet.font.replace(/"/g, "'") },
    svg("rect", { width: "100%", height: "100%", fill: sheet.colours.page }),
    sheet.nodes,
  );
}

function patternPicture(sheet, view) {
  const { grid, entry, sighting } = view;
  if (!grid) {
    sheet.write(PAD, FIRST_LINE + 10, view.texts.noMap);
    return { width: 640, height: FIRST_LINE + 30 };
  }
  const byRow = view.state.form === "row";
  const [across, down] = byRow ? [grid.cols, grid.rows] : [grid.rows, grid.cols];
  const get = byRow ? (x, y) => grid.get(y, x) : (x, y) => grid.get(x, y);
  const named = !grid.pooled && across <= MOST_NAMED && down <= MOST_NAMED;
  const labels = (queries, length) => {
    const tokenAt = queries ? (i) => sighting.queryToken(entry, i) : (i) => sighting.keyToken(entry, i);
    return Array.from({ length: named ? length : 0 }, (_, i) => tokenLabel(tokenAt(i)));
  };
  const columnLabels = labels(!byRow, across);
  const rowLabels = labels(byRow, down);
  const labelHeight = sheet.widest(columnLabels) * SLANT;
  const side = named ? CELL : Math.max(1, 560 / Math.max(across, down));
  const left = PAD + (named ? sheet.widest(rowLabels) + 8 : 48);
  const top = FIRST_LINE + labelHeight + 12;
  const frame = { x: left, y: top, width: across * side, height: down * side };
  const cells = { across, down, side, left, top, get };
  drawHatch(sheet, frame, cells);
  if (named) {
    const current = view.state.q;
    drawNames(sheet, cells, { rowLabels, columnLabels, currentRow: byRow ? current : null, currentColumn: byRow ? null : current });
    drawNamedCells(sheet, cells, view, columnLabels);
  } else {
    const image = paintedGrid(across, down, get, view.scale, view.dark).toDataURL("image/png");
    sheet.draw("image", { ...frame, href: image, "image-rendering": "pixelated" });
    drawPlaces(sheet, cells, byRow ? [entry.S, entry.L] : [entry.L, entry.S]);
  }
  sheet.draw("rect", { ...frame, fill: "none", stroke: sheet.colours.faint });
  return { width: left + frame.width + Math.max(PAD, labelHeight), height: drawLegend(sheet, view, left, top + frame.height + 22) };
}

function drawHatch(sheet, frame, { across, down, get }) {
  const masked = Array.from({ length: across * down }, (_, i) => get(i % across, Math.floor(i / across))).some((weight) => weight < 0);
  if (!masked) return;
  const lines = svg("path", { d: "M-1 7L7 -1M-1 1L1 -1M5 7L7 5", stroke: sheet.colours.hatch, "stroke-width": 1 });
  sheet.draw("defs", {}, svg("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse" }, lines));
  sheet.draw("rect", { ...frame, fill: "url(#hatch)" });
}

function drawNames(sheet, { side, left, top }, { rowLabels, columnLabels, currentRow, currentColumn }) {
  const { red, ink } = sheet.colours;
  rowLabels.forEach((text, i) => {
    sheet.write(left - 6, top + (i + 0.5) * side + 5, text, { "text-anchor": "end", fill: i === currentRow ? red : ink });
  });
  columnLabels.forEach((text, i) => {
    const [x, y] = [left + (i + 0.6) * side, top - 6];
    const transform = `translate(${x.toFixed(1)} ${y.toFixed(1)}) rotate(-45)`;
    sheet.write(0, 0, text, { transform, fill: i === currentColumn ? red : ink, x: 0, y: 0 });
  });
}

function drawNamedCells(sheet, { across, down, side, left, top, get }, view, columnLabels) {
  for (let y = 0; y < down; y++) {
    for (let x = 0; x < across; x++) {
      const weight = get(x, y);
      if (weight < 0) continue;
      const fill = weightColour(view.scale(weight), view.dark);
      const title = svg("title", { text: `${columnLabels[x]}: ${weight}` });
      sheet.draw("rect", { x: left + x * side, y: top + y * side, width: side, height: side, fill }, title);
    }
  }
}

// Numbers of places along both sides.
function drawPlaces(sheet, { across, down, side, left, top }, [columns, rows]) {
  const style = (anchor) => ({ "font-size": 11, "text-anchor": anchor });
  const stepOf = (length) => niceStep(Math.max(1, length / 6));
  for (let i = 0; i < columns; i += stepOf(columns)) {
    sheet.write(left + ((i + 0.5) / columns) * across * side, top - 6, count(i), style("middle"));
  }
  for (let i = 0; i < rows; i += stepOf(rows)) {
    sheet.write(left - 6, top + ((i + 0.5) / rows) * down * side + 4, count(i), style("end"));
  }
}

// The current row, or all rows of the stacked form, as words on their colours.
function wordsPicture(sheet, view, picture) {
  const { entry, sighting } = view;
  const { q, head } = view.state;
  const { red, ink, quiet } = sheet.colours;
  const stacked = picture === "stacked";
  const all = Array.from({ length: Math.min(entry.L, MOST_ROWS) }, (_, i) => i);
  const rows = stacked ? all : q === null ? [] : [q];
  let y = FIRST_LINE;
  let widest = 0;
  for (const query of rows) {
    const row = sighting.row(entry, head, query);
    const shading = rowShading(row, view.scale);
    const own = entry.self ? entry.keyAt(entry.queryPlace(query)) : -1;
    let x = PAD;
    const word = (text, fill, background) => {
      const width = sheet.width(text) + 8;
      if (!stacked && x + width > 720) {
        x = PAD;
        y += 28;
      }
      if (background) sheet.draw("rect", { x, y: y - 17, width, height: 24, rx: 3, fill: background });
      sheet.write(x + 4, y, text, { fill });
      x += width + 3;
      widest = Math.max(widest, x);
    };
    if (own < 0) {
      word(tokenLabel(sighting.queryToken(entry, query)), red, null);
      x += 12;
    }
    const keys = quotedKeys(entry.S, [...row.pairs.map(([k]) => k), ...(own < 0 ? [] : [own])]);
    keys.forEach((k, n) => {
      if (k > (n ? keys[n - 1] + 1 : 0)) word("…", quiet, null);
      const { share } = shading(k);
      const text = tokenLabel(sighting.keyToken(entry, k));
      if (k === own) word(text, red, null);
      else if (share > 0) word(text, weightInk(share, view.dark), weightColour(share, view.dark));
      else word(text, ink, null);
    });
    y += 30;
  }
  return { width: Math.max(widest + PAD, 240), height: drawLegend(sheet, view, PAD, y + 4) };
}

// The keys of a row that are written: all of a short text, the neighbourhoods of the heaviest of a long one.
function quotedKeys(length, heavy) {
  if (length <= LONG) return Array.from({ length }, (_, k) => k);
  const near = new Set();
  for (const k of heavy) for (let i = Math.max(0, k - QUOTED); i <= Math.min(length - 1, k + QUOTED); i++) near.add(i);
  return [...near].sort((a, b) => a - b);
}

function linesPicture(sheet, view) {
  const { entry, sighting } = view;
  const { head, q } = view.state;
  const keys = wordRow(sheet, Math.min(entry.S, MOST_WORDS), (i) => sighting.keyToken(entry, i));
  const queries = wordRow(sheet, Math.min(entry.L, MOST_WORDS), (i) => sighting.queryToken(entry, i));
  const width = Math.max(keys.end, queries.end);
  const middle = (row, i) => row.words[i].middle + (width - row.end) / 2;
  const lines = [];
  queries.words.forEach((_, i) => {
    for (const [k, weight] of sighting.row(entry, head, i).pairs) {
      if (weight < FAINTEST_LINE) break;
      if (k < keys.words.length) lines.push([weight, i, k]);
    }
  });
  for (const [weight, i, k] of lines.sort((a, b) => a[0] - b[0])) {
    const share = view.scale(weight);
    sheet.draw("path", {
      d: linePath(middle(keys, k), middle(queries, i), FIRST_LINE + 12, 136),
      fill: "none",
      stroke: weightColour(share, view.dark),
      "stroke-width": lineWidth(share),
    });
  }
  const { red, ink } = sheet.colours;
  keys.words.forEach(({ text }, i) => sheet.write(middle(keys, i), FIRST_LINE + 4, text, { "text-anchor": "middle" }));
  queries.words.forEach(({ text }, i) => {
    sheet.write(middle(queries, i), FIRST_LINE + 166, text, { "text-anchor": "middle", fill: i === q ? red : ink });
  });
  return { width, height: drawLegend(sheet, view, PAD, FIRST_LINE + 186) };
}

// Words side by side: { words: [{ text, middle }], end }.
function wordRow(sheet, length, tokenAt) {
  let x = PAD;
  const words = Array.from({ length }, (_, i) => {
    const text = tokenLabel(tokenAt(i));
    const width = sheet.width(text) + 16;
    x += width;
    return { text, middle: x - width / 2 };
  });
  const last = words.at(-1);
  return { words, end: last ? last.middle + sheet.width(last.text) / 2 + 24 : 0 };
}

// The ramp with its numbers; returns where it ends.
function drawLegend(sheet, view, x, y) {
  for (let i = 0; i < 32; i++) {
    sheet.draw("rect", { x: x + 24 + i * 4, y: y - 9, width: 4.2, height: 10, fill: weightColour(i / 31, view.dark) });
  }
  const [low, high] = view.legendEnds();
  sheet.write(x, y, low, { "font-size": 11 });
  sheet.write(x + 24 + 136, y, `${high} (${view.texts[view.state.scale]})`, { "font-size": 11 });
  return y + 10;
}
