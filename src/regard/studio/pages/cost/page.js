// Cost: what a model costs, each number with its formula; and this machine's measured curves beside the predicted ones.

import { h } from "../../../web/dom.js";
import { latest, post } from "../../static/server.js";
import { card, choice, foot, pageHead, problem, select } from "../../static/widgets.js";
import { arithmeticCard, growthCharts, memoryCard, parametersCard, piecesCard } from "./cards.js";
import { machineCard } from "./machine.js";

const DTYPES = ["fp32", "bf16", "fp16", "fp8", "int8", "int4"];
const DEFAULTS = { preset: "gpt3", config: "", context: 0, batch: 1, dtype: "bf16", mode: "infer", counting: "textbook" };

export function mount(container, studio) {
  const { texts, memory } = studio;
  const { presets, ...initial } = studio.initial; // the answer for the defaults
  memory.choices ||= choicesOf(studio.params);
  const { choices } = memory;
  const isDefault = Object.entries(DEFAULTS).every(([name, value]) => choices[name] === value);
  if (!memory.answer && isDefault) memory.answer = initial;
  const page = { studio, texts, memory, choices, container, memoryChart: null };
  page.error = problem(studio);
  page.results = h("div", { class: "st-flow" });
  page.plan = latest(() => plan(page));
  page.line = foot(studio.shellTexts, {
    code: () => command(choices),
    saves: {
      svg: () => page.memoryChart && page.memoryChart.picture,
      json: () => ({ ...memory.answer, machine: memory.machine || null }),
    },
  });
  const config = configElement(page);
  container.append(
    pageHead(texts),
    controls(page, presets),
    config,
    page.error.element,
    page.results,
    machineCard(studio),
    page.line.element,
  );
  keep(page);
  if (memory.answer) {
    draw(page);
    studio.ready();
  } else page.plan();
  return {};
}

const choicesOf = (params) => ({
  ...DEFAULTS,
  preset: params.preset || DEFAULTS.preset,
  context: Number(params.context) || DEFAULTS.context,
  batch: Number(params.batch) || DEFAULTS.batch,
  dtype: params.dtype || DEFAULTS.dtype,
  mode: params.mode || DEFAULTS.mode,
  counting: params.counting === "stored" ? "stored" : DEFAULTS.counting,
  part: params.part || "query", // of the parameters, whose formula is shown
});

function command({ config, preset, context, batch, dtype, mode }) {
  const options = [context ? ` --context ${context}` : "", batch > 1 ? ` --batch ${batch}` : "", ` --dtype ${dtype}`];
  return `regard plan ${config ? "config.json" : preset}${options.join("")}${mode === "train" ? " --train" : ""} --explain`;
}

// Ask for the costs of the chosen model.
async function plan(page) {
  const { choices, memory, error, studio } = page;
  try {
    const { preset, config, context, batch, dtype, mode, counting } = choices;
    const asked = config ? { preset: "gpt3", config: JSON.parse(config) } : { preset, config: null };
    memory.answer = await post("/api/cost/plan", { ...asked, context, batch, dtype, mode, counting });
    error.clear();
    draw(page);
  } catch (reason) {
    error.show(reason instanceof SyntaxError ? { code: "json", message: reason.message } : reason);
  }
  studio.ready();
}

function keep({ studio, choices }) {
  const { preset, config, context, batch, dtype, mode, counting, part } = choices;
  studio.keep({
    preset: config ? null : preset,
    context: context || null,
    batch: batch === 1 ? null : batch,
    dtype,
    mode,
    counting,
    part,
  });
}

function change(page, changes) {
  Object.assign(page.choices, changes);
  keep(page);
  page.plan();
}

function draw(page) {
  const { memory, texts, choices, container, results, line } = page;
  const { plan: planned, growth } = memory.answer;
  const curves = growthCharts(texts, growth);
  page.memoryChart = curves.memory;
  const choosePart = (changes) => {
    Object.assign(choices, changes);
    keep(page);
    draw(page);
    results.querySelector('.st-stack [aria-pressed="true"]')?.focus();
  };
  const left = h(
    "div",
    { class: "st-flow" },
    piecesCard(texts, planned.pieces),
    card(texts.byContext, curves.memory.element),
    card(texts.flopsTitle, curves.flops.element),
  );
  const right = h("div", { class: "st-flow" }, arithmeticCard(texts, planned.steps), memoryCard(texts, planned.memory));
  results.replaceChildren(
    parametersCard(texts, planned, choices, container.clientWidth, choosePart),
    h("div", { class: "st-cards" }, left, right),
  );
  line.draw();
}

// A config.json of one's own, pasted.
function configElement(page) {
  const { texts, choices } = page;
  page.configArea = h("textarea", {
    class: "st-text",
    rows: "3",
    spellcheck: "false",
    placeholder: '{"model_type": "llama", "num_hidden_layers": 32, …}',
    "aria-label": texts.paste,
    value: choices.config,
  });
  const countConfig = () => change(page, { config: page.configArea.value.trim() });
  const button = h("button", { type: "button", class: "rv-plain", onclick: countConfig, text: texts.countIt });
  return h(
    "details",
    { open: Boolean(choices.config) },
    h("summary", { text: texts.paste }),
    h("div", { class: "st-drop" }, page.configArea, h("div", {}, button)),
  );
}

// The model and what it is asked to do.
function controls(page, presets) {
  const { texts, choices } = page;
  const same = (values) => values.map((value) => [value, value]);
  const named = (values, names, titles = {}) => values.map((value) => [value, names[value], titles[value]]);
  const set = (name) => (value) => change(page, { [name]: value });
  const choosePreset = (preset) => {
    page.configArea.value = "";
    change(page, { preset, config: "" });
  };
  const countings = named(["textbook", "stored"], texts.countings, texts.countingsTitle);
  return h(
    "div",
    { class: "st-bar" },
    select(texts.model, same(presets), choices.preset, choosePreset).element,
    integer(page, texts.context, "context", 0),
    integer(page, texts.batch, "batch", 1),
    select(texts.dtype, same(DTYPES), choices.dtype, set("dtype")).element,
    choice(texts.mode, named(["infer", "train"], texts.modes), choices.mode, set("mode")).element,
    choice(texts.counting, countings, choices.counting, set("counting")).element,
  );
}

// A box for a whole number of at least `least`; empty where 0 stands for the model's own.
function integer(page, label, name, least) {
  const { texts, choices } = page;
  const take = () => {
    const value = Math.round(Number(box.value));
    if (value >= least) change(page, { [name]: value });
    else box.value = choices[name] || "";
  };
  const box = h("input", {
    type: "number",
    min: least,
    step: "1",
    value: choices[name] ? String(choices[name]) : "",
    placeholder: least ? null : texts.itsOwn,
    onchange: take,
  });
  return h("label", { class: "st-field" }, h("span", { class: "st-label", text: label }), box);
}
