// One row per query: a short text is written out in every row, a long one lists each row's heaviest keys.

import { h } from "../dom.js";
import { count, decimals } from "../numbers.js";
import { rowShading, tokenElement } from "./tokens.js";

const LINE = 32; // pixels
const SHORT = 64; // keys that are written out
const LISTED = 8; // keys that are listed otherwise

export function stackedView(view) {
  const inner = h("div", { class: "rv-lines-in", role: "none" });
  const element = h("div", { class: "rv-stacked", role: "listbox", tabindex: "0" }, inner);
  let revealed = null;

  function draw() {
    const { entry } = view;
    const short = entry.S <= SHORT && Boolean(entry.weights);
    inner.style.height = entry.L * LINE + "px";
    element.classList.toggle("rv-short", short);
    element.setAttribute("aria-label", `${view.texts.stacked}: ${view.headName()}`);
    revealCurrent();
    const first = Math.max(0, Math.floor(element.scrollTop / LINE) - 4);
    const last = Math.min(entry.L, Math.ceil((element.scrollTop + (element.clientHeight || 480)) / LINE) + 4);
    const rows = [];
    for (let q = first; q < last; q++) rows.push(rowElement(entry, q, short));
    inner.replaceChildren(...rows);
  }

  // Scroll to the current query when it changes, but not while the pointer hovers.
  function revealCurrent() {
    const { q } = view.state;
    const key = `${q}.${view.entry.index}`;
    if (q === null || revealed === key) return;
    revealed = key;
    const top = q * LINE;
    const visible = top >= element.scrollTop && top + LINE <= element.scrollTop + element.clientHeight;
    if (!view.pointing && !visible) element.scrollTop = Math.max(0, top - element.clientHeight / 2);
  }

  function rowElement(entry, q, short) {
    const row = view.sighting.row(entry, view.state.head, q);
    const current = q === view.state.q;
    const node = h("div", {
      class: "rv-line" + (current ? " rv-row-now" : ""),
      role: "option",
      "aria-selected": String(current),
      "aria-setsize": entry.L,
      "aria-posinset": q + 1,
      "data-q": String(q),
      css: { top: q * LINE + "px" },
    });
    const query = () => h("span", { class: "rv-query" }, tokenElement(view.sighting.queryToken(entry, q), view.dark, { current: true }));
    if (short) node.append(...(entry.self ? [] : [query()]), ...wholeText(entry, q, row, current));
    else node.append(h("span", { class: "rv-count", text: count(entry.queryPlace(q)) }), query(), ...heaviest(entry, row, current));
    return node;
  }

  function keyElement(entry, k, options) {
    const node = tokenElement(view.sighting.keyToken(entry, k), view.dark, options);
    node.dataset.k = k;
    return node;
  }

  function wholeText(entry, q, row, current) {
    const own = entry.self ? entry.keyAt(entry.queryPlace(q)) : -1;
    const shading = rowShading(row, view.scale);
    return Array.from({ length: entry.S }, (_, k) => {
      const { share, weight, masked } = shading(k);
      const title = weight >= 0 ? decimals(weight, 4) : view.texts.masked;
      return keyElement(entry, k, { current: k === own, share, masked, key: current && k === view.state.k, title });
    });
  }

  function heaviest(entry, row, current) {
    return row.pairs.slice(0, LISTED).map(([k, weight]) => {
      const key = keyElement(entry, k, { share: view.scale(weight), key: current && k === view.state.k });
      return h("span", { class: "rv-pair" }, key, h("small", { text: `${decimals(weight)} @${count(entry.keyPlace(k))}` }));
    });
  }

  function point(event, act) {
    const row = event.target.closest("[data-q]");
    if (!row) return;
    const key = event.target.closest("[data-k]");
    act(Number(row.dataset.q), key ? Number(key.dataset.k) : null);
  }
  element.addEventListener("pointerover", (event) => point(event, view.hover));
  element.addEventListener("click", (event) => point(event, view.pin));
  element.addEventListener("pointerleave", () => view.leave());
  element.addEventListener("scroll", () => requestAnimationFrame(draw));
  return { element, draw };
}
