// The attention view of the Inspect page: drawn from the answer, its state kept in the address, exact weights asked for when needed.

import { attentionView } from "../../../web/view/attention_view.js";
import { post } from "../../static/server.js";

const PARAMETERS = ["layer", "head", "q", "view", "scale", "form"]; // of the view, in the address
const KEEP_PAUSE = 150; // milliseconds after which a change of the view is written into the address

// The parameters of the view among those of the address.
export const parametersOf = (params) =>
  Object.fromEntries(PARAMETERS.filter((name) => params[name] !== undefined).map((name) => [name, params[name]]));

export async function drawHeads(page) {
  const { studio, memory, choices, place } = page;
  const { payload } = memory.answer;
  if (page.view) page.view.destroy();
  page.view = await attentionView(place, payload, {
    lang: studio.lang,
    theme: studio.theme,
    fetchTile: (...rectangle) => fetchTile(memory.answer.sight, ...rectangle),
    python: "seen",
    onState: (state) => stateChanged(page, state),
    explain: isExplainable(page) ? (...weight) => explainAddress(choices, ...weight) : null,
  });
  if (page.view) page.view.set(savedState(payload, choices.view));
}

function stateChanged(page, state) {
  const { studio, memory, choices, effect } = page;
  studio.follow(state);
  if (!memory.answer) return; // the view is of a text that has been cleared
  const entry = memory.answer.payload.seen[state.entry];
  const { head, q, picture, scale, form } = state;
  choices.view = { layer: String(entry.layer), head: String(head), q: q === null ? undefined : String(q), view: picture, scale, form };
  effect.setHead({ layer: entry.layer, head: entry.ids[head], q });
  clearTimeout(page.keepTimer);
  page.keepTimer = setTimeout(page.keep, KEEP_PAUSE);
}

// Whether the steps can show how a weight is computed. A recurrent translator has no heads to take apart.
const isExplainable = ({ models, choices }) => !models.find(({ name }) => name === choices.model)?.about.includes("bahdanau");

// Where the steps show how a weight is computed.
function explainAddress({ model, text }, entry, head, q, k) {
  return `#steps?${new URLSearchParams({ model, text, layer: entry.layer, head: entry.ids[head], q, k, kind: entry.kind })}`;
}

// Exact weights of a rectangle of a long text, recomputed by the server.
async function fetchTile(sight, entry, head, rows, cols) {
  const where = { layer: entry.layer, call: entry.call, head: entry.ids[head], rows, cols };
  const tile = await post("/api/look/tile", { sight, ...where });
  return Float32Array.from(tile.weights);
}

// The state of the attention view that the address asks for.
function savedState(payload, { layer, head, q, view, scale, form }) {
  const state = {};
  const entry = payload.seen.findIndex((one) => String(one.layer) === layer && one.call === 0);
  if (entry >= 0) state.entry = entry;
  if (head !== undefined) state.head = Number(head);
  if (q !== undefined) state.q = Number(q);
  if (view) state.picture = view;
  if (scale) state.scale = scale;
  if (form) state.form = form;
  return state;
}
