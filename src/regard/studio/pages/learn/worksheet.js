// The lesson on paper: every sentence and question with room to write, and the answers on a page of their own.

import { h } from "../../../web/dom.js";

export function worksheet(container, studio) {
  const { texts } = studio;
  const item = ({ title, say, ask, options, notes }) =>
    h(
      "li",
      {},
      h("h2", { text: title }),
      h("p", { text: say }),
      h("p", {}, h("b", { text: ask })),
      h(
        "ul",
        { class: "st-boxes" },
        options.map((option) => h("li", { text: `☐ ${option}` })),
      ),
      h("p", { class: "st-rule", text: texts.because }),
      h("p", { class: "st-hint st-teacher", text: notes }),
    );
  const answer = ({ options, right, why }) => h("li", {}, h("b", { text: options[right] }), ` — ${why}`);
  container.append(
    h("div", { class: "st-head" }, h("h1", { text: texts.title }), h("p", { class: "st-lead", text: texts.sheetLead })),
    h(
      "p",
      { class: "st-row st-screen-only" },
      h("button", { type: "button", class: "st-go", onclick: () => window.print(), text: texts.print }),
      h("a", { href: "#learn?screen=1", text: texts.toLesson }),
    ),
    h("ol", { class: "st-sheet" }, texts.screens.map(item)),
    h("section", { class: "st-answers" }, h("h2", { text: texts.answers }), h("ol", {}, texts.screens.map(answer))),
  );
  studio.ready();
  return {};
}
