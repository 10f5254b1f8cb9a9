// Write: a prompt's way through the layers to the next token; writing on, token by token; why a token is likely, head by head.

import { h } from "../../../web/dom.js";
import { count, decimals, number } from "../../../web/numbers.js";
import { get, job } from "../../static/server.js";
import { card, foot, meterRow, pageHead, problem, progress, select, slider } from "../../static/widgets.js";
import { streamCard } from "./stream.js";
import { whyCard } from "./why.js";

const LONGEST_IN_ADDRESS = 1500; // characters
const PAUSE = 120; // milliseconds between tokens while writing on
const DRAWING = { temperature: 1, top_k: 0, top_p: 1 };

export function mount(container, studio) {
  const { texts, memory, params } = studio;
  const models = studio.models.filter((model) => model.writes);
  container.append(pageHead(texts));
  if (!models.length) {
    const commands = "regard train lm lm.toml\nregard studio --model runs/lm";
    container.append(h("p", { class: "st-problem", role: "status", text: texts.none }), h("pre", { class: "st-code", text: commands }));
    studio.ready();
    return {};
  }
  const asked = params.model || params.text;
  if (!memory.choices || (asked && params.text !== memory.choices.text)) {
    memory.choices = {
      model: params.model || "",
      text: params.text || "",
      muted: mutedFrom(params.muted),
      seed: 0,
      ...drawingFrom(params),
    };
    memory.answer = null;
  }
  const page = { container, studio, choices: memory.choices, models, writing: false, running: null };
  page.error = problem(studio);
  page.bar = progress(studio.shellTexts, () => stop(page));
  page.parts = parts(page);
  container.append(
    page.parts.ask,
    page.error.element,
    page.bar.element,
    page.parts.text,
    h("div", { class: "st-split st-narrow-first" }, page.parts.next, page.stream.element),
    page.why.element,
    page.parts.foot.element,
  );
  begin(page);
  return { leave: () => stop(page) };
}

const drawingFrom = (params) =>
  Object.fromEntries(Object.entries(DRAWING).map(([name, usual]) => [name, params[name] === undefined ? usual : Number(params[name])]));
const mutedFrom = (text) =>
  (text || "")
    .split(",")
    .map((one) => /^(\d+)\.(\d+)$/.exec(one))
    .filter(Boolean)
    .map(([, layer, head]) => ({ layer: Number(layer), head: Number(head) }));

function keep({ studio, choices }) {
  const { model, text, temperature, top_k, top_p, muted } = choices;
  const changed = (name) => (choices[name] === DRAWING[name] ? null : choices[name]);
  studio.keep({
    model,
    text: text.length <= LONGEST_IN_ADDRESS ? text : null,
    temperature: changed("temperature") && number(temperature, 3),
    top_k: changed("top_k") && top_k,
    top_p: changed("top_p") && number(top_p, 3),
    muted: muted.map(({ layer, head }) => `${layer}.${head}`).join(",") || null,
  });
}

// The body of a request; write: 1 draws a token first.
function body({ choices, studio }, write) {
  const { model, text, temperature, top_k, top_p, muted, seed } = choices;
  const { answer } = studio.memory;
  const prompt = answer && answer.model === model && answer.text === text ? { ids: answer.ids } : { text };
  return { model, ...prompt, write, temperature, top_k: top_k || null, top_p: top_p < 1 ? top_p : null, muted, seed };
}

async function run(page, write = 0) {
  const { studio, choices, error, bar } = page;
  if (page.running) page.running.cancel();
  error.clear();
  if (!choices.text.trim()) {
    studio.memory.answer = null;
    return drawAll(page);
  }
  bar.begin();
  const mine = job("/api/write", body(page, write), bar.update);
  page.running = mine;
  try {
    const answer = await mine.done;
    if (page.running !== mine) return undefined;
    take(page, answer, write);
  } catch (reason) {
    if (page.running === mine) {
      page.writing = false;
      if (reason.code !== "cancelled") studio.memory.answer = null; // what was read before a stop stays
      drawAll(page);
      error.show(reason);
    }
  }
  if (page.running === mine) page.running = null;
  bar.end();
  return studio.ready();
}

function take(page, answer, write) {
  const { studio, choices } = page;
  const { memory } = studio;
  const before = memory.answer;
  if (write) {
    if (!answer.ended) choices.text += textOf(answer.tokens.at(-1)); // the token that ends a text is no text
    choices.seed += 1;
    page.parts.box.value = choices.text;
    keep(page);
  }
  const marks = before && write ? before.written : 0;
  memory.answer = { ...answer, text: choices.text, written: write ? marks + 1 : 0 };
  if (answer.ended) page.writing = false;
  drawAll(page);
}

// What a token adds to the text: "·" is the space before a word, "␣" a space, "⏎" a line end.
const textOf = (token) => token.replace(/^·/, " ").replaceAll("␣", " ").replaceAll("⏎", "\n");

async function writeOn(page) {
  page.writing = true;
  drawAll(page);
  while (page.writing && page.container.isConnected) {
    await run(page, 1);
    await new Promise((done) => setTimeout(done, PAUSE));
  }
  drawAll(page);
}
function stop(page) {
  page.writing = false;
  if (page.running) page.running.cancel();
}

function parts(page) {
  const { studio, choices } = page;
  const { texts } = studio;
  const changed = () => {
    keep(page);
    run(page);
  };
  const read = () => {
    choices.text = box.value;
    studio.memory.answer = null;
    changed();
  };
  const box = h("textarea", {
    class: "st-text",
    rows: "2",
    maxlength: "4000",
    "aria-label": texts.prompt,
    spellcheck: "false",
    value: choices.text,
    onchange: read,
    onkeydown: (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      read();
    },
  });
  const options = page.models.map(({ name }) => [name, name]);
  const model = select(texts.model, options, choices.model, (name) => {
    Object.assign(choices, { model: name, muted: [] });
    studio.memory.answer = null;
    changed();
  });
  const button = (text, act, props = {}) => h("button", { type: "button", class: "rv-plain", onclick: act, text, ...props });
  const one = button(texts.one, () => run(page, 1), { class: "st-go", "data-one": "" });
  const on = button(texts.on, () => writeOn(page), { "data-on": "" });
  const halt = button(texts.stop, () => stop(page), { "data-stop": "" });
  const sample = (text) => button(text, () => ((box.value = text), read()), { class: "st-chip" });
  page.stream = streamCard(studio);
  page.why = whyCard(studio, { choices, changed, error: page.error });
  const ask = h(
    "div",
    { class: "st-ask" },
    h("div", { class: "st-bar" }, model.element, drawingControls(texts, choices, changed)),
    box,
    h("div", { class: "st-row" }, one, on, halt, h("span", { class: "st-label", text: texts.examples }), texts.samples.map(sample)),
  );
  const line = foot(studio.shellTexts, { code: () => command(choices), saves: { json: () => studio.memory.answer } });
  return { ask, box, model, one, on, halt, foot: line, text: h("div", { class: "st-flow" }), next: h("div") };
}

function drawingControls(texts, choices, changed) {
  const set = (name) => (value) => {
    choices[name] = value;
    changed();
  };
  const two = (value) => number(value, 2);
  const temperature = { low: 0.05, high: 5, value: choices.temperature || 0.05, log: true, show: two };
  const most = { low: 0, high: 50, value: choices.top_k, step: 1, show: (v) => (v ? String(v) : texts.all) };
  const share = { low: 0.05, high: 1, value: choices.top_p, step: 0.05, show: (v) => (v < 1 ? two(v) : texts.all) };
  return h(
    "details",
    { class: "st-more", open: Object.entries(DRAWING).some(([name, usual]) => choices[name] !== usual) },
    h("summary", { text: texts.drawing }),
    h(
      "div",
      { class: "st-bar" },
      slider(texts.temperature, temperature, (v) => set("temperature")(Math.abs(Math.log(v)) < 0.03 ? 1 : v)).element,
      slider(texts.topK, most, set("top_k")).element,
      slider(texts.topP, share, set("top_p")).element,
    ),
  );
}

function drawAll(page) {
  const { studio, parts: elements, writing } = page;
  const { answer } = studio.memory;
  const { texts } = studio;
  elements.one.disabled = elements.on.disabled = writing || !answer;
  elements.halt.hidden = !writing;
  elements.foot.draw();
  if (!answer) {
    elements.text.replaceChildren(h("p", { class: "st-hint", text: texts.empty }));
    elements.next.replaceChildren();
    page.stream.clear();
    page.why.clear();
    return;
  }
  elements.text.replaceChildren(...textElements(texts, answer));
  elements.next.replaceChildren(nextCard(texts, answer, (candidate) => page.why.explain(candidate)));
  page.stream.draw(answer);
  page.why.draw(answer);
}

function textElements(texts, { tokens, written, whole, read, ended }) {
  const token = (text, i) => h("span", { class: i >= tokens.length - written ? "st-token st-new" : "st-token", text });
  const facts = [texts.tokens(count(read))];
  if (whole > read) facts.push(texts.cut(count(read), count(whole)));
  if (ended) facts.push(texts.ended);
  return [
    h("p", { class: "st-tokens", "data-tokens": "", "aria-label": texts.tokensLabel }, tokens.map(token)),
    h("p", { class: whole > read ? "st-problem" : "st-hint", role: "status", text: facts.join(" ") }),
  ];
}

function nextCard(texts, { next }, explain) {
  const row = (one) => {
    const [name, bar, value] = meterRow(one.token, one.drawn, one.drawn ? decimals(one.drawn, 3) : texts.leftOut);
    const why = h("button", {
      type: "button",
      class: "st-chip",
      "aria-label": texts.whyToken(one.token),
      "data-token": one.token,
      onclick: () => explain(one),
      text: texts.why,
    });
    return [name, bar, h("span", { class: "st-row" }, value, why)];
  };
  return card(
    texts.next,
    h("div", { class: "st-bars st-next", "data-next": "" }, next.map(row)),
    h("p", { class: "st-hint", text: texts.nextHint }),
  );
}

function command({ model, text, temperature, top_k, top_p }) {
  const quoted = text.slice(-80).trim().replaceAll('"', '\\"').replaceAll("\n", " ");
  const options = [top_k ? ` --top-k ${top_k}` : "", top_p < 1 ? ` --top-p ${number(top_p, 2)}` : ""];
  return `regard generate "${quoted}" --model ${model} --temperature ${number(temperature, 2)}${options.join("")}`;
}

async function begin(page) {
  const { studio, choices, parts: elements, models } = page;
  if (!studio.memory.answer && !choices.text && !choices.model) {
    const first = studio.initial || (await get("/api/first/write").catch(() => null));
    if (first && first.asked) {
      Object.assign(choices, { model: first.asked.model, text: first.asked.text });
      if (first.answer) studio.memory.answer = { ...first.answer, text: choices.text, written: 0 };
      if (first.refused) page.error.show(first.refused);
    }
  }
  if (!models.some(({ name }) => name === choices.model)) choices.model = models[0].name;
  choices.text ||= studio.texts.samples[0];
  elements.model.box.value = choices.model;
  elements.box.value = choices.text;
  keep(page);
  if (!studio.memory.answer) return run(page);
  drawAll(page);
  return studio.ready();
}
