// Why a token is likely: its logit split exactly into embedding, heads and MLPs; a head can be muted, and the probabilities move.

import { h } from "../../../web/dom.js";
import { number } from "../../../web/numbers.js";
import { post } from "../../static/server.js";
import { card } from "../../static/widgets.js";

const LISTED = 14; // parts written out; the rest is summed

export function whyCard(studio, { choices, changed, error }) {
  const { texts } = studio;
  const output = h("div", { class: "st-flow", "data-why": "" });
  const mutedRow = h("div", { class: "st-row", "data-muted": "" });
  const element = card(texts.whyTitle, h("p", { class: "st-hint", text: texts.whyAbout }), mutedRow, output);
  let answer = null; // of the page
  let token = null; // { id, token } that is explained

  async function explain(candidate) {
    token = candidate;
    try {
      const { model, muted } = choices;
      const asked = { model, ids: answer.ids, token: candidate.id, muted };
      const key = JSON.stringify(asked);
      const { why } = studio.memory; // drawn at once when the page is drawn anew
      if (why && why.key === key) return drawParts(why.split);
      if (!output.children.length) output.append(h("p", { class: "st-hint", role: "status", text: studio.shellTexts.working }));
      const split = await post("/api/write/why", asked);
      studio.memory.why = { key, split };
      if (token === candidate) drawParts(split);
    } catch (reason) {
      error.show(reason);
    }
    return undefined;
  }
  function mute(layer, head) {
    const same = (one) => one.layer === layer && one.head === head;
    choices.muted = choices.muted.some(same) ? choices.muted.filter((one) => !same(one)) : [...choices.muted, { layer, head }];
    changed();
  }

  function drawParts(split) {
    const partRow = (part, largest) => contributionRow(texts, part, largest, { muted: choices.muted, mute });
    output.replaceChildren(...partsElements(texts, split, partRow));
  }
  function drawMuted() {
    const chip = ({ layer, head }) =>
      h("button", {
        type: "button",
        class: "st-chip",
        onclick: () => mute(layer, head),
        text: `${texts.kinds.head(layer, head)} ${texts.muted} ×`,
      });
    mutedRow.replaceChildren(...choices.muted.map(chip));
  }
  return {
    element,
    explain,
    // A new answer: the same token is explained again, or the most likely one.
    draw(next) {
      answer = next;
      drawMuted();
      const same = token && next.next.find((one) => one.id === token.id);
      explain(same || next.next[0]);
    },
    clear() {
      answer = token = null;
      output.replaceChildren();
      drawMuted();
    },
  };
}

// The parts by size, the smallest summed, and the proof that they add up to the logit. partRow(part, largest): the row of one.
function partsElements(texts, { parts, logit, sum, error: difference, holds, token: name }, partRow) {
  const ordered = [...parts].sort((a, b) => Math.abs(b[3]) - Math.abs(a[3]));
  const rest = ordered.slice(LISTED);
  const largest = Math.max(1e-9, ...parts.map((part) => Math.abs(part[3])));
  const rows = ordered.slice(0, LISTED).map((part) => partRow(part, largest));
  if (rest.length) {
    const value = rest.reduce((total, part) => total + part[3], 0);
    rows.push(signedRow(texts.others(rest.length), value, largest, null));
  }
  return [
    h("h3", { text: texts.whyOf(name) }),
    h("div", { class: "st-signed" }, rows),
    h(
      "p",
      { class: "st-formula", "data-sum": "" },
      h("span", { text: `${texts.sumOf(parts.length)} = ` }),
      h("b", { class: "rv-num", text: number(sum, 4) }),
      h("span", { text: `; ${texts.logit} ` }),
      h("b", { class: "rv-num", text: number(logit, 4) }),
      h(
        "span",
        holds
          ? { class: "st-right", text: `  ✓ ${texts.equal} ${number(difference)}` }
          : { class: "st-wrong", text: `  ✗ ${texts.unequal} ${number(difference)}` },
      ),
    ),
  ];
}

// A head's row has a button that mutes it.
function contributionRow(texts, [kind, layer, head, value], largest, { muted, mute }) {
  const isMuted = muted.some((one) => one.layer === layer && one.head === head);
  const button =
    kind === "head"
      ? h("button", {
          type: "button",
          class: "st-chip",
          "aria-pressed": String(isMuted),
          "aria-label": texts.muteHead(layer, head),
          onclick: () => mute(layer, head),
          text: isMuted ? texts.unmute : texts.mute,
        })
      : null;
  return signedRow(texts.kinds[kind](layer, head), value, largest, button);
}

// A bar to the left (less likely) or to the right (more likely) of the middle.
function signedRow(name, value, largest, button) {
  const width = `${(50 * Math.abs(value)) / largest}%`;
  const bar = h("i", { class: value < 0 ? "st-minus" : "st-plus", css: { width } });
  return h(
    "div",
    { class: "st-signed-row" },
    h("span", { text: name }),
    h("span", { class: "st-signed-bar", "aria-hidden": "true" }, bar),
    h("span", { class: "rv-num", text: `${value > 0 ? "+" : ""}${number(value, 3)}` }),
    button || h("span"),
  );
}
