// Elements, made in one line each.

const SVG = "http://www.w3.org/2000/svg";
const MATH = "http://www.w3.org/1998/Math/MathML";

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name === "css") Object.assign(node.style, value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "open") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);
export const math = (tag, props, ...children) => fill(document.createElementNS(MATH, tag), props, children);

// Numbers as people read them.
export function number(value, digits = 3) {
  if (value === null || value === undefined) return "";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.0005 || size >= 1e6) { const [m, e] = value.toExponential(1).split("e"); return `${m.replace("-", "−")}·10${raised(Number(e))}`; }
  const places = size >= 100 ? 1 : digits;
  return String(Number(value.toFixed(places))).replace("-", "−");
}
const raised = (n) => String(n).replace(/[-\d]/g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));
export const count = (n) => Math.round(n).toLocaleString("en-US");
export const tokens = (n) => (n < 10000 ? count(n) : n % 1024 ? short(n) : `${n / 1024}K`);
export const two = (value) => (value === null ? "−∞" : (Object.is(value, -0) || Math.abs(value) < 0.005 ? 0 : value).toFixed(2).replace("-", "−"));
const STEPS = ["", "K", "M", "G", "T", "P", "E"];
export function short(value, unit = "") {
  if (!value) return `0${unit ? " " + unit : ""}`;
  let step = 0;
  while (Math.abs(value) >= 1000 && step < STEPS.length - 1) { value /= 1000; step++; }
  return `${Number(value.toPrecision(3))}${unit ? " " : ""}${STEPS[step]}${unit}`;
}
export function time(seconds) { return seconds >= 1 ? `${number(seconds, 2)} s` : seconds >= 1e-3 ? `${number(seconds * 1e3, 2)} ms` : `${number(seconds * 1e6, 1)} µs`; }

// Names with subscripts as people write them: W_Q, d_model, and the small letters of sᵢ₋₁, which few fonts draw well.
const LOW = { "ᵢ": "i", "ⱼ": "j", "ₖ": "k", "ₙ": "n", "₋": "−", "₁": "1" };
export const marked = (text) => text.replace(/[ᵢⱼₖₙ₋₁]+/g, (low) => `_{${[...low].map((c) => LOW[c]).join("")}}`).split(/_(\{[^}]*\}|[A-Za-z]+|\d+)/).map((part, i) => (i % 2 ? h("sub", { text: part.replace(/[{}]/g, "") }) : part)).filter((part) => part !== "");

// Formulas as real maths: "softmax(q k^T / sqrt d)" would be a language of its own, so they are built from parts.
export const formula = (...parts) => math("math", { displaystyle: "true" }, math("mrow", {}, parts));
export const mi = (text) => math("mi", { text });
export const mo = (text) => math("mo", { text });
export const mn = (text) => math("mn", { text });
export const mt = (text) => math("mtext", { text });
export const sub = (base, low) => math("msub", {}, base, low);
export const sup = (base, high) => math("msup", {}, base, high);
export const frac = (top, bottom) => math("mfrac", {}, math("mrow", {}, top), math("mrow", {}, bottom));
export const sqrt = (inside) => math("msqrt", {}, inside);
