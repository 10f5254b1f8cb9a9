// Finding a token by what people read; a phrase may run across tokens. Enter moves to the next match, Shift Enter to the one before.

import { h } from "../dom.js";
import { count } from "../numbers.js";

const MOST_MATCHES = 10000;

export function tokenSearch(view, reveal) {
  const input = h("input", { type: "search", class: "rv-search", autocomplete: "off", spellcheck: "false" });
  const status = h("span", { class: "rv-quiet rv-found", role: "status" });
  const element = h("span", { class: "rv-find" }, input, status);
  let matches = []; // queries
  let at = -1;

  // step: 0 begins anew.
  function find(step) {
    const { entry, texts } = view;
    const wanted = input.value.trim().toLowerCase();
    if (step === 0 || !matches.length) {
      matches = wanted ? matchingQueries(view.sighting, entry, wanted) : [];
      at = matches.length ? 0 : -1;
    } else at = (at + step + matches.length) % matches.length;
    view.matches = new Set(matches.map((q) => `${entry.query.text}.${entry.queryPlace(q)}`));
    if (!wanted) status.textContent = "";
    else status.textContent = matches.length ? texts.found(count(at + 1), count(matches.length)) : texts.none;
    if (at >= 0) {
      view.pointing = false;
      Object.assign(view.state, { q: matches[at], k: null, pinned: true });
      reveal();
    }
    view.refreshSelection();
  }
  input.addEventListener("input", () => find(0));
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    find(event.shiftKey ? -1 : 1);
  });

  function draw() {
    input.placeholder = `${view.texts.search}  /`;
    input.setAttribute("aria-label", view.texts.search);
  }
  function focus() {
    input.focus();
    input.select();
  }
  return { element, draw, focus };
}

// The queries at which the wanted text begins.
function matchingQueries(sighting, entry, wanted) {
  const starts = []; // [place in the text, query]
  let text = "";
  for (let q = 0; q < entry.L; q++) {
    const token = sighting.queryToken(entry, q);
    if (token.part && token.part[0] > 1) continue; // written with its first part
    if (token.mark === "_" && text) text += " ";
    starts.push([text.length, q]);
    text += token.text.toLowerCase();
  }
  const matches = [];
  let token = 0;
  for (let place = text.indexOf(wanted); place >= 0 && matches.length < MOST_MATCHES; place = text.indexOf(wanted, place + wanted.length)) {
    while (token + 1 < starts.length && starts[token + 1][0] <= place) token++;
    matches.push(starts[token][1]);
  }
  return matches;
}
