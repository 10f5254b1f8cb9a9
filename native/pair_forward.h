// Attention with any score computed pair by pair (additive, Gaussian), forward: softmax(scores)·V and the log-sum-exp, in one pass.
//
// A task is a block of queries of one head; it takes kBlock keys at a time, as dot_forward does. Narrow values (a regression
// has one column) are kept transposed and summed in the lanes of their keys; wide ones go through the register tile.
//
// A PairScore has: key (a Pack in panels), row_floats() and load_rows() for a group of rows, add_scores() for kRows × kPanel raw scores,
// and `factor` > 0, which converts a raw score to base 2.
#pragma once
#include "scores.h"
#include "weighted_sum.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int64_t kNarrow = 8;  // values up to this wide are summed in the lanes

template <class PairScore>
struct PairForward {
    const DotForward& a;
    ThreadTeam& team;
    PairScore pair_score;
    ScoreTransform transform;
    const bool narrow;
    Pack value;
    const int64_t width, groups, blocks, row_floats, out_floats;  // width: floats an output row is kept in
    Scratch scratch;

    // Fewer groups in a task when there are few rows in all; by shape alone, so that threads change nothing.
    static int64_t groups_for(const DotForward& a) { return max(1, min(kMaxGroups, a.batch * a.heads * ceil_div(a.queries, kRows) / 16)); }

    PairForward(const DotForward& a_, const float* vector, ThreadTeam& team_)
        : a(a_), team(team_), pair_score(a_, vector), transform(a_, 0), narrow(a_.value_width <= kNarrow),
          value(a_.value, a_.type, narrow ? Layout::panels : Layout::rows, a_.batch, a_.key_heads, a_.keys, a_.value_width),
          width(narrow ? a_.value_width * kLanes : value.width), groups(groups_for(a_)), blocks(ceil_div(a_.queries, groups * kRows)),
          row_floats(pair_score.row_floats()), out_floats(kRows * width), scratch(4 * team_.threads() * slot()) {
        transform.factor = pair_score.factor;
    }

    int64_t slot() const { return kRows * kScoreRow + groups * (row_floats + out_floats); }

    struct State {
        RowGroup group;
        float top[kRows];     // running maximum of the raw scores
        double total[kRows];  // running Σ 2^(s − top)
    };

    void run() {
        Pack* const packs[] = {&pair_score.key, &value};
        pack_all(packs, 2, team);
        team.run(pair_score.tasks(), [](void* self, int64_t index, int) { ((PairForward*)self)->pair_score.task(index); }, this);
        team.run(
            a.batch * a.heads * blocks, [](void* self, int64_t index, int worker) { ((PairForward*)self)->task(index, worker); }, this);
    }

    void task(int64_t index, int worker) {
        const int64_t row = index / blocks, batch = row / a.heads, head = row % a.heads;
        const int64_t pair = batch * a.key_heads + head / (a.heads / a.key_heads);
        const int64_t first = (blocks - 1 - index % blocks) * groups * kRows;  // causal rows: the long ones first
        const int64_t count = min(groups * kRows, a.queries - first), group_count = ceil_div(count, kRows);
        float* scores = scratch.floats() + worker * slot();
        float* rows = scores + kRows * kScoreRow;
        float* out = rows + groups * row_floats;
        State state[kMaxGroups];
        int64_t low = a.keys, high = 0;
        for (int64_t g = 0; g < group_count; ++g) {
            State& s = state[g];
            const int64_t row_count = min(kRows, count - g * kRows);
            s.group = RowGroup(a, batch, head, first + g * kRows, (int)row_count);
            s.group.widen_extent(low, high);
            pair_score.load_rows(batch, head, first + g * kRows, row_count, rows + g * row_floats);
            for (int i = 0; i < kRows; ++i) {
                s.top[i] = -INFINITY;
                s.total[i] = 0;
            }
        }
        std::memset(out, 0, 4 * group_count * out_floats);
        low = low / kPanel * kPanel;
        BlockVisibility visible;
        for (int64_t begin = low; begin < high; begin += kBlock) {
            const int64_t end = min(begin + kBlock, high);
            for (int64_t g = 0; g < group_count; ++g)
                if (state[g].group.find_visible(begin, end, visible))
                    step(state[g], visible, begin, pair, rows + g * row_floats, scores, out + g * out_floats);
            if (team.stopped(worker)) return;
        }
        for (int64_t i = 0; i < count; ++i)
            finish(batch, head, first + i, state[i / kRows].top[i % kRows], state[i / kRows].total[i % kRows], out + i * width);
    }

    // Scores of a row group, −∞ where hidden; the largest of each row.
    REGARD_APART void score(const BlockVisibility& visible, int64_t begin, int64_t pair, const float* rows, float* scores,
                            Float (&largest)[kRows]) const {
        Float best[kRows];
        for (int i = 0; i < kRows; ++i) best[i] = splat(-INFINITY);
        for (int64_t p = 0; p < kPanels; ++p) {
            if (visible.panel[p] == kNone) continue;
            Float acc[kRows][2];
            clear(acc);
            pair_score.add_scores(acc, pair, begin / kPanel + p, rows);
            if (visible.panel[p] == kSome) {
                for (int i = 0; i < kRows; ++i)
                    for (int c = 0; c < 2; ++c) acc[i][c] = choose(visible.bits[p][i] >> c * kLanes, acc[i][c], splat(-INFINITY));
            }
            REGARD_UNROLL(16)
            for (int i = 0; i < kRows; ++i) {
                store(scores + i * kScoreRow + p * kPanel, acc[i][0]);
                store(scores + i * kScoreRow + p * kPanel + kLanes, acc[i][1]);
                best[i] = max(best[i], max(acc[i][0], acc[i][1]));
            }
        }
        for (int i = 0; i < kRows; ++i) largest[i] = best[i];
    }

    // Scores become weights under the running maximum, updated by `best`.
    REGARD_APART void make_weights(State& state, const BlockVisibility& visible, const Float (&best)[kRows], float* scores,
                                   float (&decay)[kRows]) const {
        for (int i = 0; i < kRows; ++i) {
            const float top = horizontal_max(best[i]), old_top = state.top[i], new_top = top > old_top ? top : old_top;
            const float finite_top = new_top == -INFINITY ? 0.0f : new_top;
            decay[i] = old_top == -INFINITY ? 0.0f : old_top == new_top ? 1.0f : ::exp2f((old_top - finite_top) * pair_score.factor);
            const float factor = pair_score.factor;  // here, because the stores below could be to it for all the compiler knows
            const Float shift = splat(finite_top * factor);
            Float sum[2] = {Float{}, Float{}};
            float* s = scores + i * kScoreRow;
            for (int64_t p = 0; p < kPanels; ++p) {
                if (visible.panel[p] == kNone) continue;
                REGARD_UNROLL(2)
                for (int c = 0; c < 2; ++c) {
                    const Float weight = exp2(load(s + p * kPanel + c * kLanes) * factor - shift);
                    store(s + p * kPanel + c * kLanes, weight);
                    sum[c] += weight;
                }
            }
            state.top[i] = new_top;
            state.total[i] = state.total[i] * decay[i] + horizontal_sum(sum[0] + sum[1]);
        }
    }

    void step(State& state, const BlockVisibility& visible, int64_t begin, int64_t pair, const float* rows, float* scores,
              float* out) const {
        Float best[kRows];
        float decay[kRows];
        score(visible, begin, pair, rows, scores, best);
        make_weights(state, visible, best, scores, decay);
        const bool hidden_non_finite = hides_non_finite(value, visible, begin, pair);
        if (narrow) {
            int64_t column = 0;
            for (; column + 4 <= a.value_width; column += 4)
                add_narrow_values<4>(visible, begin, pair, column, hidden_non_finite, scores, decay, out);
            for (; column < a.value_width; ++column)
                add_narrow_values<1>(visible, begin, pair, column, hidden_non_finite, scores, decay, out);
        } else if (hidden_non_finite) {
            add_visible_values<false>(value, visible, begin, pair, scores, decay, out);
        } else {
            add_values<false>(value, visible, begin, pair, scores, decay, out);
        }
    }

    // Columns of a narrow output, each kept as kLanes partial sums. Hidden values are never multiplied: they could be NaN.
    template <int Columns>
    REGARD_APART void add_narrow_values(const BlockVisibility& visible, int64_t begin, int64_t pair, int64_t column, bool hidden_non_finite,
                                        const float* weights, const float* decay, float* out) const {
        for (int i = 0; i < kRows; ++i) {
            Float acc[2][Columns];
            clear(acc);
            for (int64_t p = 0; p < kPanels; ++p) {
                if (visible.panel[p] == kNone) continue;
                const float* v = value.panel(pair, begin / kPanel + p) + column * kPanel;
                const float* w = weights + i * kScoreRow + p * kPanel;
                const bool masked = hidden_non_finite && visible.panel[p] == kSome;
                REGARD_UNROLL(2)
                for (int c = 0; c < 2; ++c) {
                    const Float weight = load(w + c * kLanes);
                    REGARD_UNROLL(4)
                    for (int k = 0; k < Columns; ++k) {
                        Float x = load(v + k * kPanel + c * kLanes);
                        if (masked) x = choose(visible.bits[p][i] >> c * kLanes, x, Float{});
                        acc[c][k] += weight * x;
                    }
                }
            }
            for (int k = 0; k < Columns; ++k) {
                float* o = out + i * width + (column + k) * kLanes;
                store(o, load(o) * decay[i] + (acc[0][k] + acc[1][k]));
            }
        }
    }

    void finish(int64_t batch, int64_t head, int64_t row, float top, double total, float* out) const {
        for (int64_t c = 0; narrow && c < a.value_width; ++c)
            out[c] = horizontal_sum(load(out + c * kLanes));  // never overtakes what it reads
        finish_row(a, transform, batch, head, row, top, total, out);
    }
};

}  // namespace
}  // namespace regard::REGARD_ISA
