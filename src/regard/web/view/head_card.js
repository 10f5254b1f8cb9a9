// The chosen head: its labels, its readings, and its mean weight by distance.

import { h, svg } from "../dom.js";
import { headColour } from "../colours.js";
import { count, decimals } from "../numbers.js";

const LABEL_SHAPES = { "previous token": "◀", sink: "▼", local: "◆", induction: "↻", "duplicate token": "◎", uniform: "▦" };
const CLEAR_LABEL = 0.3; // a first label with this score or more is emphasised

// A horizontal bar that fills a share of its width.
export const meter = (share) => h("i", { css: { width: `${(100 * Math.min(1, Math.max(0, share))).toFixed(2)}%` } });

export function headCard(view) {
  const element = h("section", { class: "rv-card" });
  function draw() {
    const { entry } = view;
    const { head } = view.state;
    element.replaceChildren(
      h("h2", {}, h("i", { class: "rv-dot", "aria-hidden": "true", css: { background: headColour(head) } }), view.headName()),
      h("div", { class: "rv-quiet rv-name", text: [entry.name, entry.mask].filter(Boolean).join(" · ") }),
      ...labelRows(view, entry, head),
      ...readings(view.texts, entry.means, head, entry.S),
      entry.distance && entry.self ? distanceProfile(view.texts, entry.distance, head) : "", // between two texts there is no distance
    );
  }
  return { element, draw };
}

// What the head does on random tokens, where a label can be recognised, and on this text.
function labelRows(view, { labels, here }, head) {
  const { texts } = view;
  const row = (title, about, names) =>
    h(
      "div",
      { class: "rv-chips", title: about },
      h("small", { class: "rv-quiet", text: title }),
      names.length
        ? names.slice(0, 4).map((label, place) => labelChip(view, label, place))
        : h("small", { class: "rv-quiet", text: texts.noLabel }),
    );
  const random = labels[head] && labels.some((one) => one.length) ? [row(texts.labelled, texts.labelledHow, labels[head])] : [];
  return here ? [...random, row(texts.labelledHere, texts.labelledHereHow, here[head])] : random;
}

function labelChip(view, [name, score], place) {
  const clear = place === 0 && score >= CLEAR_LABEL;
  return h(
    "span",
    { class: "rv-chip" + (clear ? " rv-chip-first" : "") },
    h("b", { "aria-hidden": "true", text: LABEL_SHAPES[name] || "●" }),
    ` ${view.labelName(name)} `,
    h("span", { class: "rv-num", text: decimals(score, 2) }),
  );
}

function readings(texts, means, head, keys) {
  const rows = [];
  if (means.entropy) {
    const entropy = means.entropy[head];
    rows.push(reading(texts.entropy, `${decimals(entropy, 2)} ${texts.nats}`, entropy / Math.log(Math.max(2, keys))));
  }
  if (means.sink) rows.push(reading(texts.sink, decimals(means.sink[head], 2), means.sink[head]));
  if (means.max_logit) rows.push(reading(texts.max_logit, decimals(means.max_logit[head], 2), null));
  return rows;
}
function reading(name, text, share) {
  const bar = h("span", { class: share === null ? "" : "rv-meter", "aria-hidden": "true" }, share === null ? null : meter(share));
  return h("div", { class: "rv-reading" }, h("span", { text: name }), bar, h("span", { class: "rv-num", text }));
}

// Mean weight by the distance from query to key, what lies before the query to the left.
function distanceProfile(texts, { offsets, mass }, head) {
  const [W, H] = [260, 56];
  const means = mass[head];
  let first = 0;
  let end = means.length;
  while (first < end - 1 && !(means[first] > 0)) first++;
  while (end > first + 1 && !(means[end - 1] > 0)) end--;
  const largest = Math.max(...means.slice(first, end), 1e-9);
  const bars = end - first;
  const width = W / bars;
  const bar = (i) => {
    const height = Math.max(means[i] > 0 ? 1 : 0, (H * means[i]) / largest);
    const [low, high] = offsets[i];
    return svg(
      "rect",
      {
        x: ((i - first) * width + 0.5).toFixed(1),
        y: (H - height).toFixed(1),
        width: Math.max(0.5, width - 1).toFixed(1),
        height: height.toFixed(1),
        class: "rv-fill",
      },
      svg("title", { text: `${low === high ? low : `${low} … ${high}`}: ${decimals(means[i])}` }),
    );
  };
  const label = (x, anchor, text) => svg("text", { x, y: H + 13, "text-anchor": anchor, text });
  const signed = (offset) => (offset > 0 ? "+" : "−") + count(Math.abs(offset));
  const [lowest, highest] = [offsets[first][0], offsets[end - 1][1]];
  const zero = offsets.findIndex(([low, high]) => low === 0 && high === 0) - first;
  const zeroAnchor = zero + 0.5 > bars - 1 ? "end" : zero < 1 ? "start" : "middle";
  const zeroX = Math.min(W - 2, Math.max(2, (zero + 0.5) * width));
  return h(
    "figure",
    { class: "rv-profile" },
    h("figcaption", { text: texts.distance }),
    svg(
      "svg",
      { viewBox: `0 0 ${W} ${H + 18}`, role: "img", "aria-label": texts.distance },
      Array.from({ length: bars }, (_, i) => bar(first + i)),
      svg("line", { x1: 0, x2: W, y1: H + 0.5, y2: H + 0.5, class: "rv-axis" }),
      lowest < 0 ? label(0, "start", signed(lowest)) : null,
      highest > 0 ? label(W, "end", signed(highest)) : null,
      zero >= 0 && zero < bars ? label(zeroX, zeroAnchor, texts.self) : null,
    ),
  );
}
