// One word in several sentences: how its vectors move apart from layer to layer, and whether two senses are further apart than one is
// from itself. A blank line in the list of sentences begins another sense.

import { h } from "../../../web/dom.js";
import { job } from "../../static/server.js";
import { card, problem, progress, select, slider } from "../../static/widgets.js";
import { controlElement, cosineChart, plane, sentenceList } from "./meanings_drawing.js";

const LAYER_TIME = 350; // milliseconds a layer is shown while playing
const MOST_SENTENCES = 12;

// The model that shows an example best: one that knows the words of the language; published models and translators before small ones.
function bestModel(models, lang) {
  const preferred =
    lang === "zh"
      ? [(model) => model.kind === "translator", (model) => model.name.includes("smollm")]
      : [(model) => model.name === "minilm", (model) => model.name.includes("smollm")];
  const rank = (model) => {
    const at = preferred.findIndex((fits) => fits(model));
    return at < 0 ? preferred.length : at;
  };
  const readers = models.filter((model) => model.reads.includes(lang) && model.about !== "lm");
  return readers.sort((a, b) => rank(a) - rank(b))[0] || null;
}

const written = ({ senses }) => senses.map((sentences) => sentences.join("\n")).join("\n\n");

// The sentences of a text and the sense of each: a blank line begins the next sense.
function readSentences(text) {
  const groups = text.split(/\n[ \t]*\n/).map((group) => group.split("\n").map((line) => line.trim()));
  const all = groups
    .map((lines) => lines.filter(Boolean))
    .filter((lines) => lines.length)
    .flatMap((lines, sense) => lines.map((sentence) => ({ sentence, sense })))
    .slice(0, MOST_SENTENCES);
  return { sentences: all.map(({ sentence }) => sentence), senses: all.map(({ sense }) => sense) };
}

function firstChoices(texts, models, lang) {
  const { examples } = texts;
  const languages = lang === "zh" ? ["zh", "en"] : ["en", "zh"];
  const readable = (one) => examples.findIndex((example) => example.lang === one && bestModel(models, one));
  const example = languages.map(readable).find((i) => i >= 0) ?? 0;
  const { word, lang: itsLanguage } = examples[example];
  const model = (bestModel(models, itsLanguage) || models[0]).name;
  return { example, model, word, text: written(examples[example]), layer: null, answer: null };
}

export function meanings(studio, allModels) {
  const texts = studio.texts.meanings;
  const models = allModels.filter((model) => !model.about.includes("bahdanau")); // a recurrent encoder has no layers
  if (!models.length) return h("div");
  studio.memory.meanings ||= firstChoices(texts, models, studio.lang);
  const part = { studio, texts, models, choices: studio.memory.meanings, running: null, playing: 0 };
  part.error = problem(studio);
  part.bar = progress(studio.shellTexts, () => part.running && part.running.cancel());
  part.output = h("div", { class: "st-flow" });
  part.needs = h("p", { class: "st-problem", role: "status", "data-needs": "", hidden: true });
  part.exampleRow = h("div", { class: "st-row" });
  const element = card(
    texts.title,
    h("p", { class: "st-hint", text: texts.about }),
    controls(part),
    part.needs,
    part.error.element,
    part.bar.element,
    part.output,
  );
  drawExamples(part);
  if (part.choices.answer) draw(part);
  else runWhenSeen(part.sentences, () => run(part));
  return element;
}

function controls(part) {
  const { texts, choices, models } = part;
  part.word = h("input", { type: "text", maxlength: "40", value: choices.word, "aria-label": texts.word, onchange: () => run(part) });
  part.sentences = h("textarea", {
    class: "st-text",
    rows: "6",
    "aria-label": texts.sentences,
    value: choices.text,
    onchange: () => run(part),
  });
  const options = models.map(({ name }) => [name, name]);
  part.modelSelect = select(texts.model, options, choices.model, (name) => {
    choices.model = name;
    part.needs.hidden = true;
    run(part);
  });
  const wordField = h("label", { class: "st-field" }, h("span", { class: "st-label", text: texts.word }), part.word);
  return h(
    "div",
    { class: "st-flow" },
    h("div", { class: "st-bar" }, part.exampleRow, part.modelSelect.element, wordField),
    part.sentences,
    h("p", { class: "st-hint", text: texts.blankLine }),
  );
}

function drawExamples(part) {
  const { texts, choices, models } = part;
  const chip = (example, i) => {
    const best = bestModel(models, example.lang);
    return h("button", {
      type: "button",
      class: "st-chip",
      "aria-pressed": String(i === choices.example),
      title: best ? texts.readBy(best.name) : texts.needs[example.lang],
      onclick: () => chooseExample(part, i),
      text: example.word,
    });
  };
  part.exampleRow.replaceChildren(h("span", { class: "st-label", text: texts.examplesTitle }), ...texts.examples.map(chip));
}

function chooseExample(part, i) {
  const { texts, choices, models } = part;
  const example = texts.examples[i];
  const best = bestModel(models, example.lang);
  choices.example = i;
  part.word.value = example.word;
  part.sentences.value = written(example);
  part.needs.hidden = Boolean(best);
  part.needs.textContent = best ? "" : texts.needs[example.lang];
  drawExamples(part);
  if (best) {
    choices.model = part.modelSelect.box.value = best.name;
    return run(part);
  }
  if (part.running) part.running.cancel();
  part.running = null;
  part.bar.end();
  part.error.clear();
  Object.assign(choices, { answer: null, word: example.word, text: part.sentences.value });
  return part.output.replaceChildren();
}

async function run(part) {
  const { choices, error, bar } = part;
  if (part.running) part.running.cancel();
  stop(part);
  choices.word = part.word.value.trim();
  choices.text = part.sentences.value;
  const { sentences, senses } = readSentences(choices.text);
  if (!choices.word || sentences.length < 2) return error.show({ code: "few", message: "" });
  bar.begin();
  const told = senses.at(-1) > 0 ? senses : null; // one group: nothing is said about senses
  const mine = job("/api/look/meanings", { model: choices.model, word: choices.word, sentences, senses: told }, bar.update);
  part.running = mine;
  try {
    const answer = await mine.done;
    if (part.running !== mine) return undefined; // a newer request runs
    Object.assign(choices, { answer: { ...answer, senses }, layer: null });
    error.clear();
    draw(part);
  } catch (reason) {
    if (part.running !== mine) return undefined;
    error.show(reason);
    choices.answer = null;
    part.output.replaceChildren();
  }
  part.running = null;
  return bar.end();
}

function draw(part) {
  const { texts, choices, output } = part;
  const { answer } = choices;
  const last = answer.layers.length - 1;
  const layer = Math.min(choices.layer ?? last, last);
  const layerSlider = slider(
    texts.layer,
    { low: 0, high: last, value: layer, step: 1, show: (v) => (v === 0 ? texts.before : String(v)) },
    (v) => {
      stop(part);
      choices.layer = v;
      draw(part);
      output.querySelector("input[type=range]")?.focus();
    },
  );
  const togglePlay = () => {
    if (part.playing) stop(part);
    else play(part);
    draw(part);
    output.querySelector("[data-walk]")?.focus();
  };
  const playButton = h("button", {
    type: "button",
    class: "rv-plain",
    "data-walk": "",
    onclick: togglePlay,
    text: part.playing ? texts.pause : texts.play,
  });
  const caption = h("figcaption", {}, h("b", { text: texts.planeTitle }), h("small", { text: ` ${texts.planeNote}` }));
  const controlsRow = h("div", { class: "st-row" }, layerSlider.element, playButton);
  output.replaceChildren(
    controlElement(texts, answer, layer),
    h(
      "div",
      { class: "st-pair" },
      h("figure", { class: "st-figure" }, caption, plane(answer, layer, texts.plane), controlsRow),
      h("div", { class: "st-flow" }, cosineChart(texts, answer, layer), sentenceList(answer)),
    ),
  );
}

function stop(part) {
  clearInterval(part.playing);
  part.playing = 0;
}
function play(part) {
  const { choices, output } = part;
  choices.layer = 0;
  part.playing = setInterval(() => {
    const { answer, layer } = choices;
    const goes = output.isConnected && answer && layer < answer.layers.length - 1;
    if (goes) choices.layer = layer + 1;
    else stop(part);
    if (answer) draw(part);
  }, LAYER_TIME);
}

// Begin when half of the element is in sight and the view above is drawn: opening a published model takes a while, and neither that view nor
// a change of its heads should wait.
function runWhenSeen(element, begin) {
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      if (document.querySelector("#page[data-ready]")) begin();
      else setTimeout(() => runWhenSeen(element, begin), LAYER_TIME);
    },
    { threshold: 0.5 },
  );
  observer.observe(element);
}
