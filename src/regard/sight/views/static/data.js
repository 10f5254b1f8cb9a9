// A payload unpacked: rows, cells and colours. Axes: h heads, L queries, S keys, R × C cells of a map.

async function unpack(payload) {
  const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(payload.blob) : Uint8Array.from(atob(payload.blob), (c) => c.charCodeAt(0));
  if (!packed.length) return new ArrayBuffer(0);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

class Sight {
  constructor(payload, buffer, options) {
    this.payload = payload;
    this.fetchTile = options.fetchTile || null;
    this.onArrival = () => {};
    this.buffer = buffer;
    this.texts = payload.texts.map((t) => ({ ...t, size: t.pieces.length }));
    this.entries = payload.seen.map((e, index) => this.entry(e, index));
    this.layers = [...new Set(this.entries.map((e) => e.layer))];
    this.steps = Math.max(1, ...this.entries.map((e) => e.call + 1));
    this.rows = new Map(); // rows a server gave
    this.top = Math.max(0, ...this.entries.map((e) => e.most));
    this.ceiling = [1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001].filter((c) => c >= this.top).pop() || 1;
    this.floor = this.ceiling * 1e-4;
  }

  array(ref) {
    if (!ref) return null;
    const [offset, length, kind] = ref;
    if (kind === "f4") return new Float32Array(this.buffer, offset, length);
    if (kind === "u1") return new Uint8Array(this.buffer, offset, length);
    if (kind === "u2") return new Uint16Array(this.buffer, offset, length);
    const width = Number(kind[1]), bytes = new Uint8Array(this.buffer, offset, length * width);
    const out = width === 2 ? new Uint16Array(length) : new Uint32Array(length);
    for (let i = 0; i < length; i++) {
      let value = 0;
      for (let b = width - 1; b >= 0; b--) value = value * 256 + bytes[b * length + i];
      out[i] = value;
    }
    return out;
  }

  entry(e, index) {
    const out = { ...e, index, weights: this.array(e.exact), cells: null, hidden: null, topKeys: null, most: 0 };
    if (e.map) {
      out.cells = this.array(e.map.cells);
      if (e.map.hidden) out.hidden = this.array(e.map.hidden);
      out.most = Math.max(0, ...e.map.top.map((x) => x || 0));
    }
    if (out.weights) for (const w of out.weights) if (w > out.most) out.most = w;
    out.self = e.query.text === e.key.text && !e.kind.includes("cross");
    out.queryPlace = (q) => e.query.start + q;
    out.keyPlace = (k) => e.key.start + k;
    const inverse = (place, n) => (i) => (i >= place.start && i < place.start + n ? i - place.start : -1);
    out.queryAt = inverse(e.query, e.L);
    out.keyAt = inverse(e.key, e.S);
    return out;
  }

  // The heaviest keys are unpacked when first looked at: most layers of a long text never are.
  tops(e) {
    if (!e.topKeys && e.top) {
      e.topKeys = this.array(e.top.keys);
      const code = this.array(e.top.weights);
      e.topWeights = e.top.rounded ? Float32Array.from(code, (c) => (c / 255) ** 2) : Float32Array.from(code, (c) => c / 65535);
    }
    return e.topKeys ? e : null;
  }

  piece(text, i) {
    const t = this.texts[text];
    if (i >= t.size) return { text: String(i), mark: "_", part: null };
    return { text: t.pieces[i], mark: t.marks[i], part: t.parts[i] || null };
  }
  queryPiece(e, q) { return this.piece(e.query.text, e.queryPlace(q)); }
  keyPiece(e, k) { return this.piece(e.key.text, e.keyPlace(k)); }

  // A query's row: { weights (S) or null, pairs [[key, weight] heaviest first], rounded }.
  row(e, h, q) {
    if (q < 0 || q >= e.L) return { weights: null, pairs: [], whole: false };
    const id = `${e.index}.${h}.${q}`;
    if (this.rows.has(id) && this.rows.get(id).pairs) return this.rows.get(id);
    if (e.weights) {
      const from = (h * e.L + q) * e.S;
      const weights = e.weights.subarray(from, from + e.S);
      return this.keep(id, { weights, pairs: ranked(weights), whole: true });
    }
    const pairs = [];
    if (this.tops(e)) {
      const k = e.top.k, from = (h * e.L + q) * k;
      for (let j = 0; j < k; j++) if (e.topKeys[from + j] !== e.top.absent && e.topWeights[from + j] > 0) pairs.push([e.topKeys[from + j], e.topWeights[from + j]]);
    }
    if (this.fetchTile && !this.rows.has(id)) {
      this.keep(id, {});
      Promise.resolve(this.fetchTile(e, h, [q, q + 1], [0, e.S])).then((got) => {
        if (!got) return;
        const weights = Float32Array.from(got);
        this.keep(id, { weights, pairs: ranked(weights), whole: true });
        this.onArrival();
      }, () => {});
    }
    return { weights: null, pairs, whole: false, rounded: e.top ? e.top.rounded : false };
  }

  keep(id, row) {
    if (this.rows.size > 512) this.rows.delete(this.rows.keys().next().value);
    this.rows.set(id, row);
    return row;
  }

  // The weight of one key for one query, null where it is not known; −1 where it is masked.
  weight(e, h, q, k) {
    if (e.weights) return e.weights[(h * e.L + q) * e.S + k];
    const row = this.row(e, h, q);
    if (row.weights) return row.weights[k];
    const found = row.pairs.find((pair) => pair[0] === k);
    return found ? found[1] : null;
  }

  // A head as a grid of values: exact weights, or the pooled map. get(r, c) is −1 for a masked cell.
  grid(e, h) {
    if (e.weights) {
      const from = h * e.L * e.S;
      return { rows: e.L, cols: e.S, pooled: false, get: (r, c) => e.weights[from + r * e.S + c] };
    }
    if (!e.map) return null;
    const { rows, cols, top } = e.map, from = h * rows * cols;
    const table = Float32Array.from({ length: 256 }, (_, c) => (top[h] || 0) * (c / 255) ** 2);
    const bits = e.hidden;
    return {
      rows, cols, pooled: rows < e.L || cols < e.S,
      get: (r, c) => {
        const at = r * cols + c, code = e.cells[from + at];
        return code === 0 && bits && (bits[at >> 3] >> (7 - (at & 7))) & 1 ? -1 : table[code];
      },
    };
  }

  // A per-token reading of one head at token i.
  // The score behind a weight: softmax keeps differences, so it lies below the row's largest by the logarithm of the weights' ratio.
  score(e, h, q, w, row) {
    const most = this.track(e, "max_logit", h, q, e.L);
    return most === null || row.rounded || !(w > 0) || !row.pairs.length ? null : most + Math.log(w / row.pairs[0][1]);
  }

  track(e, name, h, i, n) {
    const t = e[name];
    if (!t) return null;
    const at = h * t.points + Math.floor((i * t.points) / n);
    if (t.values) return this.array(t.values)[at];
    return (t.top[h] || 0) * (this.array(t.bytes)[at] / 255) ** 2;
  }
}

function ranked(weights) {
  const order = [];
  for (let k = 0; k < weights.length; k++) if (weights[k] > 0) order.push([k, weights[k]]);
  return order.sort((a, b) => b[1] - a[1]);
}

// From a weight to a place on the ramp, 0 to 1. Rank is the share of this head's cells that are lighter.
function scaling(kind, sight, grid) {
  if (kind === "log") {
    const low = Math.log(sight.floor), high = Math.log(sight.ceiling);
    return (w) => (w <= sight.floor ? 0 : Math.min(1, (Math.log(w) - low) / (high - low)));
  }
  if (kind === "rank" && grid) {
    const step = Math.max(1, Math.floor((grid.rows * grid.cols) / 65536)), values = [];
    for (let at = 0; at < grid.rows * grid.cols; at += step) {
      const w = grid.get(Math.floor(at / grid.cols), at % grid.cols);
      if (w > 0) values.push(w);
    }
    const sorted = Float32Array.from(values).sort();
    return (w) => {
      if (!(w > 0) || !sorted.length) return 0;
      let low = 0, high = sorted.length;
      while (low < high) { const mid = (low + high) >> 1; if (sorted[mid] <= w) low = mid + 1; else high = mid; }
      return Math.max(low, 1) / sorted.length;
    };
  }
  return (w) => Math.min(1, Math.max(0, w / sight.ceiling));
}

const RGB_TABLES = {};
function rgbTable(dark) {
  const name = dark ? "dark" : "light";
  if (!RGB_TABLES[name]) RGB_TABLES[name] = RAMP[name].match(/.{6}/g).map((x) => [0, 2, 4].map((i) => parseInt(x.slice(i, i + 2), 16)));
  return RGB_TABLES[name];
}
function rampColour(place, dark) { return "#" + RAMP[dark ? "dark" : "light"].substr(6 * Math.round(255 * Math.min(1, Math.max(0, place))), 6); }
// Black or white, whichever reads better on a colour of the ramp (the table was made beside it).
function rampInk(place, dark) { return RAMP[dark ? "darkInk" : "lightInk"][Math.round(255 * Math.min(1, Math.max(0, place)))] === "1" ? "#fff" : "#000"; }
