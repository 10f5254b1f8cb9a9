// The front page: one sentence, links to three starting points, a small attention to try at once, and what was opened recently.

import { h } from "../../../web/dom.js";
import { weightStyle } from "../../../web/colours.js";
import { number } from "../../../web/numbers.js";
import { recentPlaces } from "../../static/recent.js";
import { computeExample, exampleWords } from "../learn/example_steps.js";

const DOORS = [
  ["learn", "learn"],
  ["look", "inspect"],
  ["translate", "translate"],
];

export function mount(container, studio) {
  const { texts } = studio;
  const door = ([page, name]) =>
    h(
      "a",
      { class: "st-door", href: `#${page}`, "data-door": name },
      h("b", { text: texts.doors[name].title }),
      h("span", { text: texts.doors[name].about }),
    );
  container.append(
    h("div", { class: "st-hello" }, h("h1", { text: texts.title }), h("p", { class: "st-lead", text: texts.lead })),
    h("nav", { class: "st-doors", "aria-label": texts.begin }, DOORS.map(door)),
    tryIt(studio),
    h("p", { class: "st-hint st-more-pages" }, `${texts.more} `, otherPages(texts)),
    recent(texts),
  );
  return {};
}

const otherPages = (texts) =>
  Object.entries(texts.pages).map(([page, about], i) => [i ? " · " : "", h("a", { href: `#${page}`, text: about })]);

// Five words with vectors made by hand: the chosen one attends to the others.
function tryIt(studio) {
  const { texts, memory } = studio;
  const words = exampleWords(studio.lang);
  memory.word ??= 3;
  const row = h("div", { class: "st-words", role: "group", "aria-label": texts.tryLabel });
  const told = h("p", { class: "st-formula", role: "status", "data-told": "" });
  computeExample(words)
    .then(({ answer }) => {
      const { weights } = answer.heads[0];
      const draw = () => {
        const current = weights[memory.word];
        const word = (text, i) =>
          h("button", {
            type: "button",
            class: "st-word",
            "aria-pressed": String(i === memory.word),
            "aria-label": `${text} ${number(current[i], 2)}`,
            css: i === memory.word ? {} : weightStyle(current[i], studio.dark),
            onclick: () => {
              memory.word = i;
              draw();
              row.children[i].focus();
            },
            text,
          });
        row.replaceChildren(...words.map(word));
        const seen = words.map((text, i) => [text, current[i]]).filter(([, weight]) => weight > 0.005);
        told.textContent = texts.told(words[memory.word], seen.map(([text, weight]) => `${text} ${number(weight, 2)}`).join(" + "));
      };
      draw();
    })
    .catch(() => row.replaceChildren(h("span", { class: "st-hint", text: studio.shellTexts.refusals.gone })))
    .finally(() => studio.ready());
  return h(
    "section",
    { class: "st-card st-try" },
    h("h2", { text: texts.tryTitle }),
    row,
    told,
    h("p", { class: "st-hint", text: texts.madeUp }),
    h("a", { href: "#steps", text: texts.trySteps }),
  );
}

function recent(texts) {
  const places = recentPlaces();
  if (!places.length) return "";
  const item = ({ hash, page, label }) =>
    h("li", {}, h("a", { href: hash }, h("b", { text: texts.names[page] || page }), label ? ` ${label}` : ""));
  return h("section", { class: "st-recent" }, h("h2", { text: texts.recent }), h("ul", { class: "st-plain" }, places.map(item)));
}
