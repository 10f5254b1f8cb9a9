// How each number of the steps came about, written out with the numbers themselves.

import { number } from "../../dom.js";

const n = (v) => (v < 0 ? `(${number(v, 4)})` : number(v, 4));
export function products(pairs) {
  const real = pairs.filter(([a, b]) => a !== 0 && b !== 0);
  return real.length ? real.map(([a, b]) => `${n(a)}·${n(b)}`).join(" + ") : "0";
}
const dot = (a, b) => a.map((x, i) => [x, b[i]]);
const column = (m, j) => m.map((row) => row[j]);
const is = (text, value) => `${text} = ${number(value, 4)}`, gives = (text, value) => `${text} → ${number(value, 4)}`;

// What a cell of a stage says. s: the switches, r: the server's answer of one head, w: that head's maps, e: the embeddings.
export function told(stage, i, j, { s, r, w, e, answer, maps, say }) {
  const width = r.query[0].length, t = s.temperature;
  switch (stage) {
    case "query": case "key": case "value": return is(products(dot(e[i], column(w[stage], j))), r[stage][i][j]);
    case "raw":
      if (s.score === "additive") return is(r.query[i].map((q, m) => `${n((s.additive || [])[m] ?? 1)}·tanh(${n(q)} + ${n(r.key[j][m])})`).join(" + "), r.raw[i][j]);
      if (s.score === "bilinear") return is(r.key[j].flatMap((k, a) => r.query[i].map((q, b) => [k, s.bilinear ? s.bilinear[a][b] : Number(a === b), q])).filter((x) => x.every(Boolean)).map((x) => x.map(n).join("·")).join(" + ") || "0", r.raw[i][j]);
      return is(products(dot(r.query[i], r.key[j])), r.raw[i][j]);
    case "scaled": return r.factor === 1 ? is(say.unscaled, r.scaled[i][j]) : is(`${n(r.raw[i][j])} / √${width} = ${n(r.raw[i][j])} / ${number(Math.sqrt(width), 4)}`, r.scaled[i][j]);
    case "masked": return r.masked[i][j] === null ? `${say.hidden} → −∞` : gives(say.visible, r.masked[i][j]);
    case "weights": return weights(r, i, j, s, t, say);
    case "output": return is(products(dot(r.weights[i], column(r.value, j))), r.output[i][j]);
    case "change": return is(maps.map((m, h) => products(dot(answer.heads[h].output[i], column(m.output, j)))).join(" + "), answer.change[i][j]);
    case "result": return is(`${n(e[i][j])} + ${n(answer.change[i][j])}`, answer.result[i][j]);
    default: return number(e[i][j], 4);
  }
}

function weights(r, i, j, s, t, say) {
  const row = r.masked[i], value = r.weights[i][j];
  if (row[j] === null) return gives(say.hidden, 0);
  const z = row.map((x) => (x === null ? null : x / t)), seen = z.filter((x) => x !== null), over = t === 1 ? "" : `/${number(t, 3)}`;
  if (s.choice === "softmax") return is(`e^${n(row[j])}${over} / Σ = ${number(Math.exp(z[j]), 4)} / (${seen.map((x) => number(Math.exp(x), 3)).join(" + ")})`, value);
  if (s.choice === "argmax") return gives(value ? say.largest : say.notLargest(number(Math.max(...row.filter((x) => x !== null)), 4)), value);
  if (s.choice === "sample") { const p = Math.exp(z[j]) / seen.reduce((a, x) => a + Math.exp(x), 0); return gives(`${value ? say.drawn : say.notDrawn} p = ${number(p, 3)}`, value); }
  const some = r.weights[i].findIndex((w) => w > 0);
  if (s.choice === "sparsemax") return is(`max(${n(z[j])} − τ, 0), τ = ${number(z[some] - r.weights[i][some], 4)}`, value);
  return is(`max(${n(z[j])}/2 − τ, 0)², τ = ${number(z[some] / 2 - Math.sqrt(r.weights[i][some]), 4)}`, value);
}
