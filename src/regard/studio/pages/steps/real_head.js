// How one weight of a real head is computed, with the model's own numbers: what matters is written out, the rest is summed and said.

import { h, withSubscripts } from "../../../web/dom.js";
import { weightStyle } from "../../../web/colours.js";
import { number } from "../../../web/numbers.js";
import { job } from "../../static/server.js";
import { foot, pageHead, problem, progress } from "../../static/widgets.js";

const LISTED = 10; // keys of the softmax

export const isRealHead = (params) => Boolean(params.model && params.text && params.layer !== undefined);

export function mountRealHead(container, studio) {
  const { params, memory } = studio;
  const texts = studio.texts.real;
  const error = problem(studio);
  let running = null;
  const bar = progress(studio.shellTexts, () => running && running.cancel());
  const output = h("div", { class: "st-flow", "data-real": "" });
  const place = {
    model: params.model,
    text: params.text,
    layer: Number(params.layer),
    head: Number(params.head) || 0,
    kind: params.kind || null,
  };
  const chosen = { query: Number(params.q) || 0, key: params.k === undefined ? null : Number(params.k) };

  async function compute() {
    if (running) running.cancel();
    bar.begin();
    const mine = job("/api/steps/head", { ...place, ...chosen }, bar.update);
    running = mine;
    try {
      memory.real = await mine.done;
      error.clear();
      output.replaceChildren(...stages(studio, texts, memory.real, choose));
      line.draw();
    } catch (reason) {
      if (running === mine) error.show(reason);
    }
    bar.end();
    studio.ready();
  }
  function choose(changes) {
    Object.assign(chosen, changes);
    studio.keep({ q: String(chosen.query), k: chosen.key === null ? null : String(chosen.key) });
    compute();
  }
  const { model, text, layer, head } = place;
  const code = () =>
    `regard.sight.arithmetic.head_arithmetic(model, inputs, layer=${layer}, head=${head}, query=${chosen.query})    # ${model}`;
  const line = foot(studio.shellTexts, { code, saves: { json: () => memory.real } });
  const back = `#look?${new URLSearchParams({ model, text, layer, head, q: chosen.query })}`;
  container.append(
    pageHead({ title: texts.title, lead: texts.lead(model, layer, head) }),
    h("p", { class: "st-row" }, h("a", { href: back, text: texts.back }), h("a", { href: "#steps?form=row", text: texts.example })),
    error.element,
    bar.element,
    output,
    line.element,
  );
  compute();
  return { leave: () => running && running.cancel() };
}

const stage = (n, title, ...children) => h("section", { class: "st-stage" }, h("h2", { text: `${n}  ${title}` }), ...children);
const signed = (value) => (value < 0 ? `(${number(value, 3)})` : number(value, 3));

function stages(studio, texts, answer, choose) {
  return [
    words(studio, texts, answer, choose),
    productStage(texts, answer),
    scoreStage(texts, answer),
    softmaxStage(studio, texts, answer, choose),
    valueStage(texts, answer),
    addedStage(texts, answer),
  ];
}

// The query red, the key that is explained framed, the other keys coloured by their weight; a click explains another one.
function words(studio, texts, { tokens, weights, query, query_token: queryToken, query_is_key: among, key, scores }, choose) {
  const isQuery = (k) => among && k === query;
  const roles = (k) => [scores[k] === null && "rv-masked", isQuery(k) && "st-now", k === key && "st-key"].filter(Boolean);
  const word = (token, k) =>
    h("button", {
      type: "button",
      class: ["st-word", ...roles(k)].join(" "),
      "aria-pressed": String(k === key),
      "aria-label": `${token} ${number(weights[k], 3)}`,
      css: isQuery(k) ? {} : weightStyle(weights[k], studio.dark),
      onclick: () => choose({ key: k }),
      text: token,
    });
  const [before, between, after] = texts.pick;
  return h(
    "div",
    { class: "st-flow" },
    h(
      "p",
      { class: "st-hint" },
      before,
      h("b", { class: "st-now", "data-query": "", text: queryToken }),
      between,
      h("b", { class: "st-key", "data-key": "", text: tokens[key] }),
      after,
    ),
    h("div", { class: "st-words", role: "group", "aria-label": texts.title }, tokens.map(word)),
  );
}

// q · k: the columns with the largest products, and the sum of the others.
function productStage(texts, { terms, product, width, query_token: query, tokens, key }) {
  const { places, numbers, rest, rest_sum: restSum } = terms;
  const row = (name, values, last, role = "") =>
    h(
      "tr",
      {},
      h("th", { scope: "row", class: role, text: name }),
      values.map((v) => h("td", { text: number(v, 3) })),
      h("td", { text: last }),
    );
  const head = h(
    "tr",
    {},
    h("td"),
    places.map((i) => h("th", { scope: "col", text: String(i) })),
    h("th", { text: texts.others(rest) }),
  );
  const table = h(
    "table",
    { class: "st-matrix st-long" },
    h("thead", {}, head),
    h(
      "tbody",
      {},
      row(texts.queryOf(query), terms.query, "", "st-now"),
      row(texts.keyOf(tokens[key]), terms.key, "", "st-key"),
      row(texts.products, numbers, number(restSum, 3)),
    ),
  );
  const sum = `${numbers.map(signed).join(" + ")}${rest ? ` + ${signed(restSum)}` : ""} = ${number(product, 3)}`;
  return stage(
    1,
    texts.product(width),
    h("div", { class: "st-scroll", tabindex: "0", role: "group", "aria-label": texts.title }, table),
    h("p", { class: "st-formula", "data-product": "", text: `q·k = ${sum}` }),
  );
}

function scoreStage(texts, { factor, product, scores, key, width, extra, tokens }) {
  const score = scores[key];
  if (score === null) return stage(2, texts.score, h("p", { class: "st-formula", text: texts.maskedKey(tokens[key]) }));
  const root = Math.abs(factor - 1 / Math.sqrt(width)) < 1e-9;
  const scaled = root ? `${signed(product)} / √${width}` : `${number(factor, 4)} · ${signed(product)}`;
  const plus = extra ? ` + ${signed(extra)} (${texts.extra})` : "";
  const hidden = scores.filter((one) => one === null).length;
  return stage(
    2,
    texts.score,
    h("p", { class: "st-formula", "data-score": "", text: `${scaled}${plus} = ${number(score, 4)}` }),
    hidden ? h("p", { class: "st-hint", text: texts.hidden(hidden, scores.length) }) : null,
  );
}

function softmaxStage(studio, texts, { scores, weights, tokens, key, largest, total }, choose) {
  const order = weights
    .map((_, k) => k)
    .filter((k) => scores[k] !== null)
    .sort((a, b) => weights[b] - weights[a]);
  const listed = order.slice(0, LISTED);
  if (!listed.includes(key) && scores[key] !== null) listed.push(key);
  const rest = order.filter((k) => !listed.includes(k));
  const row = (k) => {
    const name = h("button", {
      type: "button",
      class: "st-chip",
      "aria-pressed": String(k === key),
      onclick: () => choose({ key: k }),
      text: tokens[k],
    });
    const bar = h("i", { css: { width: `${100 * weights[k]}%` } });
    const written = `e^(${number(scores[k], 2)} − ${number(largest, 2)}) / ${number(total, 3)} = ${number(weights[k], 4)}`;
    return [name, h("span", { class: "rv-meter" }, bar), h("span", { class: "rv-num", text: written })];
  };
  const left = rest.reduce((sum, k) => sum + weights[k], 0);
  const others = rest.length
    ? [h("span", { text: texts.otherKeys(rest.length) }), h("span"), h("span", { class: "rv-num", text: number(left, 4) })]
    : [];
  return stage(3, texts.softmax, h("div", { class: "st-bars st-wide-bars", "data-softmax": "" }, listed.map(row), others));
}

// The weighted sum of the values, at the entries of the output that are largest.
function valueStage(texts, { values, weights, tokens, output, width }) {
  const { keys, places, rows, others, others_weight: weight, others_add: add } = values;
  const line = (name, w, numbers) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", text: name }),
      h("td", { text: number(w, 4) }),
      numbers.map((v) => h("td", { text: number(v, 3) })),
    );
  const head = h(
    "tr",
    {},
    h("td"),
    h("th", { text: "α" }),
    places.map((i) => h("th", { scope: "col" }, withSubscripts(`v_${i}`))),
  );
  const totals = places.map((_, n) => keys.reduce((sum, k, r) => sum + weights[k] * rows[r][n], 0) + (add[n] || 0));
  const body = keys.map((k, r) => line(tokens[k], weights[k], rows[r]));
  if (others) body.push(line(texts.otherKeysAdd(others), weight, add));
  body.push(
    h(
      "tr",
      { class: "st-total" },
      h("th", { scope: "row", text: texts.output }),
      h("td"),
      totals.map((v) => h("td", { text: number(v, 3) })),
    ),
  );
  const table = h("table", { class: "st-matrix st-long" }, h("thead", {}, head), h("tbody", {}, body));
  return stage(
    4,
    texts.values,
    h("div", { class: "st-scroll", tabindex: "0", role: "group", "aria-label": texts.title }, table),
    h("p", { class: "st-hint", text: texts.valuesNote(places.length, width, output.rest) }),
  );
}

function addedStage(texts, { added }) {
  if (!added) return stage(5, texts.added, h("p", { class: "st-hint", text: texts.notAdded }));
  const { places, numbers, rest, length, width } = added;
  const written = places.map((i, n) => `${i}: ${number(numbers[n], 3)}`).join(",  ");
  return stage(
    5,
    texts.added,
    h("p", { class: "st-formula rv-num" }, withSubscripts(`ΔE = W_O · o:  ${written}`)),
    h("p", { class: "st-hint", "data-added": "", text: texts.addedNote(places.length, width, rest, number(length, 3)) }),
  );
}
