// One head's attention pattern on a canvas: exact weights or a pooled map, zoomed and panned, in row or column form.

import { h } from "../dom.js";
import { count, number } from "../numbers.js";
import { paintedGrid } from "../heatmap.js";
import { patternAxes } from "./pattern_axes.js";
import { patternLayout } from "./pattern_layout.js";
import { drawAxis, drawCells, drawNumbers, drawSelection, drawWrapped } from "./pattern_drawing.js";
import { listenToPointer } from "./pattern_pointer.js";
import { exactTiles } from "./pattern_tiles.js";
import { patternViewport } from "./pattern_viewport.js";

const COLOURS = ["ink", "faint", "red", "page"]; // CSS variables

export function patternView(view) {
  const canvas = h("canvas", { class: "rv-canvas", tabindex: "0", role: "img" });
  const axes = patternAxes(view);
  const viewport = patternViewport(view, axes);
  const caption = h("span", { class: "rv-range" });
  const buttons = zoomButtons({ zoomIn: () => zoom(0.5), zoomOut: () => zoom(2), fit: () => fit() });
  const bar = h("div", { class: "rv-bar" }, h("span", { class: "rv-tools", role: "group" }, buttons), caption);
  const element = h("div", { class: "rv-pattern" }, bar, h("div", { class: "rv-stage" }, canvas));
  const parts = { axes, tiles: exactTiles(view, () => draw()), image: gridImage(view, axes) };

  function fit() {
    viewport.fit();
    draw();
  }
  function zoom(factor, centre) {
    viewport.zoom(factor, centre);
    draw();
  }
  function draw() {
    viewport.fitNewShape();
    for (const button of buttons) {
      button.title = view.texts[button.dataset.text];
      button.setAttribute("aria-label", button.title);
    }
    canvas.setAttribute("aria-label", `${view.headName()}: ${axes.byRow() ? view.texts.rowTitle : view.texts.columnTitle}`);
    const context = canvas.getContext("2d");
    const style = getComputedStyle(view.root);
    const colours = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    const plot = patternLayout(context, style.fontFamily, viewport.box, canvas.parentElement.clientWidth, axes.tokenAt);
    view.plot = plot;
    resize(canvas, plot);
    context.clearRect(0, 0, plot.totalWidth, plot.totalHeight);
    if (!view.grid && !view.entry.top) {
      context.fillStyle = colours.ink;
      drawWrapped(context, view.texts.noMap, 12, 40, plot.totalWidth - 24);
      caption.textContent = "";
      return;
    }
    drawInside(context, view, plot, colours, parts);
    context.strokeStyle = colours.faint;
    context.lineWidth = 1;
    context.strokeRect(plot.margin.left - 0.5, plot.margin.top - 0.5, plot.width + 1, plot.height + 1);
    for (const axis of ["y", "x"]) drawAxis(context, plot, axis, axisOptions(view, axes, axis, style.fontFamily, colours));
    caption.textContent = captionText(view, axes, viewport);
    if (view.onZoom) view.onZoom();
  }

  listenToPointer(canvas, view, { axes, viewport, zoom, draw });
  return { element, draw, zoom, fit, reveal: viewport.reveal, zoomedBox: () => (viewport.isZoomed() ? viewport.box : null) };
}

function zoomButtons(actions) {
  const signs = { zoomIn: "+", zoomOut: "−", fit: "⤢" };
  return Object.entries(actions).map(([name, onclick]) =>
    h("button", { type: "button", class: "rv-tool", "data-text": name, onclick, text: signs[name] }),
  );
}

// A function that gives the grid as an image, a pixel a cell; painted again only when what it shows changes.
function gridImage(view, { byRow }) {
  let image = null;
  let imageKey = "";
  return () => {
    const { entry, grid, state, dark } = view;
    const key = [entry.index, state.head, state.form, state.scale, dark].join();
    if (imageKey !== key) {
      const [columns, rows] = byRow() ? [grid.cols, grid.rows] : [grid.rows, grid.cols];
      const get = byRow() ? (x, y) => grid.get(y, x) : (x, y) => grid.get(x, y);
      image = paintedGrid(columns, rows, get, view.scale, dark);
      imageKey = key;
    }
    return image;
  };
}

// The cells, the numbers in them where there is room, and the selection.
function drawInside(context, view, plot, colours, { axes, tiles, image }) {
  const { entry } = view;
  const byRow = axes.byRow();
  context.save();
  context.beginPath();
  context.rect(plot.margin.left, plot.margin.top, plot.width, plot.height);
  context.clip();
  if (view.grid) {
    const hatched = entry.weights || entry.hidden; // masked cells are transparent in the image
    drawCells(context, plot, image(), { across: axes.across(), down: axes.down(), hatch: hatched ? view.hatch(context) : null });
  }
  if (!entry.weights) tiles.draw(context, plot, { byRow, page: colours.page });
  else drawNumbers(context, plot, getComputedStyle(view.root).fontFamily, (x, y) => numberAt(view, axes.toCell(x, y)), view.dark);
  if (view.state.q !== null) drawSelection(context, plot, view.state, byRow, colours);
  context.restore();
}

function numberAt(view, { q, k }) {
  const weight = view.sighting.weight(view.entry, view.state.head, q, k);
  return weight === undefined || weight < 0 ? null : { weight, share: view.scale(weight) };
}

function axisOptions(view, axes, axis, fontFamily, { ink, red }) {
  const isQuery = axes.isQueryAxis(axis);
  return {
    fontFamily,
    label: (i) => axes.tokenAt(axis, i),
    length: axis === "x" ? axes.across() : axes.down(),
    current: isQuery ? view.state.q : view.state.k,
    currentColour: isQuery ? red : ink,
    ink,
  };
}

// A canvas of this size in CSS pixels, sharp on every screen.
function resize(canvas, { totalWidth, totalHeight }) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [Math.round(totalWidth * ratio), Math.round(totalHeight * ratio)];
  if (canvas.width !== width || canvas.height !== height) {
    Object.assign(canvas, { width, height });
    Object.assign(canvas.style, { width: totalWidth + "px", height: totalHeight + "px" });
  }
  canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
}

// What a cell is and, when zoomed, which queries and keys are visible.
function captionText({ entry, grid, texts }, { byRow }, { box, isZoomed }) {
  const cells = grid && grid.pooled ? texts.pooledCell(number(entry.L / grid.rows, 0), number(entry.S / grid.cols, 0)) : texts.exactCell;
  if (!isZoomed()) return cells;
  const visible = (axis, name) => {
    const [start, size] = axis === "x" ? [box.x0, box.width] : [box.y0, box.height];
    return `${name} ${count(Math.floor(start))}–${count(Math.ceil(start + size) - 1)}`;
  };
  return [cells, visible(byRow() ? "y" : "x", texts.query), visible(byRow() ? "x" : "y", texts.key)].join(" · ");
}
