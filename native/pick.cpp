// A hard choice: the first largest score of each row, or the key where the distribution function passes the row's uniform
// number. A draw takes two passes over the scores: the running maximum and sum, then the inversion with both known.
#include "score_block.h"

namespace regard::REGARD_ISA {
namespace {

template <class Scorer>
struct Picker {
    const Pick& a;
    ThreadTeam& team;
    Scorer scorer;
    const int64_t blocks;
    Scratch scratch;

    Picker(const Pick& a_, ThreadTeam& team_)
        : a(a_), team(team_), scorer(a_), blocks(ceil_div(a_.queries, kRows)), scratch(4 * team_.threads() * slot()) {}

    int64_t slot() const { return kRows * kScoreRow + scorer.row_floats(); }

    void run() {
        scorer.prepare(team);
        team.run(a.batch * a.heads * blocks, [](void* self, int64_t index, int worker) { ((Picker*)self)->task(index, worker); }, this);
    }

    struct Row {
        float best = -INFINITY;
        int64_t first = -1;  // of the best; the draw
        int64_t last = -1;   // the last key with any weight
        double total = 0, running = 0, target = 0;
        bool drawn = false;
    };

    void task(int64_t index, int worker) {
        const int64_t row = index / blocks, first = index % blocks * kRows;
        const int rows = (int)min(kRows, a.queries - first);
        float* s = scratch.floats() + worker * slot();
        float* query = s + kRows * kScoreRow;
        scorer.load_rows(row, first, rows, query);
        const ScoreHead of = scorer.head(row);
        const float factor = of.transform.factor;
        Row state[kRows];
        pass(
            of, row, first, rows, query, s, worker,
            [&](Row& r, const BlockVisibility& visible, int64_t begin, const float* scores) { largest(r, factor, visible, begin, scores); },
            state);
        if (a.uniform && !team.stopped()) {
            for (int i = 0; i < rows; ++i) {
                state[i].target = a.uniform[row * a.queries + first + i] * state[i].total;
                state[i].first = -1;
            }
            pass(
                of, row, first, rows, query, s, worker,
                [&](Row& r, const BlockVisibility& visible, int64_t begin, float* scores) { invert(r, factor, visible, begin, scores); },
                state);
        }
        for (int i = 0; i < rows; ++i) a.index[row * a.queries + first + i] = a.uniform && !state[i].drawn ? state[i].last : state[i].first;
    }

    template <class Visit>
    void pass(const ScoreHead& of, int64_t row, int64_t first, int rows, const float* query, float* s, int worker, Visit visit,
              Row* state) const {
        RowGroup group(a, row / a.heads, row % a.heads, first, rows);
        int64_t low = a.keys, high = 0;
        group.widen_extent(low, high);
        BlockVisibility visible;
        Float best[kRows];  // not needed here
        for (int64_t begin = low / kPanel * kPanel; begin < high; begin += kBlock) {
            if (team.stopped(worker)) return;
            if (!group.find_visible(begin, min(begin + kBlock, high), visible)) continue;
            score_block(scorer, of, visible, begin, first, query, s, kScoreRow, best);
            for (int i = 0; i < rows; ++i) visit(state[i], visible, begin, s + i * kScoreRow);
        }
    }

    // The first largest (a NaN counts as larger than any number), and Σ 2^(s − best) for a draw.
    void largest(Row& r, float factor, const BlockVisibility& visible, int64_t begin, const float* s) const {
        const float before = r.best;
        for (int64_t p = 0; p < kPanels; ++p) {
            if (visible.panel[p] == kNone) continue;
            for (int64_t j = p * kPanel; j < (p + 1) * kPanel; j += kLanes) {
                if (!any(~(load(s + j) <= r.best))) continue;
                for (int64_t c = j; c < j + kLanes; ++c)
                    if (s[c] > r.best || (s[c] != s[c] && r.best == r.best)) {
                        r.best = s[c];
                        r.first = begin + c;
                    }
            }
        }
        if (!a.uniform) return;
        const float safe = r.best == -INFINITY ? 0.0f : r.best;
        if (before != -INFINITY) r.total *= ::exp2((double)(before - safe) * factor);
        for (int64_t p = 0; p < kPanels; ++p)
            if (visible.panel[p] != kNone) r.total += weight(s, factor, p, safe);
    }

    static double weight(const float* s, float factor, int64_t p, float top) {
        const Float shift = splat(top * factor);
        const float* at = s + p * kPanel;
        return (double)horizontal_sum(exp2(load(at) * factor - shift) + exp2(load(at + kLanes) * factor - shift));
    }

    void invert(Row& r, float factor, const BlockVisibility& visible, int64_t begin, float* s) const {
        if (r.drawn || r.best == -INFINITY) return;
        for (int64_t p = 0; p < kPanels && !r.drawn; ++p) {
            if (visible.panel[p] == kNone) continue;
            const double all = weight(s, factor, p, r.best);
            if (all == 0) continue;
            float e[2 * kLanes];
            const Float shift = splat(r.best * factor);
            store(e, exp2(load(s + p * kPanel) * factor - shift));
            store(e + kLanes, exp2(load(s + p * kPanel + kLanes) * factor - shift));
            const bool may_be_here = r.running + all * (1 + 1e-6) > r.target;  // otherwise step over the panel
            double running = r.running;
            for (int64_t j = 0; j < kPanel; ++j) {
                if (!(e[j] > 0)) continue;
                running += e[j];
                r.last = begin + p * kPanel + j;
                if (may_be_here && running > r.target) {
                    r.first = r.last;
                    r.drawn = true;
                    return;
                }
            }
            r.running = running;
        }
    }
};

}  // namespace

// Preconditions: as kernels.h says of Scores; no dropout; sinks are not used; uniform numbers lie in [0, 1).
void pick(const Pick& a, ThreadTeam& team) {
    if (!a.batch || !a.heads || !a.queries) return;
    run_scored<Picker>(a, team);
}

}  // namespace regard::REGARD_ISA
