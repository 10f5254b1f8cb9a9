// One head's attention pattern on a canvas: exact weights or a pooled map, zoomed and panned, in row or column form.
// In row form x runs over keys and y over queries, in column form the other way round.

import { h } from "../dom.js";
import { count, number } from "../numbers.js";
import { paintedGrid } from "../heatmap.js";
import { patternLayout } from "./pattern_layout.js";
import { drawAxis, drawCells, drawNumbers, drawSelection, drawWrapped } from "./pattern_drawing.js";
import { exactTiles } from "./pattern_tiles.js";

const LEAST_CELLS = 2; // that zooming in leaves

export function patternView(view) {
  const canvas = h("canvas", { class: "rv-canvas", tabindex: "0", role: "img" });
  const caption = h("span", { class: "rv-range" });
  const tool = (text, name, act) => h("button", { type: "button", class: "rv-tool", "data-text": name, onclick: act, text });
  const tools = [tool("+", "zoomIn", () => zoom(0.5)), tool("−", "zoomOut", () => zoom(2)), tool("⤢", "fit", () => fit())];
  const bar = h("div", { class: "rv-bar" }, h("span", { class: "rv-tools", role: "group" }, tools), caption);
  const element = h("div", { class: "rv-pattern" }, bar, h("div", { class: "rv-stage" }, canvas));
  const tiles = exactTiles(view, () => draw());
  let box = null; // what is in sight: { x0, y0, width, height } in cells
  let shape = "";
  let image = null; // the whole grid, a pixel a cell
  let imageKey = "";

  const byRow = () => view.state.form === "row";
  const across = () => (byRow() ? view.entry.S : view.entry.L);
  const down = () => (byRow() ? view.entry.L : view.entry.S);
  const toCell = (x, y) => (byRow() ? { q: y, k: x } : { q: x, k: y });
  const toXY = (q, k) => (byRow() ? { x: k, y: q } : { x: q, y: k });
  const isQueryAxis = (axis) => (axis === "y") === byRow();
  const labelAt = (axis, i) => (isQueryAxis(axis) ? view.sighting.queryToken(view.entry, i) : view.sighting.keyToken(view.entry, i));
  const whole = () => ({ x0: 0, y0: 0, width: across(), height: down() });
  const zoomed = () => box.width < across() || box.height < down();

  function clamp({ x0, y0, width, height }) {
    return { x0: Math.min(Math.max(0, x0), across() - width), y0: Math.min(Math.max(0, y0), down() - height), width, height };
  }
  function fit() {
    box = whole();
    draw();
  }
  // Zoom around a point in cells; without one around the selected cell, or the middle.
  function zoom(factor, centre = null) {
    const { x, y } = centre || selectedPoint();
    const width = Math.min(across(), Math.max(LEAST_CELLS, box.width * factor));
    const height = Math.min(down(), Math.max(LEAST_CELLS, box.height * factor));
    // The point keeps its place on the screen; a point out of sight comes to the middle when zooming in.
    const share = (at, start, size) => {
      const outside = at < start || at > start + size;
      return factor < 1 && outside ? 0.5 : Math.min(1, Math.max(0, (at - start) / size));
    };
    const x0 = x - share(x, box.x0, box.width) * width;
    const y0 = y - share(y, box.y0, box.height) * height;
    box = clamp({ x0, y0, width, height });
    draw();
  }
  function selectedPoint() {
    const { q, k } = view.state;
    const { x, y } = toXY(q, k ?? q);
    return { x: (x ?? box.x0 + box.width / 2) + 0.5, y: (y ?? box.y0 + box.height / 2) + 0.5 };
  }
  // Bring a cell selected with the keyboard into sight.
  function reveal() {
    if (!box || view.state.q === null) return;
    const { x, y } = toXY(view.state.q, view.state.k);
    const moved = { ...box };
    if (x !== null && (x < box.x0 || x + 1 > box.x0 + box.width)) moved.x0 = x + 0.5 - box.width / 2;
    if (y !== null && (y < box.y0 || y + 1 > box.y0 + box.height)) moved.y0 = y + 0.5 - box.height / 2;
    box = clamp(moved);
  }

  // The grid as pixels, one a cell; painted again only when what it shows changes.
  function gridImage(grid) {
    const { entry, state, dark } = view;
    const key = [entry.index, state.head, state.form, state.scale, dark].join();
    if (imageKey !== key) {
      const [columns, rows] = byRow() ? [grid.cols, grid.rows] : [grid.rows, grid.cols];
      const get = byRow() ? (x, y) => grid.get(y, x) : (x, y) => grid.get(x, y);
      image = paintedGrid(columns, rows, get, view.scale, dark);
      imageKey = key;
    }
    return image;
  }

  function draw() {
    const { entry, grid } = view;
    const newShape = `${entry.L}.${entry.S}.${view.state.form}`;
    if (shape !== newShape || !box) {
      shape = newShape;
      box = whole();
    }
    for (const one of tools) {
      one.title = view.texts[one.dataset.text];
      one.setAttribute("aria-label", one.title);
    }
    canvas.setAttribute("aria-label", `${view.headName()}: ${byRow() ? view.texts.rowTitle : view.texts.columnTitle}`);
    const context = canvas.getContext("2d");
    const style = getComputedStyle(view.root);
    const plot = patternLayout(context, style.fontFamily, box, canvas.parentElement.clientWidth, labelAt);
    view.plot = plot;
    resize(plot);
    context.clearRect(0, 0, plot.totalWidth, plot.totalHeight);
    const colours = Object.fromEntries(["ink", "faint", "red", "page"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    if (!grid && !entry.top) {
      context.fillStyle = colours.ink;
      drawWrapped(context, view.texts.noMap, 12, 40, plot.totalWidth - 24);
      caption.textContent = "";
      return;
    }
    drawInside(context, plot, colours);
    context.strokeStyle = colours.faint;
    context.lineWidth = 1;
    context.strokeRect(plot.margin.left - 0.5, plot.margin.top - 0.5, plot.width + 1, plot.height + 1);
    for (const axis of ["y", "x"]) {
      const isQuery = isQueryAxis(axis);
      drawAxis(context, plot, axis, {
        fontFamily: style.fontFamily,
        label: (i) => labelAt(axis, i),
        length: axis === "x" ? across() : down(),
        current: isQuery ? view.state.q : view.state.k,
        currentColour: isQuery ? colours.red : colours.ink,
        ink: colours.ink,
      });
    }
    caption.textContent = captionText(entry, grid);
    if (view.onZoom) view.onZoom();
  }

  function drawInside(context, plot, colours) {
    const { entry, grid } = view;
    context.save();
    context.beginPath();
    context.rect(plot.margin.left, plot.margin.top, plot.width, plot.height);
    context.clip();
    if (grid) {
      const hatched = entry.weights || entry.hidden; // masked cells are transparent in the image
      drawCells(context, plot, gridImage(grid), { across: across(), down: down(), hatch: hatched ? view.hatch(context) : null });
    }
    if (!entry.weights) tiles.draw(context, plot, { byRow: byRow(), page: colours.page });
    else drawNumbers(context, plot, getComputedStyle(view.root).fontFamily, numberAt, view.dark);
    if (view.state.q !== null) drawSelection(context, plot, view.state, byRow(), colours);
    context.restore();
  }
  function numberAt(x, y) {
    const { q, k } = toCell(x, y);
    const weight = view.sighting.weight(view.entry, view.state.head, q, k);
    return weight === undefined || weight < 0 ? null : { weight, share: view.scale(weight) };
  }

  function resize({ totalWidth, totalHeight }) {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(totalWidth * ratio), Math.round(totalHeight * ratio)];
    if (canvas.width !== width || canvas.height !== height) {
      Object.assign(canvas, { width, height });
      Object.assign(canvas.style, { width: totalWidth + "px", height: totalHeight + "px" });
    }
    canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  function captionText(entry, grid) {
    const { texts } = view;
    const cells = grid && grid.pooled ? texts.pooledCell(number(entry.L / grid.rows, 0), number(entry.S / grid.cols, 0)) : texts.exactCell;
    if (!zoomed()) return cells;
    const inSight = (axis, name) => {
      const [start, size] = axis === "x" ? [box.x0, box.width] : [box.y0, box.height];
      return `${name} ${count(Math.floor(start))}–${count(Math.ceil(start + size) - 1)}`;
    };
    return [cells, inSight(byRow() ? "y" : "x", texts.query), inSight(byRow() ? "x" : "y", texts.key)].join(" · ");
  }

  // The point under the pointer, in cells.
  function pointAt(event) {
    const { margin, cellWidth, cellHeight } = view.plot;
    const rectangle = canvas.getBoundingClientRect();
    return {
      x: box.x0 + (event.clientX - rectangle.left - margin.left) / cellWidth,
      y: box.y0 + (event.clientY - rectangle.top - margin.top) / cellHeight,
    };
  }
  function cellAt(event) {
    const point = pointAt(event);
    const [x, y] = [Math.floor(point.x), Math.floor(point.y)];
    const farLeft = event.clientX - canvas.getBoundingClientRect().left < view.plot.margin.left - 60;
    return x < 0 || y < 0 || x >= across() || y >= down() || farLeft ? null : toCell(x, y);
  }
  listen();
  return { element, draw, zoom, fit, reveal, zoomedBox: () => (box && zoomed() ? box : null) };

  // Hover selects, click pins, drag pans, two fingers or ctrl and the wheel zoom.
  function listen() {
    const fingers = new Map();
    let press = null;
    let spread = 0; // between two fingers, in pixels
    const hover = (event) => {
      const cell = cellAt(event);
      if (cell) view.hover(cell.q, cell.k);
    };
    canvas.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, event);
      press = { x: event.clientX, y: event.clientY, box: { ...box }, moved: false };
      if (event.pointerType !== "mouse") hover(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (fingers.has(event.pointerId)) fingers.set(event.pointerId, event);
      if (fingers.size === 2) {
        const [a, b] = [...fingers.values()];
        const distance = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
        if (spread) zoom(spread / distance);
        spread = distance;
        return;
      }
      const far = press && (press.moved || Math.hypot(event.clientX - press.x, event.clientY - press.y) > 4);
      if (!far || !zoomed()) return hover(event);
      press.moved = true;
      const x0 = press.box.x0 - (event.clientX - press.x) / view.plot.cellWidth;
      const y0 = press.box.y0 - (event.clientY - press.y) / view.plot.cellHeight;
      box = clamp({ ...box, x0, y0 });
      draw();
    });
    const release = (event) => {
      fingers.delete(event.pointerId);
      spread = 0;
      const cell = press && !press.moved && event.type === "pointerup" && cellAt(event);
      if (cell) view.pin(cell.q, cell.k);
      press = null;
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => {
      if (!fingers.size) view.leave();
    });
    canvas.addEventListener("dblclick", (event) => {
      const cell = cellAt(event);
      if (!cell) return;
      const { x, y } = toXY(cell.q, cell.k);
      zoom(0.4, { x: x + 0.5, y: y + 0.5 });
    });
    const wheel = (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, pointAt(event));
    };
    canvas.addEventListener("wheel", wheel, { passive: false });
  }
}
