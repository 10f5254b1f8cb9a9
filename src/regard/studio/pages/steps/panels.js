// Below the steps: a dictionary and a soft lookup, why √d, one desk and several queries, terms and symbols.

import { h, withSubscripts } from "../../../web/dom.js";
import { number } from "../../../web/numbers.js";
import { latest, post } from "../../static/server.js";
import { card, choice, meterRow, problem, slider } from "../../static/widgets.js";

export function panels(studio) {
  const { texts, memory } = studio;
  memory.panels ||= {
    lookup: { asked: "cherry", toward: "apple", mix: 0, temperature: 0.2 },
    width: { d: 64 },
    desk: { query: [0, 2, 0, 0] },
    answers: {},
  };
  const { lookup, width, desk } = memory.panels;
  return h(
    "div",
    { class: "st-cards" },
    lookupPanel(studio, texts.lookup, lookup),
    widthPanel(studio, texts.width, width),
    deskPanel(studio, texts.desk, desk),
    symbols(texts.symbols),
  );
}

// A part of the page that is computed by the server from its own controls: { output, error, compute }.
function computedPanel(studio, path, body, draw) {
  const output = h("div");
  const error = problem(studio);
  const { answers } = studio.memory.panels; // the last ones, shown at once when the page is drawn anew
  if (answers[path]) output.append(draw(answers[path]));
  const compute = latest(async () => {
    try {
      answers[path] = await post(path, body);
      output.replaceChildren(draw(answers[path]));
      error.clear();
    } catch (reason) {
      error.show(reason);
    }
  });
  compute();
  return { output, error: error.element, compute };
}
const bars = (rows) => h("div", { class: "st-bars" }, rows);
const about = (text) => h("p", { class: "st-hint", text });

function lookupPanel(studio, texts, settings) {
  function draw({ keys, values, crisp, weights, soft, hard }) {
    const prices = keys.map((key, i) => `"${texts.fruit[key]}": ${values[i]}`).join(",\n          ");
    const exact = `prices = {${prices}}\nprices[query]\n→ ${crisp === null ? texts.missing : number(crisp)}`;
    const result = h(
      "p",
      { class: "st-formula" },
      h("span", { text: "Σ α·v = " }),
      h("b", { "data-soft": "", text: number(soft) }),
      h("span", { text: `   argmax → ${number(hard)}` }),
    );
    const rows = keys.map((key, i) => meterRow(`${texts.fruit[key]} ${values[i]}`, weights[i], number(weights[i])));
    return h(
      "div",
      { class: "st-pair" },
      h("div", {}, h("h3", { text: texts.crisp }), h("pre", { class: "st-code", tabindex: "0", text: exact })),
      h("div", {}, h("h3", { text: texts.soft }), bars(rows), result),
    );
  }
  const panel = computedPanel(studio, "/api/steps/lookup", settings, draw);
  const set = (name) => (value) => {
    settings[name] = value;
    panel.compute();
  };
  const percent = (value) => `${Math.round(100 * value)} %`;
  return card(
    texts.title,
    about(texts.about),
    choice(texts.query, Object.entries(texts.fruit), settings.asked, set("asked")).element,
    slider(texts.temperature, { low: 0.01, high: 2, value: settings.temperature, log: true, show: (v) => number(v, 2) }, set("temperature"))
      .element,
    slider(texts.mix(texts.fruit[settings.toward]), { low: 0, high: 1, value: settings.mix, step: 0.05, show: percent }, set("mix"))
      .element,
    panel.output,
    panel.error,
  );
}

function widthPanel(studio, texts, settings) {
  function side(title, { row, variance, largest, gradient }) {
    const label = `${title}: ${row.map((weight) => number(weight, 2)).join(", ")}`;
    const columns = row.map((weight) => h("i", { css: { height: `${100 * weight}%` } }));
    const line = (name, text) => [h("span", { text: texts[name] }), h("span"), h("span", { class: "rv-num", "data-number": name, text })];
    return h(
      "div",
      {},
      h("h3", { text: title }),
      h("div", { class: "st-columns", role: "img", "aria-label": label }, columns),
      bars([line("variance", number(variance, 2)), line("largest", number(largest, 3)), line("gradient", number(gradient, 4))]),
    );
  }
  const draw = (answer) => h("div", { class: "st-pair" }, side("q·k", answer.dot), side("q·k / √d", answer.scaled));
  const panel = computedPanel(studio, "/api/steps/width", settings, draw);
  const setWidth = (value) => {
    settings.d = Math.round(value);
    panel.compute();
  };
  const control = slider("d", { low: 1, high: 4096, value: settings.d, log: true, show: (v) => String(Math.round(v)) }, setWidth);
  return card(texts.title, about(texts.about), control.element, panel.output, panel.error);
}

function deskPanel(studio, texts, settings) {
  function draw({ things, salient, focused }) {
    const group = (title, weights) => {
      const rows = things.map((_, i) => meterRow(texts.things[i], weights[i], number(weights[i], 2)));
      return h("div", {}, h("h3", { text: title }), bars(rows));
    };
    return h(
      "div",
      { class: "st-pair" },
      group(texts.noQuery, salient["winner takes all"]),
      group(texts.read, focused["I want to read"]),
      group(texts.write, focused["I want to write"]),
      group(texts.yours, focused.yours),
    );
  }
  const panel = computedPanel(studio, "/api/steps/desk", settings, draw);
  const control = (name, i) => {
    const set = (value) => {
      settings.query[i] = value;
      panel.compute();
    };
    return slider(name, { low: 0, high: 4, value: settings.query[i], step: 0.1, show: (v) => number(v, 1) }, set).element;
  };
  return card(texts.title, about(texts.about), h("div", { class: "st-bar" }, texts.features.map(control)), panel.output, panel.error);
}

function symbols(texts) {
  const head = texts.heads.map((text) => h("th", { scope: "col", text }));
  const cell = (text, i) => (i ? h("td", {}, withSubscripts(text)) : h("th", { scope: "row" }, withSubscripts(text)));
  const rows = texts.rows.map((row) => h("tr", {}, row.map(cell)));
  const table = h("table", { class: "st-table" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows));
  const element = card(texts.title, about(texts.about), h("div", { class: "st-scroll", tabindex: "0" }, table));
  element.classList.add("st-wide");
  return element;
}
