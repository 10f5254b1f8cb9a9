// The questions, each beside the stage it is about.

import { h, withSubscripts } from "../../../web/dom.js";

// The questions about a stage, folded away until wanted; what was answered and opened is kept while the stage is drawn anew.
export function questionsOf(studio, stage) {
  const { quiz } = studio.texts;
  studio.memory.quiz ||= { answers: {}, open: {} };
  const { answers, open } = studio.memory.quiz;
  const items = quiz.questions.map((question, n) => [question, n]).filter(([question]) => question.stage === stage);
  if (!items.length) return null;
  const list = items.map(([question, n]) => questionItem(quiz, question, (answers[n] ||= [])));
  const details = h(
    "details",
    {
      class: "st-quiz-box",
      open: Boolean(open[stage]),
      ontoggle: () => {
        open[stage] = details.open;
      },
    },
    h("summary", { text: quiz.title(items.length) }),
    h("ul", { class: "st-quiz" }, list),
  );
  return details;
}

// chosen: the option chosen in each part, as the select holds it.
function questionItem(texts, { ask, parts, why }, chosen) {
  const verdict = h("span", { class: "st-said", role: "status" });
  function check() {
    const answered = parts.every((_, i) => chosen[i]);
    const right = parts.every((part, i) => Number(chosen[i]) === part.right);
    verdict.classList.toggle("st-right", answered && right);
    if (!answered) verdict.replaceChildren();
    else verdict.replaceChildren(...(right ? withSubscripts(`✓ ${why}`) : [`✗ ${texts.notYet}`]));
  }
  const field = (part, i) => {
    const box = h(
      "select",
      {
        "data-right": part.right,
        "aria-label": `${ask} ${part.name}`,
        onchange: () => {
          chosen[i] = box.value;
          check();
        },
      },
      h("option", { value: "", text: texts.pick }),
      part.options.map((text, option) => h("option", { value: String(option), text })),
    );
    box.value = chosen[i] || "";
    return h("label", { class: "st-field" }, part.name ? h("span", { text: part.name }) : null, box);
  };
  check();
  return h("li", {}, h("p", { text: ask }), h("div", { class: "st-row" }, parts.map(field)), verdict);
}
