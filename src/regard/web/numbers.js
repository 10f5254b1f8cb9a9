// How numbers are written, on every page. A minus is −, never a hyphen.

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const superscript = (n) => String(n).replace(/[-\d]/g, (c) => (c === "-" ? "⁻" : SUPERSCRIPTS[c]));
const minus = (text) => text.replace("-", "−");

// What number() and decimals() write alike: no value, infinities, and the very small and large as powers of ten. null: none of these.
function special(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0 || (Math.abs(value) >= 0.0005 && Math.abs(value) < 1e6)) return null;
  const [mantissa, exponent] = value.toExponential(1).split("e");
  return `${minus(mantissa)}·10${superscript(Number(exponent))}`;
}
const places = (value, digits) => (Math.abs(value) >= 100 ? Math.min(1, digits) : digits);

// At most `digits` decimals, no zeros at the end: 0.25, 3, 1.2·10⁻⁷.
export const number = (value, digits = 3) => special(value) ?? minus(String(Number(value.toFixed(places(value, digits)))));

// Exactly `digits` decimals, so that numbers in a column line up: 0.250, 3.000.
export const decimals = (value, digits = 3) => special(value) ?? minus(value.toFixed(places(value, digits)));

// Exactly two decimals, however small the value; null is −∞, a masked score.
export function twoDecimals(value) {
  if (value === null) return "−∞";
  return minus((Math.abs(value) < 0.005 ? 0 : value).toFixed(2));
}

// An integer with separators: 1,234,567.
export const count = (value) => Math.round(value).toLocaleString("en-US");

const PREFIXES = ["", "K", "M", "G", "T", "P", "E"];
// Three digits and a prefix: 1.23 GB.
export function short(value, unit = "") {
  if (!value) return `0${unit ? " " + unit : ""}`;
  let step = 0;
  while (Math.abs(value) >= 1000 && step < PREFIXES.length - 1) {
    value /= 1000;
    step++;
  }
  return `${Number(value.toPrecision(3))}${unit ? " " : ""}${PREFIXES[step]}${unit}`;
}

// A context length: 4,096 and 128K.
export function tokenCount(n) {
  if (n < 10000) return count(n);
  return n % 1024 ? short(n) : `${n / 1024}K`;
}

export function duration(seconds) {
  if (seconds >= 1) return `${number(seconds, 2)} s`;
  return seconds >= 1e-3 ? `${number(seconds * 1e3, 2)} ms` : `${number(seconds * 1e6, 1)} µs`;
}

// The smallest of 1, 2, 5 · 10ⁿ that is at least `rough`: the distance between the ticks of an axis.
export function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= rough) || 1;
}
