// One token as people read it, and how the keys of a query's row are coloured.

import { h } from "../dom.js";
import { weightColour, weightInk } from "../colours.js";

// options: share (of the ramp), current (the query), key (the key hovered), masked, match (of a search), id, title.
export function tokenElement(token, dark, options = {}) {
  const classes = ["rv-token"];
  if (token.mark === "*") classes.push("rv-special");
  if (token.mark === "+" && !token.part) classes.push("rv-on");
  if (options.current) classes.push("rv-now");
  if (options.key) classes.push("rv-key");
  if (options.masked) classes.push("rv-masked");
  if (options.match) classes.push("rv-hit");
  const coloured = options.share > 0 && !options.current;
  const css = coloured ? { backgroundColor: weightColour(options.share, dark), color: weightInk(options.share, dark) } : {};
  return h(
    "span",
    { class: classes.join(" "), id: options.id, title: options.title, css },
    token.mark === "_" ? h("i", { class: "rv-space", "aria-hidden": "true", text: "·" }) : null,
    shownText(token) || (token.mark === "_" ? "" : "␣"),
    token.part ? h("sub", { text: `${token.part[0]}/${token.part[1]}` }) : null,
  );
}

// A character split into several tokens is written once, with its first.
export const shownText = (token) => (token.part && token.part[0] > 1 ? "⋯" : token.text || "");

// A token in one line of text: in a picture, on an axis.
export const tokenLabel = (token) => (token.text || "␣") + (token.part ? ` ${token.part[0]}/${token.part[1]}` : "");

// For each key of a row: its share of the ramp, its weight (null if not known), whether it is masked.
export function rowShading(row, scale) {
  if (!row) return () => ({ share: 0, weight: null });
  if (row.weights) {
    return (k) => {
      const weight = row.weights[k];
      return weight < 0 ? { share: 0, weight: -1, masked: true } : { share: scale(weight), weight };
    };
  }
  const weights = new Map(row.pairs);
  return (k) => (weights.has(k) ? { share: scale(weights.get(k)), weight: weights.get(k) } : { share: 0, weight: null });
}
