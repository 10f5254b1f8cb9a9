// The two trainings that take a second, played step by step: where hard attention looks, and the inverse bandwidth of a regression.

import { h } from "../../../web/dom.js";
import { chart } from "../../../web/chart.js";
import { number } from "../../../web/numbers.js";
import { job } from "../../static/server.js";
import { card, slider } from "../../static/widgets.js";
import { weightTable } from "../learn/weight_table.js";

const FRAME = 90; // milliseconds
const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

// Ask for the training and play it into page.watch; page.stopSmall ends the playing.
export async function trainSmall(page) {
  const { choices, texts, watch, error } = page;
  const { task, baseline, begin } = choices;
  error.clear();
  watch.replaceChildren(h("p", { class: "st-hint", role: "status", text: page.studio.shellTexts.working }));
  try {
    const answer = await job("/api/train/small", { task, baseline: baseline === "on", begin: Number(begin), steps: 160 }).done;
    if (!page.left) play(page, answer);
  } catch (reason) {
    watch.replaceChildren();
    error.show(reason);
  }
  return texts;
}

function play(page, answer) {
  const { frames } = answer;
  let at = still() ? frames.length - 1 : 0;
  const draw = () => page.watch.replaceChildren(...elements(page, answer, at, jump));
  const jump = (i) => {
    clearInterval(timer);
    at = i;
    draw();
    page.watch.querySelector("input[type=range]").focus();
  };
  const timer = setInterval(() => {
    if (page.left || !page.watch.isConnected || at >= frames.length - 1) return clearInterval(timer);
    at += 1;
    return draw();
  }, FRAME);
  page.stopSmall = () => clearInterval(timer);
  draw();
}

function elements({ texts, studio }, { task, rows, columns, frames }, at, jump) {
  const words = texts.small[task];
  const frame = frames[at];
  const points = frames.slice(0, at + 1).map(({ step, value }) => [step, value]);
  const within = [{ points: frames.map(({ step, value }) => [step, value]) }];
  const scrubber = slider(
    texts.scrub,
    { low: 0, high: frames.length - 1, value: at, step: 1, show: (i) => texts.stepName(frames[Math.round(i)].step) },
    (i) => jump(Math.round(i)),
  );
  const axes = { x: { label: texts.step }, y: { label: words.value, low: 0 } };
  const curve = chart({ title: "", label: words.value, ...axes, series: [{ name: words.value, points, look: "a" }], within, height: 260 });
  return [
    h("p", { class: "st-formula", role: "status", "data-small": "", text: words.told(number(frame.value, 3), number(frame.w ?? 0, 2)) }),
    h(
      "div",
      { class: "st-cards" },
      card(words.value, curve.element, scrubber.element),
      card(
        words.matrix,
        weightTable({ rows, columns, weights: frame.weights, dark: studio.dark, label: words.matrix, numbers: rows.length < 9 }),
      ),
    ),
  ];
}
