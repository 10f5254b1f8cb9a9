// Translate: a text, its translation, and which words it was translated from; several translators side by side.

import { h } from "../../../web/dom.js";
import { twoDecimals } from "../../../web/numbers.js";
import { attentionView } from "../../../web/view/attention_view.js";
import { get, job } from "../../static/server.js";
import { card, choice, foot, pageHead, problem, progress } from "../../static/widgets.js";
import { scoresByLength } from "./scores_by_length.js";

const BEAM_WIDTH = 4;
const MOST_MODELS = 4; // compared at once
const TYPING_PAUSE = 450; // milliseconds after which a typed text is translated

// The language a text seems to be in, judged by its letters.
const detectLanguage = (text) => (/[\u3400-\u9fff]/.test(text) ? "zh" : /[a-zäöüß]/i.test(text) ? "de" : null);

export function mount(container, studio) {
  const { texts, memory, params } = studio;
  const translators = studio.models.filter((model) => model.kind === "translator");
  container.append(pageHead(texts));
  if (!translators.length) {
    const commands = "regard train translation config.toml\nregard studio --model runs/my-translator";
    container.append(
      h("p", { class: "st-problem", role: "status", text: texts.none }),
      h("pre", { class: "st-code", tabindex: "0", text: commands }),
    );
    studio.ready();
    return {};
  }
  const modelNamed = (name) => translators.find((model) => model.name === name);
  const translatorsOf = (lang) => translators.filter((model) => model.source === lang).sort((a, b) => b.bleu - a.bleu);
  const languages = [...new Set(["zh", "de", ...translators.map((model) => model.source)])].filter((lang) => translatorsOf(lang).length);
  const samples = (lang) => texts.samples[lang] || texts.samples[""];
  memory.choices ||= {
    text: params.text || "",
    models: params.models ? params.models.split(",").filter(modelNamed) : [],
    main: params.main || "", // the model whose translation is drawn
    hard: params.hard === "true",
    candidate: 0,
    part: 0, // of a long text
  };
  const choices = memory.choices;
  const language = () => modelNamed(choices.models[0])?.source ?? languages[0];
  const error = problem(studio);
  const results = h("div", { class: "st-flow" });
  let view = null;
  let running = null;
  let typingTimer = 0;
  const bar = progress(studio.shellTexts, () => running && running.cancel());

  async function translate() {
    if (running) running.cancel();
    const text = choices.text.trim();
    error.clear();
    bar.begin();
    const mine = job("/api/translate", { models: choices.models, text, width: BEAM_WIDTH, hard: choices.hard }, bar.update);
    running = mine;
    try {
      const answer = await mine.done;
      if (running === mine) {
        takeAnswer(answer);
        if (container.contains(results)) draw();
      }
    } catch (reason) {
      if (running === mine) error.show(reason);
    }
    if (running !== mine) return;
    running = null;
    bar.end();
    studio.ready();
  }
  function takeAnswer(answer) {
    memory.answer = answer;
    Object.assign(choices, { candidate: 0, part: 0 });
    if (!answer.hard) memory.softAnswer = answer; // shown beside the hard one
  }
  function keep() {
    const { text, models, hard, main } = choices;
    studio.keep({ text, models: models.join(","), hard: hard || null, main: main || null });
  }
  function change(changes = {}) {
    Object.assign(choices, changes);
    keep();
    translate();
  }

  const box = h("textarea", {
    class: "st-text",
    rows: "2",
    maxlength: "1000",
    "aria-label": texts.source,
    placeholder: texts.placeholder,
    value: choices.text,
    oninput: () => {
      clearTimeout(typingTimer);
      typingTimer = setTimeout(() => {
        if (box.value !== choices.text) takeTyped();
      }, TYPING_PAUSE);
    },
    onkeydown: (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      clearTimeout(typingTimer);
      takeTyped();
    },
  });
  // A text in another language is given to that language's translators.
  function takeTyped() {
    choices.text = box.value;
    if (!box.value.trim()) return clear();
    const detected = detectLanguage(box.value);
    const known = ["zh", "de"].includes(language()) && languages.includes(detected);
    if (known && detected !== language()) return chooseLanguage(detected);
    return change();
  }
  // Nothing is asked, so nothing is answered.
  function clear() {
    if (running) running.cancel();
    running = null;
    bar.end();
    error.clear();
    keep();
    memory.answer = memory.softAnswer = null;
    if (view) view.destroy();
    view = null;
    results.replaceChildren(h("p", { class: "st-hint", text: texts.empty }));
  }
  function chooseLanguage(lang) {
    Object.assign(choices, { models: usualModels(translatorsOf(lang)), main: "" });
    drawModels();
    change();
  }
  function chooseLanguageWithSample(lang) {
    if (detectLanguage(choices.text) !== lang) choices.text = box.value = samples(lang)[0];
    chooseLanguage(lang);
  }
  function toggleModel({ name }) {
    const others = choices.models.filter((one) => one !== name);
    const chosen = choices.models.includes(name);
    if (chosen && others.length) choices.models = others;
    if (!chosen) choices.models = [...choices.models, name].slice(-MOST_MODELS);
    drawModels();
    change();
  }

  const languageOptions = languages.map((lang) => [lang, texts.languages[lang] || texts.languages[""]]);
  const languageChoice = choice(texts.from, languageOptions, language(), chooseLanguageWithSample);
  const attentionOptions = [
    ["soft", texts.soft, texts.softTitle],
    ["hard", texts.hard, texts.hardTitle],
  ];
  const attentionChoice = choice(texts.attention, attentionOptions, choices.hard ? "hard" : "soft", (kind) =>
    change({ hard: kind === "hard" }),
  );
  const modelRow = h("div", { class: "st-row", role: "group", "aria-label": texts.models });
  const sampleRow = h("div", { class: "st-row" });
  function drawModels() {
    const lang = language();
    const available = translatorsOf(lang);
    const chip = (props) => h("button", { type: "button", class: "st-chip", ...props });
    const modelChip = (model) =>
      chip({
        "aria-pressed": String(choices.models.includes(model.name)),
        title: roleOf(model),
        onclick: () => toggleModel(model),
        text: model.name,
      });
    const takeSample = (text) => {
      box.value = text;
      change({ text });
    };
    const sampleChip = (text) => chip({ lang: lang === "zh" ? "zh-CN" : lang || null, onclick: () => takeSample(text), text });
    languageChoice.set(lang);
    modelRow.hidden = available.length < 2;
    modelRow.replaceChildren(h("span", { class: "st-label", text: texts.models }), ...available.map(modelChip));
    sampleRow.replaceChildren(h("span", { class: "st-label", text: texts.examples }), ...samples(lang).map(sampleChip));
  }
  function roleOf(model) {
    if (!model.attention) return texts.roles.fixed;
    return model.about.startsWith("bahdanau") ? texts.roles.bahdanau : texts.roles.transformer;
  }

  // Draw the translation of one model: in full, with the alignment of one candidate of one part of the text.
  function draw() {
    if (view) view.destroy();
    view = null;
    const { text, translations } = memory.answer;
    const main = mainTranslation(translations);
    const parts = main.parts || [{ text, candidates: main.candidates }];
    const part = parts[Math.min(choices.part, parts.length - 1)];
    const candidate = part.candidates[Math.min(choices.candidate, part.candidates.length - 1)];
    const drawing = h("div", { class: "st-view st-align" });
    results.replaceChildren(
      h(
        "div",
        { class: "st-split" },
        h(
          "div",
          { class: "st-flow st-reading" },
          translationElement(main, parts.length > 1 ? main.candidates[0].text : candidate.text),
          parts.length > 1 ? partChoice(parts, part) : null,
          parts.length > 1 ? h("p", { class: "st-formula", text: candidate.text }) : null,
          candidate.payload ? drawing : h("p", { class: "st-hint", text: texts.noAlignment }),
          candidate.payload && main.heads > 1
            ? h("p", {
                class: "st-hint",
                "data-averaged": "",
                text: (memory.answer.hard ? texts.averagedHard : texts.averaged)(main.heads),
              })
            : null,
        ),
        h(
          "div",
          { class: "st-flow" },
          translations.length > 1 ? comparison(translations, main) : null,
          candidateList(part.candidates, candidate),
        ),
      ),
      scoresByLength(texts, translatorsOf(modelNamed(main.model).source)) || "",
    );
    line.draw();
    if (candidate.payload) drawAlignment(drawing, candidate.payload);
  }
  function mainTranslation(translations) {
    const usable = translations.filter((one) => !one.refused);
    const chosen = usable.find((one) => one.model === choices.main);
    return chosen || usable.find((one) => modelNamed(one.model)?.attention) || translations[0];
  }
  async function drawAlignment(element, payload) {
    const { lang, theme } = studio;
    const drawn = await attentionView(element, payload, { lang, theme, alignment: true, onState: studio.follow });
    if (element.isConnected) view = drawn;
    else if (drawn) drawn.destroy();
  }

  function translationElement(translation, text) {
    const model = modelNamed(translation.model);
    const { answer, softAnswer } = memory;
    const comparable = answer.hard && model.attention && softAnswer && softAnswer.text === answer.text;
    const soft = comparable && softAnswer.translations.find((one) => one.model === translation.model)?.candidates[0];
    return h(
      "div",
      {},
      h("p", { class: "st-hint" }, h("b", { text: model.name }), ` · ${roleOf(model)}`),
      h("p", { class: "st-result", "data-result": "", text: text || "…" }),
      soft ? h("p", { class: "st-hint", "data-soft": "", text: texts.withSoft(soft.text) }) : null,
      warning(translation, model),
    );
  }
  // What the model could not read.
  function warning({ notes }, { name, source }) {
    if (!notes) return null;
    const reads = texts.languages[source] || "";
    let text = "";
    if (notes.share > 0.5) text = texts.mostlyUnknown(name, reads);
    else if (notes.unknown && !notes.foreign) text = texts.unknown([...notes.unknown].join(" "));
    else if (notes.foreign) text = texts.foreign(name, reads, texts.languages[notes.detected] || "", notes.sure);
    return text ? h("p", { class: "st-problem", role: "status", "data-note": "", text }) : null;
  }
  function partChoice(parts, chosen) {
    const choosePart = (part) => {
      Object.assign(choices, { part, candidate: 0 });
      draw();
    };
    const chip = (part, i) =>
      h("button", {
        type: "button",
        class: "st-chip",
        "aria-pressed": String(part === chosen),
        onclick: () => choosePart(i),
        text: part.text,
      });
    const title = texts.parts(parts.length);
    return h(
      "div",
      { class: "st-row", role: "group", "aria-label": title },
      h("span", { class: "st-label", text: title }),
      parts.map(chip),
    );
  }

  // The same text by every model chosen; the one pressed is drawn.
  function comparison(translations, main) {
    const show = (name) => {
      Object.assign(choices, { main: name, candidate: 0, part: 0 });
      keep();
      draw();
    };
    const item = (one) => {
      if (one.refused) {
        const refusal = problem(studio);
        refusal.show(one.refused);
        return h("li", { "data-other": one.model }, h("b", { text: one.model }), refusal.element);
      }
      const role = h("span", { class: "st-hint" }, h("b", { text: one.model }), ` · ${roleOf(modelNamed(one.model))}`);
      const props = { class: "st-rival", "data-other": one.model, "aria-pressed": String(one === main), onclick: () => show(one.model) };
      const text = h("span", { class: "st-said", text: one.candidates[0].text || "…" });
      return h("li", {}, h("button", { type: "button", ...props }, role, text));
    };
    const withoutAttention = translations.some((one) => !modelNamed(one.model).attention);
    return card(
      texts.together,
      h("ul", { class: "st-alts" }, translations.map(item)),
      withoutAttention ? h("p", { class: "st-hint", text: texts.fixedWhy }) : null,
    );
  }
  function candidateList(candidates, chosen) {
    const show = (candidate) => {
      choices.candidate = candidate;
      draw();
    };
    const item = (one, i) => {
      const score = h("span", { class: "rv-num", title: `${texts.logProb} ${twoDecimals(one.log_prob)}`, text: twoDecimals(one.score) });
      const props = { type: "button", "aria-pressed": String(one === chosen), onclick: () => show(i) };
      return h("li", {}, h("button", props, h("span", { text: one.text || "…" }), score));
    };
    return card(texts.candidates, h("ol", { class: "st-alts" }, candidates.map(item)), h("p", { class: "st-hint", text: texts.ranked }));
  }

  const command = () => {
    const quoted = choices.text.trim().replaceAll('"', '\\"').replaceAll("\n", " ");
    return `regard translate "${quoted}" --model ${choices.main || choices.models[0]} --n-best ${BEAM_WIDTH} --html alignment.html`;
  };
  const line = foot(studio.shellTexts, { code: command, saves: { json: () => memory.answer } });
  container.append(
    h(
      "div",
      { class: "st-ask" },
      box,
      h("div", { class: "st-bar" }, languages.length > 1 ? languageChoice.element : null, attentionChoice.element, modelRow),
      sampleRow,
      error.element,
      bar.element,
    ),
    results,
    line.element,
  );

  async function begin() {
    let refused = false;
    if (!memory.answer && !choices.text) {
      const first = studio.initial || (await get("/api/first/translate").catch(() => null));
      if (first && first.asked) {
        Object.assign(choices, { text: first.asked.text, models: first.asked.models });
        if (first.answer) takeAnswer(first.answer);
        if (first.refused) error.show(first.refused);
        refused = Boolean(first.refused);
      }
    }
    if (!choices.models.length) {
      const detected = choices.text && detectLanguage(choices.text);
      choices.models = usualModels(translatorsOf(languages.includes(detected) ? detected : languages[0]));
    }
    choices.text ||= samples(language())[0];
    box.value = choices.text;
    drawModels();
    keep();
    if (memory.answer) draw();
    else if (!refused) return translate();
    return studio.ready();
  }
  begin();
  return {
    drawnForPaper: true, // by the attention view
    leave() {
      clearTimeout(typingTimer);
      if (running) running.cancel();
      if (view) view.destroy();
    },
  };
}

// Of the translators of a language, best first: the two best with attention and one without.
function usualModels(models) {
  const withAttention = models.filter((model) => model.attention).slice(0, 2);
  const without = models.filter((model) => !model.attention).slice(0, 1);
  const usual = [...withAttention, ...without];
  return (usual.length ? usual : models.slice(0, 1)).map((model) => model.name);
}
