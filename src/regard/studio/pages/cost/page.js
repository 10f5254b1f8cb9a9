// Cost: what a model costs, each number with its formula; and this machine's measured curves beside the predicted ones.

import { h, withSubscripts } from "../../../web/dom.js";
import { chart } from "../../../web/chart.js";
import { count, duration, number, short, tokenCount } from "../../../web/numbers.js";
import { job, latest, post } from "../../static/server.js";
import { card, choice, foot, pageHead, problem, progress, select, tableOf } from "../../static/widgets.js";

const PART_COLOURS = {
  "token embedding": "#5b6b7a",
  "position embedding": "#7a8794",
  embeddings: "#5b6b7a",
  query: "#0072b2",
  key: "#2a5d9c",
  value: "#1f7a8c",
  output: "#5a4fa2",
  attention: "#0072b2",
  up: "#8a5a00",
  gate: "#6f4e00",
  down: "#a0522d",
  mlp: "#8a5a00",
  unembedding: "#4a6572",
};
const OTHER_COLOURS = ["#6e6e6e", "#4d6b4d", "#7a4a6a", "#3f6f6f", "#76603a"];
const DTYPES = ["fp32", "bf16", "fp16", "fp8", "int8", "int4"];
const DEFAULTS = { preset: "gpt3", config: "", context: 0, batch: 1, dtype: "bf16", mode: "infer", counting: "textbook" };

function partColour(name, i) {
  const like = Object.keys(PART_COLOURS).find((part) => name.includes(part));
  return PART_COLOURS[name] || PART_COLOURS[like] || OTHER_COLOURS[i % OTHER_COLOURS.length];
}
const sum = (quantities) => Object.values(quantities).reduce((total, quantity) => total + quantity.value, 0);
const positive = (quantities) => Object.entries(quantities).filter(([, quantity]) => quantity.value > 0);

export function mount(container, studio) {
  const { texts, memory, params } = studio;
  memory.choices ||= {
    ...DEFAULTS,
    preset: params.preset || DEFAULTS.preset,
    context: Number(params.context) || DEFAULTS.context,
    batch: Number(params.batch) || DEFAULTS.batch,
    dtype: params.dtype || DEFAULTS.dtype,
    mode: params.mode || DEFAULTS.mode,
    counting: params.counting === "stored" ? "stored" : DEFAULTS.counting,
    part: params.part || "query",
  };
  const choices = memory.choices;
  const { presets, ...initial } = studio.initial; // the answer for the defaults
  const isDefault = Object.entries(DEFAULTS).every(([name, value]) => choices[name] === value);
  if (!memory.answer && isDefault) memory.answer = initial;
  const error = problem(studio);
  const results = h("div", { class: "st-flow" });
  let memoryChart = null;

  const countParameters = latest(async () => {
    try {
      const { preset, config, ...work } = choices;
      const { context, batch, dtype, mode, counting } = work;
      const asked = config ? { preset: "gpt3", config: JSON.parse(config) } : { preset, config: null };
      const body = { ...asked, context, batch, dtype, mode, counting };
      memory.answer = await post("/api/cost/plan", body);
      error.clear();
      draw();
    } catch (reason) {
      error.show(reason instanceof SyntaxError ? { code: "json", message: reason.message } : reason);
    }
    studio.ready();
  });
  function keep() {
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
  function change(changes) {
    Object.assign(choices, changes);
    keep();
    countParameters();
  }

  function draw() {
    const { plan, growth } = memory.answer;
    const curves = growthCharts(texts, growth);
    memoryChart = curves.memory;
    const chosen = (changes) => {
      Object.assign(choices, changes);
      keep();
      draw();
      results.querySelector('.st-stack [aria-pressed="true"]')?.focus();
    };
    results.replaceChildren(
      parametersCard(texts, plan, choices, container.clientWidth, chosen),
      h(
        "div",
        { class: "st-cards" },
        h(
          "div",
          { class: "st-flow" },
          piecesCard(texts, plan.pieces),
          card(texts.byContext, curves.memory.element),
          card(texts.flopsTitle, curves.flops.element),
        ),
        h("div", { class: "st-flow" }, arithmeticCard(texts, plan.steps), memoryCard(texts, plan.memory)),
      ),
    );
    line.draw();
  }

  const configArea = h("textarea", {
    class: "st-text",
    rows: "3",
    spellcheck: "false",
    placeholder: '{"model_type": "llama", "num_hidden_layers": 32, …}',
    "aria-label": texts.paste,
    value: choices.config,
  });
  const countConfig = () => change({ config: configArea.value.trim() });
  const config = h(
    "details",
    { open: Boolean(choices.config) },
    h("summary", { text: texts.paste }),
    h(
      "div",
      { class: "st-drop" },
      configArea,
      h("div", {}, h("button", { type: "button", class: "rv-plain", onclick: countConfig, text: texts.countIt })),
    ),
  );
  const choosePreset = (preset) => {
    configArea.value = "";
    change({ preset, config: "" });
  };
  const integer = (label, name, least) => {
    const box = h("input", {
      type: "number",
      min: least,
      step: "1",
      value: choices[name] ? String(choices[name]) : "",
      placeholder: least ? null : texts.itsOwn,
      onchange: () => {
        const value = Math.round(Number(box.value));
        if (value >= least) change({ [name]: value });
        else box.value = choices[name] || "";
      },
    });
    return h("label", { class: "st-field" }, h("span", { class: "st-label", text: label }), box);
  };
  const named = (values, names, titles = {}) => values.map((value) => [value, names[value], titles[value]]);
  const same = (values) => values.map((value) => [value, value]);
  const controls = h(
    "div",
    { class: "st-bar" },
    select(texts.model, same(presets), choices.preset, choosePreset).element,
    integer(texts.context, "context", 0),
    integer(texts.batch, "batch", 1),
    select(texts.dtype, same(DTYPES), choices.dtype, (dtype) => change({ dtype })).element,
    choice(texts.mode, named(["infer", "train"], texts.modes), choices.mode, (mode) => change({ mode })).element,
    choice(texts.counting, named(["textbook", "stored"], texts.countings, texts.countingsTitle), choices.counting, (counting) =>
      change({ counting }),
    ).element,
  );
  const command = () => {
    const { config: pasted, preset, context, batch, dtype, mode } = choices;
    const options = [context ? ` --context ${context}` : "", batch > 1 ? ` --batch ${batch}` : "", ` --dtype ${dtype}`];
    return `regard plan ${pasted ? "config.json" : preset}${options.join("")}${mode === "train" ? " --train" : ""} --explain`;
  };
  const line = foot(studio.shellTexts, {
    code: command,
    saves: { svg: () => memoryChart && memoryChart.picture, json: () => ({ ...memory.answer, machine: memory.machine || null }) },
  });
  container.append(pageHead(texts), controls, config, error.element, results, machineCard(studio), line.element);
  keep();
  if (memory.answer) {
    draw();
    studio.ready();
  } else countParameters();
  return {};
}

// Parameters by part: a bar to scale, the formula of the chosen part, and a table.
function parametersCard(texts, plan, { part: wanted }, width, choose) {
  const { parameters: parts, total } = plan;
  const list = positive(parts);
  const chosen = parts[wanted] ? wanted : list[0][0];
  const quantity = parts[chosen];
  const segment = ([name, { value }], i) => {
    const share = value / total.value;
    const label = `${texts.part(name)} ${count(value)}`;
    const fits = share * (width - 72) > 8 * texts.part(name).length + 18;
    return h("button", {
      type: "button",
      "aria-pressed": String(name === chosen),
      "aria-label": label,
      title: label,
      css: { flex: `${value} 1 0`, background: partColour(name, i), padding: share < 0.02 ? "0" : "" },
      onclick: () => choose({ part: name }),
      text: fits ? texts.part(name) : "",
    });
  };
  const row = ([name, { value, formula }], i) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("i", { class: "st-dot", css: { background: partColour(name, i) } }), texts.part(name)),
      h("td", { class: "st-n", text: count(value) }),
      h("td", { class: "st-n", text: `${number((100 * value) / total.value, 2)} %` }),
      h("td", { class: "rv-quiet" }, withSubscripts(texts.formula(formula))),
    );
  const { part, count: counted, share, formula } = texts.columns;
  const columns = [
    [part, ""],
    [counted, "st-n"],
    [share, "st-n"],
    [formula, ""],
  ];
  return h(
    "div",
    { class: "st-card" },
    h(
      "div",
      { class: "st-row" },
      h("span", { class: "st-big", "data-total": "", text: count(total.value) }),
      h("span", { class: "rv-quiet", text: texts.parameters(plan.architecture.name) }),
    ),
    h("div", { class: "st-stack", role: "group", "aria-label": texts.byPart }, list.map(segment)),
    h(
      "p",
      { class: "st-formula", "data-formula": "" },
      h("b", { text: texts.part(chosen) }),
      h("span", {}, "  ", withSubscripts(`${texts.formula(quantity.formula)} = ${quantity.numbers} = `)),
      h("b", { class: "rv-num", text: count(quantity.value) }),
    ),
    h(
      "div",
      { class: "st-scroll" },
      h(
        "table",
        { class: "st-table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            columns.map(([text, align]) => h("th", { scope: "col", class: align, text })),
          ),
        ),
        h("tbody", {}, list.map(row)),
      ),
    ),
  );
}

function piecesCard(texts, pieces) {
  const row = ([name, { value, formula, numbers }]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", text: texts.piece(name) }),
      h("td", { class: "st-n", text: count(value) }),
      h("td", { class: "rv-quiet" }, withSubscripts(`${texts.formula(formula)} = ${numbers}`)),
    );
  return card(texts.pieces, tableOf(Object.entries(pieces).map(row)));
}

// A row for a sum, then its parts with their formulas.
function sumRows(name, total, note, parts, unit, texts) {
  const head = h(
    "tr",
    {},
    h("th", { scope: "row", text: name }),
    h("td", { class: "st-n" }, h("b", { text: short(total, unit) })),
    h("td", { class: "rv-quiet", text: note }),
  );
  const part = ([partName, { value, formula, numbers }]) =>
    h(
      "tr",
      {},
      h("td", { text: texts.part(partName) }),
      h("td", { class: "st-n", text: short(value, unit) }),
      h("td", { class: "rv-quiet", title: `${texts.formula(formula)} = ${numbers}` }, withSubscripts(texts.formula(formula))),
    );
  return [head, positive(parts).map(part)];
}

function arithmeticCard(texts, steps) {
  const rows = ({ title, needed, moved }) =>
    sumRows(texts.step(title), sum(needed), `${short(sum(moved), "B")} ${texts.moved}`, needed, "FLOP", texts);
  return card(texts.work, tableOf(Object.values(steps).map(rows)));
}

function memoryCard(texts, memory) {
  const rows = ([kind, parts]) => sumRows(texts.attention[kind], sum(parts), "", parts, "B", texts);
  return card(texts.memory, tableOf(Object.entries(memory).map(rows)));
}

// Memory and arithmetic by context length.
function growthCharts(texts, growth) {
  const every = Math.ceil(growth.context.length / 7);
  const size = { width: 560, height: 330 };
  const x = { label: texts.contextLength, log: true, ticks: growth.context.filter((_, i) => i % every === 0), show: tokenCount };
  const y = (label, unit) => ({ label, log: true, show: (v) => short(v, unit) });
  const line = (name, look, values) => ({ name, look, dots: true, points: growth.context.map((n, i) => [n, values[i]]) });
  const series = [line(texts.dense, "b", growth.dense), line(texts.streamed, "a", growth.streamed)];
  if (growth.cache.some((bytes) => bytes > 0)) series.push(line(texts.cache, "c", growth.cache));
  return {
    memory: chart({ title: texts.growth, x, y: y(texts.bytes, "B"), series, ...size }),
    flops: chart({
      title: texts.flopsGrowth,
      x,
      y: y("FLOP", "FLOP"),
      series: [line(texts.flops, "a", growth.flops)],
      legend: false,
      ...size,
    }),
  };
}

// This machine's own curves, measured when asked for. Leaving does not stop it: the server keeps the result, and `again` measures anew.
function machineCard(studio) {
  const { texts, memory } = studio;
  const measured = h("div", { class: "st-flow" });
  const bar = progress(studio.shellTexts, () => memory.job && memory.job.cancel());
  const error = problem(studio);
  const start = h("button", { type: "button", class: "st-go", "data-measure": "", onclick: () => measure(), text: texts.measure });
  const before = h("p", { class: "st-hint", text: texts.measureAbout });

  async function measure() {
    error.clear();
    start.disabled = true;
    bar.begin();
    memory.bar = bar; // drawn anew in another language, the page waits for the same measurement
    memory.job ||= job(`/api/cost/measure${memory.machine ? "?again=true" : ""}`, {}, (update) => memory.bar.update(update));
    try {
      memory.machine = await memory.job.done;
      if (measured.isConnected) draw();
    } catch (reason) {
      error.show(reason);
    }
    memory.job = null;
    start.disabled = false;
    bar.end();
  }

  function draw() {
    const { machine, seconds, kernel, times, bytes, recurrence, formulas, load } = memory.machine;
    start.textContent = texts.measureAgain;
    const sizes = times[0].points.map((point) => point.tokens);
    const x = { label: "N", log: true, ticks: sizes, show: count };
    const size = { width: 560, height: 330 };
    const series = (curves) =>
      curves.flatMap((curve, i) => measuredAndPredicted(texts, curve, ["d", "b", "a"][i + (curves.length === 2 ? 1 : 0)]));
    const timeChart = chart({ title: texts.timeTitle, x, y: { label: "s", log: true, show: duration }, series: series(times), ...size });
    const bytesY = { label: texts.bytes, log: true, show: (v) => short(v, "B") };
    const bytesChart = bytes.length
      ? chart({ title: texts.bytesTitle, x, y: bytesY, series: series(bytes), ...size }).element
      : h("p", { class: "st-hint", text: texts.noMemory });
    const { tokens } = recurrence;
    const [once, turns] = [duration(recurrence["seconds at once"]), duration(recurrence["seconds in turn"])];
    const machineFacts = {
      name: machine.name || "",
      rate: short(machine.flops, "FLOP/s"),
      took: duration(seconds),
      kernel,
      threads: machine.threads,
      load: load === null ? "" : number(load, 1),
    };
    measured.replaceChildren(
      h("p", { class: "st-hint", "data-machine": "", text: texts.machineFacts(machineFacts) }),
      h("div", { class: "st-cards" }, timeChart.element, bytesChart),
      h("p", { "data-recurrence": "", text: texts.recurrence(count(tokens), once, turns, number(recurrence["times slower"], 1)) }),
      tableOf(Object.entries(formulas).map(([name, formula]) => lawRow(texts.law(name), formula.split(" = ")))),
    );
  }

  if (memory.machine) draw();
  if (memory.job) measure();
  return card(texts.machine, before, h("div", {}, start), bar.element, error.element, measured);
}

// A curve as two series: dots where it was measured, a line where it was predicted.
function measuredAndPredicted(texts, curve, look) {
  const points = (name) => curve.points.filter((point) => point[name]).map((point) => [point.tokens, point[name]]);
  const name = texts.curve(curve.name);
  return [
    { name: `${name} · ${texts.measured}`, points: points("measured"), look, dots: 4, line: false },
    { name: `${name} · ${texts.predicted}`, points: points("predicted"), look },
  ];
}

// equalities: the formula, the numbers put in, the result.
function lawRow(name, equalities) {
  return h(
    "tr",
    {},
    h("th", { scope: "row", text: name }),
    h("td", { class: "rv-quiet" }, withSubscripts(equalities.slice(0, -1).join(" = "))),
    h("td", { class: "st-n", text: equalities.at(-1) }),
  );
}
