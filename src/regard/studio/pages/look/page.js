// Look: a model, a text, and what every head does with it; what changes when heads are changed; one word in several sentences.

import { h, number, count } from "../../dom.js";
import { ask, get, job, latest } from "../../server.js";
import { choice, foot, problem, progress, select, card } from "../../widgets.js";
import { meanings } from "./meanings.js";
import { whatIf } from "./what_if.js";

const SHARED = 1500; // characters of a text that still fit an address

export function mount(container, studio) {
  const say = studio.say, m = studio.memory, p = studio.params;
  const able = studio.known.models.filter((model) => (model.kind === "text" || model.kind === "translator") && model.attention);
  container.append(h("div", { class: "st-head" }, h("h1", { text: say.title }), h("p", { class: "st-lead", text: say.lead })));
  if (!able.length) {
    container.append(h("p", { class: "st-problem", role: "status", text: say.none }), h("pre", { class: "st-code", tabindex: "0", text: "regard studio --model FOLDER" }));
    studio.ready();
    return {};
  }
  m.s ||= { model: able.some((one) => one.name === p.model) ? p.model : "", text: p.text || "", changes: [], view: Object.fromEntries(["layer", "head", "q", "view", "scale", "form"].filter((name) => p[name] !== undefined).map((name) => [name, p[name]])) };
  const s = m.s, wrong = problem(studio), facts = h("p", { class: "st-hint", "data-facts": "" }), place = h("div", { class: "st-view" }), side = h("div", {});
  let running = null, view = null;
  const bar = progress(studio.shell, () => running && running.cancel());

  async function go() {
    if (running) running.cancel();
    if (!s.text.trim()) return;
    wrong.clear(); bar.begin(); button.disabled = true;
    const mine = (running = job("/api/look", { model: s.model, text: s.text, changes: s.changes }, (told) => bar.tell(told)));
    try { m.answer = await mine.done; if (place.isConnected) await show(); } catch (error) { if (running === mine) wrong.show(error); }
    if (running === mine) { running = null; bar.end(); button.disabled = false; studio.ready(); }
  }
  function keep(more = {}) { studio.keep({ model: s.model, text: s.text.length <= SHARED ? s.text : null, ...s.view, ...more }); }
  function change() { s.text = box.value; keep(); go(); }

  const box = h("textarea", { class: "st-text", rows: "3", "aria-label": say.text, value: s.text, spellcheck: "false", onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); change(); } } });
  for (const [kind, act] of Object.entries({ dragover: () => box.classList.add("st-over"), dragleave: () => box.classList.remove("st-over"), drop: (event) => { box.classList.remove("st-over"); take(event.dataTransfer.files[0]); } })) box.addEventListener(kind, (event) => { if (kind !== "drop" || event.dataTransfer.files.length) { event.preventDefault(); act(event); } });
  async function take(given) {
    if (!given) return;
    if (given.size > 2_000_000) { wrong.show({ code: "large", values: { most: 2_000_000 } }); return; }
    box.value = await given.text(); change();
  }
  const file = h("input", { type: "file", accept: "text/*,.txt,.md,.py", hidden: true, onchange: () => { take(file.files[0]); file.value = ""; } });
  const button = h("button", { type: "button", class: "st-go", onclick: change, text: say.look });
  const model = select(say.model, able.map((one) => [one.name, `${one.name} · ${say.kinds[one.about] || one.about}`]), s.model, (v) => { s.model = v; s.changes = []; s.view = {}; const sample = samples()[0]; if (!s.text || Object.values(say.samples).flat().includes(s.text)) box.value = sample; drawSamples(); change(); });
  const samples = () => say.samples[able.find((one) => one.name === s.model)?.source || (s.model.includes("shakespeare") || s.model.startsWith("shk") ? "play" : "")] || say.samples[""];
  const shelf = h("div", { class: "st-row" });
  function drawSamples() { shelf.replaceChildren(h("span", { class: "st-label", text: say.examples }), ...samples().map((text) => h("button", { type: "button", class: "st-chip", onclick: () => { box.value = text; change(); }, text: text.length > 48 ? text.slice(0, 46) + "…" : text }))); }

  async function show() {
    const a = m.answer;
    facts.textContent = say.facts(count(a.read), a.whole > a.read ? count(a.whole) : "", count(a.took * 1000));
    const options = { lang: studio.lang, theme: studio.theme, fetchTile: tile, python: "seen", onState: told };
    if (view) view.destroy();
    view = await window.regardView(place, a.payload, options);
    const found = a.payload.seen.findIndex((e) => String(e.layer) === s.view.layer && e.call === 0), chosen = {};
    if (found >= 0) chosen.entry = found;
    for (const name of ["head", "q"]) if (s.view[name] !== undefined) chosen[name] = Number(s.view[name]);
    for (const name of ["view", "scale", "form"]) if (s.view[name]) chosen[name] = s.view[name];
    if (view && Object.keys(chosen).length) view.set(chosen);
    what.draw(a);
    line.draw();
  }
  function told(state) {
    studio.switchTo({ lang: state.lang, theme: state.theme === "auto" ? null : state.theme });
    const entry = m.answer.payload.seen[state.entry];
    s.view = { layer: String(entry.layer), head: String(state.head), q: state.q === null ? undefined : String(state.q), view: state.view, scale: state.scale, form: state.form };
    what.at({ layer: entry.layer, head: entry.ids[state.head], q: state.q });
    clearTimeout(told.timer); told.timer = setTimeout(keep, 150);
  }
  // Exact numbers of a rectangle of a long text, recomputed by the server.
  async function tile(entry, head, rows, cols) {
    const found = await ask("/api/look/tile", { sight: m.answer.sight, layer: entry.layer, call: entry.call, head: entry.ids[head], rows, cols });
    return Float32Array.from(found.weights);
  }
  const what = whatIf(studio, m, { changed: () => go(), problem: wrong });
  side.append(what.element);
  const line = foot(studio.shell, { code: () => `regard look ${s.model} --text "${s.text.slice(0, 60).replaceAll('"', '\\"').replaceAll("\n", " ")}${s.text.length > 60 ? "…" : ""}" --out report.html`, saves: { json: () => m.answer && m.answer.payload } });
  container.append(h("div", { class: "st-ask" }, h("div", { class: "st-bar" }, model.element, h("button", { type: "button", class: "rv-plain", onclick: () => file.click(), text: say.open }), file), box, h("div", { class: "st-row" }, button, h("span", { class: "st-hint", text: say.keys })), shelf, wrong.element, bar.element, facts), place, side, line.element, meanings(studio, m, able));
  (async () => {
    if (!m.answer && !s.text && !s.model) {
      const first = studio.initial || (await get("/api/first/look").catch(() => null));
      if (first && first.asked) { s.model = first.asked.model; s.text = first.asked.text; m.answer = first.answer; if (first.refused) wrong.show(first.refused); }
    }
    s.model ||= able[0].name; s.text ||= samples()[0];
    model.box.value = s.model; box.value = s.text;
    drawSamples(); keep();
    if (m.answer) { await show(); studio.ready(); } else go();
  })();
  return { leave() { if (running) running.cancel(); if (view) view.destroy(); } };
}
