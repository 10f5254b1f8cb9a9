// One word in several sentences: how its vectors move apart from layer to layer, in a plane and as cosines.

import { h, svg } from "../../../web/dom.js";
import { chart, narrow } from "../../../web/chart.js";
import { number } from "../../../web/numbers.js";
import { job } from "../../static/server.js";
import { card, problem, progress, select, slider } from "../../static/widgets.js";

const LOOKS = ["a", "b", "c", "e", "d", "a"]; // the colours of the sentences
const LAYER_TIME = 350; // milliseconds a layer is shown while playing
const MOST_SENTENCES = 6;
const LONGEST_NAME = 23; // characters of a sentence beside its point

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

export function meanings(studio, allModels) {
  const texts = studio.texts.meanings;
  const models = allModels.filter((model) => !model.about.includes("bahdanau")); // a recurrent encoder has no layers
  if (!models.length) return h("div");
  const { examples } = texts;
  const languages = studio.lang === "zh" ? ["zh", "en"] : ["en", "zh"];
  const readable = (lang) => examples.findIndex((example) => example.lang === lang && bestModel(models, lang));
  const first = languages.map(readable).find((i) => i >= 0) ?? 0;
  const { memory } = studio;
  memory.meanings ||= { example: first, model: (bestModel(models, examples[first].lang) || models[0]).name, layer: null, answer: null };
  const choices = memory.meanings;
  const error = problem(studio);
  const output = h("div", { class: "st-pair" });
  const needs = h("p", { class: "st-problem", role: "status", "data-needs": "", hidden: true });
  const word = h("input", {
    type: "text",
    maxlength: "40",
    value: choices.word || examples[choices.example].word,
    "aria-label": texts.word,
    onchange: () => run(),
  });
  const sentences = h("textarea", {
    class: "st-text",
    rows: "3",
    "aria-label": texts.sentences,
    value: (choices.sentences || examples[choices.example].sentences).join("\n"),
    onchange: () => run(),
  });
  let running = null;
  let playing = 0; // a timer
  const bar = progress(studio.shellTexts, () => running && running.cancel());

  async function run() {
    if (running) running.cancel();
    choices.word = word.value.trim();
    const lines = sentences.value.split("\n").map((line) => line.trim());
    choices.sentences = lines.filter(Boolean).slice(0, MOST_SENTENCES);
    if (!choices.word || choices.sentences.length < 2) return error.show({ code: "few", message: "" });
    bar.begin();
    const mine = job("/api/look/meanings", { model: choices.model, word: choices.word, sentences: choices.sentences }, bar.update);
    running = mine;
    try {
      const answer = await mine.done;
      if (running !== mine) return undefined; // a newer request runs
      Object.assign(choices, { answer, layer: null });
      error.clear();
      draw();
    } catch (reason) {
      if (running !== mine) return undefined;
      error.show(reason);
      choices.answer = null;
      output.replaceChildren();
    }
    running = null;
    return bar.end();
  }

  function chooseExample(i) {
    const example = examples[i];
    const best = bestModel(models, example.lang);
    choices.example = i;
    word.value = example.word;
    sentences.value = example.sentences.join("\n");
    needs.hidden = Boolean(best);
    needs.textContent = best ? "" : texts.needs[example.lang];
    drawExamples();
    if (best) {
      choices.model = modelSelect.box.value = best.name;
      return run();
    }
    if (running) running.cancel();
    running = null;
    bar.end();
    error.clear();
    Object.assign(choices, { answer: null, word: example.word, sentences: example.sentences });
    return output.replaceChildren();
  }

  function draw() {
    const { answer } = choices;
    const last = answer.layers.length - 1;
    const layer = Math.min(choices.layer ?? last, last);
    const pairs = answer.sentences.flatMap((_, i) => answer.sentences.slice(i + 1).map((__, k) => [i, i + 1 + k])).slice(0, 6);
    const layerSlider = slider(
      texts.layer,
      { low: 0, high: last, value: layer, step: 1, show: (v) => (v === 0 ? texts.before : String(v)) },
      (v) => {
        stop();
        showLayer(v);
        focusAgain("input[type=range]");
      },
    );
    const togglePlay = () => {
      if (playing) stop();
      else play();
      draw();
      focusAgain("[data-walk]");
    };
    const playButton = h("button", {
      type: "button",
      class: "rv-plain",
      "data-walk": "",
      onclick: togglePlay,
      text: playing ? texts.pause : texts.play,
    });
    const caption = h("figcaption", {}, h("b", { text: texts.planeTitle }), h("small", { text: ` ${texts.planeNote}` }));
    const cosine = (at, [i, j]) => number(answer.cosine[at][i][j], 3);
    const apart = pairs.slice(0, 3).map((pair) => {
      const names = pair.map((i) => i + 1).join(", ");
      return h("span", { text: `cos(${names}): ${cosine(0, pair)} → ${cosine(last, pair)}` });
    });
    output.replaceChildren(
      h(
        "figure",
        { class: "st-figure" },
        caption,
        planeElement(answer, layer, texts.plane),
        h("div", { class: "st-row" }, layerSlider.element, playButton),
      ),
      h(
        "div",
        { class: "st-flow" },
        cosineChart(texts, answer.cosine, pairs),
        h(
          "ul",
          { class: "st-lines" },
          answer.sentences.map((sentence, i) => sentenceItem(sentence.text, answer.word, i)),
        ),
        h("p", { class: "st-formula", "data-apart": "" }, apart),
      ),
    );
  }
  const focusAgain = (selector) => output.querySelector(selector)?.focus();
  function showLayer(layer) {
    choices.layer = layer;
    draw();
  }
  function stop() {
    clearInterval(playing);
    playing = 0;
  }
  function play() {
    choices.layer = 0;
    playing = setInterval(() => {
      const { answer, layer } = choices;
      if (output.isConnected && answer && layer < answer.layers.length - 1) return showLayer(layer + 1);
      stop();
      return answer && draw();
    }, LAYER_TIME);
  }

  const exampleRow = h("div", { class: "st-row" });
  function drawExamples() {
    const chip = (example, i) => {
      const best = bestModel(models, example.lang);
      return h("button", {
        type: "button",
        class: "st-chip",
        "aria-pressed": String(i === choices.example),
        title: best ? texts.readBy(best.name) : texts.needs[example.lang],
        onclick: () => chooseExample(i),
        text: example.word,
      });
    };
    exampleRow.replaceChildren(h("span", { class: "st-label", text: texts.examplesTitle }), ...examples.map(chip));
  }
  const modelOptions = models.map(({ name }) => [name, name]);
  const modelSelect = select(texts.model, modelOptions, choices.model, (name) => {
    choices.model = name;
    needs.hidden = true;
    run();
  });
  drawExamples();
  const wordField = h("label", { class: "st-field" }, h("span", { class: "st-label", text: texts.word }), word);
  const element = card(
    texts.title,
    h("p", { class: "st-hint", text: texts.about }),
    h("div", { class: "st-bar" }, exampleRow, modelSelect.element, wordField),
    sentences,
    needs,
    error.element,
    bar.element,
    output,
  );
  if (choices.answer) draw();
  else runWhenNear(element, run);
  return element;
}

// Begin when the element is about to be scrolled into sight: opening a published model takes a while, and the view above should not wait.
function runWhenNear(element, run) {
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      run();
    },
    { rootMargin: "300px" },
  );
  observer.observe(element);
}

// The word's vectors up to a layer, in the plane that shows most of their difference: one trail a sentence.
function planeElement({ layers, sentences }, layer, label) {
  const reach = Math.max(1e-6, ...layers.flat(2).map(Math.abs));
  const [width, spread] = narrow() ? [380, 150] : [640, 120];
  const X = (v) => width / 2 + (spread * v) / reach;
  const Y = (v) => 200 - (165 * v) / reach;
  const shown = layers.slice(0, layer + 1);
  const trail = (i) =>
    svg(
      "g",
      { class: `ch-series ch-${LOOKS[i]}` },
      svg("path", { d: shown.map((points, l) => `${l ? "L" : "M"}${X(points[i][0])} ${Y(points[i][1])}`).join("") }),
      shown.map((points, l) => svg("circle", { cx: X(points[i][0]), cy: Y(points[i][1]), r: l === layer ? 7 : 2.5 })),
    );
  const short = (text) => (text.length > LONGEST_NAME ? text.slice(0, LONGEST_NAME - 1) + "…" : text);
  const nameOf = (i) => (narrow() ? String(i + 1) : `${i + 1}  ${short(sentences[i].text)}`);
  // Names stand outside of their points, away from the trails, and not on top of each other.
  const names = [-1, 1].flatMap((side) => {
    let above = -99;
    const points = layers[layer].map(([x, y], i) => ({ i, x, y: Y(y) + 5 }));
    const ofSide = points.filter(({ x }) => (x < 0 ? -1 : 1) === side).sort((a, b) => a.y - b.y);
    return ofSide.map(({ i, x, y }) => {
      above = Math.max(y, above + 20);
      return svg("text", { x: X(x) + 13 * side, y: above, "text-anchor": side < 0 ? "end" : "start", text: nameOf(i) });
    });
  });
  return svg(
    "svg",
    { viewBox: `0 0 ${width} 400`, class: "st-plane", role: "img", "aria-label": label },
    svg("path", { class: "st-ring", d: `M10 200H${width - 10}M${width / 2} 10V390` }),
    sentences.map((_, i) => trail(i)),
    names,
  );
}

function cosineChart(texts, cosine, pairs) {
  const series = pairs.map(([i, j], n) => ({
    name: `${i + 1} · ${j + 1}`,
    look: LOOKS[n],
    dots: true,
    points: cosine.map((table, layer) => [layer, table[i][j]]),
  }));
  const x = { label: texts.layer, ticks: cosine.map((_, layer) => layer), show: String };
  return chart({ title: texts.cosine, x, y: { label: "cos", high: 1 }, width: 560, height: 300, namesAtEnd: true, series }).element;
}

// A sentence with the word in bold.
function sentenceItem(text, word, i) {
  const at = text.toLowerCase().lastIndexOf(word.toLowerCase());
  const end = at + word.length;
  const parts = at < 0 ? text : [text.slice(0, at), h("b", { text: text.slice(at, end) }), text.slice(end)];
  return h("li", {}, `${i + 1}  `, h("i", { class: `st-dot ch-fill-${LOOKS[i]}`, "aria-hidden": "true" }), parts);
}
