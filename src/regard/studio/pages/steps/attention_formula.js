// The formula of what the steps compute, following every switch: score, scale, temperature, mask, choice, heads and form.

import { formula, frac, mi, mn, mo, sqrt, sub, sup, under } from "../../../web/formula.js";

const CHOICES = { softmax: "softmax", sparsemax: "sparsemax", entmax15: "1.5-entmax", argmax: "argmax", sample: "sample" };
const transposed = (name) => sup(mi(name), mi("⊤"));

// The score of all pairs. In rows Q·Kᵀ, in columns Kᵀ·Q.
function pairScores(score, column) {
  if (score === "additive") return [transposed("v"), mi("tanh"), mo("("), mi("k"), mo("+"), mi("q"), mo(")")];
  if (score === "bilinear") return column ? [transposed("K"), mi("W"), mi("Q")] : [mi("Q"), transposed("W"), transposed("K")];
  return column ? [transposed("K"), mi("Q")] : [mi("Q"), transposed("K")];
}

function divided(parts, { score, scaled, temperature }) {
  const divisors = [];
  if (scaled && score !== "additive") divisors.push(sqrt(mi("d")));
  if (temperature !== 1) divisors.push(mi("τ"));
  return divisors.length ? [frac(parts, divisors)] : parts;
}

export function attentionFormula(settings) {
  const { form, mask, choice, count } = settings;
  const column = form === "column";
  const scores = divided(pairScores(settings.score, column), settings);
  const hidden = mask === "none" ? [] : [mo("+"), sub(mi("M"), mi(mask === "causal" ? "causal" : "window"))];
  const weights = [mi(CHOICES[choice]), mo("("), ...scores, ...hidden, mo(")")];
  const output = sub(mi("W"), mi("O"));
  const head = column ? [output, mi("V"), ...weights] : [...weights, mi("V"), output];
  const sum = count > 1 ? [under(mo("∑"), [mi("h"), mo("="), mn("1")], mn(String(count)))] : [];
  return formula(mi("ΔE"), mo("="), ...sum, ...head);
}
