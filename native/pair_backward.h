// Attention with any score computed pair by pair (additive, Gaussian), backward: P recomputed from the saved log-sum-exp, no atomics.
//
//   dV += Pᵀ dO    dP = dO Vᵀ    dS = P ∘ (dP − D),    D = Σ dO∘O − dlse,    then the score's own gradients from dS.
//
// A task owns every c-th block of keys of one key head: dK and dV of its keys are its own (kept transposed, in the lanes of
// their keys); its share of dQ, and of the score vector's gradient, is summed separately and added in order afterwards. The number
// of shares follows from the shape alone, so threads change nothing.
#pragma once
#include "scores.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int64_t kKeyPanels = kKeyBlock / kPanel;

template <class PairScore>
struct PairBackward {
    const DotBackward& a;
    ThreadTeam& team;
    PairScore pair_score;
    Pack value, grad_out;
    const int64_t hidden, group, row_groups, key_blocks, shares, share_floats;
    float* grad_vector;  // (hidden,), or null
    Scratch grad_query, all_vector_sums, scratch;

    PairBackward(const DotBackward& a_, const float* vector, float* grad_vector_, ThreadTeam& team_)
        : a(a_), team(team_), pair_score(a_, vector),
          value(a_.value, a_.type, Layout::panels, a_.batch, a_.key_heads, a_.keys, a_.value_width),
          grad_out(a_.grad_out, a_.type, Layout::rows, a_.batch, a_.heads, a_.queries, a_.value_width, kRows), hidden(a_.width),
          group(a_.heads / a_.key_heads), row_groups(ceil_div(a_.queries, kRows)), key_blocks(ceil_div(a_.keys, kKeyBlock)),
          shares(key_shares(a_)), share_floats(a_.batch * a_.heads * row_groups * kRows * hidden), grad_vector(grad_vector_),
          grad_query(4 * shares * share_floats),
          all_vector_sums(PairScore::kHasVector ? 8 * a_.batch * a_.key_heads * shares * (hidden + 1) : 0),
          scratch(4 * team_.threads() * slot()) {}

    // Rows, P, dS, dK and dV of a block, and the score vector's gradient.
    int64_t slot() const {
        return round_up(pair_score.row_floats(), kLanes) + 2 * kRows * kWeightRow + kKeyBlock * (hidden + a.value_width) +
               (hidden + 1) * kLanes;
    }

    void run() {
        Pack* const packs[] = {&pair_score.key, &value, &grad_out};
        pack_all(packs, 3, team);
        team.run(pair_score.tasks(), [](void* self, int64_t index, int) { ((PairBackward*)self)->pair_score.task(index); }, this);
        team.run(a.batch * a.heads * row_groups, [](void* self, int64_t index, int) { ((PairBackward*)self)->fill_delta(index); }, this);
        team.run(
            a.batch * a.key_heads * shares, [](void* self, int64_t index, int worker) { ((PairBackward*)self)->task(index, worker); },
            this);
        team.run(a.batch * a.heads * row_groups, [](void* self, int64_t index, int) { ((PairBackward*)self)->finish_query(index); }, this);
        if (PairScore::kHasVector) finish_vector();
    }

    // D of a group of rows.
    void fill_delta(int64_t index) {
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
        float* weights = rows + round_up(pair_score.row_floats(), kLanes);
        float* slopes = weights + kRows * kWeightRow;
        float* grad_key = slopes + kRows * kWeightRow;                // [panel][column][kPanel]
        float* grad_value = grad_key + kKeyBlock * hidden;            // the same
        float* vector_sums = grad_value + kKeyBlock * a.value_width;  // [column][kLanes], and Σ dS
        float* share_sums = grad_query.floats() + share * share_floats;
        double* vector_totals = (double*)all_vector_sums.data + index * (hidden + 1);
        for (int64_t c = 0; PairScore::kHasVector && c <= hidden; ++c) vector_totals[c] = 0;
        std::memset(share_sums + (batch * a.heads + first_head) * row_groups * kRows * hidden, 0, 4 * group * row_groups * kRows * hidden);
        for (int64_t block = share; block < key_blocks; block += shares) {
            const int64_t begin = block * kKeyBlock, end = min(begin + kKeyBlock, a.keys);
            std::memset(grad_key, 0, 4 * kKeyBlock * (hidden + a.value_width));
            for (int64_t g = 0; g < group * row_groups; ++g) {
                if (PairScore::kHasVector && g % 16 == 0) flush_vector_sums(vector_sums, vector_totals, g == 0);
                const int64_t head = first_head + g / row_groups, first = g % row_groups * kRows, row = batch * a.heads + head;
                RowGroup row_group(a, batch, head, first, (int)min(kRows, a.queries - first));
                BlockVisibility visible;
                if (!row_group.find_visible(begin, end, visible)) continue;
                const bool rows_finite = pair_score.load_rows(batch, head, first, row_group.rows, rows);
                weights_and_slopes(visible, pair, row, first, row_group.rows, begin, rows, weights, slopes, vector_sums + hidden * kLanes);
                const bool careful = hides_any(visible) && (!rows_finite || any_non_finite(pair, row, first, begin, end));
                float* grad_rows = share_sums + (row * row_groups + first / kRows) * kRows * hidden;
                add_value_gradients(visible, row, first, weights, grad_value, careful);
                if (careful)
                    pair_score.template add_gradients<true>(pair, begin / kPanel, visible.panel, kKeyPanels, rows, slopes, kWeightRow,
                                                            grad_rows, grad_key, vector_sums);
                else
                    pair_score.template add_gradients<false>(pair, begin / kPanel, visible.panel, kKeyPanels, rows, slopes, kWeightRow,
                                                             grad_rows, grad_key, vector_sums);
                if (team.stopped(worker)) return;
            }
            if (PairScore::kHasVector) flush_vector_sums(vector_sums, vector_totals, false);
            for (int64_t j = begin; j < end; ++j) {
                const int64_t p = (j - begin) / kPanel, lane = (j - begin) % kPanel;
                float* k = (float*)a.grad_key.data + batch * a.grad_key.batch + pair % a.key_heads * a.grad_key.head + j * a.grad_key.row;
                float* v =
                    (float*)a.grad_value.data + batch * a.grad_value.batch + pair % a.key_heads * a.grad_value.head + j * a.grad_value.row;
                for (int64_t c = 0; c < hidden; ++c)
                    k[c * a.grad_key.column] = grad_key[(p * hidden + c) * kPanel + lane] * pair_score.gradient_factor(c);
                for (int64_t c = 0; c < a.value_width; ++c)
                    v[c * a.grad_value.column] = grad_value[(p * a.value_width + c) * kPanel + lane];
            }
        }
    }

    // P and dS of one group of rows; Σ dS is added to `sum`.
    void weights_and_slopes(const BlockVisibility& visible, int64_t pair, int64_t row, int64_t first, int64_t count, int64_t begin,
                            const float* rows, float* weights, float* slopes, float* sum) const {
        const float* o = grad_out.at(row) + first * grad_out.width;
        float shift[kRows], delta[kRows];
        for (int i = 0; i < kRows; ++i) {
            const float lse = i < count ? a.lse[row * a.queries + first + i] : INFINITY;
            shift[i] = lse == -INFINITY ? INFINITY : lse * kLog2e;  // an empty row weighs nothing
            delta[i] = i < count ? a.delta[row * a.queries + first + i] : 0.0f;
        }
        Float all{};
        for (int64_t p = 0; p < kKeyPanels; ++p) {
            if (visible.panel[p] == kNone) continue;
            Float acc[kRows][2];
            clear(acc);
            pair_score.add_scores(acc, pair, begin / kPanel + p, rows);
            const uint32_t* bits = visible.bits[p];
            for (int i = 0; i < kRows; ++i)
                for (int c = 0; c < 2; ++c) {
                    acc[i][c] = exp2(acc[i][c] * pair_score.factor - shift[i]);
                    if (visible.panel[p] == kSome) acc[i][c] = choose(bits[i] >> c * kLanes, acc[i][c], Float{});
                    store(weights + i * kWeightRow + p * kPanel + c * kLanes, acc[i][c]);
                }
            clear(acc);
            multiply(acc, o, grad_out.width, 1, value.panel(pair, begin / kPanel + p), kPanel, a.value_width);
            for (int i = 0; i < kRows; ++i)
                for (int c = 0; c < 2; ++c) {
                    Float slope = load(weights + i * kWeightRow + p * kPanel + c * kLanes) * (acc[i][c] - delta[i]);
                    if (visible.panel[p] == kSome) slope = choose(bits[i] >> c * kLanes, slope, Float{});
                    if (shift[i] == INFINITY) slope = Float{};
                    store(slopes + i * kWeightRow + p * kPanel + c * kLanes, slope);
                    all += slope;
                }
        }
        store(sum, load(sum) + all);
    }

    // dV += Pᵀ dO, in the lanes of the keys.
    void add_value_gradients(const BlockVisibility& visible, int64_t row, int64_t first, const float* weights, float* grad_value,
                             bool careful) const {
        const float* o = grad_out.at(row) + first * grad_out.width;
        for (int64_t p = 0; p < kKeyPanels; ++p) {
            if (visible.panel[p] == kNone) continue;
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

    static bool hides_any(const BlockVisibility& visible) {
        for (int64_t p = 0; p < kKeyPanels; ++p)
            if (visible.panel[p] == kSome) return true;
        return false;
    }

    // Whether a key, or a row of dO, of this block holds a number that is not finite.
    bool any_non_finite(int64_t pair, int64_t row, int64_t first, int64_t begin, int64_t end) const {
        const int64_t low = first / kPanel, high = min(first + kRows - 1, a.queries - 1) / kPanel;
        for (int64_t p = low; p <= high; ++p)
            if (grad_out.non_finite(row)[p]) return true;
        for (int64_t p = begin / kPanel; p * kPanel < end; ++p)
            if (pair_score.key.non_finite(pair)[p]) return true;
        return false;
    }

    // The lanes' sums so far move into doubles.
    void flush_vector_sums(float* vector_sums, double* sums, bool only_clear) const {
        for (int64_t c = 0; c <= hidden; ++c) {
            if (!only_clear) sums[c] += horizontal_sum(load(vector_sums + c * kLanes));
            store(vector_sums + c * kLanes, Float{});
        }
    }

    // dQ of a group of rows: the shares in order.
    void finish_query(int64_t index) {
        const int64_t row = index / row_groups, batch = row / a.heads, head = row % a.heads, first = index % row_groups * kRows;
        for (int64_t i = 0; i < min(kRows, a.queries - first); ++i) {
            float* to = (float*)a.grad_query.data + batch * a.grad_query.batch + head * a.grad_query.head + (first + i) * a.grad_query.row;
            for (int64_t c = 0; c < hidden; ++c) {
                float sum = 0;
                for (int64_t s = 0; s < shares; ++s) sum += grad_query.floats()[s * share_floats + (index * hidden + c) * kRows + i];
                to[c * a.grad_query.column] = sum * pair_score.gradient_factor(c);
            }
        }
    }

    // dv_c = Σ dS·tanh = Σ dS − 2 Σ dS·r.
    void finish_vector() {
        for (int64_t c = 0; c < hidden; ++c) {
            double sum = 0;
            for (int64_t t = 0; t < a.batch * a.key_heads * shares; ++t) {
                const double* share_sums = (const double*)all_vector_sums.data + t * (hidden + 1);
                sum += share_sums[hidden] - 2 * share_sums[c];
            }
            grad_vector[c] = (float)(sum * a.beta);
        }
    }
};

}  // namespace
}  // namespace regard::REGARD_ISA
