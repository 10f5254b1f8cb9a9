// Train: a small task is learned before your eyes: its loss, and the attention matrix growing out of noise.

import { h } from "../../../web/dom.js";
import { chart } from "../../../web/chart.js";
import { number } from "../../../web/numbers.js";
import { get, post } from "../../static/server.js";
import { card, choice, fileButton, foot, pageHead, problem, select, slider } from "../../static/widgets.js";
import { attentionTable, headsOf } from "./attention.js";
import { previewRun } from "./preview.js";
import { outcome, runsTable } from "./outcome.js";
import { requestOf, SMALL, stepsOf } from "./request.js";
import { trainSmall } from "./small.js";

const POLL = 900; // milliseconds between looks at a run
const LARGEST_FILE = 1_400_000; // bytes
const DEFAULTS = {
  task: "reverse",
  model: "bahdanau",
  score: "additive",
  heads: 1,
  positions: "sinusoidal",
  mask: "causal",
  scaled: "on",
  steps: null, // as many as the model takes
  baseline: "on",
  begin: "0.3",
};

export function mount(container, studio) {
  const { texts, memory, params } = studio;
  memory.choices ||= { ...DEFAULTS, pairs: null, file: "" };
  const page = { studio, texts, memory, choices: memory.choices, container, timer: 0, step: null, left: false };
  page.error = problem(studio);
  page.watch = h("div", { class: "st-flow", "data-watch": "" });
  page.controls = h("div", { class: "st-flow" });
  page.line = foot(studio.shellTexts, { code: () => command(page), saves: { json: () => memory.state || null } });
  container.append(pageHead(texts), page.controls, page.error.element, page.watch, page.line.element);
  drawControls(page);
  const asked = params.run || memory.run;
  if (asked) open(page, asked);
  else previewRun(page);
  studio.ready();
  return {
    leave() {
      page.left = true;
      page.stopSmall?.();
      clearTimeout(page.timer);
    },
  };
}

function command({ memory }) {
  if (memory.run && memory.state && !memory.state.config) return `regard studio --run ${memory.run}`; // its config is not in its folder
  return memory.run ? `regard train translation ${memory.run}/config.toml` : "regard train translation config.toml";
}

// The switches of a new run. What does not apply to the chosen model is hidden.
function drawControls(page) {
  const { texts, choices, controls } = page;
  const named = (values, names) => values.map((value) => [value, names[value]]);
  const one = (name, values, label, names) =>
    choice(label, named(values, names), choices[name], (value) => {
      choices[name] = value;
      drawControls(page);
      if (!page.memory.run && (name === "task" || !SMALL.includes(choices.task))) previewRun(page);
    }).element;
  const recurrent = choices.model === "bahdanau";
  const transformer = choices.model === "transformer";
  const readFile = async (file) => {
    if (file.size > LARGEST_FILE) return page.error.show({ code: "large", values: { most: LARGEST_FILE } });
    Object.assign(choices, { task: "own", pairs: await file.text(), file: file.name });
    drawControls(page);
    return page.memory.run ? undefined : previewRun(page);
  };
  const tasks = ["reverse", "adjectives", ...SMALL, ...(choices.pairs ? ["own"] : [])];
  const small = SMALL.includes(choices.task);
  const steps = { low: 50, high: 5000, value: stepsOf(choices), log: true, show: (v) => String(Math.round(v / 10) * 10) };
  const plan = h("span", { class: "st-hint", "data-plan": "", text: small ? "" : planned(texts, choices) });
  controls.replaceChildren(
    h("div", { class: "st-bar" }, one("task", tasks, texts.task, texts.tasks), fileButton(texts.own, ".tsv,.txt,text/*", readFile)),
    h("p", { class: "st-hint", text: choices.task === "own" ? texts.ownAbout(choices.file) : texts.about[choices.task] }),
    small
      ? smallControls(texts, choices, one)
      : h(
          "div",
          { class: "st-bar", "data-controls": "" },
          one("model", ["bahdanau", "fixed", "transformer"], texts.model, texts.models),
          recurrent ? one("score", ["additive", "scaled-dot", "dot"], texts.score, texts.scores) : null,
          transformer ? one("heads", [1, 2, 4], texts.heads, { 1: "1", 2: "2", 4: "4" }) : null,
          transformer ? one("scaled", ["on", "off"], texts.scaled, texts.scaledNames) : null,
          transformer ? one("positions", ["sinusoidal", "none"], texts.positions, texts.positionNames) : null,
          transformer ? one("mask", ["causal", "none"], texts.mask, texts.maskNames) : null,
          slider(texts.steps, steps, (value) => {
            choices.steps = Math.round(value / 10) * 10;
            plan.textContent = planned(texts, choices);
          }).element,
        ),
    h("p", { class: "st-hint", "data-break": "", text: texts.tryBreaking[breaking(choices)] }),
    h(
      "div",
      { class: "st-row" },
      h("button", {
        type: "button",
        class: "st-go",
        "data-start": "",
        onclick: () => (small ? startSmall(page) : start(page)),
        text: texts.start,
      }),
      plan,
    ),
  );
}

// What the button starts, in words.
function planned(texts, choices) {
  const { task, model, score, heads, positions, mask, scaled } = choices;
  const name = modelName(texts, {
    kind: model,
    score: model === "bahdanau" ? score : null,
    heads,
    positions,
    causal: mask === "causal",
    scaled: scaled === "on",
  });
  const steps = stepsOf(choices);
  return task === "own" ? texts.planOwn(name, steps) : texts.plan(name, steps);
}

// Which hint about breaking it fits the switches.
function breaking({ task, model, mask, positions, scaled }) {
  if (SMALL.includes(task) || model !== "transformer") return SMALL.includes(task) ? task : model;
  return mask === "none" || positions === "none" || scaled === "off" ? "broken" : model;
}

const smallControls = (texts, choices, one) =>
  h(
    "div",
    { class: "st-bar", "data-controls": "" },
    choices.task === "where" ? one("baseline", ["on", "off"], texts.baseline, texts.baselines) : null,
    choices.task === "kernel" ? one("begin", ["0.3", "3", "30"], texts.beginWith, { 0.3: "w = 0.3", 3: "w = 3", 30: "w = 30" }) : null,
  );

function startSmall(page) {
  clearTimeout(page.timer);
  page.memory.run = null;
  page.studio.keep({ run: null });
  page.stopSmall?.();
  trainSmall(page);
}

async function start(page) {
  const { choices, error } = page;
  error.clear();
  try {
    const { run } = await post("/api/train/start", requestOf(choices));
    open(page, run);
  } catch (reason) {
    error.show(reason);
  }
}

function open(page, run) {
  page.stopSmall?.();
  const { memory, studio } = page;
  if (memory.run !== run) Object.assign(memory, { run, state: null, alignments: {} });
  memory.alignments ||= {};
  page.step = null; // null: follow the newest checkpoint
  studio.keep({ run });
  page.line.draw();
  look(page);
}

// Ask for the state of the run, and again while it trains.
async function look(page) {
  const { memory, error } = page;
  clearTimeout(page.timer);
  const { run } = memory;
  try {
    const state = await post("/api/train/state", { run });
    if (page.left || memory.run !== run) return;
    const begun = Boolean(memory.state);
    memory.state = { ...state, finished: state.finished && !state.running }; // after the last step it still measures and saves
    page.line.draw();
    if (state.failed) error.show({ code: "stopped", message: state.failed });
    if (!begun || page.step === null || !state.running) await showStep(page, page.step);
    else drawWatch(page);
    if (state.running || (!state.finished && !state.mine)) page.timer = setTimeout(() => look(page), POLL);
    else await refreshModels(page);
  } catch (reason) {
    if (!page.left) error.show(reason);
  }
}

// A finished run can be opened on the other pages.
async function refreshModels({ studio }) {
  const { models } = await get("/api/models");
  studio.models.splice(0, studio.models.length, ...models);
}

// The attention at a checkpoint; what was asked before is kept.
async function showStep(page, wanted) {
  const { memory } = page;
  const { checkpoints } = memory.state;
  if (!checkpoints.length) return drawWatch(page);
  const step = wanted === null ? checkpoints.at(-1) : nearest(checkpoints, wanted);
  const { run } = memory;
  try {
    memory.alignments[step] ||= await post("/api/train/alignment", { run, step });
  } catch (reason) {
    if (reason.code !== "no_checkpoint") page.error.show(reason);
  }
  if (page.left || memory.run !== run) return undefined;
  memory.shown = step;
  return drawWatch(page);
}
const nearest = (steps, wanted) => steps.reduce((best, step) => (Math.abs(step - wanted) < Math.abs(best - wanted) ? step : best));

function drawWatch(page) {
  const { memory, texts, watch } = page;
  const { state } = memory;
  const focused = watch.contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
  const parts = [
    h(
      "div",
      { class: "st-row" },
      h("b", { text: memory.run }),
      h("span", { class: "st-hint", "data-model": "", text: modelName(texts, state.model) }),
      h("span", { class: "rv-num", role: "status", "data-state": "", text: status(texts, state) }),
      buttons(page),
    ),
    outcome(texts, state),
    h("div", { class: "st-cards" }, lossCard(texts, state), attentionCard(page)),
    runsTable(
      page,
      (one) => modelName(texts, one),
      (run) => open(page, run),
    ),
  ];
  watch.replaceChildren(...parts.filter(Boolean));
  if (focused) [...watch.querySelectorAll("[aria-label]")].find((one) => one.getAttribute("aria-label") === focused)?.focus();
}

// The model of the run that is shown, which need not be the one chosen above.
function modelName(texts, { kind, score, heads, positions, causal, scaled }) {
  if (kind !== "transformer") return [texts.models[kind] || kind, texts.scores[score]].filter(Boolean).join(" · ");
  const broken = [
    scaled === false ? `${texts.scaled}: ${texts.scaledNames.off}` : null,
    positions === "none" ? `${texts.positions}: ${texts.positionNames.none}` : null,
    causal === false ? `${texts.mask}: ${texts.maskNames.none}` : null,
  ];
  return [texts.models[kind], `${texts.heads}: ${heads}`, ...broken].filter(Boolean).join(" · ");
}

function status(texts, { running, finished, step, total, mine }) {
  if (finished) return texts.finished(step);
  if (running) return total ? texts.running(step, total) : texts.starting;
  return mine ? texts.paused(step, total) : texts.watching(step, total);
}

function buttons(page) {
  const { memory, texts } = page;
  const { running, finished, mine } = memory.state;
  const act = (path) => async () => {
    try {
      await post(`/api/train/${path}`, { run: memory.run });
    } catch (reason) {
      page.error.show(reason);
    }
    look(page);
  };
  const button = (text, onclick, props = {}) =>
    h("button", { type: "button", class: "rv-plain", "aria-label": text, onclick, text, ...props });
  const text = memory.alignments[memory.shown]?.sentences[memory.sentence || 0]?.text;
  const asked = { models: memory.run, ...(text ? { text } : {}) };
  const links = finished || memory.state.checkpoints.length ? [link("translate", texts.openTranslate, asked)] : [];
  return [
    running ? button(texts.pause, act("stop"), { "data-pause": "" }) : null,
    !running && !finished && mine ? button(texts.resume, act("resume"), { "data-resume": "" }) : null,
    running ? null : links,
  ];
}
const link = (page, text, params) => h("a", { href: `#${page}?${new URLSearchParams(params)}`, text });

function lossCard(texts, { losses, scores, samples }) {
  if (!losses.length) return card(texts.loss, h("p", { class: "st-hint", text: texts.noLoss }));
  const series = [{ name: texts.lossName, points: losses, look: "a" }];
  if (scores.length) series.push({ name: texts.heldOut, points: scores.map((one) => [one.step, one.loss]), look: "c", dots: true });
  const last = scores.at(-1);
  const exact = last && last.exact !== null ? texts.measured(number(last.bleu, 1), number(last.exact, 0)) : "";
  return card(
    texts.loss,
    chart({ title: "", label: texts.loss, x: { label: texts.step }, y: { label: texts.lossUnit, low: 0 }, series, height: 260 }).element,
    exact ? h("p", { class: "st-formula", "data-exact": "", text: exact }) : null,
    samples ? h("details", {}, h("summary", { text: texts.samples }), h("pre", { class: "st-code", text: samples })) : null,
  );
}

function attentionCard(page) {
  const { memory, texts } = page;
  const { checkpoints } = memory.state;
  const found = memory.alignments[memory.shown];
  if (!found) return card(texts.attention, h("p", { class: "st-hint", text: checkpoints.length ? texts.noAlignment : texts.noCheckpoint }));
  memory.sentence = Math.min(memory.sentence || 0, found.sentences.length - 1);
  const sentence = found.sentences[memory.sentence];
  const last = checkpoints.length - 1;
  const at = checkpoints.indexOf(memory.shown);
  const scrubber = slider(
    texts.scrub,
    {
      low: 0,
      high: Math.max(1, last),
      value: at < 0 ? last : at,
      step: 1,
      show: (i) => texts.stepName(checkpoints[Math.min(last, Math.round(i))]),
    },
    (i) => {
      page.step = Math.round(i) >= last ? null : checkpoints[Math.round(i)];
      showStep(page, page.step);
    },
  );
  const options = found.sentences.map((one, i) => [i, one.text]);
  const which = select(texts.sentence, options, memory.sentence, (i) => {
    memory.sentence = Number(i);
    drawWatch(page);
  });
  return card(
    texts.attention,
    which.element,
    ...attentionTable(page, sentence, headsOf(memory.state.model)),
    scrubber.element,
    h("p", { class: "st-formula", "data-got": "" }, h("span", { text: `${texts.got} ` }), h("b", { text: sentence.got || "…" })),
    h("p", { class: "st-hint", text: `${texts.wanted} ${sentence.wanted}` }),
  );
}
