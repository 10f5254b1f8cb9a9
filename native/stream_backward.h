// Attention under any rule that can fill a tile of scores, backward: P recomputed from the saved log-sum-exp, no atomics.
//
//   dV += Pᵀ dO    dP = dO Vᵀ    dS = P ∘ (dP − D),    D = Σ dO∘O − dlse,    and from dS whatever the rule pulls back.
//
// A task owns every c-th block of keys of one key head: dK and dV of its keys are its own (kept transposed, in the lanes of
// their keys); its share of dQ, and of the rule's own gradient, is kept apart and added up in order afterwards. The number
// of shares follows from the shape alone, so threads change nothing.
#pragma once
#include "scores.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int64_t kKeyPanels = kKeyBlock / kPanel;

template <class Rule>
struct StreamBackward {
    const DotBackward& a;
    Crew& crew;
    Rule rule;
    Pack value, grad_out;
    const int64_t hidden, group, row_groups, key_blocks, shares, share_floats;
    float* grad_vector;  // (hidden,), or null
    Scratch grad_query, extras, scratch;

    StreamBackward(const DotBackward& a_, const float* vector, float* grad_vector_, Crew& crew_)
        : a(a_), crew(crew_), rule(a_, vector), value(a_.value, a_.type, Layout::panels, a_.batch, a_.key_heads, a_.keys, a_.value_width),
          grad_out(a_.grad_out, a_.type, Layout::rows, a_.batch, a_.heads, a_.queries, a_.value_width, kRows), hidden(a_.width),
          group(a_.heads / a_.key_heads), row_groups(ceil_div(a_.queries, kRows)), key_blocks(ceil_div(a_.keys, kKeyBlock)),
          shares(key_shares(a_)), share_floats(a_.batch * a_.heads * row_groups * kRows * hidden), grad_vector(grad_vector_),
          grad_query(4 * shares * share_floats), extras(Rule::kExtra ? 8 * a_.batch * a_.key_heads * shares * (hidden + 1) : 0),
          scratch(4 * crew_.threads() * slot()) {}

    // Rows, P, dS, dK and dV of a block, the rule's own gradient.
    int64_t slot() const {
        return round_up(rule.row_floats(), kLanes) + 2 * kRows * kWeightRow + kKeyBlock * (hidden + a.value_width) + (hidden + 1) * kLanes;
    }

    void run() {
        Pack* const packs[] = {&rule.key, &value, &grad_out};
        pack_all(packs, 3, crew);
        crew.run(rule.tasks(), [](void* self, int64_t index, int) { ((StreamBackward*)self)->rule.task(index); }, this);
        crew.run(a.batch * a.heads * row_groups, [](void* self, int64_t index, int) { ((StreamBackward*)self)->prepare(index); }, this);
        crew.run(
            a.batch * a.key_heads * shares, [](void* self, int64_t index, int worker) { ((StreamBackward*)self)->task(index, worker); },
            this);
        crew.run(a.batch * a.heads * row_groups, [](void* self, int64_t index, int) { ((StreamBackward*)self)->settle(index); }, this);
        if (Rule::kExtra) settle_extra();
    }

    // D of a group of rows.
    void prepare(int64_t index) {
        const int64_t row = index / row_groups, batch = row / a.heads, head = row % a.heads, first = index % row_groups * kRows;
        const Matrix out(a.out, a.type, batch, head);
        for (int64_t i = first; i < min(first + kRows, a.queries); ++i) {
            const int64_t at = row * a.queries + i;
            a.delta[at] = dot_row(out, i, grad_out.at(row) + i * grad_out.width, a.value_width) - (a.grad_lse ? a.grad_lse[at] : 0.0f);
        }
    }

    void task(int64_t index, int worker) {
        const int64_t pair = index / shares, share = index % shares, batch = pair / a.key_heads, first_head = pair % a.key_heads * group;
        float* rows = scratch.floats() + worker * slot();
        float* weights = rows + round_up(rule.row_floats(), kLanes);
        float* slopes = weights + kRows * kWeightRow;
        float* grad_key = slopes + kRows * kWeightRow;          // [panel][column][kPanel]
        float* grad_value = grad_key + kKeyBlock * hidden;      // the same
        float* extra = grad_value + kKeyBlock * a.value_width;  // [column][kLanes], and Σ dS
        float* mine = grad_query.floats() + share * share_floats;
        double* extra_sum = (double*)extras.data + index * (hidden + 1);
        for (int64_t c = 0; Rule::kExtra && c <= hidden; ++c) extra_sum[c] = 0;
        std::memset(mine + (batch * a.heads + first_head) * row_groups * kRows * hidden, 0, 4 * group * row_groups * kRows * hidden);
        for (int64_t block = share; block < key_blocks; block += shares) {
            const int64_t begin = block * kKeyBlock, end = min(begin + kKeyBlock, a.keys);
            std::memset(grad_key, 0, 4 * kKeyBlock * (hidden + a.value_width));
            for (int64_t g = 0; g < group * row_groups; ++g) {
                if (Rule::kExtra && g % 16 == 0) drain(extra, extra_sum, g == 0);
                const int64_t head = first_head + g / row_groups, first = g % row_groups * kRows, row = batch * a.heads + head;
                Group sight(a, batch, head, first, (int)min(kRows, a.queries - first));
                Seen seen;
                if (!sight.look(begin, end, seen)) continue;
                const bool clean = rule.take(batch, head, first, sight.rows, rows);
                step(seen, pair, row, first, sight.rows, begin, rows, weights, slopes, extra + hidden * kLanes);
                const bool careful = hides(seen) && (!clean || dirty(pair, row, first, begin, end));
                float* grad_rows = mine + (row * row_groups + first / kRows) * kRows * hidden;
                gather(seen, row, first, weights, grad_value, careful);
                if (careful)
                    rule.template pull<true>(pair, begin / kPanel, seen.panel, kKeyPanels, rows, slopes, kWeightRow, grad_rows, grad_key,
                                             extra);
                else
                    rule.template pull<false>(pair, begin / kPanel, seen.panel, kKeyPanels, rows, slopes, kWeightRow, grad_rows, grad_key,
                                              extra);
                if (crew.stopped(worker)) return;
            }
            if (Rule::kExtra) drain(extra, extra_sum, false);
            for (int64_t j = begin; j < end; ++j) {
                const int64_t p = (j - begin) / kPanel, lane = (j - begin) % kPanel;
                float* k = (float*)a.grad_key.data + batch * a.grad_key.batch + pair % a.key_heads * a.grad_key.head + j * a.grad_key.row;
                float* v =
                    (float*)a.grad_value.data + batch * a.grad_value.batch + pair % a.key_heads * a.grad_value.head + j * a.grad_value.row;
                for (int64_t c = 0; c < hidden; ++c) k[c * a.grad_key.column] = grad_key[(p * hidden + c) * kPanel + lane] * rule.settle(c);
                for (int64_t c = 0; c < a.value_width; ++c)
                    v[c * a.grad_value.column] = grad_value[(p * a.value_width + c) * kPanel + lane];
            }
        }
    }

    // P and dS of one group of rows; Σ dS is added to `sum`.
    void step(const Seen& seen, int64_t pair, int64_t row, int64_t first, int64_t count, int64_t begin, const float* rows, float* weights,
              float* slopes, float* sum) const {
        const float* o = grad_out.at(row) + first * grad_out.width;
        float shift[kRows], delta[kRows];
        for (int i = 0; i < kRows; ++i) {
            const float lse = i < count ? a.lse[row * a.queries + first + i] : INFINITY;
            shift[i] = lse == -INFINITY ? INFINITY : lse * kLog2e;  // an empty row weighs nothing
            delta[i] = i < count ? a.delta[row * a.queries + first + i] : 0.0f;
        }
        Float all{};
        for (int64_t p = 0; p < kKeyPanels; ++p) {
            if (seen.panel[p] == kNone) continue;
            Float acc[kRows][2];
            clear(acc);
            rule.tile(acc, pair, begin / kPanel + p, rows);
            const uint32_t* bits = seen.bits[p];
            for (int i = 0; i < kRows; ++i)
                for (int c = 0; c < 2; ++c) {
                    acc[i][c] = exp2(acc[i][c] * rule.factor - shift[i]);
                    if (seen.panel[p] == kSome) acc[i][c] = choose(bits[i] >> c * kLanes, acc[i][c], Float{});
                    store(weights + i * kWeightRow + p * kPanel + c * kLanes, acc[i][c]);
                }
            clear(acc);
            multiply(acc, o, grad_out.width, 1, value.panel(pair, begin / kPanel + p), kPanel, a.value_width);
            for (int i = 0; i < kRows; ++i)
                for (int c = 0; c < 2; ++c) {
                    Float slope = load(weights + i * kWeightRow + p * kPanel + c * kLanes) * (acc[i][c] - delta[i]);
                    if (seen.panel[p] == kSome) slope = choose(bits[i] >> c * kLanes, slope, Float{});
                    if (shift[i] == INFINITY) slope = Float{};
                    store(slopes + i * kWeightRow + p * kPanel + c * kLanes, slope);
                    all += slope;
                }
        }
        store(sum, load(sum) + all);
    }

    // dV += Pᵀ dO, in the lanes of the keys.
    void gather(const Seen& seen, int64_t row, int64_t first, const float* weights, float* grad_value, bool careful) const {
        const float* o = grad_out.at(row) + first * grad_out.width;
        for (int64_t p = 0; p < kKeyPanels; ++p) {
            if (seen.panel[p] == kNone) continue;
            Float w[kRows][2];
            for (int i = 0; i < kRows; ++i)
                for (int c = 0; c < 2; ++c) w[i][c] = load(weights + i * kWeightRow + p * kPanel + c * kLanes);
            for (int64_t c = 0; c < a.value_width; ++c) {
                float* to = grad_value + (p * a.value_width + c) * kPanel;
                Float sum[2] = {load(to), load(to + kLanes)};
                REGARD_UNROLL(16)
                for (int i = 0; i < kRows; ++i) {
                    const Float d = splat(o[i * grad_out.width + c]);
                    REGARD_UNROLL(2)
                    for (int half = 0; half < 2; ++half) sum[half] += w[i][half] * (careful ? select(w[i][half] == 0.0f, Float{}, d) : d);
                }
                store(to, sum[0]);
                store(to + kLanes, sum[1]);
            }
        }
    }

    static bool hides(const Seen& seen) {
        for (int64_t p = 0; p < kKeyPanels; ++p)
            if (seen.panel[p] == kSome) return true;
        return false;
    }

    // Does a number that is not finite stand where some row may not see it?
    bool dirty(int64_t pair, int64_t row, int64_t first, int64_t begin, int64_t end) const {
        const int64_t low = first / kPanel, high = min(first + kRows - 1, a.queries - 1) / kPanel;
        for (int64_t p = low; p <= high; ++p)
            if (grad_out.dirty(row)[p]) return true;
        for (int64_t p = begin / kPanel; p * kPanel < end; ++p)
            if (rule.key.dirty(pair)[p]) return true;
        return false;
    }

    // The lanes' sums so far move into doubles.
    void drain(float* extra, double* sums, bool only_clear) const {
        for (int64_t c = 0; c <= hidden; ++c) {
            if (!only_clear) sums[c] += horizontal_sum(load(extra + c * kLanes));
            store(extra + c * kLanes, Float{});
        }
    }

    // dQ of a group of rows: the shares in order.
    void settle(int64_t index) {
        const int64_t row = index / row_groups, batch = row / a.heads, head = row % a.heads, first = index % row_groups * kRows;
        for (int64_t i = 0; i < min(kRows, a.queries - first); ++i) {
            float* to = (float*)a.grad_query.data + batch * a.grad_query.batch + head * a.grad_query.head + (first + i) * a.grad_query.row;
            for (int64_t c = 0; c < hidden; ++c) {
                float sum = 0;
                for (int64_t s = 0; s < shares; ++s) sum += grad_query.floats()[s * share_floats + (index * hidden + c) * kRows + i];
                to[c * a.grad_query.column] = sum * rule.settle(c);
            }
        }
    }

    // dv_c = Σ dS·tanh = Σ dS − 2 Σ dS·r.
    void settle_extra() {
        for (int64_t c = 0; c < hidden; ++c) {
            double sum = 0;
            for (int64_t t = 0; t < a.batch * a.key_heads * shares; ++t) {
                const double* mine = (const double*)extras.data + t * (hidden + 1);
                sum += mine[hidden] - 2 * mine[c];
            }
            grad_vector[c] = (float)(sum * a.beta);
        }
    }
};

}  // namespace
}  // namespace regard::REGARD_ISA
