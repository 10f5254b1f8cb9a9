// Beside the steps: a dict and a soft look-up, why √d, one desk under several questions, questions to think about, words and symbols.

import { h, marked, number } from "../../dom.js";
import { ask, latest } from "../../server.js";
import { card, choice, slider, problem } from "../../widgets.js";

export function panels(studio, memory) {
  memory.panels ||= { lookup: { asked: "cherry", toward: "apple", mix: 0, temperature: 0.2 }, width: { d: 64 }, desk: { query: [0, 2, 0, 0] }, answers: {} };
  const say = studio.say;
  return h("div", { class: "st-cards" }, lookup(studio, say.lookup, memory.panels.lookup), width(studio, say.width, memory.panels.width), desk(studio, say.desk, memory.panels.desk), quiz(say.quiz, memory.panels.answers), symbols(say.symbols));
}

const bar = (name, share, text, now = false) => [h("span", { class: now ? "st-now" : "", text: name }), h("span", { class: "rv-meter" }, h("i", { css: { width: `${100 * Math.min(1, Math.max(0, share))}%` } })), h("span", { class: "rv-num", text })];

function lookup(studio, say, s) {
  const out = h("div", {}), wrong = problem(studio);
  const run = latest(async () => {
    try {
      const a = await ask("/api/steps/lookup", s);
      const names = a.keys.map((key) => say.fruit[key]), found = a.crisp === null ? say.missing : number(a.crisp);
      out.replaceChildren(h("div", { class: "st-pair" },
        h("div", {}, h("h3", { text: say.crisp }), h("pre", { class: "st-code", tabindex: "0", text: `prices = {${a.keys.map((key, i) => `"${say.fruit[key]}": ${a.values[i]}`).join(",\n          ")}}\nprices[query]\n→ ${found}` })),
        h("div", {}, h("h3", { text: say.soft }), h("div", { class: "st-bars" }, a.keys.map((key, i) => bar(`${names[i]} ${a.values[i]}`, a.weights[i], number(a.weights[i])))), h("p", { class: "st-formula" }, h("span", { text: "Σ α·v = " }), h("b", { "data-soft": "", text: number(a.soft) }), h("span", { text: `   argmax → ${number(a.hard)}` })))));
      wrong.clear();
    } catch (error) { wrong.show(error); }
  });
  run();
  return card(say.title, h("p", { class: "st-hint", text: say.about }),
    choice(say.asked, Object.keys(say.fruit).map((key) => [key, say.fruit[key]]), s.asked, (v) => { s.asked = v; run(); }).element,
    slider(say.temperature, { low: 0.01, high: 2, value: s.temperature, log: true, show: (v) => number(v, 2) }, (v) => { s.temperature = v; run(); }).element,
    slider(say.mix(say.fruit[s.toward]), { low: 0, high: 1, value: s.mix, step: 0.05, show: (v) => `${Math.round(100 * v)} %` }, (v) => { s.mix = v; run(); }).element, out, wrong.element);
}

function width(studio, say, s) {
  const out = h("div", {}), wrong = problem(studio);
  const side = (title, a) => h("div", {}, h("h3", { text: title }), h("div", { class: "st-columns", role: "img", "aria-label": `${title}: ${a.row.map((w) => number(w, 2)).join(", ")}` }, a.row.map((w) => h("i", { css: { height: `${100 * w}%` } }))),
    h("div", { class: "st-bars" }, [["variance", number(a.variance, 2)], ["largest", number(a.largest, 3)], ["gradient", number(a.gradient, 4)]].map(([name, text]) => [h("span", { text: say[name] }), h("span", {}), h("span", { class: "rv-num", "data-number": name, text })])));
  const run = latest(async () => {
    try { const a = await ask("/api/steps/width", s); out.replaceChildren(h("div", { class: "st-pair" }, side("q·k", a.dot), side("q·k / √d", a.scaled))); wrong.clear(); } catch (error) { wrong.show(error); }
  });
  run();
  return card(say.title, h("p", { class: "st-hint", text: say.about }), slider("d", { low: 1, high: 4096, value: s.d, log: true, show: (v) => String(Math.round(v)) }, (v) => { s.d = Math.round(v); run(); }).element, out, wrong.element);
}

function desk(studio, say, s) {
  const out = h("div", { class: "st-pair" }), wrong = problem(studio);
  const run = latest(async () => {
    try {
      const a = await ask("/api/steps/desk", s);
      const group = (title, weights) => h("div", {}, h("h3", { text: title }), h("div", { class: "st-bars" }, a.things.map((thing, i) => bar(say.things[i], weights[i], number(weights[i], 2)))));
      out.replaceChildren(group(say.noQuery, a.salient["winner takes all"]), group(say.read, a.focused["I want to read"]), group(say.write, a.focused["I want to write"]), group(say.yours, a.focused.yours));
      wrong.clear();
    } catch (error) { wrong.show(error); }
  });
  run();
  return card(say.title, h("p", { class: "st-hint", text: say.about }), h("div", { class: "st-bar" }, say.features.map((name, i) => slider(name, { low: 0, high: 4, value: s.query[i], step: 0.1, show: (v) => number(v, 1) }, (v) => { s.query[i] = v; run(); }).element)), out, wrong.element);
}

function quiz(say, given) {
  const items = say.questions.map((question, n) => {
    const said = h("span", { class: "st-said", role: "status" });
    const check = () => {
      const picked = given[n] || [];
      if (!question.parts.every((_, i) => picked[i])) { said.textContent = ""; return; }
      const right = question.parts.every((part, i) => Number(picked[i]) === part.right);
      said.className = `st-said ${right ? "st-right" : ""}`;
      said.replaceChildren(...(right ? marked(`✓ ${question.why}`) : [`✗ ${say.notYet}`]));
    };
    const fields = question.parts.map((part, i) => {
      const box = h("select", { "data-right": part.right, "aria-label": `${question.ask} ${part.name}`, onchange: () => { (given[n] ||= [])[i] = box.value; check(); } }, h("option", { value: "", text: say.pick }), part.options.map((text, o) => h("option", { value: o, text })));
      box.value = (given[n] || [])[i] || "";
      return h("label", { class: "st-field" }, part.name ? h("span", { text: part.name }) : null, box);
    });
    check();
    return h("li", {}, h("p", { text: question.ask }), h("div", { class: "st-row" }, fields), said);
  });
  return card(say.title, h("ul", { class: "st-quiz" }, items));
}

function symbols(say) {
  const table = h("table", { class: "st-table" }, h("thead", {}, h("tr", {}, say.heads.map((text) => h("th", { scope: "col", text })))), h("tbody", {}, say.rows.map((row) => h("tr", {}, row.map((text, i) => h(i ? "td" : "th", i ? {} : { scope: "row" }, marked(text)))))));
  const element = card(say.title, h("p", { class: "st-hint", text: say.about }), h("div", { class: "st-scroll" }, table));
  element.classList.add("st-wide");
  return element;
}
