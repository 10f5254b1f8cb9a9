// What a finished run shows: why it learned or did not, and the runs so far side by side.

import { h } from "../../../web/dom.js";
import { number } from "../../../web/numbers.js";
import { card, tableOf } from "../../static/widgets.js";

const LEARNED = 90; // per cent of exact answers

// A sentence about the run that is shown; nothing while it trains.
export function outcome(texts, { model, scores, finished }) {
  const exact = scores.at(-1)?.exact;
  if (!finished || exact === null || exact === undefined) return null;
  const { why } = texts;
  const reasons = [
    model.kind === "fixed" ? why.fixed : null,
    model.scaled === false ? why.unscaled(number(Math.sqrt(model.d_model / model.heads), 1)) : null,
    model.positions === "none" ? why.positions : null,
    model.causal === false ? why.mask : null,
    model.kind === "bahdanau" && model.score === "dot" ? why.dot : null,
  ].filter(Boolean);
  if (!reasons.length && exact < LEARNED) return null;
  const share = texts.exactShare(number(exact, 0));
  return h("p", { class: "st-verdict", role: "status", "data-why": "" }, h("b", { text: share }), ` ${reasons.join(" ") || why.learned}`);
}

// The finished runs of this visit: what was switched, and how many answers are exact. name: of a model; show: open a run.
export function runsTable({ memory, texts }, name, show) {
  const { state, run } = memory;
  const exact = state.scores.at(-1)?.exact ?? null;
  memory.results ||= {};
  if (state.finished && exact !== null) memory.results[run] = { model: state.model, exact, step: state.step };
  const results = Object.entries(memory.results);
  if (results.length < 2) return null;
  const row = ([one, result]) =>
    h(
      "tr",
      { "aria-current": one === run ? "true" : null },
      h("td", {}, h("button", { type: "button", class: "rv-plain", onclick: () => show(one), text: one })),
      h("td", { text: name(result.model) }),
      h("td", { class: "rv-num", text: texts.stepName(result.step) }),
      h("td", { class: "rv-num", text: `${number(result.exact, 0)} %` }),
    );
  const head = h(
    "tr",
    {},
    texts.runsColumns.map((text) => h("th", { scope: "col", text })),
  );
  return h("div", { "data-runs": "" }, card(texts.runs, tableOf([head, ...results.map(row)])));
}
