// What the server is asked for a new run.

export const SMALL = ["where", "kernel"]; // trainings of a second, which leave no run

export function requestOf(choices) {
  const { task, model, score, heads, positions, mask, scaled, pairs } = choices;
  const switches = { model, score, positions, mask, scaled: scaled === "on", heads: Number(heads), steps: stepsOf(choices) };
  return { task, ...switches, pairs: task === "own" ? pairs : null };
}

// As many as were chosen, or as many as the model takes to learn the task.
export const stepsOf = ({ steps, task, model }) => steps ?? (task === "own" ? 1000 : model === "transformer" ? 600 : 300);
