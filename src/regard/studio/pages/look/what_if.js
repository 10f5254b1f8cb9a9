// What if a head were muted, sharper, or saw only near tokens? The change, and the model's output before and after.

import { h } from "../../../web/dom.js";
import { number } from "../../../web/numbers.js";
import { latest, post } from "../../static/server.js";
import { card, choice, meterRow, slider } from "../../static/widgets.js";

const CHANGES = {
  mute: { initial: 0 },
  temperature: { initial: 0.3, low: 0.02, high: 20, log: true },
  window: { initial: 2, low: 0, high: 32 },
  forget: { initial: 1, low: 1, high: 8 },
};

// onChange: called when the list of changes (memory.choices.changes) is another, so that the page inspects again.
export function whatIf(studio, { onChange, error }) {
  const texts = studio.texts.whatIf;
  const { memory } = studio;
  const { choices } = memory;
  memory.whatIf ||= { what: "mute", value: 0, wholeLayer: false };
  const draft = memory.whatIf;
  let chosen = { layer: 0, head: 0, q: null }; // in the attention view
  let answer = null; // of the unchanged model
  const title = h("b");
  const valueControl = h("span");
  const list = h("div", { class: "st-row" });
  const output = h("div", { "data-effect": "" });

  const draftChange = () => ({ layer: chosen.layer, head: draft.wholeLayer ? null : chosen.head, what: draft.what, value: draft.value });
  const replaces = (a) => (b) => a.layer === b.layer && a.head === b.head && a.what === b.what;

  const measure = latest(async () => {
    try {
      const { model, text, changes } = choices;
      memory.effect = await post("/api/look/what-if", { model, text, changes, query: chosen.q });
      drawOutput();
    } catch (reason) {
      error.show(reason);
    }
  });
  function setChanges(changes) {
    choices.changes = changes;
    drawList();
    onChange();
    if (changes.length) measure();
    else {
      memory.effect = null;
      drawOutput();
    }
  }
  function apply() {
    const change = draftChange();
    setChanges([...choices.changes.filter((one) => !replaces(change)(one)), change]);
  }

  function drawValue() {
    const applyAgain = () => choices.changes.some(replaces(draftChange())) && apply();
    valueControl.replaceChildren(...(draft.what === "mute" ? [] : [valueSlider(texts, draft, applyAgain)]));
  }
  const drawList = () => list.replaceChildren(...changeChips(texts, choices.changes, setChanges));
  function drawOutput() {
    const { effect } = memory;
    if (effect) output.replaceChildren(...effectElements(texts, effect));
    else if (answer && answer.next.length) output.replaceChildren(h("h3", { text: texts.next }), probabilities(answer.next));
    else output.replaceChildren(h("p", { class: "st-hint", text: texts.hint }));
  }

  const controls = changeControls(texts, draft, { drawValue, valueControl, apply });
  drawValue();
  drawList();
  drawOutput();
  if (choices.changes.length && !memory.effect) measure(); // changes that came with the address
  return {
    element: card(texts.title, h("p", { class: "st-hint" }, title), controls, list, output),
    setAnswer(next) {
      answer = next;
      drawOutput();
    },
    setHead(head) {
      chosen = head;
      title.textContent = texts.at(head.layer, head.head);
    },
  };
}

// What is changed, in one head or its whole layer, by how much, and the button that applies it.
function changeControls(texts, draft, { drawValue, valueControl, apply }) {
  const whats = Object.keys(CHANGES).map((what) => [what, texts.whats[what]]);
  const what = choice(texts.change, whats, draft.what, (chosen) => {
    Object.assign(draft, { what: chosen, value: CHANGES[chosen].initial });
    drawValue();
  });
  const scopes = [
    ["head", texts.oneHead],
    ["layer", texts.wholeLayer],
  ];
  const scope = choice(texts.scope, scopes, draft.wholeLayer ? "layer" : "head", (value) => {
    draft.wholeLayer = value === "layer";
  });
  const button = h("button", { type: "button", class: "st-go", "data-apply": "", onclick: apply, text: texts.apply });
  return h("div", { class: "st-bar" }, what.element, scope.element, valueControl, button);
}

function valueSlider(texts, draft, changed) {
  const { low, high, log } = CHANGES[draft.what];
  const show = {
    temperature: (v) => number(v, 2),
    window: (v) => texts.positions(Math.round(v)),
    forget: (v) => texts.tokens(Math.round(v)),
  }[draft.what];
  return slider(texts.whats[draft.what], { low, high, value: draft.value, log, step: log ? null : 1, show }, (value) => {
    draft.value = log ? value : Math.round(value);
    changed();
  }).element;
}

// The active changes; a click on one undoes it.
function changeChips(texts, changes, setChanges) {
  if (!changes.length) return [];
  const chip = (change, i) =>
    h("button", {
      type: "button",
      class: "st-chip",
      "aria-label": `${texts.undo} ${texts.describe(change)}`,
      onclick: () => setChanges(changes.filter((_, k) => k !== i)),
      text: `${texts.describe(change)} ×`,
    });
  const undoAll = h("button", { type: "button", class: "rv-plain", onclick: () => setChanges([]), text: texts.undoAll });
  return [h("span", { class: "st-label", text: texts.active }), ...changes.map(chip), undoAll];
}

// How far the output moved, token by token, and the next token's probabilities before and after.
function effectElements(texts, { measure, mean, each, before, after }) {
  const isDivergence = measure === "kl";
  const largest = Math.max(1e-9, ...each.map((value) => value || 0));
  const column = (value) => h("i", { css: { height: `${(100 * (value || 0)) / largest}%` } });
  const list = (title, tokens) => h("div", {}, h("h3", { text: title }), probabilities(tokens));
  return [
    h(
      "p",
      { class: "st-formula" },
      h("span", { text: isDivergence ? texts.kl : texts.cosine }),
      h("b", { class: "rv-num", "data-mean": "", text: ` ${number(mean, 4)}` }),
      h("span", { text: isDivergence ? ` ${texts.nats}` : "" }),
    ),
    each.length ? h("div", { class: "st-columns", role: "img", "aria-label": texts.each }, each.map(column)) : "",
    before.length ? h("div", { class: "st-pair" }, list(texts.before, before), list(texts.after, after)) : "",
  ];
}

function probabilities(tokens) {
  return h(
    "div",
    { class: "st-bars" },
    tokens.map(([token, probability]) => meterRow(token, probability, number(probability, 3))),
  );
}
