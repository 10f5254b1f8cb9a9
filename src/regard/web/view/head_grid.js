// Every layer and head as a thumbnail: layers down, heads across.

import { h } from "../dom.js";
import { weightTable } from "../colours.js";
import { setPixel } from "../heatmap.js";
import { decimals } from "../numbers.js";
import { scaleFunction } from "./scales.js";

const LEFT = 26; // pixels for the numbers of layers
const TOP = 20; // … and of heads
const GAP = 3;
const KEPT_THUMBNAILS = 12000;

export function headGrid(view) {
  const canvas = h("canvas", { class: "rv-grid", tabindex: "0", role: "application" });
  const element = h("div", { class: "rv-gridbox" }, canvas);
  const thumbnailOf = thumbnails(view);
  let side = 24; // pixels of a thumbnail
  let hovered = null; // { entry, head }
  let drawnKey = "";
  const entries = () => view.sighting.entriesOfStep(view.state.step);

  function draw() {
    const shown = entries();
    const heads = Math.max(...shown.map((entry) => entry.heads));
    const room = Math.max(200, element.clientWidth || 280);
    const ratio = devicePixelRatio || 1;
    side = Math.max(20, Math.min(64, Math.floor((room - LEFT - 4) / heads) - GAP));
    const { scale, form, entry, head } = view.state;
    const hoveredKey = hovered && `${hovered.entry.index}.${hovered.head}`;
    const key = [shown.map((one) => one.index), side, scale, form, view.dark, entry, head, hoveredKey, ratio].join("|");
    if (key === drawnKey) return;
    drawnKey = key;
    const cell = side + GAP;
    const [width, height] = [LEFT + heads * cell + 4, TOP + shown.length * cell + 4];
    Object.assign(canvas, { width: width * ratio, height: height * ratio });
    Object.assign(canvas.style, { width: width + "px", height: height + "px" });
    canvas.setAttribute("aria-label", `${view.texts.gridHelp} ${view.headName()}`);
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawNames(context, view, shown, heads, side);
    shown.forEach((one, row) => drawLayer(context, view, one, TOP + row * cell, { side, hovered, thumbnailOf }));
    if (!hovered) revealChosen(element, view, shown, cell); // nothing may scroll under the pointer
  }
  function hover(head) {
    hovered = head;
    canvas.title = hovered ? describe(view, hovered) : "";
    draw();
  }
  function headAt(event) {
    const rectangle = canvas.getBoundingClientRect();
    const cell = side + GAP;
    const entry = entries()[Math.floor((event.clientY - rectangle.top - TOP) / cell)];
    const head = Math.floor((event.clientX - rectangle.left - LEFT) / cell);
    return entry && head >= 0 && head < entry.heads ? { entry, head } : null;
  }
  listen(canvas, view, headAt, hover);
  return { element, draw };
}

function listen(canvas, view, headAt, hover) {
  canvas.addEventListener("pointermove", (event) => hover(headAt(event)));
  canvas.addEventListener("pointerleave", () => hover(null));
  canvas.addEventListener("click", (event) => {
    const chosen = headAt(event);
    if (chosen) view.set({ entry: chosen.entry.index, head: chosen.head });
  });
  canvas.addEventListener("keydown", (event) => {
    const layers = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const heads = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!layers && !heads) return;
    event.preventDefault();
    event.stopPropagation();
    if (heads) view.changeHead(heads);
    else view.changeLayer(layers);
  });
}

function describe(view, { entry, head }) {
  const labels = (entry.labels[head] || []).slice(0, 2);
  return [view.headName(entry, head), ...labels.map(([name, score]) => `${view.labelName(name)} ${decimals(score, 2)}`)].join(" · ");
}

// The numbers of the heads above and of the layers to the left, the chosen ones darker.
function drawNames(context, view, shown, heads, side) {
  const cell = side + GAP;
  const style = getComputedStyle(view.root);
  const colour = (chosen) => style.getPropertyValue(chosen ? "--ink" : "--quiet").trim();
  Object.assign(context, { font: `11px ${style.fontFamily}`, textBaseline: "middle", textAlign: "center" });
  for (let head = 0; head < heads; head++) {
    context.fillStyle = colour(head === view.state.head);
    const named = shown.find((entry) => head < entry.heads) || shown[0];
    context.fillText(named.ids[head], LEFT + head * cell + side / 2, TOP / 2);
  }
  context.textAlign = "right";
  shown.forEach((entry, row) => {
    context.fillStyle = colour(entry.index === view.state.entry);
    context.fillText(entry.layer, LEFT - 7, TOP + row * cell + side / 2);
  });
}

function drawLayer(context, view, entry, y, { side, hovered, thumbnailOf }) {
  const style = getComputedStyle(view.root);
  const ink = style.getPropertyValue("--ink").trim();
  const faint = style.getPropertyValue("--faint").trim();
  for (let head = 0; head < entry.heads; head++) {
    const x = LEFT + head * (side + GAP);
    const image = thumbnailOf(entry, head, side);
    if (image) {
      context.fillStyle = view.hatch(context);
      context.fillRect(x, y, side, side);
      context.imageSmoothingEnabled = image.width > side;
      context.drawImage(image, x, y, side, side);
    }
    const chosen = entry.index === view.state.entry && head === view.state.head;
    const marked = chosen || (hovered && hovered.entry === entry && hovered.head === head);
    context.lineWidth = chosen ? 2.5 : 1;
    context.strokeStyle = marked ? ink : faint;
    context.strokeRect(x - 0.5, y - 0.5, side + 1, side + 1);
  }
}

// Scroll to the chosen head.
function revealChosen(element, view, shown, cell) {
  const row = shown.findIndex((entry) => entry.index === view.state.entry);
  if (row < 0) return;
  const [x, y] = [LEFT + view.state.head * cell, TOP + row * cell];
  requestAnimationFrame(() => {
    const { scrollTop, scrollLeft, clientHeight, clientWidth } = element;
    if (y < scrollTop + TOP || y + cell > scrollTop + clientHeight) element.scrollTop = y - clientHeight / 2;
    if (x < scrollLeft || x + cell > scrollLeft + clientWidth) element.scrollLeft = x - clientWidth / 2;
  });
}

// A function that gives the thumbnail of a head, null if no map of it was kept; each is drawn once.
function thumbnails(view) {
  const drawn = new Map();
  return (entry, head, side) => {
    const { scale: kind, form } = view.state;
    const key = [entry.index, head, side, kind, form, view.dark].join();
    if (drawn.has(key)) return drawn.get(key);
    const grid = view.sighting.grid(entry, head);
    if (!grid) return null;
    if (drawn.size > KEPT_THUMBNAILS) drawn.clear();
    const scale = scaleFunction(kind, view.sighting, grid);
    const pixels = Math.round(side * Math.min(2, devicePixelRatio || 1));
    drawn.set(key, thumbnail(grid, pixels, { byRow: form === "row", byHeaviest: kind === "linear", scale, dark: view.dark }));
    return drawn.get(key);
  };
}

// A head in few pixels. byHeaviest: the heaviest weight under each pixel, so that a thin diagonal does not fade; otherwise the mean of the
// shares, for the scales that show faint weights.
function thumbnail(grid, pixels, { byRow, byHeaviest, scale, dark }) {
  const [across, down] = byRow ? [grid.cols, grid.rows] : [grid.rows, grid.cols];
  const [width, height] = [Math.min(across, pixels), Math.min(down, pixels)];
  const canvas = h("canvas", { width, height });
  const image = new ImageData(width, height);
  const table = weightTable(dark);
  const span = (i, size, cells) => {
    const first = Math.floor((i * cells) / size);
    return [first, Math.max(first + 1, Math.floor(((i + 1) * cells) / size))];
  };
  for (let y = 0; y < height; y++) {
    const [y0, y1] = span(y, height, down);
    for (let x = 0; x < width; x++) {
      const [x0, x1] = span(x, width, across);
      let heaviest = -1;
      let sum = 0;
      let visible = 0;
      for (let j = y0; j < y1; j++) {
        for (let i = x0; i < x1; i++) {
          const weight = byRow ? grid.get(j, i) : grid.get(i, j);
          if (weight < 0) continue;
          heaviest = Math.max(heaviest, weight);
          sum += scale(weight);
          visible++;
        }
      }
      if (visible) setPixel(image.data, y * width + x, table[Math.round(255 * (byHeaviest ? scale(heaviest) : sum / visible))]);
    }
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
