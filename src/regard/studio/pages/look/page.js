// Inspect: a model, a text, and what every head does with it; what changes when heads are changed; one word in several sentences.

import { h } from "../../../web/dom.js";
import { count } from "../../../web/numbers.js";
import { attentionView } from "../../../web/view/attention_view.js";
import { get, job, post } from "../../static/server.js";
import { acceptDrops, fileButton, foot, pageHead, problem, progress, select } from "../../static/widgets.js";
import { meanings } from "./meanings.js";
import { changesFrom, changesText } from "./changes_address.js";
import { whatIf } from "./what_if.js";

const LONGEST_IN_ADDRESS = 1500; // characters of a text
const LARGEST_FILE = 2_000_000; // bytes
const VIEW_PARAMETERS = ["layer", "head", "q", "view", "scale", "form"]; // of the attention view, in the address

export function mount(container, studio) {
  const { texts, memory, params } = studio;
  const models = studio.models.filter((model) => (model.kind === "text" || model.kind === "translator") && model.attention);
  container.append(pageHead(texts));
  if (!models.length) {
    const command = h("pre", { class: "st-code", tabindex: "0", text: "regard studio --model FOLDER" });
    container.append(h("p", { class: "st-problem", role: "status", text: texts.none }), command);
    studio.ready();
    return {};
  }
  memory.choices ||= {
    model: models.some((model) => model.name === params.model) ? params.model : "",
    text: params.text || "",
    changes: changesFrom(params.changes), // of heads, for the what-if
    view: Object.fromEntries(VIEW_PARAMETERS.filter((name) => params[name] !== undefined).map((name) => [name, params[name]])),
  };
  const choices = memory.choices;
  const error = problem(studio);
  const facts = h("p", { class: "st-hint", "data-facts": "" });
  const cut = h("p", { class: "st-problem", role: "status", "data-cut": "", hidden: true });
  const limit = h("span", { class: "st-hint", "data-limit": "" });
  const place = h("div", { class: "st-view" });
  let running = null;
  let view = null;
  let keepTimer = 0;
  const bar = progress(studio.shellTexts, () => running && running.cancel());

  async function inspect() {
    if (running) running.cancel();
    running = null;
    if (!choices.text.trim()) return clear(texts.empty);
    error.clear();
    bar.begin();
    button.disabled = true;
    const { model, text, changes } = choices;
    const mine = job("/api/look", { model, text, changes }, bar.update);
    running = mine;
    try {
      memory.answer = await mine.done;
      if (place.isConnected) await show();
    } catch (reason) {
      if (running === mine) {
        if (reason.code !== "cancelled") clear(""); // what stands below must be of the model and text above
        error.show(reason);
      }
    }
    if (running !== mine) return;
    running = null;
    bar.end();
    button.disabled = false;
    studio.ready();
  }
  function clear(hint) {
    bar.end();
    button.disabled = false;
    memory.answer = memory.effect = null;
    if (view) view.destroy();
    view = null;
    facts.textContent = "";
    cut.hidden = true;
    place.replaceChildren(...(hint ? [h("p", { class: "st-hint", text: hint })] : []));
    effect.setAnswer(null);
  }
  function keep() {
    const { model, text, changes } = choices;
    const kept = text.length <= LONGEST_IN_ADDRESS ? text : null;
    studio.keep({ model, text: kept, changes: changesText(changes), ...choices.view });
  }
  function inspectTyped() {
    choices.text = box.value;
    keep();
    inspect();
  }

  async function show() {
    const { read, whole, took, payload } = memory.answer;
    facts.textContent = texts.facts(count(read), count(took * 1000));
    cut.hidden = whole <= read;
    cut.textContent = whole > read ? texts.cut(count(read), count(whole), memory.answer.model) : "";
    if (view) view.destroy();
    const { lang, theme } = studio;
    view = await attentionView(place, payload, {
      lang,
      theme,
      fetchTile,
      python: "seen",
      onState: viewChanged,
      explain: explainable() ? explain : null,
    });
    if (view) view.set(savedState(payload, choices.view));
    effect.setAnswer(memory.answer);
    line.draw();
  }
  function viewChanged(state) {
    studio.follow(state);
    if (!memory.answer) return; // the view is of a text that has been cleared
    const entry = memory.answer.payload.seen[state.entry];
    const { head, q, picture, scale, form } = state;
    choices.view = { layer: String(entry.layer), head: String(head), q: q === null ? undefined : String(q), view: picture, scale, form };
    effect.setHead({ layer: entry.layer, head: entry.ids[head], q });
    clearTimeout(keepTimer);
    keepTimer = setTimeout(keep, 150);
  }
  // Where the steps show how a weight is computed. A recurrent translator has no heads to take apart.
  const explainable = () => !models.find(({ name }) => name === choices.model)?.about.includes("bahdanau");
  const explain = (entry, head, q, k) => {
    const where = { model: choices.model, text: choices.text, layer: entry.layer, head: entry.ids[head], q, k };
    return `#steps?${new URLSearchParams(where)}`;
  };
  // Exact weights of a rectangle of a long text, recomputed by the server.
  async function fetchTile(entry, head, rows, cols) {
    const where = { layer: entry.layer, call: entry.call, head: entry.ids[head], rows, cols };
    const tile = await post("/api/look/tile", { sight: memory.answer.sight, ...where });
    return Float32Array.from(tile.weights);
  }

  async function readFile(file) {
    if (file.size > LARGEST_FILE) return error.show({ code: "large", values: { most: LARGEST_FILE } });
    box.value = await file.text();
    return inspectTyped();
  }
  const box = h("textarea", {
    class: "st-text",
    rows: "3",
    "aria-label": texts.text,
    value: choices.text,
    spellcheck: "false",
    onkeydown: (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      inspectTyped();
    },
  });
  acceptDrops(box, readFile);
  const button = h("button", { type: "button", class: "st-go", onclick: inspectTyped, text: texts.inspect });

  const samples = () =>
    samplesFor(
      texts.samples,
      models.find((model) => model.name === choices.model),
    );
  const sampleRow = h("div", { class: "st-row" });
  function drawSamples() {
    const chip = (text) => {
      const take = () => {
        box.value = text;
        inspectTyped();
      };
      return h("button", { type: "button", class: "st-chip", onclick: take, text: text.length > 48 ? text.slice(0, 46) + "…" : text });
    };
    sampleRow.replaceChildren(h("span", { class: "st-label", text: texts.examples }), ...samples().map(chip));
  }
  function chooseModel(name) {
    Object.assign(choices, { model: name, changes: [], view: {} });
    const isSample = Object.values(texts.samples).flat().includes(choices.text);
    if (!choices.text || isSample) box.value = samples()[0];
    drawSamples();
    drawLimit();
    inspectTyped();
  }
  function drawLimit() {
    const most = models.find((one) => one.name === choices.model)?.limit;
    limit.textContent = most ? texts.limit(count(most)) : texts.noLimit;
  }
  const modelOptions = models.map(({ name, about }) => [name, `${name} · ${texts.kinds[about] || about}`]);
  const model = select(texts.model, modelOptions, choices.model, chooseModel);

  const effect = whatIf(studio, {
    error,
    onChange: () => {
      keep();
      inspect();
    },
  });
  const command = () => {
    const { text } = choices;
    const quoted = text.slice(0, 60).replaceAll('"', '\\"').replaceAll("\n", " ");
    return `regard look ${choices.model} --text "${quoted}${text.length > 60 ? "…" : ""}" --out report.html`;
  };
  const line = foot(studio.shellTexts, { code: command, saves: { json: () => memory.answer && memory.answer.payload } });
  container.append(
    h(
      "div",
      { class: "st-ask" },
      h("div", { class: "st-bar" }, model.element, fileButton(texts.open, "text/*,.txt,.md,.py", readFile)),
      box,
      h("div", { class: "st-row" }, button, h("span", { class: "st-hint", text: texts.keys }), limit),
      sampleRow,
      error.element,
      bar.element,
      cut,
      facts,
    ),
    place,
    effect.element,
    line.element,
    meanings(studio, models),
  );

  async function begin() {
    if (!memory.answer && !choices.text && !choices.model) {
      const first = studio.initial || (await get("/api/first/look").catch(() => null));
      if (first && first.asked) {
        Object.assign(choices, { model: first.asked.model, text: first.asked.text });
        memory.answer = first.answer;
        if (first.refused) error.show(first.refused);
      }
    }
    choices.model ||= models[0].name;
    choices.text ||= samples()[0];
    model.box.value = choices.model;
    box.value = choices.text;
    drawSamples();
    drawLimit();
    keep();
    if (!memory.answer) return inspect();
    await show();
    return studio.ready();
  }
  begin();
  return {
    drawnForPaper: true, // by the attention view
    leave() {
      if (running) running.cancel();
      if (view) view.destroy();
    },
  };
}

// Texts in the language the model reads.
function samplesFor(samples, model) {
  const plays = model && (model.name.includes("shakespeare") || model.name.startsWith("shk"));
  return samples[model?.source || (plays ? "play" : "")] || samples[""];
}

// The state of the attention view that the address asks for.
function savedState(payload, { layer, head, q, view, scale, form }) {
  const state = {};
  const entry = payload.seen.findIndex((one) => String(one.layer) === layer && one.call === 0);
  if (entry >= 0) state.entry = entry;
  if (head !== undefined) state.head = Number(head);
  if (q !== undefined) state.q = Number(q);
  if (view) state.picture = view;
  if (scale) state.scale = scale;
  if (form) state.form = form;
  return state;
}
