// The view as a file: SVG drawn from the numbers, PNG of that SVG, JSON of the numbers.

import { h } from "../dom.js";
import { download } from "../download.js";
import { viewSvg } from "./svg_picture.js";

const MOST_TOKENS = 4096; // queries and keys written to JSON

// kind: "svg", "png" or "json"; picture: "pattern", "words", "stacked" or "lines".
export async function saveView(view, kind, picture) {
  const { entry } = view;
  const name = `attention-${entry.layer}-${entry.ids[view.state.head]}-${picture}.${kind}`;
  if (kind === "json") return download(name, new Blob([jsonText(view)], { type: "application/json" }));
  const text = new XMLSerializer().serializeToString(viewSvg(view, picture));
  const blob = kind === "svg" ? new Blob([text], { type: "image/svg+xml" }) : await pngOf(text);
  return download(name, blob);
}

async function pngOf(svgText) {
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svgText);
  await image.decode();
  const canvas = h("canvas", { width: 2 * image.width, height: 2 * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function jsonText(view) {
  const { entry, sighting } = view;
  const { head, q } = view.state;
  const queries = Array.from({ length: Math.min(entry.L, MOST_TOKENS) }, (_, i) => i);
  const keys = Array.from({ length: Math.min(entry.S, MOST_TOKENS) }, (_, i) => i);
  const rounded = (weight) => Number(weight.toPrecision(6));
  const value = {
    model: sighting.payload.model,
    layer: entry.layer,
    head: entry.ids[head],
    call: entry.call,
    name: entry.name,
    mask: entry.mask,
    proof: entry.proof,
    labels: entry.labels[head],
    queries: queries.map((i) => sighting.queryToken(entry, i).text),
    keys: keys.map((i) => sighting.keyToken(entry, i).text),
    current: q,
    means: Object.fromEntries(Object.entries(entry.means).map(([name, values]) => [name, values[head]])),
    rows: queries.map((i) => sighting.row(entry, head, i).pairs.map(([k, weight]) => [k, rounded(weight)])),
  };
  return JSON.stringify(value, null, 1);
}
