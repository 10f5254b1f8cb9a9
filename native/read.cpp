// Readings: one more pass over the scores, of any kind, with weights p = 2^(s − lse), or those of another choice, computed, read and
// dropped.
//
// A task takes every n-th block of queries of one head, so that what is summed over rows is its own (a share).
#include "score_block.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int64_t kQueries = kMaxGroups * kRows;

REGARD_INLINE float sum_of(const float* x, int64_t n) {
    Float sum{};
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) sum += load(x + j);
    float total = n >= kLanes ? horizontal_sum(sum) : 0.0f;
    for (; j < n; ++j) total += x[j];
    return total;
}

template <class Scorer>
struct Reader {
    const Read& a;
    ThreadTeam& team;
    Scorer scorer;
    const int64_t blocks, cells;  // query blocks of a head; cells of its pooled map
    Scratch scratch;

    Reader(const Read& a_, ThreadTeam& team_)
        : a(a_), team(team_), scorer(a_), blocks(ceil_div(a_.queries, kQueries)), cells(a_.pooled_rows * a_.pooled_columns),
          scratch(4 * team_.threads() * slot()) {}

    int64_t slot() const { return kRows * kScoreRow + kMaxGroups * scorer.row_floats(); }

    void run() {
        scorer.prepare(team);
        team.run(a.batch * a.heads * a.shares, [](void* self, int64_t index, int worker) { ((Reader*)self)->task(index, worker); }, this);
    }

    struct Row {
        float best = -INFINITY;       // raw, in stored units
        float threshold = -INFINITY;  // of the lightest of the top, as an exponent
        double entropy = 0, mass = 0, by_query = 0, sink = 0, at = 0, same[Read::kMaxSame] = {};
    };

    // Where one (share, head) keeps its sums over rows.
    struct Sums {
        double *received, *distance, *pooled;
    };

    void task(int64_t index, int worker) {
        const int64_t row = index / a.shares, share = index % a.shares, batch = row / a.heads, head = row % a.heads;
        const ScoreHead of = scorer.head(row);
        const int64_t slice = share * a.batch * a.heads + row;
        const Sums sums{a.received ? a.received + slice * a.keys : nullptr, a.distance ? a.distance + slice * (2 * a.side + 1) : nullptr,
                        a.pooled ? a.pooled + slice * cells : nullptr};
        if (sums.received) std::memset(sums.received, 0, 8 * a.keys);
        if (sums.distance) std::memset(sums.distance, 0, 8 * (2 * a.side + 1));
        if (sums.pooled) std::memset(sums.pooled, 0, 8 * cells);
        float* weights = scratch.floats() + worker * slot();
        float* query = weights + kRows * kScoreRow;
        BlockVisibility visible;
        for (int64_t block = share; block < blocks; block += a.shares) {
            const int64_t first = block * kQueries, count = min(kQueries, a.queries - first);
            RowGroup group[kMaxGroups];
            Row state[kQueries];
            int64_t low = a.keys, high = 0;
            const int group_count = (int)ceil_div(count, kRows);
            for (int g = 0; g < group_count; ++g) {
                group[g] = RowGroup(a, batch, head, first + g * kRows, (int)min(kRows, count - g * kRows));
                group[g].widen_extent(low, high);
                scorer.load_rows(row, first + g * kRows, group[g].rows, query + g * scorer.row_floats());
            }
            for (int64_t i = 0; a.top && i < count * a.top; ++i) {
                a.top_weights[(row * a.queries + first) * a.top + i] = 0;
                a.top_keys[(row * a.queries + first) * a.top + i] = -1;
            }
            for (int64_t begin = low / kPanel * kPanel; begin < high; begin += kBlock) {
                const int64_t end = min(begin + kBlock, high);
                for (int g = 0; g < group_count; ++g) {
                    if (!group[g].find_visible(begin, end, visible)) continue;
                    const int64_t top = first + g * kRows;
                    scores(state + g * kRows, of, visible, begin, top, query + g * scorer.row_floats(), weights);
                    for (int i = 0; i < group[g].rows; ++i) {
                        Row& of_row = state[g * kRows + i];
                        float* s = weights + i * kScoreRow;
                        if (a.choice == Choice::softmax) {
                            make_weights<true>(of_row, of.transform.factor, visible, begin, row, top + i, s);
                        } else {
                            make_weights<false>(of_row, of.transform.factor, visible, begin, row, top + i, s);
                        }
                    }
                    if (sums.received) add_received(visible, begin, end, group[g].rows, weights, sums.received);
                    for (int i = 0; i < group[g].rows; ++i)
                        add_along_row(state[g * kRows + i], visible, begin, end, row, top + i, weights + i * kScoreRow, sums);
                }
                if (team.stopped(worker)) return;
            }
            for (int64_t i = 0; i < count; ++i) finish(state[i], of.transform.factor, row * a.queries + first + i);
        }
    }

    // Scores of one row group, and the largest of each row.
    void scores(Row* state, const ScoreHead& of, const BlockVisibility& visible, int64_t begin, int64_t first, const float* query,
                float* to) const {
        Float best[kRows];
        score_block(scorer, of, visible, begin, first, query, to, kScoreRow, best);
        for (int i = 0; i < kRows; ++i) {
            const float top = horizontal_max(best[i]);
            if (top > state[i].best) state[i].best = top;
        }
    }

    // Scores become weights; what is summed along a row is summed here.
    template <bool kSoftmax>
    void make_weights(Row& state, float factor, const BlockVisibility& visible, int64_t begin, int64_t row, int64_t i, float* s) const {
        const float lse = a.choice == Choice::picked ? 0.0f : a.lse[row * a.queries + i];
        const Float shift = splat(lse == -INFINITY ? INFINITY : lse * kLog2e);
        const float* norms = a.norms ? a.norms + row * a.keys + begin : nullptr;
        Float entropy{}, mass{}, by_query{};
        for (int64_t p = 0; p < kPanels; ++p) {
            if (visible.panel[p] == kNone) continue;
            float* at = s + p * kPanel;
            Float x[2];
            REGARD_UNROLL(2)
            for (int c = 0; c < 2; ++c) {
                x[c] = max(splat(-200.0f), load(at + c * kLanes) * factor - shift);  // finite, so that 0 · x is 0
                const Float weight = kSoftmax ? exp2(x[c])
                                              : other_weights(load(at + c * kLanes), factor, lse, row * a.queries + i,
                                                              begin + p * kPanel + c * kLanes, x[c]);
                store(at + c * kLanes, weight);
                mass += weight;
                entropy += weight * x[c];
            }
            if (norms) {
                if (begin + (p + 1) * kPanel <= a.keys) {
                    by_query += load(at) * load(norms + p * kPanel) + load(at + kLanes) * load(norms + p * kPanel + kLanes);
                } else {
                    for (int64_t j = p * kPanel; begin + j < a.keys; ++j) state.by_query += s[j] * norms[j];
                }
            }
            if (a.top && any(max(x[0], x[1]) > state.threshold)) insert(state, x, at, begin + p * kPanel, row * a.queries + i);
        }
        state.entropy -= horizontal_sum(entropy);
        state.mass += horizontal_sum(mass);
        state.by_query += horizontal_sum(by_query);
    }

    // The weights of another choice for keys [j, j + kLanes), and their binary logarithms, −200 for 0.
    Float other_weights(Float scores, float factor, float threshold, int64_t row, int64_t j, Float& logarithms) const {
        Float weights;
        if (a.choice == Choice::picked) {
            weights = select(lane_numbers() + (int32_t)j == (int32_t)a.picked[row], splat(1.0f), Float{});
        } else {
            const float unit = factor * (float)kLn2 * (a.choice == Choice::entmax15 ? 0.5f : 1.0f);
            weights = max(scores * unit - threshold, Float{});
            if (a.choice == Choice::entmax15) weights *= weights;
        }
        logarithms = splat(-200.0f);
        for (int c = 0; any(weights > 0.0f) && c < kLanes; ++c)
            if (weights[c] > 0) logarithms[c] = ::log2f(weights[c]);
        return weights;
    }

    // Puts a panel's heavy keys into the row's list; rare once the list has filled.
    void insert(Row& state, const Float (&x)[2], const float* weights, int64_t first, int64_t at) const {
        float exponent[2 * kLanes];
        store(exponent, x[0]);
        store(exponent + kLanes, x[1]);
        float* heavy = a.top_weights + at * a.top;
        int64_t* keys = a.top_keys + at * a.top;
        for (int64_t j = 0; j < kPanel; ++j) {
            const float weight = weights[j];
            if (!(exponent[j] > state.threshold) || !(weight > heavy[a.top - 1])) continue;
            int64_t place = a.top - 1;
            for (; place > 0 && heavy[place - 1] < weight; --place) {
                heavy[place] = heavy[place - 1];
                keys[place] = keys[place - 1];
            }
            heavy[place] = weight;
            keys[place] = first + j;
            if (heavy[a.top - 1] > 0) state.threshold = ::log2f(heavy[a.top - 1]) - 1e-4f;  // a little low: the weight decides
        }
    }

    void add_received(const BlockVisibility& visible, int64_t begin, int64_t end, int rows, const float* weights, double* received) const {
        for (int64_t p = 0; p < kPanels; ++p) {
            if (visible.panel[p] == kNone) continue;
            float total[2 * kLanes];
            for (int c = 0; c < 2; ++c) {
                Float sum{};
                for (int i = 0; i < rows; ++i) sum += load(weights + i * kScoreRow + p * kPanel + c * kLanes);
                store(total + c * kLanes, sum);
            }
            double* to = received + begin + p * kPanel;
            const int64_t count = min(kPanel, end - begin - p * kPanel);
            for (int64_t j = 0; j < count; ++j) to[j] += total[j];
        }
    }

    // Sums over runs of a row's keys (distance bins, cells of the map, first keys), and single weights.
    void add_along_row(Row& state, const BlockVisibility& visible, int64_t begin, int64_t end, int64_t row, int64_t i, const float* w,
                       const Sums& sums) const {
        for (int64_t p = 0; p < kPanels;) {
            if (visible.panel[p] == kNone) {
                ++p;
                continue;
            }
            const int64_t from = p * kPanel;
            while (p < kPanels && visible.panel[p] != kNone) ++p;
            const int64_t to = min(p * kPanel, end - begin);
            if (a.distance || a.pooled || a.sink) add_runs(state, begin, from, to, i, w, sums);
            for (int s = 0; s < a.same_count; ++s) state.same[s] += same(s, begin, from, to, row / a.heads, i, w);
            if (a.at) {
                const int64_t key = a.at_keys[row * a.queries + i] - begin;
                if (key >= from && key < to) state.at = w[key];
            }
            for (int64_t n = 0; n < a.chosen_count; ++n)
                if (a.chosen[n] == i) std::memcpy(a.rows + (row * a.chosen_count + n) * a.keys + begin + from, w + from, 4 * (to - from));
        }
    }

    void add_runs(Row& state, int64_t begin, int64_t from, int64_t to, int64_t i, const float* w, const Sums& sums) const {
        const int64_t self = i + a.keys - a.queries;  // the key that stands where the query does
        double* cell = sums.pooled ? sums.pooled + i * a.pooled_rows / a.queries * a.pooled_columns : nullptr;
        for (int64_t j = from; j < to;) {
            int64_t stop = to, bin = 0, column = 0;
            if (sums.distance) {
                const int64_t offset = begin + j - self, far = offset < 0 ? -offset : offset;
                const int64_t number = far == 0 ? 0 : far == 1 ? 1 : 65 - __builtin_clzll((unsigned long long)(far - 1));
                const int64_t nearest = number < 3 ? number : ((int64_t)1 << (number - 2)) + 1,
                              farthest = number < 3 ? number : (int64_t)1 << (number - 1);
                bin = a.side + (offset < 0 ? -number : number);
                stop = min(stop, (offset < 0 ? self - nearest : self + farthest) + 1 - begin);
            }
            if (cell) {
                column = (begin + j) * a.pooled_columns / a.keys;
                stop = min(stop, ceil_div((column + 1) * a.keys, a.pooled_columns) - begin);
            }
            const bool first_keys = a.sink && begin + j < a.sinks_read;
            if (first_keys) stop = min(stop, a.sinks_read - begin);
            const float total = sum_of(w + j, stop - j);
            if (sums.distance) sums.distance[bin] += total;
            if (cell) cell[column] += total;
            if (first_keys) state.sink += total;
            j = stop;
        }
    }

    // The mass on keys that carry the row's id.
    double same(int s, int64_t begin, int64_t from, int64_t to, int64_t batch, int64_t i, const float* w) const {
        const int32_t id = a.same_rows[s][batch * a.queries + i];
        const int32_t* ids = a.same_keys[s] + batch * a.keys + begin;
        const int64_t self = a.same_itself[s] ? -1 : i + a.keys - a.queries - begin;
        Float sum{};
        double rest = 0;
        int64_t j = from;
        for (; j + kLanes <= to; j += kLanes) {
            Int match = *(const LooseInt*)(ids + j) == id;
            if (self >= j && self < j + kLanes) match &= lane_numbers() != (int32_t)(self - j);
            sum += select(match, load(w + j), Float{});
        }
        for (; j < to; ++j)
            if (ids[j] == id && j != self) rest += w[j];
        return rest + horizontal_sum(sum);
    }

    void finish(const Row& state, float factor, int64_t at) const {
        if (a.entropy) a.entropy[at] = (float)(state.entropy * kLn2);
        if (a.mass) a.mass[at] = (float)state.mass;
        if (a.max_logit) a.max_logit[at] = state.best == -INFINITY ? -INFINITY : (float)((double)state.best * factor * kLn2);
        if (a.sink) a.sink[at] = (float)state.sink;
        if (a.at) a.at[at] = (float)state.at;
        if (a.by_query) a.by_query[at] = (float)state.by_query;
        for (int s = 0; s < a.same_count; ++s) a.same[s][at] = (float)state.same[s];
    }
};

}  // namespace

// Preconditions: as kernels.h says of Scores; no dropout; `lse` is the forward kernel's for the same scores; 1 ≤ shares; `rows`, where
// given, is zeroed; at_keys and chosen lie in [0, keys) and [0, queries); top ≥ 1 where top_weights is given, 0 otherwise; distance has a
// bin for every offset (side = bin of max(queries, keys)). With no queries or no keys nothing is written.
void read(const Read& a, ThreadTeam& team) {
    if (!a.batch || !a.heads || !a.queries || !a.keys) return;
    run_scored<Reader>(a, team);
}

}  // namespace regard::REGARD_ISA
