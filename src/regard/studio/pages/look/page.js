// Inspect: a model, a text, and what every head does with it; what changes when heads are changed; one word in several sentences.

import { h } from "../../../web/dom.js";
import { count } from "../../../web/numbers.js";
import { get, job } from "../../static/server.js";
import { acceptDrops, fileButton, foot, pageHead, problem, progress, select } from "../../static/widgets.js";
import { changesFrom, changesText } from "./changes_address.js";
import { drawHeads, parametersOf } from "./heads.js";
import { meanings } from "./meanings.js";
import { whatIf } from "./what_if.js";

const LONGEST_IN_ADDRESS = 1500; // characters of a text
const LARGEST_FILE = 2_000_000; // bytes

export function mount(container, studio) {
  const { texts, memory, params } = studio;
  const models = studio.models.filter((model) => (model.kind === "text" || model.kind === "translator") && model.attention);
  container.append(pageHead(texts));
  if (!models.length) return mountWithoutModels(container, studio);
  memory.choices ||= {
    model: models.some((model) => model.name === params.model) ? params.model : "",
    text: params.text || "",
    changes: changesFrom(params.changes), // of heads, for the what-if
    view: parametersOf(params),
  };
  const page = { studio, texts, memory, choices: memory.choices, models, running: null, view: null, keepTimer: 0 };
  page.keep = () => keep(page);
  page.error = problem(studio);
  page.bar = progress(studio.shellTexts, () => page.running && page.running.cancel());
  page.place = h("div", { class: "st-view" });
  page.effect = whatIf(studio, { error: page.error, onChange: () => inspectChanged(page) });
  page.line = foot(studio.shellTexts, {
    code: () => command(page.choices),
    saves: { json: () => memory.answer && memory.answer.payload },
  });
  container.append(questionElement(page), page.place, page.effect.element, page.line.element, meanings(studio, models));
  begin(page);
  return { drawnForPaper: true, leave: () => leave(page) }; // drawn for paper by the attention view
}

function mountWithoutModels(container, studio) {
  const command = h("pre", { class: "st-code", tabindex: "0", text: "regard studio --model FOLDER" });
  container.append(h("p", { class: "st-problem", role: "status", text: studio.texts.none }), command);
  studio.ready();
  return {};
}

function command({ model, text }) {
  const quoted = text.slice(0, 60).replaceAll('"', '\\"').replaceAll("\n", " ");
  return `regard look ${model} --text "${quoted}${text.length > 60 ? "…" : ""}" --out report.html`;
}

function keep({ studio, choices }) {
  const { model, text, changes, view } = choices;
  const kept = text.length <= LONGEST_IN_ADDRESS ? text : null;
  studio.keep({ model, text: kept, changes: changesText(changes), ...view });
}

// Show what is there already, or inspect the first text.
async function begin(page) {
  const { studio, memory, choices, models } = page;
  if (!memory.answer && !choices.text && !choices.model) await takeInitial(page);
  choices.model ||= models[0].name;
  choices.text ||= samples(page)[0];
  page.model.box.value = choices.model;
  page.box.value = choices.text;
  drawSamples(page);
  drawLimit(page);
  keep(page);
  if (!memory.answer) return inspect(page);
  await show(page);
  return studio.ready();
}

// Take the text and the answer that the server has prepared.
async function takeInitial({ studio, memory, choices, error }) {
  const first = studio.initial || (await get("/api/first/look").catch(() => null));
  if (!first || !first.asked) return;
  Object.assign(choices, { model: first.asked.model, text: first.asked.text });
  memory.answer = first.answer;
  if (first.refused) error.show(first.refused);
}

async function inspect(page) {
  const { memory, choices, texts, error, bar, button, place, studio } = page;
  if (page.running) page.running.cancel();
  page.running = null;
  if (!choices.text.trim()) return clear(page, texts.empty);
  error.clear();
  bar.begin();
  button.disabled = true;
  const { model, text, changes } = choices;
  const mine = job("/api/look", { model, text, changes }, bar.update);
  page.running = mine;
  try {
    memory.answer = await mine.done;
    if (place.isConnected) await show(page);
  } catch (reason) {
    if (page.running === mine) {
      if (reason.code !== "cancelled") clear(page, ""); // what stands below must be of the model and text above
      error.show(reason);
    }
  }
  if (page.running !== mine) return undefined;
  page.running = null;
  bar.end();
  button.disabled = false;
  return studio.ready();
}

function inspectTyped(page) {
  page.choices.text = page.box.value;
  inspectChanged(page);
}

function inspectChanged(page) {
  keep(page);
  inspect(page);
}

function clear(page, hint) {
  const { memory, bar, button, facts, cut, place, effect } = page;
  bar.end();
  button.disabled = false;
  memory.answer = memory.effect = null;
  if (page.view) page.view.destroy();
  page.view = null;
  facts.textContent = "";
  cut.hidden = true;
  place.replaceChildren(...(hint ? [h("p", { class: "st-hint", text: hint })] : []));
  effect.setAnswer(null);
}

function leave(page) {
  if (page.running) page.running.cancel();
  if (page.view) page.view.destroy();
}

// The answer: what was read, the heads, and the output that the what-if begins with.
async function show(page) {
  const { memory, texts, facts, cut, effect, line } = page;
  const { read, whole, took, model } = memory.answer;
  facts.textContent = texts.facts(count(read), count(took * 1000));
  cut.hidden = whole <= read;
  cut.textContent = whole > read ? texts.cut(count(read), count(whole), model) : "";
  await drawHeads(page);
  effect.setAnswer(memory.answer);
  line.draw();
}

// The model, the text, the examples, and what was read of it.
function questionElement(page) {
  const { texts, choices, models, error, bar } = page;
  const modelOptions = models.map(({ name, about }) => [name, `${name} · ${texts.kinds[about] || about}`]);
  const readFile = (file) => inspectFile(page, file);
  page.model = select(texts.model, modelOptions, choices.model, (name) => chooseModel(page, name));
  page.box = textBox(page);
  acceptDrops(page.box, readFile);
  page.button = h("button", { type: "button", class: "st-go", onclick: () => inspectTyped(page), text: texts.inspect });
  page.limit = h("span", { class: "st-hint", "data-limit": "" });
  page.sampleRow = h("div", { class: "st-row" });
  page.cut = h("p", { class: "st-problem", role: "status", "data-cut": "", hidden: true });
  page.facts = h("p", { class: "st-hint", "data-facts": "" });
  return h(
    "div",
    { class: "st-ask" },
    h("div", { class: "st-bar" }, page.model.element, fileButton(texts.open, "text/*,.txt,.md,.py", readFile)),
    page.box,
    h("div", { class: "st-row" }, page.button, h("span", { class: "st-hint", text: texts.keys }), page.limit),
    page.sampleRow,
    error.element,
    bar.element,
    page.cut,
    page.facts,
  );
}

function textBox(page) {
  const inspectOnEnter = (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    inspectTyped(page);
  };
  return h("textarea", {
    class: "st-text",
    rows: "3",
    "aria-label": page.texts.text,
    value: page.choices.text,
    spellcheck: "false",
    onkeydown: inspectOnEnter,
  });
}

async function inspectFile(page, file) {
  if (file.size > LARGEST_FILE) return page.error.show({ code: "large", values: { most: LARGEST_FILE } });
  page.box.value = await file.text();
  return inspectTyped(page);
}

function chooseModel(page, name) {
  const { choices, texts, box } = page;
  Object.assign(choices, { model: name, changes: [], view: {} });
  const isSample = Object.values(texts.samples).flat().includes(choices.text);
  if (!choices.text || isSample) box.value = samples(page)[0];
  drawSamples(page);
  drawLimit(page);
  inspectTyped(page);
}

const chosenModel = ({ models, choices }) => models.find((model) => model.name === choices.model);

// Texts in the language the model reads.
function samples(page) {
  const model = chosenModel(page);
  const plays = model && (model.name.includes("shakespeare") || model.name.startsWith("shk"));
  const all = page.texts.samples;
  return all[model?.source || (plays ? "play" : "")] || all[""];
}

function drawSamples(page) {
  const { texts, box, sampleRow } = page;
  const chip = (text) => {
    const take = () => {
      box.value = text;
      inspectTyped(page);
    };
    return h("button", { type: "button", class: "st-chip", onclick: take, text: text.length > 48 ? text.slice(0, 46) + "…" : text });
  };
  sampleRow.replaceChildren(h("span", { class: "st-label", text: texts.examples }), ...samples(page).map(chip));
}

function drawLimit(page) {
  const most = chosenModel(page)?.limit;
  page.limit.textContent = most ? page.texts.limit(count(most)) : page.texts.noLimit;
}
