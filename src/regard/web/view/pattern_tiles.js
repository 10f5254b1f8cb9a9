// Beyond the resolution of a pooled map: exact weights if a server gives them, otherwise the kept heaviest keys as points.

import { weightColour } from "../colours.js";

const MOST_CELLS = 1 << 18; // of a tile asked of the server
const DELAY = 120; // milliseconds a zoom must rest before a tile is asked for

export function exactTiles(view, redraw) {
  let tile = null; // the last that arrived
  let requested = "";

  // The visible queries and keys.
  function range({ box }, byRow) {
    const { entry } = view;
    const [q, queries, k, keys] = byRow ? [box.y0, box.height, box.x0, box.width] : [box.x0, box.width, box.y0, box.height];
    const [q0, k0] = [Math.floor(q), Math.floor(k)];
    return { q0, q1: Math.min(entry.L, Math.ceil(q0 + queries + 1)), k0, k1: Math.min(entry.S, Math.ceil(k0 + keys + 1)) };
  }

  function draw(context, plot, { byRow, page }) {
    const { entry, grid } = view;
    const { head } = view.state;
    const { margin, box, cellWidth, cellHeight } = plot;
    const { q0, q1, k0, k1 } = range(plot, byRow);
    const put = (q, k, weight) => {
      const [x, y] = byRow ? [k, q] : [q, k];
      context.fillStyle = weightColour(view.scale(weight), view.dark);
      const [left, top] = [margin.left + (x - box.x0) * cellWidth, margin.top + (y - box.y0) * cellHeight];
      context.fillRect(left, top, Math.max(cellWidth, 1.5), Math.max(cellHeight, 1.5));
    };
    const key = [entry.index, head, q0, q1, k0, k1].join();
    if (view.sighting.fetchTile && (q1 - q0) * (k1 - k0) <= MOST_CELLS) {
      if (tile && tile.key === key) {
        context.fillStyle = page;
        context.fillRect(margin.left, margin.top, plot.width, plot.height);
        for (let q = q0; q < q1; q++) {
          for (let k = k0; k < k1; k++) {
            const weight = tile.weights[(q - q0) * (k1 - k0) + k - k0];
            if (weight > 0) put(q, k, weight);
          }
        }
        return;
      }
      request(key, entry, head, [q0, q1], [k0, k1]);
    }
    const coarse = grid && grid.pooled && (q1 - q0) * (grid.rows / entry.L) < 64;
    if (grid && !coarse) return;
    for (let q = q0; q < q1; q++) {
      for (const [k, weight] of view.sighting.topPairs(entry, head, q)) if (k >= k0 && k < k1) put(q, k, weight);
    }
  }

  function request(key, ...where) {
    if (requested === key) return;
    requested = key;
    const arrived = (weights) => {
      if (!weights || requested !== key) return;
      tile = { key, weights };
      redraw();
    };
    setTimeout(() => {
      if (requested === key) Promise.resolve(view.sighting.fetchTile(...where)).then(arrived, () => {}); // the map stays
    }, DELAY);
  }
  return { draw };
}
