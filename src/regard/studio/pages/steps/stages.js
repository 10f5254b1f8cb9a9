// The five stages of the steps, each a row of matrices. In column form every matrix is transposed and every product reversed, so that what
// stands on the screen multiplies in both forms.

import { h } from "../../../web/dom.js";
import { rampLegend } from "../../../web/heatmap.js";
import { matrix } from "../../../web/matrix.js";
import { HEAD_WIDTH } from "./example.js";
import { questionsOf } from "./quiz.js";

const DIMENSIONS = Array.from({ length: HEAD_WIDTH }, (_, i) => String(i + 1));

// explain(stage, { title, rows, columns }, i, j, clicked) when a cell is pointed at.
export function stageElements(studio, settings, answer, { change, explain }) {
  const context = { studio, settings, answer, change, explain, ...matrices(studio, settings, { change, explain }) };
  return [embedStage, projectStage, scoreStage, chooseStage, gatherStage].map((stage, i) => stage(context, i + 1));
}

// How the matrices of this form are made: `editable` and `map` for inputs, `computed` and `square` for results.
function matrices(studio, settings, { change, explain }) {
  const { dark } = studio;
  const { words } = settings;
  const transposed = settings.form === "column";
  const maps = settings.heads[settings.shown];
  const editable = (name, title, values, rows, columns, changes = { edited: true, isExample: false }) => {
    const onEdit = (i, j, value) => {
      values[i][j] = value;
      change(changes);
    };
    return matrix({ name, title, values, rows, columns, transposed, dark, onEdit });
  };
  const map = (name, title, rows, columns) => editable(`W-${name}`, title, maps[name], rows, columns);
  const computed = (stage, title, values, columns, more = {}) => {
    const names = { title, rows: words, columns };
    const onCell = (i, j, clicked) => explain(stage, names, i, j, clicked);
    return matrix({ name: stage, title, values, rows: words, columns, transposed, dark, onCell, ...more });
  };
  const square = (stage, title, values, more = {}) => computed(stage, title, values, words, { current: settings.current, ...more });
  return { editable, map, computed, square };
}

const then = (sign, next) => h("div", { class: "st-joined" }, h("span", { class: "st-op", "aria-hidden": "true", text: sign }), next);

// The factors of a product in the order of the form, a sign between them.
const product = ({ settings }, left, right) => {
  const [first, second] = settings.form === "column" ? [right, left] : [left, right];
  return [first, then("×", second)];
};

function stage({ studio }, n, name, about, ...children) {
  const { texts } = studio;
  const title = h("h2", {}, `${n}  ${texts.stage[name]}`, h("small", { class: "rv-quiet", text: about }));
  return h("section", { class: "st-stage", "data-stage": n }, title, h("div", { class: "st-line" }, children), questionsOf(studio, n));
}

function embedStage(context, n) {
  const { studio, settings, editable, map } = context;
  const { texts } = studio;
  const { features } = texts;
  const embeddings = editable("E", "E", settings.embeddings, settings.words, features);
  const rest = [map("key", "W_K", features, DIMENSIONS), map("value", texts.down, features, DIMENSIONS)];
  return stage(context, n, "embed", texts.about.embed, product(context, embeddings, map("query", "W_Q", features, DIMENSIONS)), rest);
}

function projectStage(context, n) {
  const { studio, settings, answer, computed } = context;
  const head = answer.heads[settings.shown];
  const titles = studio.texts.projected[settings.form];
  return stage(
    context,
    n,
    "project",
    studio.texts.about.project,
    computed("query", titles.query, head.query, DIMENSIONS, { current: settings.current }),
    computed("key", titles.key, head.key, DIMENSIONS),
    computed("value", titles.value, head.value, DIMENSIONS),
  );
}

function scoreStage(context, n) {
  const { studio, settings, answer, editable, square } = context;
  const { texts } = studio;
  const { score } = settings;
  const head = answer.heads[settings.shown];
  const column = settings.form === "column";
  return stage(
    context,
    n,
    "score",
    texts.about[score],
    score === "bilinear" ? editable("bilinear", "W", settings.bilinear, DIMENSIONS, DIMENSIONS, {}) : null,
    score === "additive" ? editable("additive", "v", [settings.additive], ["v"], DIMENSIONS, {}) : null,
    square("raw", (column ? texts.rawColumn : texts.raw)[score], head.raw, { note: column ? texts.keysDown : texts.queriesDown }),
    then("→", square("scaled", head.factor === 1 ? texts.notScaled : "÷ √d", head.scaled)),
  );
}

function chooseStage(context, n) {
  const { studio, settings, answer, square } = context;
  const { texts, dark } = studio;
  const head = answer.heads[settings.shown];
  const masked = (i, j) => head.masked[i][j] === null;
  const note = settings.form === "column" ? texts.columnsSum : texts.rowsSum;
  return stage(
    context,
    n,
    "choose",
    texts.about.choose,
    square("masked", texts.maskTitle, head.masked),
    then("→", square("weights", `α · ${texts.choices[settings.choice]}`, head.weights, { kind: "weight", note, masked })),
    rampLegend("1", dark),
  );
}

// α·V of the shown head times its W_O; with several heads the changes of all of them, and their sum.
function gatherStage(context, n) {
  const { studio, settings, answer, computed, map } = context;
  const { texts } = studio;
  const { features } = texts;
  const head = answer.heads[settings.shown];
  const titles = texts.gathered[settings.form];
  const several = settings.count > 1;
  const change = (values, stageName, title) => computed(stageName, title, values, features, { kind: "difference" });
  const headChange = (i) => change(answer.heads[i].change, `change:${i}`, texts.changeOf(i + 1));
  const total = change(answer.change, "change", several ? texts.changeAll : "ΔE");
  const others = answer.heads.map((_, i) => i).filter((i) => i !== settings.shown);
  return stage(
    context,
    n,
    "gather",
    texts.about.gather,
    product(context, computed("output", titles.output, head.output, DIMENSIONS), map("output", texts.up, DIMENSIONS, features)),
    several ? [then("=", headChange(settings.shown)), others.map((i) => then("+", headChange(i)))] : null,
    then("=", total),
    then("+ E =", computed("result", "E + ΔE", answer.result, features)),
  );
}
