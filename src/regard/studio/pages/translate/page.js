// Translate: a text, its translation, and which words it was translated from; several translators side by side.

import { h } from "../../../web/dom.js";
import { get, job } from "../../static/server.js";
import { choice, foot, pageHead, problem, progress } from "../../static/widgets.js";
import { drawResults, removeView } from "./results.js";
import { detectLanguage, roleOf, translatorList, usualModels } from "./translators.js";

const BEAM_WIDTH = 4;
const MOST_MODELS = 4; // compared at once
const TYPING_PAUSE = 450; // milliseconds after which a typed text is translated

export function mount(container, studio) {
  const { texts, memory } = studio;
  const translators = translatorList(studio.models);
  container.append(pageHead(texts));
  if (!translators.all.length) return mountWithoutModels(container, studio);
  if (!memory.choices || asksAnew(studio.params, memory.choices)) {
    memory.choices = choicesOf(studio.params, translators);
    memory.answer = memory.softAnswer = null;
  }
  const { choices } = memory;
  const page = { studio, texts, memory, choices, translators, container, view: null, running: null, typingTimer: 0 };
  page.error = problem(studio);
  page.results = h("div", { class: "st-flow" });
  page.bar = progress(studio.shellTexts, () => page.running && page.running.cancel());
  page.keep = () => keep(page);
  page.line = foot(studio.shellTexts, { code: () => command(choices), saves: { json: () => memory.answer } });
  container.append(questionElement(page), page.results, page.line.element);
  begin(page);
  return { drawnForPaper: true, leave: () => leave(page) }; // drawn for paper by the attention view
}

function mountWithoutModels(container, studio) {
  const commands = "regard train translation config.toml\nregard studio --model runs/my-translator";
  container.append(
    h("p", { class: "st-problem", role: "status", text: studio.texts.none }),
    h("pre", { class: "st-code", tabindex: "0", text: commands }),
  );
  studio.ready();
  return {};
}

// Whether a link, as that of a trained run, asks for other models or another text than were shown here before.
const asksAnew = ({ models, text }, choices) =>
  (models !== undefined && models !== choices.models.join(",")) || (text !== undefined && text !== choices.text);

function choicesOf(params, translators) {
  return {
    text: params.text || "",
    models: params.models ? params.models.split(",").filter(translators.named) : [],
    main: params.main || "", // the model whose translation is drawn
    hard: params.hard === "true",
    candidate: 0,
    part: 0, // of a long text
  };
}

function keep({ studio, choices }) {
  const { text, models, hard, main } = choices;
  studio.keep({ text, models: models.join(","), hard: hard || null, main: main || null });
}

function command({ text, main, models }) {
  const quoted = text.trim().replaceAll('"', '\\"').replaceAll("\n", " ");
  return `regard translate "${quoted}" --model ${main || models[0]} --n-best ${BEAM_WIDTH} --html alignment.html`;
}

// Show what is there already, or translate the first text.
async function begin(page) {
  const { memory, choices, translators, studio } = page;
  const { languages, from } = translators;
  const refused = memory.answer || choices.text || choices.models.length ? false : await takeInitial(page);
  if (!choices.models.length) {
    const detected = choices.text && detectLanguage(choices.text);
    choices.models = usualModels(from(languages.includes(detected) ? detected : languages[0]));
  }
  choices.text ||= samples(page, language(page))[0];
  page.box.value = choices.text;
  drawModels(page);
  keep(page);
  if (memory.answer) drawResults(page);
  else if (!refused) return translate(page);
  return studio.ready();
}

// Take the text and the answer that the server has prepared; whether it was refused.
async function takeInitial(page) {
  const first = page.studio.initial || (await get("/api/first/translate").catch(() => null));
  if (!first || !first.asked) return false;
  Object.assign(page.choices, { text: first.asked.text, models: first.asked.models });
  if (first.answer) takeAnswer(page, first.answer);
  if (first.refused) page.error.show(first.refused);
  return Boolean(first.refused);
}

async function translate(page) {
  const { choices, container, results, error, bar, studio } = page;
  if (page.running) page.running.cancel();
  const text = choices.text.trim();
  error.clear();
  bar.begin();
  const mine = job("/api/translate", { models: choices.models, text, width: BEAM_WIDTH, hard: choices.hard }, bar.update);
  page.running = mine;
  try {
    const answer = await mine.done;
    if (page.running === mine) {
      takeAnswer(page, answer);
      if (container.contains(results)) drawResults(page);
    }
  } catch (reason) {
    if (page.running === mine) error.show(reason);
  }
  if (page.running !== mine) return;
  page.running = null;
  bar.end();
  studio.ready();
}

function takeAnswer({ memory, choices }, answer) {
  memory.answer = answer;
  Object.assign(choices, { candidate: 0, part: 0 });
  if (!answer.hard) memory.softAnswer = answer; // shown beside the hard one
}

function change(page, changes = {}) {
  Object.assign(page.choices, changes);
  keep(page);
  translate(page);
}

// Nothing is asked, so nothing is answered.
function clear(page) {
  const { memory, results, error, bar, texts } = page;
  if (page.running) page.running.cancel();
  page.running = null;
  bar.end();
  error.clear();
  keep(page);
  memory.answer = memory.softAnswer = null;
  removeView(page);
  results.replaceChildren(h("p", { class: "st-hint", text: texts.empty }));
}

function leave(page) {
  clearTimeout(page.typingTimer);
  if (page.running) page.running.cancel();
  if (page.view) page.view.destroy();
}

// The text, the switches, the models and the examples.
function questionElement(page) {
  const { texts, choices, translators, error, bar } = page;
  const { languages } = translators;
  const languageOptions = languages.map((lang) => [lang, texts.languages[lang] || texts.languages[""]]);
  page.languageChoice = choice(texts.from, languageOptions, language(page), (lang) => chooseLanguageWithSample(page, lang));
  const attentionOptions = [
    ["soft", texts.soft, texts.softTitle],
    ["hard", texts.hard, texts.hardTitle],
  ];
  const setAttention = (kind) => change(page, { hard: kind === "hard" });
  const attentionChoice = choice(texts.attention, attentionOptions, choices.hard ? "hard" : "soft", setAttention);
  page.modelRow = h("div", { class: "st-row", role: "group", "aria-label": texts.models });
  page.sampleRow = h("div", { class: "st-row" });
  page.box = textBox(page);
  const switches = h(
    "div",
    { class: "st-bar" },
    languages.length > 1 ? page.languageChoice.element : null,
    attentionChoice.element,
    page.modelRow,
  );
  return h("div", { class: "st-ask" }, page.box, switches, page.sampleRow, error.element, bar.element);
}

// The box translates what is typed after a pause, and at once on Enter.
function textBox(page) {
  const { texts, choices } = page;
  const takeAfterPause = () => {
    clearTimeout(page.typingTimer);
    page.typingTimer = setTimeout(() => {
      if (page.box.value !== choices.text) takeTyped(page);
    }, TYPING_PAUSE);
  };
  const takeOnEnter = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    clearTimeout(page.typingTimer);
    takeTyped(page);
  };
  return h("textarea", {
    class: "st-text",
    rows: "2",
    maxlength: "1000",
    "aria-label": texts.source,
    placeholder: texts.placeholder,
    value: choices.text,
    oninput: takeAfterPause,
    onkeydown: takeOnEnter,
  });
}

// A text in another language is given to that language's translators.
function takeTyped(page) {
  const { box, choices, translators } = page;
  choices.text = box.value;
  if (!box.value.trim()) return clear(page);
  const detected = detectLanguage(box.value);
  const known = ["zh", "de"].includes(language(page)) && translators.languages.includes(detected);
  if (known && detected !== language(page)) return chooseLanguage(page, detected);
  return change(page);
}

const language = ({ choices, translators }) => translators.named(choices.models[0])?.source ?? translators.languages[0];
const samples = ({ texts }, lang) => texts.samples[lang] || texts.samples[""];

function chooseLanguage(page, lang) {
  Object.assign(page.choices, { models: usualModels(page.translators.from(lang)), main: "" });
  drawModels(page);
  change(page);
}

function chooseLanguageWithSample(page, lang) {
  const { choices, box } = page;
  if (detectLanguage(choices.text) !== lang) choices.text = box.value = samples(page, lang)[0];
  chooseLanguage(page, lang);
}

function toggleModel(page, { name }) {
  const { choices } = page;
  const others = choices.models.filter((one) => one !== name);
  const chosen = choices.models.includes(name);
  if (chosen && others.length) choices.models = others;
  if (!chosen) choices.models = [...choices.models, name].slice(-MOST_MODELS);
  drawModels(page);
  change(page);
}

// The models and the examples of the current language.
function drawModels(page) {
  const { texts, choices, translators, box, languageChoice, modelRow, sampleRow } = page;
  const lang = language(page);
  const available = translators.from(lang);
  const chip = (props) => h("button", { type: "button", class: "st-chip", ...props });
  const modelChip = (model) =>
    chip({
      "aria-pressed": String(choices.models.includes(model.name)),
      title: roleOf(texts, model),
      onclick: () => toggleModel(page, model),
      text: model.name,
    });
  const takeSample = (text) => {
    box.value = text;
    change(page, { text });
  };
  const sampleChip = (text) => chip({ lang: lang === "zh" ? "zh-CN" : lang || null, onclick: () => takeSample(text), text });
  languageChoice.set(lang);
  modelRow.hidden = available.length < 2;
  modelRow.replaceChildren(h("span", { class: "st-label", text: texts.models }), ...available.map(modelChip));
  sampleRow.replaceChildren(h("span", { class: "st-label", text: texts.examples }), ...samples(page, lang).map(sampleChip));
}
