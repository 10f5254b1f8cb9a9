// Scores of one group of rows with one block of keys, of any kind of score, for the kernels that make no output in the same pass (pick,
// read, sparse).
//
// A Scorer has: prepare(), which packs the keys; Head, what the scores of one head need; row_floats() and load_rows() for a group of rows;
// and add_raw() for kRows × kPanel raw scores. Scores are stored in units of 1/factor in base 2.
#pragma once
#include "additive.h"
#include "gaussian.h"

namespace regard::REGARD_ISA {
namespace {

// What the scores of one head need beside its queries and keys.
struct ScoreHead {
    int64_t pair, first_row;  // where its keys are packed; of (batch, head) in tensors (B, h, L)
    ScoreTransform transform;
    BiasRows bias;
    const float* key_bias;

    ScoreHead(const Scores& a, int64_t row, const ScoreTransform& transform_, const float* key_bias_)
        : pair(row / a.heads * a.key_heads + row % a.heads / (a.heads / a.key_heads)), first_row(row * a.queries), transform(transform_),
          bias(a, transform, row / a.heads, row % a.heads), key_bias(key_bias_) {}
};

struct DotScorer {
    const Scores& a;
    Pack key;  // panels
    KeyBias key_bias;

    explicit DotScorer(const Scores& a_)
        : a(a_), key(a_.key, a_.type, Layout::panels, a_.batch, a_.key_heads, a_.keys, a_.width), key_bias(a_) {}

    void prepare(ThreadTeam& team) {
        Pack* const packs[] = {&key};
        pack_all(packs, 1, team);
    }
    ScoreHead head(int64_t row) const { return {a, row, ScoreTransform(a, row % a.heads), key_bias.row(row)}; }
    int64_t row_floats() const { return round_up(kRows * a.width, kLanes); }
    void load_rows(int64_t row, int64_t first, int64_t count, float* to) const {
        pack_query_group(Matrix(a.query, a.type, row / a.heads, row % a.heads), first, count, a.width, to);
    }
    REGARD_INLINE_MEMBER void add_raw(Float (&acc)[kRows][2], const ScoreHead& of, int64_t panel, const float* rows) const {
        multiply(acc, rows, 1, kRows, key.panel(of.pair, panel), kPanel, key.columns);
        if (of.transform.plain) return;
        const float* b = of.key_bias ? of.key_bias + panel * kPanel : nullptr;
        for (int i = 0; i < kRows; ++i)
            for (int c = 0; c < 2; ++c) acc[i][c] = of.transform.apply(acc[i][c], b ? b + c * kLanes : nullptr);
    }
};

template <class PairScore>
struct PairScorer {
    const Scores& a;
    PairScore pair_score;

    explicit PairScorer(const Scores& a_) : a(a_), pair_score(a_, a_.vector) {}

    void prepare(ThreadTeam& team) {
        Pack* const packs[] = {&pair_score.key};
        pack_all(packs, 1, team);
        team.run(pair_score.tasks(), [](void* self, int64_t index, int) { ((PairScorer*)self)->pair_score.task(index); }, this);
    }
    ScoreHead head(int64_t row) const {
        ScoreTransform transform(a, row % a.heads);
        transform.factor = pair_score.factor;
        return {a, row, transform, nullptr};
    }
    int64_t row_floats() const { return pair_score.row_floats(); }
    void load_rows(int64_t row, int64_t first, int64_t count, float* to) const {
        pair_score.load_rows(row / a.heads, row % a.heads, first, count, to);
    }
    REGARD_INLINE_MEMBER void add_raw(Float (&acc)[kRows][2], const ScoreHead& of, int64_t panel, const float* rows) const {
        pair_score.add_scores(acc, of.pair, panel, rows);
    }
};

// Fills to[kRows][ld], −∞ where hidden, where a panel is visible at all; `best` becomes each row's largest, lane by lane. `first` is the
// group's first query, `rows` its load_rows().
template <class Scorer>
void score_block(const Scorer& scorer, const ScoreHead& of, const BlockVisibility& visible, int64_t begin, int64_t first, const float* rows,
                 float* to, int64_t ld, Float (&best)[kRows]) {
    for (int i = 0; i < kRows; ++i) best[i] = splat(-INFINITY);
    for (int64_t p = 0; p < kPanels; ++p) {
        if (visible.panel[p] == kNone) continue;
        Float acc[kRows][2];
        clear(acc);
        scorer.add_raw(acc, of, begin / kPanel + p, rows);
        for (int i = 0; of.bias && i < kRows; ++i)
            for (int c = 0; c < 2; ++c) acc[i][c] += of.bias.at(first + i, begin + p * kPanel + c * kLanes);
        if (visible.panel[p] == kSome) {
            for (int i = 0; i < kRows; ++i)
                for (int c = 0; c < 2; ++c) acc[i][c] = choose(visible.bits[p][i] >> c * kLanes, acc[i][c], splat(-INFINITY));
        }
        REGARD_UNROLL(16)
        for (int i = 0; i < kRows; ++i) {
            store(to + i * ld + p * kPanel, acc[i][0]);
            store(to + i * ld + p * kPanel + kLanes, acc[i][1]);
            best[i] = max(best[i], max(acc[i][0], acc[i][1]));
        }
    }
}

// Runs Work<Scorer>(arguments, team) for the arguments' kind of score.
template <template <class> class Work, class Arguments>
void run_scored(const Arguments& a, ThreadTeam& team) {
    if (a.kind == ScoreKind::additive)
        Work<PairScorer<Additive>>(a, team).run();
    else if (a.kind == ScoreKind::gaussian)
        Work<PairScorer<Gaussian>>(a, team).run();
    else
        Work<DotScorer>(a, team).run();
}

}  // namespace
}  // namespace regard::REGARD_ISA
