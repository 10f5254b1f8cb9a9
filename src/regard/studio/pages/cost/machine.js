// This machine measured: time and memory of attention beside the predicted curves.

import { h, withSubscripts } from "../../../web/dom.js";
import { chart } from "../../../web/chart.js";
import { count, duration, number, short } from "../../../web/numbers.js";
import { job } from "../../static/server.js";
import { card, problem, progress, tableOf } from "../../static/widgets.js";

// This machine's own curves, measured when asked for. Leaving does not stop it: the server keeps the result, and `again` measures anew.
export function machineCard(studio) {
  const { texts, memory } = studio;
  const measured = h("div", { class: "st-flow" });
  const bar = progress(studio.shellTexts, () => memory.job && memory.job.cancel());
  const error = problem(studio);
  const start = h("button", { type: "button", class: "st-go", "data-measure": "", onclick: () => measure(), text: texts.measure });
  const before = h("p", { class: "st-hint", text: texts.measureAbout });

  async function measure() {
    error.clear();
    start.disabled = true;
    bar.begin();
    memory.bar = bar; // drawn anew in another language, the page waits for the same measurement
    memory.job ||= job(`/api/cost/measure${memory.machine ? "?again=true" : ""}`, {}, (update) => memory.bar.update(update));
    try {
      memory.machine = await memory.job.done;
      if (measured.isConnected) draw();
    } catch (reason) {
      error.show(reason);
    }
    memory.job = null;
    start.disabled = false;
    bar.end();
  }

  function draw() {
    const { machine, seconds, kernel, times, bytes, recurrence, formulas, load } = memory.machine;
    start.textContent = texts.measureAgain;
    const sizes = times[0].points.map((point) => point.tokens);
    const x = { label: "N", log: true, ticks: sizes, show: count };
    const size = { width: 560, height: 330 };
    const series = (curves) =>
      curves.flatMap((curve, i) => measuredAndPredicted(texts, curve, ["d", "b", "a"][i + (curves.length === 2 ? 1 : 0)]));
    const timeChart = chart({ title: texts.timeTitle, x, y: { label: "s", log: true, show: duration }, series: series(times), ...size });
    const bytesY = { label: texts.bytes, log: true, show: (v) => short(v, "B") };
    const bytesChart = bytes.length
      ? chart({ title: texts.bytesTitle, x, y: bytesY, series: series(bytes), ...size }).element
      : h("p", { class: "st-hint", text: texts.noMemory });
    const { tokens } = recurrence;
    const [once, turns] = [duration(recurrence["seconds at once"]), duration(recurrence["seconds in turn"])];
    const machineFacts = {
      name: machine.name || "",
      rate: short(machine.flops, "FLOP/s"),
      took: duration(seconds),
      kernel,
      threads: machine.threads,
      load: load === null ? "" : number(load, 1),
    };
    measured.replaceChildren(
      h("p", { class: "st-hint", "data-machine": "", text: texts.machineFacts(machineFacts) }),
      h("div", { class: "st-cards" }, timeChart.element, bytesChart),
      h("p", { "data-recurrence": "", text: texts.recurrence(count(tokens), once, turns, number(recurrence["times slower"], 1)) }),
      tableOf(Object.entries(formulas).map(([name, formula]) => lawRow(texts.law(name), formula.split(" = ")))),
    );
  }

  if (memory.machine) draw();
  if (memory.job) measure();
  return card(texts.machine, before, h("div", {}, start), bar.element, error.element, measured);
}

// A curve as two series: dots where it was measured, a line where it was predicted.
function measuredAndPredicted(texts, curve, look) {
  const points = (name) => curve.points.filter((point) => point[name]).map((point) => [point.tokens, point[name]]);
  const name = texts.curve(curve.name);
  return [
    { name: `${name} · ${texts.measured}`, points: points("measured"), look, dots: 4, line: false },
    { name: `${name} · ${texts.predicted}`, points: points("predicted"), look },
  ];
}

// equalities: the formula, the numbers put in, the result.
function lawRow(name, equalities) {
  return h(
    "tr",
    {},
    h("th", { scope: "row", text: name }),
    h("td", { class: "rv-quiet" }, withSubscripts(equalities.slice(0, -1).join(" = "))),
    h("td", { class: "st-n", text: equalities.at(-1) }),
  );
}
