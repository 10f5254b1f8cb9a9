// Dot-product attention, backward: P recomputed from the saved log-sum-exp, five products a tile, no atomics.
//
//   dV += Pᵀ dO    dP = dO Vᵀ    dS = P ∘ (dP − D)    dQ += dS K    dK += dSᵀ Q,    D = Σ dO∘O − dlse
//
// A task owns every c-th block of keys of one key head: dK and dV of its keys are its own, and its share of dQ is kept
// apart and added up in order afterwards. The number of shares follows from the shape alone, so threads change nothing.
#include "scores.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int kGroups = 8;                       // row groups in a block of queries
constexpr int64_t kQueries = kGroups * kRows;
constexpr int64_t kKeys = 256;                   // keys in a block
constexpr int64_t kKeyPanels = kKeys / kPanel;
constexpr int64_t kWeightRow = kKeys + kLanes;   // a row of P or dS
constexpr int kKeyRows = kRows == 8 ? 8 : 4;     // of a register tile whose rows are keys; divides a panel
constexpr int64_t kShares = 16;                  // tasks wanted at least

struct Backward {
    const DotBackward& a;
    Crew& crew;
    Pack key_panels, value_panels, key_rows, query, grad_out;
    Bias bias;
    Post post;
    int64_t group, blocks, key_blocks, shares, width, value_width, share_floats;
    Scratch grad_query, extents, scratch;

    static int64_t shares_for(const DotBackward& a) {
        return max(1, min(ceil_div(kShares, a.batch * a.key_heads), ceil_div(a.keys, kKeys)));
    }

    Backward(const DotBackward& a_, Crew& crew_)
        : a(a_), crew(crew_), key_panels(a_.key, a_.type, Layout::panels, a_.batch, a_.key_heads, a_.keys, a_.width),
          value_panels(a_.value, a_.type, Layout::panels, a_.batch, a_.key_heads, a_.keys, a_.value_width),
          key_rows(a_.key, a_.type, Layout::rows, a_.batch, a_.key_heads, a_.keys, a_.width),
          query(a_.query, a_.type, Layout::rows, a_.batch, a_.heads, a_.queries, a_.width, a_.queries % kRows ? kRows : 0),
          grad_out(a_.grad_out, a_.type, Layout::rows, a_.batch, a_.heads, a_.queries, a_.value_width, a_.queries % kRows ? kRows : 0),
          bias(a_), post(a_), group(a_.heads / a_.key_heads), blocks(ceil_div(a_.queries, kQueries)), key_blocks(ceil_div(a_.keys, kKeys)),
          shares(shares_for(a_)), width(padded(a_.width)), value_width(padded(a_.value_width)),
          share_floats(a_.batch * a_.heads * blocks * kQueries * width), grad_query(4 * shares * share_floats),
          extents(2 * 8 * a_.batch * a_.heads * blocks), scratch(4 * crew_.threads() * slot()) {}

    int64_t slot() const { return 2 * kQueries * kWeightRow + kKeys * (width + value_width) + 2 * kLanes; }

    // D of every row, and what keys a block of queries sees at all.
    void prepare(int64_t index) {
        const int64_t row = index / blocks, batch = row / a.heads, head = row % a.heads, first = index % blocks * kQueries;
        const int64_t count = min(kQueries, a.queries - first);
        const Matrix out(a.out, a.type, batch, head), grad(a.grad_out, a.type, batch, head);
        for (int64_t i = first; i < first + count; ++i) {
            double sum = 0;
            for (int64_t c = 0; c < a.value_width; ++c) sum += (double)out.at(i, c) * grad.at(i, c);
            const int64_t at = row * a.queries + i;
            a.delta[at] = (float)(sum - (a.grad_lse ? (double)a.grad_lse[at] : 0.0));
        }
        int64_t low = a.keys, high = 0;
        for (int64_t i = 0; i < count; i += kRows)
            Group(a.spans, batch, head, first + i, (int)min(kRows, count - i), a.keys).extent(low, high);
        int64_t* extent = (int64_t*)extents.data + 2 * index;
        extent[0] = low;
        extent[1] = high;
    }

    struct Work {
        float *weights, *slopes;          // P and dS, [kQueries][kWeightRow]
        float *grad_key, *grad_value;     // [kKeys][width], [kKeys][value_width]
        Seen seen[kGroups];
        bool any[kGroups];
    };

    void task(int64_t index, int worker) {
        const int64_t pair = index / shares, share = index % shares, batch = pair / a.key_heads, first_head = pair % a.key_heads * group;
        Work work;
        work.weights = scratch.floats() + worker * slot();
        work.slopes = work.weights + kQueries * kWeightRow;
        work.grad_key = work.slopes + kQueries * kWeightRow;
        work.grad_value = work.grad_key + kKeys * width;
        float* mine = grad_query.floats() + share * share_floats + (batch * a.heads + first_head) * blocks * kQueries * width;
        std::memset(mine, 0, 4 * group * blocks * kQueries * width);
        for (int64_t block = share; block < key_blocks; block += shares) {
            const int64_t begin = block * kKeys, end = min(begin + kKeys, a.keys);
            std::memset(work.grad_key, 0, 4 * kKeys * (width + value_width));
            for (int64_t g = 0; g < group; ++g) {
                const int64_t row = batch * a.heads + first_head + g;
                float* column_sums = a.grad_key_bias ? a.grad_key_bias + row * a.keys : nullptr;
                if (column_sums) std::memset(column_sums + begin, 0, 4 * (end - begin));
                for (int64_t b = 0; b < blocks; ++b) {
                    const int64_t* extent = (const int64_t*)extents.data + 2 * (row * blocks + b);
                    if (extent[0] < end && extent[1] > begin)
                        step(work, batch, pair, row, b * kQueries, begin, end, mine + (g * blocks + b) * kQueries * width, column_sums);
                    if (crew.stopped(worker)) return;
                }
            }
            for (int64_t j = begin; j < end; ++j) {
                store_row(a.grad_key, a.type, batch, pair % a.key_heads, j, a.width, a.scale * a.beta, work.grad_key + (j - begin) * width);
                store_row(a.grad_value, a.type, batch, pair % a.key_heads, j, a.value_width, 1.0f, work.grad_value + (j - begin) * value_width);
            }
        }
    }

    void step(Work& w, int64_t batch, int64_t pair, int64_t row, int64_t first, int64_t begin, int64_t end, float* grad_q, float* column_sums) const {
        const int64_t count = min(kQueries, a.queries - first);
        const int used = (int)ceil_div(count, kRows);
        bool something = false, everything = true;
        for (int g = 0; g < used; ++g) {
            Group rows(a.spans, batch, row % a.heads, first + g * kRows, (int)min(kRows, count - g * kRows), a.keys);
            w.any[g] = rows.look(begin, end, w.seen[g]);
            something |= w.any[g];
            const Segment& only = w.seen[g].segment[0];
            everything &= w.any[g] && !w.seen[g].ragged && w.seen[g].count == 1 && only.begin == begin && only.end == end;
            if (w.any[g]) slopes(w, g, batch, pair, row, first + g * kRows, begin);
        }
        if (!something) return;
        if (column_sums) {
            for (int g = 0; g < used; ++g)
                for (int64_t p = 0; p < kKeyPanels; ++p)
                    if (w.any[g] && w.seen[g].panel[p] != kNone)
                        for (int64_t i = 0; i < min(kRows, count - g * kRows); ++i)
                            for (int64_t j = p * kPanel; j < min(p * kPanel + kPanel, end - begin); ++j)
                                column_sums[begin + j] += w.slopes[(g * kRows + i) * kWeightRow + j] * a.beta;
        }
        if (!everything && dirty(pair, row, first, count, begin, end)) return products_apart(w, pair, row, first, count, begin, end, grad_q);
        const float* q = query.at(row) + first * width;
        const float* o = grad_out.at(row) + first * value_width;
        for (int64_t p = 0; p < kKeyPanels; ++p) {
            int from = used, to = 0;  // groups that see the panel
            for (int g = 0; g < used; ++g)
                if (w.any[g] && w.seen[g].panel[p] != kNone) {
                    from = from < g ? from : g;
                    to = g + 1;
                }
            if (from >= to) continue;
            for (int g = from; g < to; ++g)
                if (!w.any[g] || w.seen[g].panel[p] == kNone)
                    for (int64_t i = g * kRows; i < (g + 1) * kRows; ++i) {
                        std::memset(w.weights + i * kWeightRow + p * kPanel, 0, 4 * kPanel);
                        std::memset(w.slopes + i * kWeightRow + p * kPanel, 0, 4 * kPanel);
                    }
            const int64_t top = from * kRows, depth = min(to * kRows, count) - top;
            down(w.weights + top * kWeightRow, o + top * value_width, value_width, depth, p, w.grad_value);
            down(w.slopes + top * kWeightRow, q + top * width, width, depth, p, w.grad_key);
        }
        for (int g = 0; g < used; ++g) {
            if (!w.any[g]) continue;
            int64_t column = 0;
            for (; column + 2 * kLanes <= width; column += 2 * kLanes) across<2>(w, g, pair, begin, end, column, grad_q);
            if (column < width) across<1>(w, g, pair, begin, end, column, grad_q);
        }
    }

    // P and dS of one row group: scores, weights and their gradients without leaving the registers more than once.
    void slopes(Work& w, int g, int64_t batch, int64_t pair, int64_t row, int64_t first, int64_t begin) const {
        const Seen& seen = w.seen[g];
        const float* q = query.at(row) + first * width;
        const float* o = grad_out.at(row) + first * value_width;
        const float* key_bias = bias.row(row);
        float shift[kRows], delta[kRows];
        for (int i = 0; i < kRows; ++i) {
            const bool valid = first + i < a.queries;
            const float lse = valid ? a.lse[row * a.queries + first + i] : INFINITY;
            shift[i] = lse == -INFINITY ? INFINITY : lse * kLog2e;  // an empty row weighs nothing
            delta[i] = valid ? a.delta[row * a.queries + first + i] : 0.0f;
        }
        const Dropout dropout(a, row);
        const float more = 1 / a.kept;
        for (int64_t p = 0; p < kKeyPanels; ++p) {
            if (seen.panel[p] == kNone) continue;
            float* weights = w.weights + g * kRows * kWeightRow + p * kPanel;
            float* slopes = w.slopes + g * kRows * kWeightRow + p * kPanel;
            uint32_t bits[kRows];
            if (seen.panel[p] == kSome) panel_bits(seen, begin, p, bits);
            {
                Float acc[kRows][2];
                clear(acc);
                multiply(acc, q, width, 1, key_panels.panel(pair, begin / kPanel + p), kPanel, a.width);
                const float* b = key_bias ? key_bias + begin + p * kPanel : nullptr;
#pragma GCC unroll 16
                for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
                    for (int c = 0; c < 2; ++c) {
                        Float slope = splat(1.0f), s = acc[i][c];
                        if (!post.plain) s = post.apply(s, b ? b + c * kLanes : nullptr, slope);
                        Float weight = exp2(s * post.factor - shift[i]);
                        if (seen.panel[p] == kSome) weight = select(lanes_of(bits[i], c * kLanes), weight, Float{});
                        store(slopes + i * kWeightRow + c * kLanes, weight * slope);
                        if (dropout) weight = select(dropout.keeps(dropout.row(first + i), begin + p * kPanel + c * kLanes), weight * more, Float{});
                        store(weights + i * kWeightRow + c * kLanes, weight);
                    }
            }
            Float acc[kRows][2];
            clear(acc);
            multiply(acc, o, value_width, 1, value_panels.panel(pair, begin / kPanel + p), kPanel, a.value_width);
#pragma GCC unroll 16
            for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
                for (int c = 0; c < 2; ++c) {
                    float* s = slopes + i * kWeightRow + c * kLanes;
                    Float reach = acc[i][c];
                    if (dropout) reach = select(dropout.keeps(dropout.row(first + i), begin + p * kPanel + c * kLanes), reach * more, Float{});
                    Float slope = load(s) * (reach - delta[i]);
                    if (seen.panel[p] == kSome) slope = select(lanes_of(bits[i], c * kLanes), slope, Float{});
                    store(s, slope);
                }
        }
    }

    // total[keys of panel p] += weightsᵀ · right: rows of the tile are keys, the sum runs over queries.
    static void down(const float* weights, const float* right, int64_t columns, int64_t depth, int64_t p, float* total) {
        for (int64_t column = 0; column < columns; column += 2 * kLanes)
            for (int64_t j = p * kPanel; j < (p + 1) * kPanel; j += kKeyRows)
                if (column + 2 * kLanes <= columns) {
                    down_tile<2>(weights + j, right + column, columns, depth, total + j * columns + column);
                } else {
                    down_tile<1>(weights + j, right + column, columns, depth, total + j * columns + column);
                }
    }

    template <int Columns>
    REGARD_INLINE void down_tile(const float* weights, const float* right, int64_t columns, int64_t depth, float* total) {
        Float acc[kKeyRows][Columns];
        clear(acc);
        multiply(acc, weights, 1, kWeightRow, right, columns, depth);
#pragma GCC unroll 16
        for (int i = 0; i < kKeyRows; ++i)
#pragma GCC unroll 2
            for (int c = 0; c < Columns; ++c) {
                float* t = total + i * columns + c * kLanes;
                store(t, load(t) + acc[i][c]);
            }
    }

    // dQ += dS·K of one row group, over the panels it sees.
    template <int Columns>
    void across(const Work& w, int g, int64_t pair, int64_t begin, int64_t end, int64_t column, float* grad_q) const {
        const Seen& seen = w.seen[g];
        const float* k = key_rows.at(pair) + column;
        Float acc[kRows][Columns];
        clear(acc);
        for (int64_t p = 0; p < kKeyPanels;) {
            if (seen.panel[p] == kNone) {
                ++p;
                continue;
            }
            const int64_t from = p * kPanel;
            while (p < kKeyPanels && seen.panel[p] != kNone) ++p;
            const int64_t to = min(p * kPanel, end - begin);
            multiply(acc, w.slopes + g * kRows * kWeightRow + from, kWeightRow, 1, k + (begin + from) * width, width, to - from);
        }
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
            for (int c = 0; c < Columns; ++c) {
                float* t = grad_q + (g * kRows + i) * width + column + c * kLanes;
                store(t, load(t) + acc[i][c]);
            }
    }

    bool dirty(int64_t pair, int64_t row, int64_t first, int64_t count, int64_t begin, int64_t end) const {
        for (int64_t p = begin / kPanel; p * kPanel < end; ++p)
            if (key_rows.dirty(pair)[p]) return true;
        for (int64_t p = first / kPanel; p * kPanel < first + count; ++p)
            if (query.dirty(row)[p] || grad_out.dirty(row)[p]) return true;
        return false;
    }

    // The three sums pair by pair, leaving out hidden pairs: 0 · NaN must not reach them.
    void products_apart(const Work& w, int64_t pair, int64_t row, int64_t first, int64_t count, int64_t begin, int64_t end, float* grad_q) const {
        const float* k = key_rows.at(pair) + begin * width;
        const float* q = query.at(row) + first * width;
        const float* o = grad_out.at(row) + first * value_width;
        for (int64_t i = 0; i < count; ++i) {
            const int g = (int)(i / kRows);
            if (!w.any[g]) continue;
            for (int64_t j = 0; j < end - begin; ++j) {
                if (w.seen[g].panel[j / kPanel] == kNone) continue;
                const float weight = w.weights[i * kWeightRow + j], slope = w.slopes[i * kWeightRow + j];
                if (weight == 0 && slope == 0) continue;
                for (int64_t c = 0; c < value_width; ++c) w.grad_value[j * value_width + c] += weight * o[i * value_width + c];
                for (int64_t c = 0; c < width; ++c) w.grad_key[j * width + c] += slope * q[i * width + c];
                for (int64_t c = 0; c < width; ++c) grad_q[i * width + c] += slope * k[j * width + c];
            }
        }
    }

    // The shares of dQ, added up in order.
    void gather_query(int64_t index) {
        const int64_t row = index / blocks, first = index % blocks * kQueries, count = min(kQueries, a.queries - first);
        float* total = grad_query.floats() + index * kQueries * width;
        for (int64_t share = 1; share < shares; ++share) {
            const float* part = total + share * share_floats;
            for (int64_t i = 0; i < count * width; i += kLanes) store(total + i, load(total + i) + load(part + i));
        }
        for (int64_t i = 0; i < count; ++i)
            store_row(a.grad_query, a.type, row / a.heads, row % a.heads, first + i, a.width, a.scale * a.beta, total + i * width);
    }
};

}  // namespace

void dot_backward(const DotBackward& a, Crew& crew) {
    if (!a.batch || !a.heads || !a.queries || !a.keys) return;
    Backward backward(a, crew);
    Pack* const packs[] = {&backward.key_panels, &backward.value_panels, &backward.key_rows, &backward.query, &backward.grad_out};
    pack_all(packs, 5, crew);
    const int64_t rows = a.batch * a.heads * backward.blocks;
    crew.run(rows, [](void* context, int64_t index, int) { ((Backward*)context)->prepare(index); }, &backward);
    crew.run(a.batch * a.key_heads * backward.shares,
             [](void* context, int64_t index, int worker) { ((Backward*)context)->task(index, worker); }, &backward);
    if (crew.stopped()) return;
    crew.run(rows, [](void* context, int64_t index, int) { ((Backward*)context)->gather_query(index); }, &backward);
}

}  // namespace regard::REGARD_ISA
