// The line of Python that makes the same picture, ready to copy.

import { h } from "../dom.js";
import { copyText } from "../clipboard.js";

const FUNCTIONS = { pattern: "pattern", words: "words", stacked: "words", lines: "alignment" }; // of regard.sight.figures
const MOST_STACKED = 6000; // cells; a larger stacked figure is drawn for one query

// name: the Python variable that holds the sighting.
export function pythonLine(view, pattern, name) {
  const label = h("span", { class: "rv-quiet" });
  const code = h("code");
  const copy = h("button", { type: "button", class: "rv-plain", onclick: () => copyText(code.textContent, copy, view.texts.copied) });
  function draw() {
    label.textContent = view.texts.python;
    copy.textContent = view.texts.copy;
    const box = view.state.picture === "pattern" && pattern.zoomedBox();
    code.textContent = box ? tileCall(box) : figureCall();
  }

  const call = () => (view.entry.call ? `, call=${view.entry.call}` : "");
  const head = () => view.entry.ids[view.state.head];

  function tileCall({ x0, y0, width, height }) {
    const across = [x0, x0 + width].map(Math.round).join(", ");
    const down = [y0, y0 + height].map(Math.round).join(", ");
    const [rows, cols] = view.state.form === "row" ? [down, across] : [across, down];
    return `${name}.head(${view.entry.layer}, ${head()}${call()}).tile(rows=slice(${rows}), cols=slice(${cols}))`;
  }

  function figureCall() {
    const { entry } = view;
    const { picture, form, scale, q } = view.state;
    let extra = "";
    if (picture === "pattern") {
      if (form === "column") extra += ', form="column"';
      if (scale !== "linear") extra += `, scale="${scale}"`;
    } else if (q !== null && (picture === "words" || (picture === "stacked" && entry.L * entry.S > MOST_STACKED))) extra = `, query=${q}`;
    return `regard.sight.figures.${FUNCTIONS[picture]}(${name}, layer=${entry.layer}, head=${head()}${call()}${extra})`;
  }
  return { element: h("div", { class: "rv-python" }, label, code, copy), draw };
}
