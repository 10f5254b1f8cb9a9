// How each number of the steps is computed, written out with the numbers themselves.

import { number } from "../../../web/numbers.js";

const factor = (value) => (value < 0 ? `(${number(value, 4)})` : number(value, 4));
const equals = (text, value) => `${text} = ${number(value, 4)}`;
const becomes = (text, value) => `${text} → ${number(value, 4)}`;
const column = (matrix, j) => matrix.map((row) => row[j]);

// a·b, without the terms that are zero.
function dotProduct(a, b) {
  const terms = a.map((x, i) => [x, b[i]]).filter(([x, y]) => x !== 0 && y !== 0);
  return terms.length ? terms.map(([x, y]) => `${factor(x)}·${factor(y)}`).join(" + ") : "0";
}

// The arithmetic of cell (i, j) of a stage. settings: the page's switches; head: the server's answer for one head; maps: that head's
// matrices; answer: the server's whole answer.
export function arithmetic(stage, i, j, context) {
  const { settings, head, maps, embeddings, answer, texts } = context;
  switch (stage) {
    case "query":
    case "key":
    case "value":
      return equals(dotProduct(embeddings[i], column(maps[stage], j)), head[stage][i][j]);
    case "raw":
      return equals(rawScore(settings, head.query[i], head.key[j]), head.raw[i][j]);
    case "scaled":
      return scaledScore(head, i, j, texts);
    case "masked":
      return head.masked[i][j] === null ? `${texts.hidden} → −∞` : becomes(texts.visible, head.masked[i][j]);
    case "weights":
      return weight(settings, head.masked[i], head.weights[i], j, texts);
    case "output":
      return equals(dotProduct(head.weights[i], column(head.value, j)), head.output[i][j]);
    case "change-of-head":
      return equals(dotProduct(head.output[i], column(maps.output, j)), head.change[i][j]);
    case "change":
      if (answer.heads.length === 1) return equals(dotProduct(head.output[i], column(maps.output, j)), answer.change[i][j]);
      return equals(answer.heads.map((one) => factor(one.change[i][j])).join(" + "), answer.change[i][j]);
    case "result":
      return equals(`${factor(embeddings[i][j])} + ${factor(answer.change[i][j])}`, answer.result[i][j]);
    default:
      return number(embeddings[i][j], 4);
  }
}

function rawScore({ score, additive, bilinear }, query, key) {
  if (score === "additive") {
    return query.map((q, m) => `${factor((additive || [])[m] ?? 1)}·tanh(${factor(q)} + ${factor(key[m])})`).join(" + ");
  }
  if (score === "bilinear") {
    const entry = (a, b) => (bilinear ? bilinear[a][b] : Number(a === b));
    const terms = key.flatMap((k, a) => query.map((q, b) => [k, entry(a, b), q]));
    const written = terms.filter((term) => term.every(Boolean)).map((term) => term.map(factor).join("·"));
    return written.join(" + ") || "0";
  }
  return dotProduct(query, key);
}

function scaledScore(head, i, j, texts) {
  const raw = factor(head.raw[i][j]);
  if (head.factor === 1) return equals(texts.unscaled, head.scaled[i][j]);
  const width = head.query[0].length;
  return equals(`${raw} / √${width} = ${raw} / ${number(Math.sqrt(width), 4)}`, head.scaled[i][j]);
}

// scores: a row after the mask, null where it is masked; weights: the row chosen from them.
function weight({ choice, temperature }, scores, weights, j, texts) {
  if (scores[j] === null) return becomes(texts.hidden, 0);
  const z = scores.map((score) => (score === null ? null : score / temperature));
  const visible = z.filter((value) => value !== null);
  const divided = temperature === 1 ? "" : `/${number(temperature, 3)}`;
  if (choice === "softmax") {
    const sum = visible.map((value) => number(Math.exp(value), 3)).join(" + ");
    return equals(`e^${factor(scores[j])}${divided} / Σ = ${number(Math.exp(z[j]), 4)} / (${sum})`, weights[j]);
  }
  if (choice === "argmax") {
    const largest = number(Math.max(...scores.filter((score) => score !== null)), 4);
    return becomes(weights[j] ? texts.largest : texts.notLargest(largest), weights[j]);
  }
  if (choice === "sample") {
    const probability = Math.exp(z[j]) / visible.reduce((sum, value) => sum + Math.exp(value), 0);
    return becomes(`${weights[j] ? texts.drawn : texts.notDrawn} p = ${number(probability, 3)}`, weights[j]);
  }
  const positive = weights.findIndex((one) => one > 0); // any positive weight gives the threshold τ
  if (choice === "sparsemax") return equals(`max(${factor(z[j])} − τ, 0), τ = ${number(z[positive] - weights[positive], 4)}`, weights[j]);
  return equals(`max(${factor(z[j])}/2 − τ, 0)², τ = ${number(z[positive] / 2 - Math.sqrt(weights[positive]), 4)}`, weights[j]);
}
