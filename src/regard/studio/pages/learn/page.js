// The lesson: eight screens, each with one sentence, one thing to try and one question to answer before the result is shown.

import { h } from "../../../web/dom.js";
import { problem } from "../../static/widgets.js";
import { questionElement } from "./question.js";
import { worksheet } from "./worksheet.js";
import * as fixedVector from "./screens/fixed_vector.js";
import * as attention from "./screens/attention.js";
import * as lookup from "./screens/lookup.js";
import * as dotProduct from "./screens/dot_product.js";
import * as softmax from "./screens/softmax.js";
import * as weightedSum from "./screens/weighted_sum.js";
import * as heads from "./screens/heads.js";
import * as realHead from "./screens/real_head.js";

const SCREENS = [fixedVector, attention, lookup, dotProduct, softmax, weightedSum, heads, realHead];

export function mount(container, studio) {
  const { texts, params, memory } = studio;
  if (params.worksheet) return worksheet(container, studio);
  const asked = Number(params.screen);
  memory.screen = asked >= 1 && asked <= SCREENS.length ? asked - 1 : (memory.screen ?? 0);
  memory.present = params.present === "1";
  memory.answers ||= {}; // by screen: the option chosen
  const root = document.documentElement;
  const place = h("section", { class: "st-lesson", "aria-live": "polite" });
  let mounted = null;

  function show(screen) {
    if (mounted && mounted.leave) mounted.leave();
    memory.screen = Math.max(0, Math.min(SCREENS.length - 1, screen));
    studio.keep({ screen: String(memory.screen + 1), present: memory.present ? "1" : null });
    root.classList.toggle("st-present", memory.present);
    const { parts, trial, error } = screenParts(studio, memory.screen);
    place.replaceChildren(...parts);
    drawNavigation(navigation, texts, memory.screen, show);
    mounted = SCREENS[memory.screen].mount(trial, { studio, words: texts.screens[memory.screen], error });
    studio.ready();
  }
  const navigation = h("nav", { class: "st-steps", "aria-label": texts.title });
  const togglePresent = () => {
    memory.present = !memory.present;
    show(memory.screen);
  };
  const onKey = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 1, PageUp: -1 }[event.key];
    const busy = event.target.matches("input, textarea, select, [role=tab], td, .st-word") || event.defaultPrevented;
    if (busy || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "p") return togglePresent();
    if (event.key === "Escape" && memory.present) return togglePresent();
    if (step) {
      event.preventDefault();
      show(memory.screen + step);
    }
  };
  document.addEventListener("keydown", onKey);
  container.append(
    h("div", { class: "st-head" }, h("h1", { text: texts.title }), h("p", { class: "st-lead", text: texts.lead })),
    place,
    navigation,
    h(
      "p",
      { class: "st-row st-lesson-tools" },
      h("button", { type: "button", class: "rv-plain", onclick: togglePresent, text: texts.present }),
      h("a", { href: "#learn?worksheet=1", text: texts.worksheet }),
      h("span", { class: "st-hint", text: texts.keys }),
    ),
  );
  show(memory.screen);
  return {
    drawnForPaper: true, // its answers come from the server and would not be there in time
    leave() {
      document.removeEventListener("keydown", onKey);
      root.classList.remove("st-present");
      if (mounted && mounted.leave) mounted.leave();
    },
  };
}

// One sentence, the place for the thing to try, the question, the teacher's notes.
function screenParts(studio, screen) {
  const { texts, memory } = studio;
  const words = texts.screens[screen];
  const error = problem(studio);
  const trial = h("div", { class: "st-trial", "data-trial": "" });
  const question = questionElement(texts, words, memory.answers[screen], (option) => {
    memory.answers[screen] = option;
  });
  const parts = [
    h("h2", { text: `${screen + 1}  ${words.title}` }),
    h("p", { class: "st-say", text: words.say }),
    trial,
    error.element,
    question,
    h("details", { class: "st-notes" }, h("summary", { text: texts.notes }), h("p", { text: words.notes })),
  ];
  return { parts, trial, error: (reason) => error.show(reason) };
}

function drawNavigation(navigation, texts, screen, show) {
  const button = (text, target, props = {}) =>
    h("button", { type: "button", class: "rv-plain", onclick: () => show(target), text, ...props });
  const dot = (_, i) =>
    button(String(i + 1), i, {
      class: "st-step",
      "aria-current": i === screen ? "step" : null,
      "aria-label": `${i + 1}: ${texts.screens[i].title}`,
    });
  const focused = navigation.contains(document.activeElement) && document.activeElement.dataset.go;
  navigation.replaceChildren(
    button(`← ${texts.back}`, screen - 1, { disabled: screen === 0, "data-go": "back" }),
    h("span", { class: "st-dots" }, SCREENS.map(dot)),
    button(`${texts.next} →`, screen + 1, { class: "st-go", disabled: screen === SCREENS.length - 1, "data-go": "next" }),
  );
  if (focused) navigation.querySelector(`[data-go="${focused}"]`)?.focus();
}
