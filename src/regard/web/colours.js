// The colours of weights, differences and heads. palette.js is made by Python from regard.colours, so that a weight has the same colour
// here, in a figure and in the terminal.

import { PALETTE } from "./palette.js";
import { h } from "./dom.js";

export const headColour = (head) => PALETTE.heads[head % PALETTE.heads.length];

const theme = (dark) => PALETTE[dark ? "dark" : "light"];
const clamp = (share) => Math.min(1, Math.max(0, share));
const colourAt = (digits, step) => "#" + digits.slice(6 * step, 6 * step + 6);
const inkAt = (flags, step) => (flags[step] === "1" ? "#fff" : "#000"); // white or black, whichever reads better

// share: place on the ramp, 0 (the background) to 1.
const step = (share) => Math.round(255 * clamp(share));
export const weightColour = (share, dark) => colourAt(theme(dark).weight, step(share));
export const weightInk = (share, dark) => inkAt(theme(dark).weightInk, step(share));

// [[red, green, blue], …] of the 256 steps of the ramp, for drawing pixels.
const tables = new Map();
export function weightTable(dark) {
  if (!tables.has(dark)) {
    const steps = theme(dark).weight.match(/.{6}/g);
    tables.set(
      dark,
      steps.map((digits) => [0, 2, 4].map((i) => parseInt(digits.slice(i, i + 2), 16))),
    );
  }
  return tables.get(dark);
}

// The styles of a cell that shows a weight in [0, 1] or a difference in [−1, 1]; zero is the background itself.
export function weightStyle(weight, dark) {
  return weight > 0 ? { backgroundColor: weightColour(weight, dark), color: weightInk(weight, dark) } : {};
}
export function differenceStyle(difference, dark) {
  if (Math.abs(difference) <= 0.004) return {};
  const { difference: digits, differenceInk } = theme(dark);
  const at = Math.round(127.5 + 127.5 * Math.min(1, Math.max(-1, difference)));
  return { backgroundColor: colourAt(digits, at), color: inkAt(differenceInk, at) };
}

// The ramp as a strip of 128 pixels, for a legend.
export const rampCanvas = () => h("canvas", { class: "rv-ramp", width: 128, height: 1, "aria-hidden": "true" });
export function drawRamp(canvas, dark) {
  const context = canvas.getContext("2d");
  for (let i = 0; i < 128; i++) {
    context.fillStyle = weightColour(i / 127, dark);
    context.fillRect(i, 0, 1, 1);
  }
}
