// Translate: a text, its translation as it appears, and which words it was read from.

import { h, number } from "./dom.js";
import { get, job } from "./server.js";
import { choice, foot, problem, progress, toggle, card } from "./widgets.js";
import { chart } from "./chart.js";

export function mount(room, studio) {
  const say = studio.say.translate, m = studio.memory, p = studio.params;
  const able = studio.known.models.filter((model) => model.kind === "translator");
  const head = h("div", { class: "st-head" }, h("h1", { text: say.title }), h("p", { class: "st-lead", text: say.lead }));
  room.append(head);
  if (!able.length) {
    room.append(h("p", { class: "st-problem", role: "status", text: say.none }), h("pre", { class: "st-code", tabindex: "0", text: "regard train translation config.toml\nregard studio --model runs/my-translator" }));
    studio.ready();
    return {};
  }
  m.s ||= { text: p.text || "", models: p.models ? p.models.split(",").filter((name) => able.some((model) => model.name === name)) : [], hard: p.hard === "true", width: 4, pick: 0 };
  const s = m.s, wrong = problem(studio.say), out = h("div", { class: "st-flow" });
  const attending = (name) => able.find((model) => model.name === name)?.attention;

  let running = null;
  const bar = progress(studio.say.shell, () => running && running.cancel());
  async function go() {
    if (running) running.cancel();
    if (!s.text.trim()) return;
    wrong.clear(); bar.begin();
    const mine = (running = job("/api/translate", { models: s.models, text: s.text.trim(), width: s.width, hard: s.hard }, (told) => bar.tell(told)));
    try { m.answer = await mine.done; s.pick = 0; if (room.contains(out)) draw(); } catch (error) { if (running === mine) wrong.show(error); }
    if (running === mine) { running = null; bar.end(); studio.ready(); }
  }
  function change() { studio.keep({ text: s.text, models: s.models.join(","), hard: s.hard || null }); go(); }

  const box = h("textarea", { class: "st-text", rows: "2", maxlength: "1000", "aria-label": say.source, value: s.text, placeholder: say.placeholder });
  let timer = 0;
  box.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => { if (box.value.trim() && box.value !== s.text) { s.text = box.value; change(); } }, 450); });
  box.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); s.text = box.value; change(); } });
  const models = h("div", { class: "st-row", role: "group", "aria-label": say.models }), examples = h("div", { class: "st-row" });
  function drawModels() {
    models.replaceChildren(h("span", { class: "st-label", text: say.models }), ...able.map((model) => h("button", { type: "button", class: "st-chip", "aria-pressed": String(s.models.includes(model.name)), title: model.attention ? say.withAttention : say.without, onclick: () => pick(model), text: model.name })));
    const language = able.find((model) => s.models.includes(model.name))?.source || "";
    examples.replaceChildren(h("span", { class: "st-label", text: say.examples }), ...(say.samples[language] || say.samples[""]).map((text) => h("button", { type: "button", class: "st-chip", lang: language === "zh" ? "zh-CN" : language || null, onclick: () => { s.text = box.value = text; change(); }, text })));
  }
  // Models of one language stand side by side; choosing one of another begins anew.
  function pick(model) {
    const same = s.models.filter((name) => able.find((one) => one.name === name).source === model.source);
    s.models = s.models.includes(model.name) ? (same.length > 1 ? same.filter((name) => name !== model.name) : same) : [...same, model.name].slice(-3);
    if (!same.length) s.text = box.value = (say.samples[model.source] || say.samples[""])[0];
    drawModels(); change();
  }

  let views = [];
  function draw() {
    for (const view of views) view.destroy();
    views = [];
    const found = m.answer.translations, main = found.find((one) => attending(one.model)) || found[0], rest = found.filter((one) => one !== main);
    const chosen = main.candidates[Math.min(s.pick, main.candidates.length - 1)], drawn = h("div", { class: "st-view st-align" });
    out.replaceChildren(
      h("div", { class: "st-split" },
        h("div", { class: "st-flow" }, h("p", { class: "st-result", "data-result": "", text: chosen.text || "…" }), chosen.payload ? drawn : h("p", { class: "st-hint", text: say.noAlignment })),
        h("div", { class: "st-flow" }, card(say.beam, h("ol", { class: "st-alts" }, main.candidates.map((one, i) => h("li", {}, h("button", { type: "button", "aria-pressed": String(i === Math.min(s.pick, main.candidates.length - 1)), onclick: () => { s.pick = i; draw(); }, }, h("span", { text: one.text || "…" }), h("span", { class: "rv-num", title: say.logProb, text: number(one.log_prob, 2) })))))),
          rest.map((one) => card(attending(one.model) ? one.model : say.fixed(one.model), h("p", { class: "st-formula", "data-other": one.model, text: one.candidates[0].text || "…" }), h("p", { class: "st-hint", text: attending(one.model) ? `log p ${number(one.candidates[0].log_prob, 2)}` : say.fixedWhy }))),
          lengths(studio, say, able, s.models))));
    if (chosen.payload) window.regardView(drawn, chosen.payload, { lang: studio.lang, theme: studio.theme, alignment: true, onState: (state) => studio.switchTo({ lang: state.lang, theme: state.theme === "auto" ? null : state.theme }) }).then((view) => views.push(view));
    line.draw();
  }
  const line = foot(studio.say.shell, { code: () => `regard translate "${s.text.replaceAll('"', '\\"')}" --model ${s.models[0]} --n-best ${s.width} --html alignment.html`, saves: { json: () => m.answer } });
  const controls = h("div", { class: "st-bar" }, choice(say.attention, [["soft", say.soft, say.softTitle], ["hard", say.hard, say.hardTitle]], s.hard ? "hard" : "soft", (v) => { s.hard = v === "hard"; change(); }).element);
  room.append(h("div", { class: "st-ask" }, box, h("div", { class: "st-bar" }, models, controls), examples, wrong.element, bar.element), out, line.element);
  (async () => {
    if (!m.answer && !s.text) {
      const first = studio.known.first.translate || (await get("/api/first/translate").catch(() => null));
      if (first && first.asked) { s.text = box.value = first.asked.text; s.models = first.asked.models; m.answer = first.answer; if (first.refused) wrong.show({ ...first.refused, code: first.refused.code }); }
    }
    if (!s.models.length) s.models = [able[0].name];
    drawModels();
    if (m.answer) { draw(); studio.keep({ text: s.text, models: s.models.join(","), hard: s.hard || null }); studio.ready(); } else change();
  })();
  return { leave() { clearTimeout(timer); for (const view of views) view.destroy(); } };
}

// How good each is by the length of the sentence, as its card says; the fixed context falls off where attention does not.
function lengths(studio, say, able, chosen) {
  const language = able.find((model) => chosen.includes(model.name))?.source;
  const told = able.filter((model) => model.source === language && Object.keys(model.lengths).length);
  const common = told.length ? Object.keys(told[0].lengths).map((set) => [set, told.filter((model) => model.lengths[set])]).sort((a, b) => b[1].length - a[1].length)[0] : null;
  if (!common) return null;
  const looks = ["a", "c", "b", "e"];
  return card(say.byLength, chart({ title: common[0], x: { label: say.sourceLength }, y: { label: "BLEU", low: 0 }, width: 420, height: 260,
    series: common[1].map((model, i) => ({ name: model.name, look: model.attention ? looks[i % 4] : "d", dashed: !model.attention, dots: true, points: model.lengths[common[0]].map((row) => [(row.least + row.most) / 2, row.bleu]) })) }).element);
}
