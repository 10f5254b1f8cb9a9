// Formulas as MathML, built from their parts: formula(mi("A"), mo("="), frac(mi("a"), mi("b"))).

import { math } from "./dom.js";

export const formula = (...parts) => math("math", { displaystyle: "true" }, math("mrow", {}, parts));
export const mi = (text) => math("mi", { text });
export const mn = (text) => math("mn", { text });
export const mo = (text) => math("mo", { text });
export const sub = (base, index) => math("msub", {}, base, index);
export const sup = (base, exponent) => math("msup", {}, base, exponent);
export const frac = (top, bottom) => math("mfrac", {}, math("mrow", {}, top), math("mrow", {}, bottom));
export const sqrt = (inside) => math("msqrt", {}, inside);
// A sum with its limits below and above.
export const under = (sign, below, above) => math("munderover", {}, sign, math("mrow", {}, below), above);
