// Steps: attention computed step by step on a short sentence. Every input can be edited; the server computes the rest.

import { h } from "../../../web/dom.js";
import { weightStyle } from "../../../web/colours.js";
import { number } from "../../../web/numbers.js";
import { latest, post } from "../../static/server.js";
import { choice, foot, pageHead, problem, slider, toggle } from "../../static/widgets.js";
import { arithmetic } from "./arithmetic.js";
import { attentionFormula } from "./attention_formula.js";
import { embed, isMadeUp, MOST_WORDS, splitWords } from "./example.js";
import { panels } from "./panels.js";
import { isRealHead, mountRealHead } from "./real_head.js";
import { addressOf, initialSettings, pythonOf, requestOf } from "./settings.js";
import { stageElements } from "./stages.js";

const PER_WORD_PAIR = ["raw", "scaled", "masked", "weights"]; // stages whose rows are queries and columns keys

export function mount(container, studio) {
  return isRealHead(studio.params) ? mountRealHead(container, studio) : mountExample(container, studio);
}

function mountExample(container, studio) {
  const { texts, memory, params } = studio;
  const otherLanguage = memory.settings && memory.settings.isExample && memory.lang !== studio.lang;
  const otherText = memory.settings && params.text && params.text !== memory.settings.text;
  if (!memory.settings || otherLanguage || otherText) {
    Object.assign(memory, { settings: initialSettings(studio.lang, params), lang: studio.lang, answer: null });
  }
  const settings = memory.settings;
  const error = problem(studio);
  const stages = h("div", { class: "st-flow" });
  const words = h("div", { class: "st-words", role: "group", "aria-label": texts.words });
  const explanation = h("p", { class: "st-sum", role: "status", "aria-live": "polite", "data-sum": "", text: texts.hover });
  const proof = h("span", { class: "st-right rv-num", "data-proof": "" });
  const written = h("p", { class: "st-lead", "data-formula": "" });
  const wordNotes = h("p", { class: "st-hint", role: "status", "data-words": "" });

  const compute = latest(async () => {
    try {
      memory.answer = await post("/api/steps", requestOf(settings));
      error.clear();
      draw();
    } catch (reason) {
      error.show(reason);
    }
    studio.ready();
  });
  function change(changes = {}) {
    Object.assign(settings, changes);
    settings.shown = Math.min(settings.shown, settings.count - 1);
    studio.keep(addressOf(settings));
    compute();
  }
  function changeSentence() {
    const all = splitWords(sentence.value);
    const typed = all.slice(0, MOST_WORDS);
    if (!typed.length) {
      sentence.value = settings.text;
      return;
    }
    change({
      text: typed.join(" "),
      words: typed,
      given: all.length,
      embeddings: typed.map(embed),
      current: Math.min(settings.current, typed.length - 1),
      isExample: false,
    });
  }
  const sentence = h("input", {
    type: "text",
    class: "st-text",
    value: settings.text,
    maxlength: "400",
    "aria-label": texts.sentence,
    onchange: changeSentence,
  });

  const controls = switches(texts, settings, change);

  function draw() {
    const { answer } = memory;
    const head = answer.heads[settings.shown];
    if (!head || head.query.length !== settings.words.length) return; // an answer to an earlier sentence
    controls.draw();
    const focused = stages.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    stages.replaceChildren(...stageElements(studio, settings, answer, { change, explain }));
    if (focused) [...stages.querySelectorAll("[aria-label]")].find((node) => node.getAttribute("aria-label") === focused)?.focus();
    proof.textContent = answer.proof === 0 ? `✓ ${texts.proofExact}` : `✓ ${texts.proof} ${number(answer.proof)}`;
    written.replaceChildren(attentionFormula(settings));
    drawWords(settings.current);
    drawWordNotes();
    line.draw();
  }

  // Write the arithmetic of a cell; a click on a pair of words makes its query the current word.
  function explain(stage, name, i, j, clicked) {
    const { answer } = memory;
    const { rows, columns } = name;
    const [stageName, shown] = stage.split(":"); // "change:1": the second head's own
    const context = {
      settings,
      head: answer.heads[shown ?? settings.shown],
      maps: settings.heads[shown ?? settings.shown],
      embeddings: settings.embeddings,
      answer,
      texts,
    };
    explanation.replaceChildren(
      h("span", { class: "st-where", text: `${name.title}  ${rows[i]} · ${columns[j]}:  ` }),
      h("b", { class: "rv-num", text: arithmetic(shown === undefined ? stage : `${stageName}-of-head`, i, j, context) }),
    );
    if (!PER_WORD_PAIR.includes(stage)) return;
    drawWords(i);
    if (clicked) change({ current: i });
  }

  // The sentence itself: the current word red, the others by the weight it gives them.
  function drawWords(current) {
    const weights = memory.answer.heads[settings.shown].weights[current];
    const button = (word, j) =>
      h("button", {
        type: "button",
        class: "st-word",
        "aria-pressed": String(j === current),
        "aria-label": `${word} ${number(weights[j])}`,
        css: j === current ? {} : weightStyle(weights[j], studio.dark),
        onclick: () => change({ current: j }),
        text: isMadeUp(settings, j) ? `${word}*` : word,
      });
    words.replaceChildren(...settings.words.map(button));
  }
  // What the reader must know of the words: which numbers were made up, and what was left out.
  function drawWordNotes() {
    const madeUp = settings.words.filter((_, j) => isMadeUp(settings, j));
    const notes = [
      madeUp.length ? texts.madeUp(madeUp.join(", ")) : "",
      settings.given > settings.words.length ? texts.cut(settings.words.length, settings.given) : "",
    ];
    wordNotes.textContent = notes.filter(Boolean).join(" ");
  }

  const line = foot(studio.shellTexts, {
    code: () => pythonOf(settings),
    saves: { json: () => ({ asked: requestOf(settings), answer: memory.answer }) },
  });
  container.append(
    pageHead(texts, written),
    h("div", { class: "st-ask" }, sentence, controls.element, error.element),
    h("div", { class: "st-row" }, words, proof),
    wordNotes,
    stages,
    explanation,
    line.element,
    panels(studio),
  );
  if (memory.answer) {
    draw();
    studio.ready();
  }
  change();
  return {};
}

function switches(texts, settings, change) {
  const named = (values, names) => values.map((value) => [value, names[value]]);
  const one = (label, name, options) => choice(label, options, settings[name], (value) => change({ [name]: value })).element;
  const drawAgain = h("button", {
    type: "button",
    class: "rv-plain",
    onclick: () => change({ seed: settings.seed + 1 }),
    text: texts.drawAgain,
  });
  const shownHead = h("span");
  const setTemperature = (value) => change({ temperature: Math.abs(Math.log(value)) < 0.02 ? 1 : value }); // 1 can be hit exactly
  const showTwo = (value) => number(value, 2);
  const counts = [1, 2, 4].map((count) => [count, String(count)]);
  const element = h(
    "div",
    { class: "st-bar", "data-controls": "" },
    one(texts.score, "score", named(["dot", "additive", "bilinear"], texts.scores)),
    toggle(texts.scale, settings.scaled, (scaled) => change({ scaled })).element,
    one(texts.mask, "mask", named(["none", "causal", "window"], texts.masks)),
    slider(texts.temperature, { low: 0.05, high: 20, value: settings.temperature, log: true, show: showTwo }, setTemperature).element,
    one(texts.choice, "choice", named(["softmax", "sparsemax", "entmax15", "argmax", "sample"], texts.choices)),
    drawAgain,
    one(texts.heads, "count", counts),
    shownHead,
    one(texts.form, "form", named(["row", "column"], texts.forms)),
  );
  function draw() {
    drawAgain.hidden = settings.choice !== "sample";
    const options = Array.from({ length: settings.count }, (_, i) => [i, String(i + 1), texts.headNames[i]]);
    shownHead.replaceChildren(...(settings.count > 1 ? [one(texts.head, "shown", options)] : []));
  }
  return { element, draw };
}
