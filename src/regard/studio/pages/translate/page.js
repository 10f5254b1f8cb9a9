// Translate: a text, its translation as it appears, and which words it was read from; several translators side by side.

import { h, count, number } from "../../dom.js";
import { get, job } from "../../server.js";
import { choice, foot, problem, progress, card } from "../../widgets.js";
import { chart } from "../../chart.js";

// The language a text seems to be in, as far as its letters tell.
const spoken = (text) => (/[\u3400-\u9fff]/.test(text) ? "zh" : /[a-zäöüß]/i.test(text) ? "de" : null);
const LOOKS = ["a", "c", "e", "b"]; // of the lines of a chart
const fixed2 = (v) => v.toFixed(2).replace("-", "−");

export function mount(container, studio) {
  const say = studio.say, m = studio.memory, p = studio.params;
  const able = studio.known.models.filter((model) => model.kind === "translator");
  container.append(h("div", { class: "st-head" }, h("h1", { text: say.title }), h("p", { class: "st-lead", text: say.lead })));
  if (!able.length) {
    container.append(h("p", { class: "st-problem", role: "status", text: say.none }),
      h("pre", { class: "st-code", tabindex: "0", text: "regard train translation config.toml\nregard studio --model runs/my-translator" }));
    studio.ready();
    return {};
  }
  const named = (name) => able.find((model) => model.name === name);
  const languages = ["zh", "de", ...new Set(able.map((model) => model.source))].filter((v, i, all) => all.indexOf(v) === i && able.some((model) => model.source === v));
  m.s ||= { text: p.text || "", models: p.models ? p.models.split(",").filter(named) : [], hard: p.hard === "true", width: 4, pick: 0, part: 0, main: p.main || "" };
  const s = m.s, wrong = problem(studio), out = h("div", { class: "st-flow" });
  const language = () => named(s.models[0])?.source ?? languages[0];

  let running = null;
  const bar = progress(studio.shell, () => running && running.cancel());
  async function go() {
    if (running) running.cancel();
    if (!s.text.trim()) return;
    wrong.clear(); bar.begin();
    const mine = (running = job("/api/translate", { models: s.models, text: s.text.trim(), width: s.width, hard: s.hard }, (told) => bar.tell(told)));
    try {
      const answer = await mine.done;
      if (running === mine) { take(answer); if (container.contains(out)) draw(); }
    } catch (error) { if (running === mine) wrong.show(error); }
    if (running === mine) { running = null; bar.end(); studio.ready(); }
  }
  function take(answer) {
    m.answer = answer; s.pick = 0; s.part = 0;
    if (!answer.hard) m.soft = answer;
  }
  function keep() { studio.keep({ text: s.text, models: s.models.join(","), hard: s.hard || null, main: s.main || null }); }
  function change() { keep(); go(); }

  const box = h("textarea", { class: "st-text", rows: "2", maxlength: "1000", "aria-label": say.source, value: s.text, placeholder: say.placeholder });
  let timer = 0;
  function typed() {
    const text = box.value;
    if (!text.trim()) return;
    s.text = text;
    const other = spoken(text);
    if (other && other !== language() && languages.includes(other) && ["zh", "de"].includes(language())) speak(other, false);
    else change();
  }
  box.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => { if (box.value !== s.text) typed(); }, 450); });
  box.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); clearTimeout(timer); typed(); } });

  const from = choice(say.from, languages.map((code) => [code, say.languages[code] || say.languages[""]]), language(), (code) => speak(code, true));
  const models = h("div", { class: "st-row", role: "group", "aria-label": say.models }), examples = h("div", { class: "st-row" });
  const role = (model) => (!model.attention ? say.roles.fixed : model.about.startsWith("bahdanau") ? say.roles.bahdanau : say.roles.transformer);
  function drawModels() {
    const code = language(), here = able.filter((model) => model.source === code).sort((a, b) => b.bleu - a.bleu);
    from.set(code);
    models.hidden = here.length < 2;
    models.replaceChildren(h("span", { class: "st-label", text: say.models }), ...here.map((model) => h("button", { type: "button", class: "st-chip", "aria-pressed": String(s.models.includes(model.name)), title: role(model), onclick: () => pick(model), text: model.name })));
    examples.replaceChildren(h("span", { class: "st-label", text: say.examples }), ...(say.samples[code] || say.samples[""]).map((text) => h("button", { type: "button", class: "st-chip", lang: code === "zh" ? "zh-CN" : code || null, onclick: () => { s.text = box.value = text; change(); }, text })));
  }
  // A language begins with its two best translators that attend and one that does not.
  function usual(code) {
    const here = able.filter((model) => model.source === code).sort((a, b) => b.bleu - a.bleu);
    const chosen = [...here.filter((model) => model.attention).slice(0, 2), ...here.filter((model) => !model.attention).slice(0, 1)];
    return (chosen.length ? chosen : here.slice(0, 1)).map((model) => model.name);
  }
  function speak(code, sample) {
    s.models = usual(code); s.main = "";
    if (sample && spoken(s.text) !== code) s.text = box.value = (say.samples[code] || say.samples[""])[0];
    drawModels(); change();
  }
  function pick(model) {
    const left = s.models.filter((name) => name !== model.name);
    s.models = s.models.includes(model.name) ? (left.length ? left : s.models) : [...s.models, model.name].slice(-4);
    drawModels(); change();
  }

  let view = null;
  function draw() {
    if (view) view.destroy();
    view = null;
    const found = m.answer.translations;
    const main = found.find((one) => one.model === s.main && !one.refused) || found.find((one) => !one.refused && named(one.model)?.attention) || found[0];
    const parts = main.parts || [{ text: m.answer.text, candidates: main.candidates }], part = parts[Math.min(s.part, parts.length - 1)];
    const at = Math.min(s.pick, part.candidates.length - 1), chosen = part.candidates[at], drawn = h("div", { class: "st-view st-align" });
    const whole = parts.length > 1 ? main.candidates[0].text : chosen.text;
    const soft = m.answer.hard && m.soft && m.soft.text === m.answer.text ? m.soft.translations.find((one) => one.model === main.model) : null;
    const left = h("div", { class: "st-flow st-reading" },
      h("div", {}, h("p", { class: "st-hint" }, h("b", { text: main.model }), ` · ${role(named(main.model))}`), h("p", { class: "st-result", "data-result": "", text: whole || "…" }),
        soft && soft.candidates[0] && named(main.model).attention ? h("p", { class: "st-hint", "data-soft": "", text: say.withSoft(soft.candidates[0].text) }) : null, notes(main)),
      parts.length > 1 ? h("div", { class: "st-row", role: "group", "aria-label": say.parts(parts.length) }, h("span", { class: "st-label", text: say.parts(parts.length) }), parts.map((one, i) => h("button", { type: "button", class: "st-chip", "aria-pressed": String(one === part), onclick: () => { s.part = i; s.pick = 0; draw(); }, text: one.text }))) : null,
      parts.length > 1 ? h("p", { class: "st-formula", text: chosen.text }) : null,
      chosen.payload ? drawn : h("p", { class: "st-hint", text: say.noAlignment }));
    const right = h("div", { class: "st-flow" }, found.length > 1 ? together(found, main) : null, beam(part, at));
    out.replaceChildren(h("div", { class: "st-split" }, left, right), byLength(say, able.filter((model) => model.source === named(main.model).source)) || "");
    line.draw();
    if (chosen.payload) {
      const options = { lang: studio.lang, theme: studio.theme, alignment: true, onState: (state) => studio.switchTo({ lang: state.lang, theme: state.theme === "auto" ? null : state.theme }) };
      window.regardView(drawn, chosen.payload, options).then((made) => { if (drawn.isConnected) view = made; else if (made) made.destroy(); });
    }
  }
  // What a model could not read.
  function notes(one) {
    const n = one.notes, code = named(one.model).source, reads = say.languages[code] || "";
    if (!n) return null;
    const text = n.share > 0.5 ? say.mostlyUnknown(one.model, reads) : n.unknown ? say.unknown([...n.unknown].join(" ")) : n.foreign ? say.foreign(one.model, reads) : "";
    return text ? h("p", { class: "st-problem", role: "status", "data-note": "", text }) : null;
  }
  // The same text by every model chosen; the one pressed is the one drawn.
  function together(found, main) {
    const line = (one) => {
      if (one.refused) { const told = problem(studio); told.show(one.refused); return h("li", { "data-other": one.model }, h("b", { text: one.model }), told.element); }
      return h("li", {}, h("button", { type: "button", class: "st-rival", "data-other": one.model, "aria-pressed": String(one === main), onclick: () => { s.main = one.model; s.pick = 0; s.part = 0; keep(); draw(); } },
        h("span", { class: "st-hint" }, h("b", { text: one.model }), ` · ${role(named(one.model))}`), h("span", { class: "st-said", text: one.candidates[0].text || "…" })));
    };
    return card(say.together, h("ul", { class: "st-alts" }, found.map(line)), found.some((one) => !named(one.model).attention) ? h("p", { class: "st-hint", text: say.fixedWhy }) : null);
  }
  const beam = (part, at) => card(say.beam, h("ol", { class: "st-alts" }, part.candidates.map((one, i) => h("li", {}, h("button", { type: "button", "aria-pressed": String(i === at), onclick: () => { s.pick = i; draw(); } }, h("span", { text: one.text || "…" }), h("span", { class: "rv-num", title: `${say.logProb} ${fixed2(one.log_prob)}`, text: fixed2(one.score) }))))), h("p", { class: "st-hint", text: say.ranked }));

  const line = foot(studio.shell, { code: () => `regard translate "${s.text.trim().replaceAll('"', '\\"').replaceAll("\n", " ")}" --model ${s.main || s.models[0]} --n-best ${s.width} --html alignment.html`, saves: { json: () => m.answer } });
  const attention = choice(say.attention, [["soft", say.soft, say.softTitle], ["hard", say.hard, say.hardTitle]], s.hard ? "hard" : "soft", (v) => { s.hard = v === "hard"; change(); });
  container.append(h("div", { class: "st-ask" }, box, h("div", { class: "st-bar" }, languages.length > 1 ? from.element : null, attention.element, models), examples, wrong.element, bar.element), out, line.element);
  (async () => {
    if (!m.answer && !s.text) {
      const first = studio.initial || (await get("/api/first/translate").catch(() => null));
      if (first && first.asked) { s.text = first.asked.text; s.models = first.asked.models; if (first.answer) take(first.answer); if (first.refused) wrong.show(first.refused); m.refused = !!first.refused; }
    }
    if (!s.models.length) s.models = usual(s.text && languages.includes(spoken(s.text)) ? spoken(s.text) : languages[0]);
    s.text ||= (say.samples[language()] || say.samples[""])[0];
    box.value = s.text;
    drawModels(); keep();
    if (m.answer) { draw(); studio.ready(); } else if (m.refused) { m.refused = false; studio.ready(); } else go();
  })();
  return { leave() { clearTimeout(timer); if (running) running.cancel(); if (view) view.destroy(); } };
}

// How good translators are by the length of the sentence, as their cards say: the fixed context falls off where attention does not.
// models: those of one language. The test sets most of them were scored on come first; null if no card tells.
function byLength(say, models) {
  const told = [...models].sort((a, b) => b.bleu - a.bleu).filter((model) => Object.keys(model.lengths).length);
  const on = (set) => told.filter((model) => model.lengths[set]);
  const sets = [...new Set(told.flatMap((model) => Object.keys(model.lengths)))].sort((a, b) => on(b).length - on(a).length);
  if (!sets.length) return null;
  const place = h("div", { class: "st-pair", "data-lengths": "" });
  function draw(set) {
    let look = 0;
    const series = on(set).map((model) => ({
      name: model.name, look: model.attention ? LOOKS[look++ % LOOKS.length] : "d", dashed: !model.attention, dots: 4,
      points: model.lengths[set].map((row) => [Math.sqrt(row.least * row.most), row.bleu, `${model.name}, ${say.lengthRow(row.least, row.most, row.sentences)}: BLEU ${number(row.bleu, 1)}`]),
    }));
    const groups = on(set)[0].lengths[set], same = (row) => (other) => other.least === row.least && other.most === row.most;
    const line = (name, cell) => h("tr", {}, h("th", { scope: "row", text: name }), groups.map((row) => h("td", { class: "st-n", text: cell(row) })));
    const table = h("table", { class: "st-table" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col", text: say.sourceLength }), groups.map((row) => h("th", { scope: "col", class: "st-n", text: row.least === row.most ? String(row.least) : `${row.least}–${row.most}` })))),
      h("tbody", {}, line(say.sentences, (row) => count(row.sentences)), on(set).map((model) => line(model.name, (row) => { const own = model.lengths[set].find(same(row)); return own ? own.bleu.toFixed(1) : "—"; }))));
    place.replaceChildren(chart({ title: "", label: `${say.byLength}, ${set}`, x: { label: say.sourceLength, log: true }, y: { label: "BLEU", low: 0 }, width: 560, height: 280, series }).element, h("div", { class: "st-scroll" }, table));
  }
  draw(sets[0]);
  return card(say.byLength, sets.length > 1 ? choice(say.testSet, sets.map((set) => [set, set]), sets[0], draw).element : h("p", { class: "st-hint", text: `${say.testSet}: ${sets[0]}` }), place, h("p", { class: "st-hint", text: say.fromCards }));
}
