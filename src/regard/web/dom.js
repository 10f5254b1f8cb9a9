// Elements made in one line each. Text always goes in as text, never as markup, so a token may hold anything.

const SVG = "http://www.w3.org/2000/svg";
const MATH = "http://www.w3.org/1998/Math/MathML";
const PROPERTIES = new Set(["value", "checked", "open"]); // set on the object: their attributes hold only the initial state

function setStyle(node, style) {
  for (const [name, value] of Object.entries(style)) {
    if (name.startsWith("--")) node.style.setProperty(name, value);
    else node.style[name] = value;
  }
}

const absent = (value) => value === null || value === undefined || value === false;

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (absent(value)) continue;
    if (name === "text") node.textContent = value;
    else if (name === "css") setStyle(node, value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(3).filter((child) => !absent(child)));
  return node;
}

// h("button", { class: "rv-plain", onclick: act, text: "Save" }, ...children). props: `text` is the content, `css` an object of styles,
// `on…` a listener, anything else an attribute; what is null, undefined or false is left out, among children too.
export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);
export const math = (tag, props, ...children) => fill(document.createElementNS(MATH, tag), props, children);

// A text with its subscripts as <sub>: W_Q, d_model, and the small letters of sᵢ₋₁, which few fonts draw well.
const SMALL = { ᵢ: "i", ⱼ: "j", ₖ: "k", ₙ: "n", "₋": "−", "₁": "1" };
export function withSubscripts(text) {
  const plain = text.replace(/[ᵢⱼₖₙ₋₁]+/g, (small) => `_{${[...small].map((c) => SMALL[c]).join("")}}`);
  const parts = plain.split(/_(\{[^}]*\}|[A-Za-z]+|\d+)/); // every second part is a subscript
  return parts.map((part, i) => (i % 2 ? h("sub", { text: part.replace(/[{}]/g, "") }) : part)).filter((part) => part !== "");
}
