// A payload (regard/sight/views/payload.py) unpacked: entries, rows of weights, grids of cells.
// Axes: L queries, S keys, R × C cells of a pooled map. An entry is one call of a layer's attention.

const KEPT_ROWS = 512;
const CEILINGS = [1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001];

export async function unpack(payload) {
  const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(payload.blob) : Uint8Array.from(atob(payload.blob), (c) => c.charCodeAt(0));
  if (!packed.length) return new ArrayBuffer(0);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

export class Sighting {
  // fetchTile(entry, head, [q0, q1], [k0, k1]): exact weights from a server, row by row; null where there is none.
  constructor(payload, buffer, fetchTile = null) {
    this.payload = payload;
    this.buffer = buffer;
    this.fetchTile = fetchTile;
    this.onRowArrived = () => {};
    this.texts = payload.texts.map((text) => ({ ...text, size: text.pieces.length }));
    this.entries = payload.seen.map((entry, index) => this.unpackEntry(entry, index));
    this.layers = [...new Set(this.entries.map((entry) => entry.layer))];
    this.steps = Math.max(1, ...this.entries.map((entry) => entry.call + 1));
    this.rows = new Map(); // by entry, head and query; an empty object while the server is asked
    const largest = Math.max(0, ...this.entries.map((entry) => entry.largest));
    this.ceiling = CEILINGS.filter((c) => c >= largest).pop() || 1; // the weight at the end of the colour ramp
    this.floor = this.ceiling * 1e-4; // its other end on a logarithmic scale
  }

  // [offset, length, kind] of the buffer as numbers. p2 and p4 are integers of 2 and 4 bytes, stored byte plane by byte plane.
  array(reference) {
    if (!reference) return null;
    const [offset, length, kind] = reference;
    if (kind === "f4") return new Float32Array(this.buffer, offset, length);
    if (kind === "u1") return new Uint8Array(this.buffer, offset, length);
    if (kind === "u2") return new Uint16Array(this.buffer, offset, length);
    const width = Number(kind[1]);
    const bytes = new Uint8Array(this.buffer, offset, length * width);
    const values = width === 2 ? new Uint16Array(length) : new Uint32Array(length);
    for (let i = 0; i < length; i++) {
      let value = 0;
      for (let b = width - 1; b >= 0; b--) value = value * 256 + bytes[b * length + i];
      values[i] = value;
    }
    return values;
  }

  unpackEntry(packed, index) {
    const entry = { ...packed, index, weights: this.array(packed.exact), cells: null, hidden: null, topKeys: null, largest: 0 };
    if (packed.map) {
      entry.cells = this.array(packed.map.cells);
      if (packed.map.hidden) entry.hidden = this.array(packed.map.hidden);
      entry.largest = Math.max(0, ...packed.map.top.map((weight) => weight || 0));
    }
    if (entry.weights) for (const weight of entry.weights) if (weight > entry.largest) entry.largest = weight;
    entry.self = packed.query.text === packed.key.text && !packed.kind.includes("cross");
    // Between a query or key of this call and its place in the whole text; −1 where the text's place is not in this call.
    const inverse = (start, length) => (place) => (place >= start && place < start + length ? place - start : -1);
    entry.queryPlace = (q) => packed.query.start + q;
    entry.keyPlace = (k) => packed.key.start + k;
    entry.queryAt = inverse(packed.query.start, packed.L);
    entry.keyAt = inverse(packed.key.start, packed.S);
    return entry;
  }

  lastCall(layer) {
    return Math.max(...this.entries.filter((entry) => entry.layer === layer).map((entry) => entry.call));
  }

  // The entries of one step of a generation: each layer's call of that step, or its last.
  entriesOfStep(step) {
    return this.entries.filter((entry) => entry.call === Math.min(step, this.lastCall(entry.layer)));
  }

  // The heaviest keys are unpacked when first needed: most layers of a long text never are.
  unpackTop(entry) {
    if (!entry.topKeys && entry.top) {
      entry.topKeys = this.array(entry.top.keys);
      const codes = this.array(entry.top.weights);
      const weight = entry.top.rounded ? (code) => (code / 255) ** 2 : (code) => code / 65535;
      entry.topWeights = Float32Array.from(codes, weight);
    }
    return Boolean(entry.topKeys);
  }

  // A query's kept heaviest keys as [[key, weight]], heaviest first.
  topPairs(entry, head, q) {
    const pairs = [];
    if (!this.unpackTop(entry)) return pairs;
    const start = (head * entry.L + q) * entry.top.k;
    for (let at = start; at < start + entry.top.k; at++) {
      if (entry.topKeys[at] !== entry.top.absent && entry.topWeights[at] > 0) pairs.push([entry.topKeys[at], entry.topWeights[at]]);
    }
    return pairs;
  }

  // A token as it is shown: its text; mark "_" after a space, "+" continuing a word, "*" special; part [i, n] of a character split in n.
  token(text, place) {
    const { size, pieces, marks, parts } = this.texts[text];
    if (place >= size) return { text: String(place), mark: "_", part: null };
    return { text: pieces[place], mark: marks[place], part: parts[place] || null };
  }
  queryToken(entry, q) {
    return this.token(entry.query.text, entry.queryPlace(q));
  }
  keyToken(entry, k) {
    return this.token(entry.key.text, entry.keyPlace(k));
  }

  // A query's row: { weights (S) or null, pairs [[key, weight]] heaviest first, complete: are these all pairs, rounded }.
  row(entry, head, q) {
    if (q < 0 || q >= entry.L) return { weights: null, pairs: [], complete: false };
    const id = `${entry.index}.${head}.${q}`;
    const kept = this.rows.get(id);
    if (kept && kept.pairs) return kept;
    if (entry.weights) {
      const start = (head * entry.L + q) * entry.S;
      return this.keepRow(id, completeRow(entry.weights.subarray(start, start + entry.S)));
    }
    if (this.fetchTile && !kept) this.fetchRow(id, entry, head, q);
    return { weights: null, pairs: this.topPairs(entry, head, q), complete: false, rounded: entry.top ? entry.top.rounded : false };
  }

  fetchRow(id, entry, head, q) {
    this.keepRow(id, {});
    const arrived = (weights) => {
      if (!weights) return;
      this.keepRow(id, completeRow(Float32Array.from(weights)));
      this.onRowArrived();
    };
    Promise.resolve(this.fetchTile(entry, head, [q, q + 1], [0, entry.S])).then(arrived, () => {}); // without it the top keys are shown
  }

  keepRow(id, row) {
    if (this.rows.size > KEPT_ROWS) this.rows.delete(this.rows.keys().next().value);
    this.rows.set(id, row);
    return row;
  }

  // The weight of one key for one query; null where it is not known, −1 where it is masked.
  weight(entry, head, q, k) {
    if (entry.weights) return entry.weights[(head * entry.L + q) * entry.S + k];
    const row = this.row(entry, head, q);
    if (row.weights) return row.weights[k];
    const pair = row.pairs.find(([key]) => key === k);
    return pair ? pair[1] : null;
  }

  // A head as a grid of values: exact weights, or the pooled map; null without either. get(r, c) is −1 for a masked cell.
  grid(entry, head) {
    if (entry.weights) {
      const start = head * entry.L * entry.S;
      return { rows: entry.L, cols: entry.S, pooled: false, get: (r, c) => entry.weights[start + r * entry.S + c] };
    }
    if (!entry.map) return null;
    const { rows, cols, top } = entry.map;
    const start = head * rows * cols;
    const weights = Float32Array.from({ length: 256 }, (_, code) => (top[head] || 0) * (code / 255) ** 2);
    const masked = (at) => entry.hidden && (entry.hidden[at >> 3] >> (7 - (at & 7))) & 1;
    const get = (r, c) => {
      const at = r * cols + c;
      const code = entry.cells[start + at];
      return code === 0 && masked(at) ? -1 : weights[code];
    };
    return { rows, cols, pooled: rows < entry.L || cols < entry.S, get };
  }

  // The score behind a weight: softmax keeps differences, so it lies below the row's largest score by the logarithm of the weights' ratio.
  score(entry, head, q, weight, row) {
    const largest = this.reading(entry, "max_logit", head, q, entry.L);
    if (largest === null || row.rounded || !(weight > 0) || !row.pairs.length) return null;
    return largest + Math.log(weight / row.pairs[0][1]);
  }

  // A reading of one head at token i of n; null if it was not taken.
  reading(entry, name, head, i, n) {
    const reading = entry[name];
    if (!reading) return null;
    const at = head * reading.points + Math.floor((i * reading.points) / n);
    if (reading.values) return this.array(reading.values)[at];
    return (reading.top[head] || 0) * (this.array(reading.bytes)[at] / 255) ** 2;
  }
}

function completeRow(weights) {
  const pairs = [];
  for (let k = 0; k < weights.length; k++) if (weights[k] > 0) pairs.push([k, weights[k]]);
  return { weights, pairs: pairs.sort((a, b) => b[1] - a[1]), complete: true };
}
