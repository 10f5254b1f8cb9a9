// What the server is asked for a new run.

export const SMALL = ["where", "kernel"]; // trainings of a second, which leave no run

export function requestOf({ task, model, score, heads, positions, mask, steps, pairs }) {
  return { task, model, score, positions, mask, heads: Number(heads), steps, pairs: task === "own" ? pairs : null };
}
