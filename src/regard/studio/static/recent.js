// What was opened recently, kept in this browser: [{ page, hash, label }], newest first.

import { store, stored } from "../../web/preferences.js";

const NAME = "recent";
const MOST = 6;
const LONGEST = 48; // characters of a label

export function recentPlaces() {
  try {
    const places = JSON.parse(stored(NAME) || "[]");
    return Array.isArray(places) ? places.filter(({ page, hash }) => typeof page === "string" && /^#[a-z]+(\?|$)/.test(hash)) : [];
  } catch {
    return []; // not JSON
  }
}

// Remember a page with its parameters; of the same page and text only the last stays.
export function remember(page, hash, { text, model, preset }) {
  const words = (text || model || preset || "").replace(/\s+/g, " ");
  const label = words.length > LONGEST ? `${words.slice(0, LONGEST - 1)}…` : words;
  const others = recentPlaces().filter((one) => one.page !== page || one.label !== label);
  store(NAME, JSON.stringify([{ page, hash, label }, ...others].slice(0, MOST)));
}
