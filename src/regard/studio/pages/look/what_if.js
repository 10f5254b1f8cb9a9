// What if a head were silent, sharper, could not see the first token, or only near ones? The change in the output, at once.

import { h, number } from "../../dom.js";
import { ask, latest } from "../../server.js";
import { card, choice, slider } from "../../widgets.js";

const START = { mute: 0, temperature: 0.3, window: 2, forget: 1 };

export function whatIf(studio, memory, { changed, problem }) {
  const say = studio.say.whatIf, s = memory.s;
  memory.w ||= { what: "mute", value: 0, whole: false };
  const w = memory.w;
  let here = { layer: 0, head: 0, q: null }, answer = null;
  const scope = h("span", { class: "rv-num" }), knob = h("span", {}), list = h("div", { class: "st-row" }), out = h("div", { "data-effect": "" }), title = h("b", {});
  const edit = () => ({ layer: here.layer, head: w.whole ? null : here.head, what: w.what, value: w.value });
  const run = latest(async (changes) => {
    try { memory.effect = await ask("/api/look/what-if", { model: s.model, text: s.text, changes, query: here.q }); draw(); } catch (error) { problem.show(error); }
  });
  function act() { s.changes = [...s.changes.filter((c) => !(c.layer === here.layer && c.head === edit().head && c.what === w.what)), edit()]; drawList(); run(s.changes); changed(); }
  function drawKnob() {
    const show = { temperature: (v) => number(v, 2), window: (v) => say.positions(Math.round(v)), forget: (v) => say.tokens(Math.round(v)) }[w.what];
    knob.replaceChildren(w.what === "mute" ? "" : slider(say.whats[w.what], { low: { temperature: 0.02, window: 0, forget: 1 }[w.what], high: { temperature: 20, window: 32, forget: 8 }[w.what], value: w.value, log: w.what === "temperature", step: w.what === "temperature" ? null : 1, show }, (v) => { w.value = w.what === "temperature" ? v : Math.round(v); if (s.changes.some((c) => c.what === w.what && c.layer === here.layer && c.head === edit().head)) act(); }).element);
  }
  function drawList() {
    list.replaceChildren(...(s.changes.length ? [h("span", { class: "st-label", text: say.active }), ...s.changes.map((c, i) => h("button", { type: "button", class: "st-chip", "aria-label": `${say.remove} ${say.told(c)}`, onclick: () => { s.changes.splice(i, 1); drawList(); if (s.changes.length) run(s.changes); else { memory.effect = null; draw(); } changed(); }, text: `${say.told(c)} ×` })), h("button", { type: "button", class: "rv-plain", onclick: () => { s.changes = []; memory.effect = null; drawList(); draw(); changed(); }, text: say.clear })] : []));
  }
  function draw() {
    const e = memory.effect;
    if (!e) {
      out.replaceChildren(answer && answer.next.length ? h("div", {}, h("h3", { text: say.next }), bars(answer.next, null)) : h("p", { class: "st-hint", text: say.hint }));
      return;
    }
    const most = Math.max(1e-9, ...e.each.map((x) => x || 0));
    out.replaceChildren(
      h("p", { class: "st-formula" }, h("span", { text: e.measure === "kl" ? say.kl : say.cosine }), h("b", { class: "rv-num", "data-mean": "", text: ` ${number(e.mean, 4)}` }), h("span", { text: e.measure === "kl" ? ` ${say.nats}` : "" })),
      e.each.length ? h("div", { class: "st-columns", role: "img", "aria-label": say.each }, e.each.map((x) => h("i", { css: { height: `${(100 * (x || 0)) / most}%` } }))) : "",
      e.before.length ? h("div", { class: "st-pair" }, h("div", {}, h("h3", { text: say.before }), bars(e.before, null)), h("div", {}, h("h3", { text: say.after }), bars(e.after, e.before))) : "");
  }
  const bars = (found) => h("div", { class: "st-bars" }, found.map(([piece, p]) => [h("span", { text: piece.trim() === "" ? (piece.includes("⏎") ? "⏎" : "␣") : piece }), h("span", { class: "rv-meter" }, h("i", { css: { width: `${100 * p}%` } })), h("span", { class: "rv-num", text: number(p, 3) })]));
  drawKnob(); drawList(); draw();
  const whole = choice(say.scope, [["head", say.oneHead], ["layer", say.wholeLayer]], w.whole ? "layer" : "head", (v) => { w.whole = v === "layer"; });
  const element = card(say.title, h("p", { class: "st-hint" }, title),
    h("div", { class: "st-bar" }, choice(say.do, ["mute", "temperature", "window", "forget"].map((v) => [v, say.whats[v]]), w.what, (v) => { w.what = v; w.value = START[v]; drawKnob(); }).element, whole.element, knob, h("button", { type: "button", class: "st-go", "data-apply": "", onclick: act, text: say.apply })), list, out);
  return { element, draw(found) { answer = found; draw(); }, at(place) { here = place; title.textContent = say.at(place.layer, place.head); } };
}
