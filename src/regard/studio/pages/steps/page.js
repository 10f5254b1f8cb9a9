// Steps: attention by hand. The numbers are the server's; what is typed here is only what they are made of.

import { h, number, formula, mi, mo, sup, sub, frac, sqrt } from "../../dom.js";
import { ask, latest } from "../../server.js";
import { choice, slider, toggle, foot, problem } from "../../widgets.js";
import { matrix } from "../../matrix.js";
import { shade, legend } from "../../heat.js";
import { told } from "./arithmetic.js";
import { SENTENCES, K, heads, vector, split } from "./example.js";
import { panels } from "./panels.js";

const SWITCHES = ["score", "scaled", "mask", "temperature", "choice", "seed", "count", "shown", "form", "current"];

function begin(studio, params) {
  const text = params.text || SENTENCES[studio.lang], words = split(text);
  const s = { text, words, embeddings: words.map(vector), heads: heads(), score: "dot", scaled: true, mask: "causal", window: 1, temperature: 1, choice: "softmax", seed: 0, count: 1, shown: 0, form: "row", current: Math.min(3, words.length - 1), bilinear: [[1, 0], [0, 1]], additive: [1, 1], edited: false };
  for (const name of SWITCHES) if (params[name] !== undefined) s[name] = typeof s[name] === "number" ? Number(params[name]) : typeof s[name] === "boolean" ? params[name] === "true" : params[name];
  try {
    const given = params.numbers ? JSON.parse(params.numbers) : null;
    if (given && given.e.length === words.length) { s.embeddings = given.e; given.w.forEach((w, i) => { s.heads[i] = w; }); s.edited = true; }
  } catch { /* an address typed by hand: the example stands */ }
  s.count = [1, 2, 4].includes(s.count) ? s.count : 1; s.shown = Math.min(s.shown, s.count - 1); s.current = Math.max(0, Math.min(s.current, words.length - 1));
  return s;
}

export function mount(container, studio) {
  const say = studio.say, m = studio.memory;
  if (!m.s || (m.s.untouched && m.lang !== studio.lang) || (studio.params.text && studio.params.text !== m.s.text)) { m.s = begin(studio, studio.params); m.s.untouched = !studio.params.text; m.lang = studio.lang; m.answer = null; }
  const s = m.s;
  const wrong = problem(studio), flow = h("div", { class: "st-flow" }), strip = h("div", { class: "st-words", role: "group", "aria-label": say.words });
  const sum = h("p", { class: "st-sum", role: "status", "aria-live": "polite", "data-sum": "" });
  const proof = h("span", { class: "st-right rv-num", "data-proof": "" });
  const sentence = h("input", { type: "text", class: "st-text", value: s.text, maxlength: "120", "aria-label": say.sentence, onchange: () => { const words = split(sentence.value); if (words.length) { Object.assign(s, { text: words.join(" "), words, embeddings: words.map(vector), current: Math.min(s.current, words.length - 1), untouched: false }); change(); } else sentence.value = s.text; } });

  const request = () => ({ embeddings: s.embeddings, heads: s.heads.slice(0, s.count), score: s.score, scaled: s.scaled, mask: s.mask, window: s.window, temperature: s.temperature, choice: s.choice, seed: s.seed, bilinear: s.score === "bilinear" ? s.bilinear : null, additive: s.score === "additive" ? s.additive : null });
  const run = latest(async () => {
    try { m.answer = await ask("/api/steps", request()); wrong.clear(); draw(); } catch (error) { wrong.show(error); }
    studio.ready();
  });
  function change() {
    const kept = Object.fromEntries(SWITCHES.map((name) => [name, s[name]]));
    studio.keep({ text: s.untouched ? null : s.text, ...kept, numbers: s.edited ? JSON.stringify({ e: s.embeddings, w: s.heads.slice(0, s.count) }) : null });
    run();
  }
  const set = (name) => (value) => { s[name] = value; if (name === "count") s.shown = Math.min(s.shown, value - 1); change(); };

  // Switches
  const cut = choice(say.choice, ["softmax", "sparsemax", "entmax15", "argmax", "sample"].map((v) => [v, say.choices[v]]), s.choice, set("choice"));
  const again = h("button", { type: "button", class: "rv-plain", onclick: () => { s.seed += 1; change(); }, text: say.drawAgain });
  const which = h("span", {});
  const controls = h("div", { class: "st-bar", "data-controls": "" },
    choice(say.score, [["dot", say.scores.dot], ["additive", say.scores.additive], ["bilinear", say.scores.bilinear]], s.score, set("score")).element,
    toggle(say.scale, s.scaled, set("scaled")).element,
    choice(say.mask, [["none", say.masks.none], ["causal", say.masks.causal], ["window", say.masks.window]], s.mask, set("mask")).element,
    slider(say.temperature, { low: 0.05, high: 20, value: s.temperature, log: true, show: (v) => number(v, 2) }, (v) => set("temperature")(Math.abs(Math.log(v)) < 0.02 ? 1 : v)).element,
    cut.element, again,
    choice(say.heads, [[1, "1"], [2, "2"], [4, "4"]], s.count, set("count")).element, which,
    choice(say.form, [["row", say.forms.row], ["column", say.forms.column]], s.form, set("form")).element);

  function draw() {
    const a = m.answer, r = a.heads[s.shown], w = s.heads[s.shown], turned = s.form === "column", words = s.words;
    if (!r || r.query.length !== words.length) return;
    const parts = Array.from({ length: K }, (_, i) => String(i + 1)), features = say.features;
    const context = { s, r, w, e: s.embeddings, answer: a, maps: s.heads.slice(0, s.count), say };
    again.hidden = s.choice !== "sample";
    which.replaceChildren(s.count > 1 ? choice(say.head, Array.from({ length: s.count }, (_, i) => [i, String(i + 1), say.headNames[i]]), s.shown, set("shown")).element : "");
    const look = (stage, name, rows, columns) => (i, j, pin) => {
      sum.replaceChildren(h("span", { class: "st-where", text: `${name}  ${rows[i]} · ${columns[j]}:  ` }), h("b", { class: "rv-num", text: told(stage, i, j, context) }));
      if (["raw", "scaled", "masked", "weights"].includes(stage)) { colour(i); if (pin) { s.current = i; change(); } }
    };
    const grid = (stage, title, values, columns, more = {}) => matrix(studio, { name: stage, title, values, rows: words, columns, look: look(stage, title, words, columns), ...more });
    const map = (name, title, rows, columns) => matrix(studio, { name: `W-${name}`, title, values: w[name], rows, columns, editable: (i, j, v) => { w[name][i][j] = v; s.edited = true; s.untouched = false; change(); } });
    const square = (stage, title, values, kind, note) => grid(stage, title, values, words, { kind, turned, current: s.current, note, hidden: stage === "weights" ? (i, j) => r.masked[i][j] === null : null });
    const stage = (number, title, about, ...children) => h("section", { class: "st-stage", "data-stage": number }, h("h2", {}, `${number}  ${title}`, h("small", { class: "rv-quiet", text: about })), h("div", { class: "st-line" }, children));
    const then = (text, ...next) => h("div", { class: "st-joined" }, h("span", { class: "st-op", "aria-hidden": "true", text }), next);
    const keep = document.activeElement && flow.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    flow.replaceChildren(
      stage(1, say.stage.embed, say.about.embed, matrix(studio, { name: "E", title: "E", values: s.embeddings, rows: words, columns: features, editable: (i, j, v) => { s.embeddings[i][j] = v; s.edited = true; s.untouched = false; change(); } }),
        then("×", map("query", "W_Q", features, parts)), map("key", "W_K", features, parts), map("value", say.down, features, parts)),
      stage(2, say.stage.project, say.about.project, grid("query", "Q = E·W_Q", r.query, parts, { current: s.current }), grid("key", "K = E·W_K", r.key, parts), grid("value", "V = E·W_V", r.value, parts)),
      stage(3, say.stage.score, say.about[s.score], s.score === "bilinear" ? matrix(studio, { name: "bilinear", title: "W", values: s.bilinear, rows: parts, columns: parts, editable: (i, j, v) => { s.bilinear[i][j] = v; change(); } }) : null,
        s.score === "additive" ? matrix(studio, { name: "additive", title: "v", values: [s.additive], rows: ["v"], columns: parts, editable: (i, j, v) => { s.additive[j] = v; change(); } }) : null,
        square("raw", turned ? say.rawColumn[s.score] : say.raw[s.score], r.raw, "number", turned ? say.keysDown : say.queriesDown), then("→", square("scaled", r.factor === 1 ? say.notScaled : "÷ √d", r.scaled, "number"))),
      stage(4, say.stage.choose, say.about.choose, square("masked", say.maskTitle, r.masked, "number"), then("→", square("weights", `α · ${say.choices[s.choice]}`, r.weights, "weight", turned ? say.columnsSum : say.rowsSum)), legend(studio, "1")),
      stage(5, say.stage.gather, say.about.gather, grid("output", "α·V", r.output, parts), then("×", map("output", say.up, parts, features)), then("→", grid("change", s.count > 1 ? say.changeAll : "ΔE", a.change, features, { kind: "difference" })), then("+ E =", grid("result", "E + ΔE", a.result, features))));
    if (keep) { const same = [...flow.querySelectorAll("[aria-label]")].find((node) => node.getAttribute("aria-label") === keep); if (same) same.focus(); }
    proof.textContent = a.proof === 0 ? `✓ ${say.proofExact}` : `✓ ${say.proof} ${number(a.proof)}`;
    colour(s.current);
    line.draw();
  }
  // The sentence itself: the current word red, the others as blue as they are looked at.
  function colour(i) {
    const r = m.answer.heads[s.shown];
    strip.replaceChildren(...s.words.map((word, j) => h("button", { type: "button", class: "st-word", "aria-pressed": String(j === i), "aria-label": `${word} ${number(r.weights[i][j])}`, css: j === i ? {} : shade(studio, r.weights[i][j]), onclick: () => { s.current = j; change(); }, text: word })));
  }
  const line = foot(studio.shell, { code: () => python(s), saves: { json: () => ({ asked: request(), answer: m.answer }) } });
  const q = sup(mi("K"), mi("⊤"));
  container.append(
    h("div", { class: "st-head" }, h("h1", { text: say.title }), h("p", { class: "st-lead", text: say.lead }),
      h("p", { class: "st-lead" }, s.form === "column"
        ? formula(mi("H"), mo("="), mi("V"), mo("·"), mi("softmax"), mo("("), frac([q, mi("Q")], [sqrt(mi("d"))]), mo(")"))
        : formula(mi("ΔE"), mo("="), mi("softmax"), mo("("), frac([mi("Q"), sup(mi("K"), mi("⊤"))], [sqrt(mi("d"))]), mo(")"), mi("V"), sub(mi("W"), mi("O"))))),
    h("div", { class: "st-ask" }, sentence, controls, wrong.element),
    h("div", { class: "st-row" }, strip, proof), flow, sum, line.element, panels(studio, m));
  if (m.answer) { draw(); studio.ready(); }
  change();
  sum.textContent = say.hover;
  return {};
}

function python(s) {
  const score = s.score === "dot" ? (s.scaled ? "regard.ScaledDot()" : "regard.Dot()") : s.score === "additive" ? "additive" : "bilinear";
  const mask = { none: "None", causal: "regard.causal()", window: `regard.window(${s.window}, ${s.window})` }[s.mask];
  const name = { softmax: "Softmax", sparsemax: "Sparsemax", entmax15: "Entmax15", argmax: "Argmax", sample: "Sample" }[s.choice];
  return `E + regard.attend(E @ W_Q, E @ W_K, E @ W_V, score=${score}, mask=${mask}, choice=regard.${name}(${number(s.temperature, 3)})) @ W_O`;
}
