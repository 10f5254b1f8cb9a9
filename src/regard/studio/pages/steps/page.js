// Steps: attention computed step by step on a short sentence. Every input can be edited; the server computes the rest.

import { h } from "../../../web/dom.js";
import { weightStyle } from "../../../web/colours.js";
import { formula, frac, mi, mo, sqrt, sub, sup } from "../../../web/formula.js";
import { rampLegend } from "../../../web/heatmap.js";
import { matrix } from "../../../web/matrix.js";
import { number } from "../../../web/numbers.js";
import { latest, post } from "../../static/server.js";
import { choice, foot, pageHead, problem, slider, toggle } from "../../static/widgets.js";
import { arithmetic } from "./arithmetic.js";
import { embed, HEAD_WIDTH, splitWords } from "./example.js";
import { panels } from "./panels.js";
import { addressOf, initialSettings, pythonOf, requestOf } from "./settings.js";

const PER_WORD_PAIR = ["raw", "scaled", "masked", "weights"]; // stages whose rows are queries and columns keys

export function mount(container, studio) {
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
    const typed = splitWords(sentence.value);
    if (!typed.length) {
      sentence.value = settings.text;
      return;
    }
    change({
      text: typed.join(" "),
      words: typed,
      embeddings: typed.map(embed),
      current: Math.min(settings.current, typed.length - 1),
      isExample: false,
    });
  }
  const sentence = h("input", {
    type: "text",
    class: "st-text",
    value: settings.text,
    maxlength: "120",
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
    drawWords(settings.current);
    line.draw();
  }

  // Write the arithmetic of a cell; a click on a pair of words makes its query the current word.
  function explain(stage, name, i, j, clicked) {
    const { answer } = memory;
    const { rows, columns } = name;
    const context = {
      settings,
      head: answer.heads[settings.shown],
      maps: settings.heads[settings.shown],
      allMaps: settings.heads.slice(0, settings.count),
      embeddings: settings.embeddings,
      answer,
      texts,
    };
    explanation.replaceChildren(
      h("span", { class: "st-where", text: `${name.title}  ${rows[i]} · ${columns[j]}:  ` }),
      h("b", { class: "rv-num", text: arithmetic(stage, i, j, context) }),
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
        text: word,
      });
    words.replaceChildren(...settings.words.map(button));
  }

  const line = foot(studio.shellTexts, {
    code: () => pythonOf(settings),
    saves: { json: () => ({ asked: requestOf(settings), answer: memory.answer }) },
  });
  container.append(
    pageHead(texts, h("p", { class: "st-lead" }, attentionFormula(settings.form))),
    h("div", { class: "st-ask" }, sentence, controls.element, error.element),
    h("div", { class: "st-row" }, words, proof),
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

function attentionFormula(form) {
  const transposed = sup(mi("K"), mi("⊤"));
  const root = sqrt(mi("d"));
  if (form === "column") {
    const scores = frac([transposed, mi("Q")], [root]);
    return formula(mi("H"), mo("="), mi("V"), mo("·"), mi("softmax"), mo("("), scores, mo(")"));
  }
  const scores = frac([mi("Q"), transposed], [root]);
  return formula(mi("ΔE"), mo("="), mi("softmax"), mo("("), scores, mo(")"), mi("V"), sub(mi("W"), mi("O")));
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

// The five stages, each a row of matrices. explain(stage, { title, rows, columns }, i, j, clicked) when a cell is pointed at.
function stageElements(studio, settings, answer, { change, explain }) {
  const { texts, dark } = studio;
  const { words, score } = settings;
  const head = answer.heads[settings.shown];
  const maps = settings.heads[settings.shown];
  const transposed = settings.form === "column";
  const dimensions = Array.from({ length: HEAD_WIDTH }, (_, i) => String(i + 1));
  const { features } = texts;

  const editable = (name, title, values, rows, columns, changes = { edited: true, isExample: false }) => {
    const onEdit = (i, j, value) => {
      values[i][j] = value;
      change(changes);
    };
    return matrix({ name, title, values, rows, columns, dark, onEdit });
  };
  const map = (name, title, rows, columns) => editable(`W-${name}`, title, maps[name], rows, columns);
  const computed = (stage, title, values, columns, more = {}) => {
    const names = { title, rows: words, columns };
    const onCell = (i, j, clicked) => explain(stage, names, i, j, clicked);
    return matrix({ name: stage, title, values, rows: words, columns, dark, onCell, ...more });
  };
  const square = (stage, title, values, more = {}) =>
    computed(stage, title, values, words, { transposed, current: settings.current, ...more });
  const stage = (n, name, about, ...children) => {
    const title = h("h2", {}, `${n}  ${texts.stage[name]}`, h("small", { class: "rv-quiet", text: about }));
    return h("section", { class: "st-stage", "data-stage": n }, title, h("div", { class: "st-line" }, children));
  };
  const then = (sign, next) => h("div", { class: "st-joined" }, h("span", { class: "st-op", "aria-hidden": "true", text: sign }), next);
  const masked = (i, j) => head.masked[i][j] === null;
  const rawTitle = (transposed ? texts.rawColumn : texts.raw)[score];
  const sums = transposed ? texts.columnsSum : texts.rowsSum;
  return [
    stage(
      1,
      "embed",
      texts.about.embed,
      editable("E", "E", settings.embeddings, words, features),
      then("×", map("query", "W_Q", features, dimensions)),
      map("key", "W_K", features, dimensions),
      map("value", texts.down, features, dimensions),
    ),
    stage(
      2,
      "project",
      texts.about.project,
      computed("query", "Q = E·W_Q", head.query, dimensions, { current: settings.current }),
      computed("key", "K = E·W_K", head.key, dimensions),
      computed("value", "V = E·W_V", head.value, dimensions),
    ),
    stage(
      3,
      "score",
      texts.about[score],
      score === "bilinear" ? editable("bilinear", "W", settings.bilinear, dimensions, dimensions, {}) : null,
      score === "additive" ? editable("additive", "v", [settings.additive], ["v"], dimensions, {}) : null,
      square("raw", rawTitle, head.raw, { note: transposed ? texts.keysDown : texts.queriesDown }),
      then("→", square("scaled", head.factor === 1 ? texts.notScaled : "÷ √d", head.scaled)),
    ),
    stage(
      4,
      "choose",
      texts.about.choose,
      square("masked", texts.maskTitle, head.masked),
      then("→", square("weights", `α · ${texts.choices[settings.choice]}`, head.weights, { kind: "weight", note: sums, masked })),
      rampLegend("1", dark),
    ),
    stage(
      5,
      "gather",
      texts.about.gather,
      computed("output", "α·V", head.output, dimensions),
      then("×", map("output", texts.up, dimensions, features)),
      then("→", computed("change", settings.count > 1 ? texts.changeAll : "ΔE", answer.change, features, { kind: "difference" })),
      then("+ E =", computed("result", "E + ΔE", answer.result, features)),
    ),
  ];
}
