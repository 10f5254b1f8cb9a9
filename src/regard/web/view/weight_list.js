// The numbers of the selection: the query and key with their score and weight, then the row's heaviest keys with bars. Where a key alone is
// selected, the queries that weigh it most.

import { h } from "../dom.js";
import { count, decimals, number } from "../numbers.js";
import { meter } from "./head_card.js";
import { tokenElement } from "./tokens.js";

const LISTED = 8;
const SEARCHED_QUERIES = 4096;
const LEAST_REST = 0.0005;

// explain(entry, head, q, k): the address of a page that shows how a weight is computed.
export function weightList(view, { alignment, explain = null }) {
  const summary = h("p", { class: "rv-said", role: "status", "aria-live": "polite" });
  const list = h("ol", { class: "rv-list" });
  const element = h("section", { class: "rv-numbers" }, summary, list);
  function draw() {
    const { q, k } = view.state;
    if (view.side === "key" && k !== null && (q === null || alignment)) {
      summary.replaceChildren(...keyName(view, k), " ←");
      list.replaceChildren(...queryItems(view, k));
    } else if (q === null) {
      summary.textContent = view.texts.hint;
      list.replaceChildren();
    } else {
      summary.replaceChildren(...rowSummary(view, q, k, explain));
      list.replaceChildren(...keyItems(view, q, k));
    }
  }
  return { element, draw };
}

// A token with its position.
function tokenName(view, token, place, current = false) {
  const unmarked = { ...token, mark: token.mark === "*" ? "*" : "." };
  return [tokenElement(unmarked, view.dark, { current }), h("small", { text: count(place) })];
}
const queryName = (view, q, current) => tokenName(view, view.sighting.queryToken(view.entry, q), view.entry.queryPlace(q), current);
const keyName = (view, k) => tokenName(view, view.sighting.keyToken(view.entry, k), view.entry.keyPlace(k));
const line = (label, weight) => [
  h("span", { class: "rv-word" }, label),
  h("span", { class: "rv-meter" }, meter(weight)),
  h("span", { class: "rv-num", text: decimals(weight) }),
];

// The query, the key with its score and weight, the row's entropy.
function rowSummary(view, q, k, explain) {
  const { entry, row, texts } = view;
  const entropy = view.sighting.reading(entry, "entropy", view.state.head, q, entry.L);
  const aside = (text) => h("small", { class: "rv-aside", text });
  return [
    ...queryName(view, q, true),
    ...(k === null ? [] : pairParts(view, q, k)),
    ...(entropy === null ? [] : [aside(`${texts.entropy} ${decimals(entropy, 2)} ${texts.nats}`)]),
    ...(view.state.pinned ? [aside(`⚲ ${texts.pinned}`)] : []),
    ...(explain
      ? [" ", h("a", { class: "rv-how", href: explain(entry, view.state.head, q, k ?? row.pairs[0]?.[0] ?? 0), text: texts.how })]
      : []),
  ];
}

// " → key  score 1.23 → 0.4567  2 of 9 in its row"
function pairParts(view, q, k) {
  const { entry, row, texts } = view;
  const { head } = view.state;
  const parts = [" → ", ...keyName(view, k), " "];
  const weight = view.sighting.weight(entry, head, q, k);
  if (weight === null) return [...parts, ...pooledParts(view, q, k)];
  if (weight < 0) return [...parts, texts.masked];
  const score = view.sighting.score(entry, head, q, weight, row);
  const rank = row.pairs.findIndex(([key]) => key === k) + 1;
  if (score !== null) {
    const text = `${texts.score} ${decimals(score, 2)} → `;
    parts.push(h("small", { class: "rv-score rv-num", title: texts.scoreIs, text }));
  }
  parts.push(h("b", { class: "rv-num", text: (row.rounded ? "≈ " : "") + decimals(weight, 4) }));
  if (rank) parts.push(h("small", { text: ` ${texts.rankOf(rank, row.complete ? row.pairs.length : count(entry.S))}` }));
  return parts;
}

// Where the weight itself was not kept: what its cell of the pooled map holds.
function pooledParts({ entry, grid, texts }, q, k) {
  if (!grid) return [];
  const weight = grid.get(Math.floor((q * grid.rows) / entry.L), Math.floor((k * grid.cols) / entry.S));
  const cell = texts.pooledCell(number(entry.L / grid.rows, 0), number(entry.S / grid.cols, 0));
  return [weight < 0 ? texts.masked : `${texts.mass} ${decimals(weight, 4)} `, h("small", { text: cell })];
}

// The heaviest keys of a query, the sum of the others, and whether others were kept at all.
function keyItems(view, q, selected) {
  const { entry, row, texts } = view;
  const pairs = row.pairs.slice(0, LISTED);
  const rest = Math.max(0, 1 - pairs.reduce((sum, [, weight]) => sum + weight, 0));
  const item = ([k, weight]) => {
    const press = { type: "button", "aria-pressed": String(k === selected), onclick: () => view.pin(q, k) };
    return h("li", { onpointerenter: () => view.hover(q, k, "list") }, h("button", press, line(keyName(view, k), weight)));
  };
  return [
    ...pairs.map(item),
    row.pairs.length && rest > LEAST_REST ? h("li", { class: "rv-rest" }, line(texts.rest, rest)) : "",
    !row.complete && entry.top ? h("li", { class: "rv-quiet", text: texts.topOnly(entry.top.k) }) : "",
  ];
}

// The queries that weigh a key most.
function queryItems(view, k) {
  const { entry } = view;
  const pairs = [];
  for (let q = 0; q < Math.min(entry.L, SEARCHED_QUERIES); q++) {
    const weight = view.sighting.weight(entry, view.state.head, q, k);
    if (weight > 0) pairs.push([q, weight]);
  }
  pairs.sort((a, b) => b[1] - a[1]);
  return pairs.slice(0, LISTED).map(([q, weight]) => {
    return h("li", {}, h("button", { type: "button", onclick: () => view.pin(q, k) }, line(queryName(view, q), weight)));
  });
}
