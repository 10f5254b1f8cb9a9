// Attention with sparsemax or 1.5-entmax, forward: all scores of a group of rows, their thresholds, and the sum over the keys that remain.
#include "sparse.h"

namespace regard::REGARD_ISA {
namespace {

template <class Scorer>
struct SparseWork {
    const SparseForward& a;
    ThreadTeam& team;
    Scorer scorer;
    Pack value;
    const int64_t blocks;
    Scratch scratch;

    SparseWork(const SparseForward& a_, ThreadTeam& team_)
        : a(a_), team(team_), scorer(a_), value(a_.value, a_.type, Layout::rows, a_.batch, a_.key_heads, a_.keys, a_.value_width),
          blocks(ceil_div(a_.queries, kRows)), scratch(4 * team_.threads() * slot()) {}

    int64_t slot() const { return SparseRows::floats(a) + scorer.row_floats() + value.width; }

    void run() {
        scorer.prepare(team);
        Pack* const packs[] = {&value};
        pack_all(packs, 1, team);
        team.run(a.batch * a.heads * blocks, [](void* self, int64_t index, int worker) { ((SparseWork*)self)->task(index, worker); }, this);
    }

    void task(int64_t index, int worker) {
        if (team.stopped(worker)) return;
        const int64_t row = index / blocks, batch = row / a.heads, head = row % a.heads;
        const int64_t first = (blocks - 1 - index % blocks) * kRows;  // causal rows: the long ones first
        float* memory = scratch.floats() + worker * slot();
        SparseRows sparse(a, a.choice, memory);
        float* rows = memory + SparseRows::floats(a);
        float* out = rows + scorer.row_floats();
        RowGroup group(a, batch, head, first, (int)min(kRows, a.queries - first));
        const ScoreHead of = scorer.head(row);
        scorer.load_rows(row, first, group.rows, rows);
        sparse.score(scorer, of, group, first, rows);
        const Dropout dropout(a, row);
        for (int i = 0; i < group.rows; ++i) {
            const bool good = sparse.weigh(i);
            for (int64_t n = 0; dropout && n < sparse.count; ++n)
                if (!dropout.keeps_one(first + i, sparse.keys[n])) sparse.weights[n] = 0;
            sum_rows(value.at(of.pair), value.width, sparse.keys, sparse.weights, sparse.count, out);
            if (good) {
                add_visible_non_finite(of.pair, sparse.scores + i * sparse.ld, out);
            } else {
                for (int64_t c = 0; c < value.width; ++c) out[c] = NAN;
            }
            store_row(a.out, a.type, batch, head, first + i, a.value_width, 1 / a.kept, out);
            a.threshold[of.first_row + first + i] = good ? sparse.threshold : NAN;
        }
    }

    // A value that is not finite reaches every row that sees it, as 0 · NaN does in a dense product.
    void add_visible_non_finite(int64_t pair, const float* scores, float* out) const {
        const uint8_t* non_finite = value.non_finite(pair);
        for (int64_t p = 0; p < value.panels; ++p)
            for (int64_t j = p * kPanel; non_finite[p] && j < min((p + 1) * kPanel, a.keys); ++j)
                if (scores[j] != -INFINITY) add_scaled(0.0f, value.at(pair) + j * value.width, value.width, out);
    }
};

}  // namespace

// Preconditions: as kernels.h says of Scores; sinks are not used. Rows without a visible key get output 0 and threshold 0.
void sparse_forward(const SparseForward& a, ThreadTeam& team) {
    if (a.batch && a.heads && a.queries) run_scored<SparseWork>(a, team);
}

}  // namespace regard::REGARD_ISA
