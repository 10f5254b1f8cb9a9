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
  const { texts, memory } = studio;
  const settings = rememberedSettings(studio);
  const error = problem(studio);
  const stages = h("div", { class: "st-flow" });
  const explanation = h("p", { class: "st-sum", role: "status", "aria-live": "polite", "data-sum": "", text: texts.hover });
  const proof = h("span", { class: "st-right rv-num", "data-proof": "" });
  const formula = h("p", { class: "st-lead", "data-formula": "" });
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
  const controls = switches(texts, settings, change);
  const words = sentenceWords(studio, settings, change);
  const line = foot(studio.shellTexts, {
    code: () => pythonOf(settings),
    saves: { json: () => ({ asked: requestOf(settings), answer: memory.answer }) },
  });

  function draw() {
    const { answer } = memory;
    const head = answer.heads[settings.shown];
    if (!head || head.query.length !== settings.words.length) return; // an answer to an earlier sentence
    controls.draw();
    keepingFocus(stages, () => stages.replaceChildren(...stageElements(studio, settings, answer, { change, explain })));
    proof.textContent = answer.proof === 0 ? `✓ ${texts.proofExact}` : `✓ ${texts.proof} ${number(answer.proof)}`;
    formula.replaceChildren(attentionFormula(settings));
    words.draw(settings.current);
    line.draw();
  }
  // Write the arithmetic of a cell; a click on a pair of words makes its query the current word.
  function explain(stage, name, i, j, clicked) {
    explanation.replaceChildren(...explanationOf(studio, settings, { stage, name, i, j }));
    if (!PER_WORD_PAIR.includes(stage)) return;
    words.draw(i);
    if (clicked) change({ current: i });
  }

  container.append(
    pageHead(texts, formula),
    h("div", { class: "st-ask" }, sentenceInput(texts, settings, change), controls.element, error.element),
    h("div", { class: "st-row" }, words.element, proof),
    words.notes,
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

// The settings of the last visit, unless the address names another sentence or the example was in another language.
function rememberedSettings({ memory, params, lang }) {
  const otherLanguage = memory.settings && memory.settings.isExample && memory.lang !== lang;
  const otherText = memory.settings && params.text && params.text !== memory.settings.text;
  if (!memory.settings || otherLanguage || otherText) {
    Object.assign(memory, { settings: initialSettings(lang, params), lang, answer: null });
  }
  return memory.settings;
}

// Draw anew without losing the keyboard's place: the element with the same name gets the focus again.
function keepingFocus(element, draw) {
  const focused = element.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  draw();
  if (focused) [...element.querySelectorAll("[aria-label]")].find((node) => node.getAttribute("aria-label") === focused)?.focus();
}

function sentenceInput(texts, settings, change) {
  function changeSentence() {
    const all = splitWords(input.value);
    const words = all.slice(0, MOST_WORDS);
    if (!words.length) {
      input.value = settings.text;
      return;
    }
    change({
      text: words.join(" "),
      words,
      typed: all.length,
      embeddings: words.map(embed),
      current: Math.min(settings.current, words.length - 1),
      isExample: false,
    });
  }
  const input = h("input", {
    type: "text",
    class: "st-text",
    value: settings.text,
    maxlength: "400",
    "aria-label": texts.sentence,
    onchange: changeSentence,
  });
  return input;
}

// The sentence itself, the current word red, the others by the weight it gives them; and notes on the words: which numbers were made up, and
// what was left out.
function sentenceWords(studio, settings, change) {
  const { texts, memory } = studio;
  const element = h("div", { class: "st-words", role: "group", "aria-label": texts.words });
  const notes = h("p", { class: "st-hint", role: "status", "data-words": "" });
  function draw(current) {
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
    element.replaceChildren(...settings.words.map(button));
    const madeUp = settings.words.filter((_, j) => isMadeUp(settings, j));
    const sentences = [
      madeUp.length ? texts.madeUp(madeUp.join(", ")) : "",
      settings.typed > settings.words.length ? texts.cut(settings.words.length, settings.typed) : "",
    ];
    const text = sentences.filter(Boolean).join(" ");
    if (notes.textContent !== text) notes.textContent = text; // a screen reader reads it once
  }
  return { element, notes, draw };
}

// Which cell of which matrix, and how its number is computed. stage: "weights", or of a head's own "change:1".
function explanationOf({ texts, memory }, settings, { stage, name, i, j }) {
  const { answer } = memory;
  const [stageName, ownHead] = stage.split(":");
  const shown = ownHead ?? settings.shown;
  const context = { settings, head: answer.heads[shown], maps: settings.heads[shown], embeddings: settings.embeddings, answer, texts };
  return [
    h("span", { class: "st-where", text: `${name.title}  ${name.rows[i]} · ${name.columns[j]}:  ` }),
    h("b", { class: "rv-num", text: arithmetic(ownHead === undefined ? stage : `${stageName}-of-head`, i, j, context) }),
  ];
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
