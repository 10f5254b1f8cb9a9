// What is shown of an answer: one model's translation with its alignment, the other models' translations, the other candidates.

import { h } from "../../../web/dom.js";
import { twoDecimals } from "../../../web/numbers.js";
import { attentionView } from "../../../web/view/attention_view.js";
import { card, problem } from "../../static/widgets.js";
import { scoresByLength } from "./scores_by_length.js";
import { roleOf } from "./translators.js";

// Draw the translation of one model: in full, with the alignment of one candidate of one part of the text.
export function drawResults(page) {
  removeView(page);
  const { memory, texts, choices, translators, results } = page;
  const { text, translations } = memory.answer;
  const main = mainTranslation(page, translations);
  const parts = main.parts || [{ text, candidates: main.candidates }];
  const part = parts[Math.min(choices.part, parts.length - 1)];
  const candidate = part.candidates[Math.min(choices.candidate, part.candidates.length - 1)];
  const drawing = h("div", { class: "st-view st-align" });
  const others = h(
    "div",
    { class: "st-flow" },
    translations.length > 1 ? comparison(page, translations, main) : null,
    candidateList(page, part.candidates, candidate),
  );
  results.replaceChildren(
    h("div", { class: "st-split" }, reading(page, { main, parts, part, candidate }, drawing), others),
    scoresByLength(texts, translators.from(translators.named(main.model).source)) || "",
  );
  page.line.draw();
  if (candidate.payload) drawAlignment(page, drawing, candidate.payload);
}

export function removeView(page) {
  if (page.view) page.view.destroy();
  page.view = null;
}

// The translation to draw: the one chosen, else the first by a model with attention.
function mainTranslation({ choices, translators }, translations) {
  const usable = translations.filter((one) => !one.refused);
  const chosen = usable.find((one) => one.model === choices.main);
  return chosen || usable.find((one) => translators.named(one.model)?.attention) || translations[0];
}

// The translation itself; of a text in several parts also which part's alignment is drawn.
function reading(page, { main, parts, part, candidate }, drawing) {
  const { texts, memory } = page;
  const several = parts.length > 1;
  const averaged = memory.answer.hard ? texts.averagedHard : texts.averaged;
  return h(
    "div",
    { class: "st-flow st-reading" },
    translationElement(page, main, several ? main.candidates[0].text : candidate.text),
    several ? [partChoice(page, parts, part), h("p", { class: "st-formula", text: candidate.text })] : null,
    candidate.payload ? drawing : h("p", { class: "st-hint", text: texts.noAlignment }),
    candidate.payload && main.heads > 1 ? h("p", { class: "st-hint", "data-averaged": "", text: averaged(main.heads) }) : null,
  );
}

async function drawAlignment(page, element, payload) {
  const { lang, theme, follow } = page.studio;
  const drawn = await attentionView(element, payload, { lang, theme, alignment: true, onState: follow });
  if (element.isConnected) page.view = drawn;
  else if (drawn) drawn.destroy();
}

function translationElement({ texts, memory, translators }, translation, text) {
  const model = translators.named(translation.model);
  const { answer, softAnswer } = memory;
  const comparable = answer.hard && model.attention && softAnswer && softAnswer.text === answer.text;
  const soft = comparable && softAnswer.translations.find((one) => one.model === translation.model)?.candidates[0];
  return h(
    "div",
    {},
    h("p", { class: "st-hint" }, h("b", { text: model.name }), ` · ${roleOf(texts, model)}`),
    h("p", { class: "st-result", "data-result": "", text: text || "…" }),
    soft ? h("p", { class: "st-hint", "data-soft": "", text: texts.withSoft(soft.text) }) : null,
    warning(texts, translation, model),
  );
}

// What the model could not read.
function warning(texts, { notes }, { name, source }) {
  if (!notes) return null;
  const reads = texts.languages[source] || "";
  let text = "";
  if (notes.share > 0.5) text = texts.mostlyUnknown(name, reads);
  else if (notes.unknown && !notes.foreign) text = texts.unknown([...notes.unknown].join(" "));
  else if (notes.foreign) text = texts.foreign(name, reads, texts.languages[notes.detected] || "", notes.sure);
  return text ? h("p", { class: "st-problem", role: "status", "data-note": "", text }) : null;
}

function partChoice(page, parts, chosen) {
  const choosePart = (part) => {
    Object.assign(page.choices, { part, candidate: 0 });
    drawResults(page);
  };
  const chip = (part, i) =>
    h("button", {
      type: "button",
      class: "st-chip",
      "aria-pressed": String(part === chosen),
      onclick: () => choosePart(i),
      text: part.text,
    });
  const title = page.texts.parts(parts.length);
  return h("div", { class: "st-row", role: "group", "aria-label": title }, h("span", { class: "st-label", text: title }), parts.map(chip));
}

// The same text by every model chosen; the one pressed is drawn.
function comparison(page, translations, main) {
  const { texts, translators } = page;
  const withoutAttention = translations.some((one) => !translators.named(one.model).attention);
  return card(
    texts.together,
    h(
      "ul",
      { class: "st-alts" },
      translations.map((one) => comparisonItem(page, one, one === main)),
    ),
    withoutAttention ? h("p", { class: "st-hint", text: texts.fixedWhy }) : null,
  );
}

function comparisonItem(page, translation, pressed) {
  const { model: name, refused, candidates } = translation;
  if (refused) {
    const refusal = problem(page.studio);
    refusal.show(refused);
    return h("li", { "data-other": name }, h("b", { text: name }), refusal.element);
  }
  const show = () => {
    Object.assign(page.choices, { main: name, candidate: 0, part: 0 });
    page.keep();
    drawResults(page);
  };
  const role = h("span", { class: "st-hint" }, h("b", { text: name }), ` · ${roleOf(page.texts, page.translators.named(name))}`);
  const props = { type: "button", class: "st-rival", "data-other": name, "aria-pressed": String(pressed), onclick: show };
  return h("li", {}, h("button", props, role, h("span", { class: "st-said", text: candidates[0].text || "…" })));
}

function candidateList(page, candidates, chosen) {
  const { texts, choices } = page;
  const show = (candidate) => {
    choices.candidate = candidate;
    drawResults(page);
  };
  const item = (one, i) => {
    const score = h("span", { class: "rv-num", title: `${texts.logProb} ${twoDecimals(one.log_prob)}`, text: twoDecimals(one.score) });
    const props = { type: "button", "aria-pressed": String(one === chosen), onclick: () => show(i) };
    return h("li", {}, h("button", props, h("span", { text: one.text || "…" }), score));
  };
  return card(texts.candidates, h("ol", { class: "st-alts" }, candidates.map(item)), h("p", { class: "st-hint", text: texts.ranked }));
}
