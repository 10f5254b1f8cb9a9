// The weighted sum moves the vector: a noun's vector before and after attention, with and without its adjectives.

import { h, svg } from "../../../../web/dom.js";
import { number } from "../../../../web/numbers.js";
import { latest } from "../../../static/server.js";
import { toggle } from "../../../static/widgets.js";
import { computeExample, exampleWords } from "../example_steps.js";

const [SOFT, BLUE] = [3, 4]; // the two features the plane shows
const SIZE = 300;

export function mount(place, { studio, words, error }) {
  const names = exampleWords(studio.lang); // article, soft, blue, noun, verb
  const kept = { 1: true, 2: true };
  const noun = names[3];
  const plane = nounPlane(words, noun);
  const told = h("p", { class: "st-formula", "data-moved": "", role: "status" });
  const compute = latest(async () => {
    try {
      const shown = names.filter((_, i) => kept[i] !== false);
      const { answer } = await computeExample(shown);
      const after = answer.result[shown.indexOf(noun)];
      plane.move(after[SOFT], after[BLUE]);
      told.textContent = words.moved(noun, number(after[SOFT], 2), number(after[BLUE], 2));
    } catch (reason) {
      error(reason);
    }
  });
  const control = (i) =>
    toggle(words.keep(names[i]), true, (on) => {
      kept[i] = on;
      compute();
    }).element;
  place.replaceChildren(h("div", { class: "st-bar" }, control(1), control(2)), plane.element, told);
  compute();
  return {};
}

// The plane of two features: the noun begins at 0, and the arrow ends where its vector is now.
function nounPlane(words, noun) {
  const X = (v) => 40 + (SIZE - 80) * v;
  const Y = (v) => SIZE - 40 - (SIZE - 80) * v;
  const arrow = svg("line", { class: "st-arrow", x1: X(0), y1: Y(0), x2: X(0), y2: Y(0) });
  const dot = svg("g", { class: "st-moving-dot" }, svg("circle", { r: 8 }), svg("text", { x: 12, y: -8, text: noun }));
  const element = svg(
    "svg",
    { viewBox: `0 0 ${SIZE} ${SIZE}`, class: "st-plane st-small-plane", role: "img", "aria-label": words.plane },
    svg("path", { class: "st-ring", d: `M40 20V${SIZE - 40}H${SIZE - 20}` }),
    svg("text", { x: SIZE - 20, y: SIZE - 16, "text-anchor": "end", text: words.soft }),
    svg("text", { x: 36, y: 14, text: words.blue }),
    arrow,
    dot,
  );
  return {
    element,
    move(x, y) {
      dot.style.transform = `translate(${X(x)}px, ${Y(y)}px)`;
      arrow.setAttribute("x2", X(x));
      arrow.setAttribute("y2", Y(y));
    },
  };
}
