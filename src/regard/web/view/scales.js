// From a weight to its share of the colour ramp, 0 to 1, on a linear or logarithmic scale or by rank.

const SAMPLED_CELLS = 65536;

export const SCALES = ["linear", "log", "rank"];

// A function from weights to shares. grid: the head's, whose cells the rank is taken among.
export function scaleFunction(kind, sighting, grid) {
  if (kind === "log") return logarithmic(sighting.floor, sighting.ceiling);
  if (kind === "rank" && grid) return byRank(grid);
  return (weight) => Math.min(1, Math.max(0, weight / sighting.ceiling));
}

function logarithmic(floor, ceiling) {
  const low = Math.log(floor);
  const high = Math.log(ceiling);
  return (weight) => (weight <= floor ? 0 : Math.min(1, (Math.log(weight) - low) / (high - low)));
}

// The share of the head's positive cells that are not heavier.
function byRank(grid) {
  const cells = grid.rows * grid.cols;
  const step = Math.max(1, Math.floor(cells / SAMPLED_CELLS));
  const weights = [];
  for (let at = 0; at < cells; at += step) {
    const weight = grid.get(Math.floor(at / grid.cols), at % grid.cols);
    if (weight > 0) weights.push(weight);
  }
  const sorted = Float32Array.from(weights).sort();
  return (weight) => {
    if (!(weight > 0) || !sorted.length) return 0;
    let low = 0;
    let high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] <= weight) low = middle + 1;
      else high = middle;
    }
    return Math.max(low, 1) / sorted.length;
  };
}
