// A question to answer before the explanation is shown.

import { h } from "../../../web/dom.js";

// words: { ask, options, right, why }; chosen: the option chosen before; onChoose(option).
export function questionElement(texts, { ask, options, right, why }, chosen, onChoose) {
  const verdict = h("p", { class: "st-verdict", role: "status" });
  const buttons = options.map((text, i) =>
    h("button", { type: "button", class: "st-chip", "data-option": i, onclick: () => choose(i), text }),
  );
  function reveal(option) {
    buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", String(i === option));
      button.classList.toggle("st-correct", i === right);
    });
    verdict.classList.toggle("st-right", option === right);
    verdict.textContent = `${option === right ? `✓ ${texts.yes}` : `✗ ${texts.no}`} ${why}`;
  }
  function choose(option) {
    onChoose(option);
    reveal(option);
  }
  if (chosen !== undefined) reveal(chosen);
  return h(
    "div",
    { class: "st-question", role: "group", "aria-label": ask },
    h("p", {}, h("b", { text: `${texts.predict} ` }), ask),
    h("div", { class: "st-row" }, buttons),
    verdict,
  );
}
