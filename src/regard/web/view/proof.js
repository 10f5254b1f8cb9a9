// The proof that the weights are the model's own: a short line, and what was checked when it is opened.

import { h } from "../dom.js";
import { count, number } from "../numbers.js";

const errorOf = (proof) => proof.output_error ?? proof.row_sum_error ?? 0;

// The proof of one head in a sentence, for a saved picture.
export function proofText(proof, texts) {
  if (!proof) return { holds: true, text: texts.noProof };
  const text = proof.holds ? `✓ ${texts.proof} ${number(errorOf(proof))}` : `✗ ${texts.fails} ${number(errorOf(proof))}`;
  return { holds: proof.holds, text };
}

export function proofMenu(view) {
  const summary = h("summary");
  const sheet = h("div", { class: "rv-sheet" });
  const element = h("details", { class: "rv-proof rv-pop" }, summary, sheet);
  function draw() {
    const { texts } = view;
    const proofs = view.sighting.entries.map((entry) => entry.proof).filter(Boolean);
    const holds = proofs.every((proof) => proof.holds);
    element.classList.toggle("rv-bad", !holds);
    element.classList.toggle("rv-none", !proofs.length);
    if (!proofs.length) summary.textContent = texts.noProof;
    else summary.textContent = holds ? `✓ ${texts.proof} ${number(Math.max(...proofs.map(errorOf)))}` : `✗ ${texts.fails}`;
    drawSheet(view.entry.proof, texts);
  }
  function drawSheet(proof, texts) {
    const verdict = !proof ? texts.noProof : proof.holds ? `✓ ${texts.holds}` : `✗ ${texts.fails}`;
    const rows = [];
    if (proof) {
      rows.push([texts.rowSum, number(proof.row_sum_error)]);
      if (proof.output_error !== undefined && proof.output_error !== null) rows.push([texts.output, number(proof.output_error)]);
      if (proof.rows_checked) rows.push([texts.checked(count(proof.rows_checked)), ""]);
      if (proof.mask) rows.push([texts.mask, proof.mask]);
      if (proof.kernel) rows.push([texts.kernel, proof.kernel]);
    }
    const line = ([name, value]) => h("div", {}, h("span", { text: `${name} ` }), h("span", { class: "rv-num", text: value }));
    sheet.replaceChildren(h("b", { text: `${view.headName()} ${verdict}` }), ...rows.map(line));
  }
  return { element, draw };
}
