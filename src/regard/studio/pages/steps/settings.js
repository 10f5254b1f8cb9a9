// What the steps page computes with: the sentence, the numbers, the switches; from the address and back, and as a line of Python.

import { number } from "../../../web/numbers.js";
import { embed, exampleHeads, MOST_WORDS, SENTENCES, splitWords } from "./example.js";

const SWITCHES = ["score", "scaled", "mask", "temperature", "choice", "seed", "count", "shown", "form", "current"]; // kept in the address

// isExample: the sentence is still the one of the language. edited: a number was changed by hand.
export function initialSettings(lang, params) {
  const text = params.text || SENTENCES[lang];
  const all = splitWords(text);
  const words = all.slice(0, MOST_WORDS);
  const settings = {
    text,
    words,
    typed: all.length, // words in the text; those after the tenth are left out
    embeddings: words.map(embed),
    heads: exampleHeads(),
    score: "dot",
    scaled: true,
    mask: "causal",
    window: 1,
    temperature: 1,
    choice: "softmax",
    seed: 0,
    count: 1, // heads that are computed
    shown: 0, // the one shown
    form: "row",
    current: 3, // the word whose row is coloured
    bilinear: [
      [1, 0],
      [0, 1],
    ],
    additive: [1, 1],
    isExample: !params.text,
    edited: false,
  };
  for (const name of SWITCHES) if (params[name] !== undefined) settings[name] = parsed(params[name], typeof settings[name]);
  takeNumbers(settings, params.numbers);
  if (![1, 2, 4].includes(settings.count)) settings.count = 1;
  settings.shown = Math.min(settings.shown, settings.count - 1);
  settings.current = Math.max(0, Math.min(settings.current, words.length - 1));
  return settings;
}

function parsed(text, type) {
  if (type === "number") return Number(text);
  return type === "boolean" ? text === "true" : text;
}

// Numbers changed by hand, from an address; what is not valid is ignored, and the example stays.
function takeNumbers(settings, json) {
  try {
    const { e: embeddings, w: heads } = JSON.parse(json || "{}");
    if (!embeddings || embeddings.length !== settings.words.length) return;
    heads.forEach((head, i) => {
      settings.heads[i] = head;
    });
    Object.assign(settings, { embeddings, edited: true });
  } catch {
    /* typed by hand */
  }
}

export function addressOf(settings) {
  const { embeddings, heads, count, edited, isExample, text } = settings;
  const numbers = edited ? JSON.stringify({ e: embeddings, w: heads.slice(0, count) }) : null;
  return { text: isExample ? null : text, ...Object.fromEntries(SWITCHES.map((name) => [name, settings[name]])), numbers };
}

// The body of the request to /api/steps.
export function requestOf({ embeddings, heads, count, score, scaled, mask, window, temperature, choice, seed, bilinear, additive }) {
  return {
    embeddings,
    heads: heads.slice(0, count),
    score,
    scaled,
    mask,
    window,
    temperature,
    choice,
    seed,
    bilinear: score === "bilinear" ? bilinear : null,
    additive: score === "additive" ? additive : null,
  };
}

export function pythonOf({ score, scaled, mask, window, choice, temperature, count }) {
  const scores = { dot: scaled ? "regard.ScaledDot()" : "regard.Dot()", additive: "additive", bilinear: "bilinear" };
  const masks = { none: "None", causal: "regard.causal()", window: `regard.window(${window}, ${window})` };
  const choices = { softmax: "Softmax", sparsemax: "Sparsemax", entmax15: "Entmax15", argmax: "Argmax", sample: "Sample" };
  const options = `score=${scores[score]}, mask=${masks[mask]}, choice=regard.${choices[choice]}(${number(temperature, 3)})`;
  if (count === 1) return `E + regard.attend(E @ W_Q, E @ W_K, E @ W_V, ${options}) @ W_O`;
  return `E + sum(regard.attend(E @ W_Q[h], E @ W_K[h], E @ W_V[h], ${options}) @ W_O[h] for h in range(${count}))`;
}
