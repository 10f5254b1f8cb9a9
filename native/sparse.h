// Sparsemax and 1.5-entmax: the weights of a row from all of its scores.
//
//   sparsemax  p = max(z − τ, 0)        Martins & Astudillo 2016
//   entmax     p = max(z/2 − τ, 0)²     Peters, Niculae & Martins 2019
//
// with Σ p = 1. Only keys within 1 of the largest z (of the largest z/2) can weigh anything: those are collected, and τ is found among them
// by Newton's method from max − 1, from where the convex, decreasing sum is never overshot.
#pragma once
#include "score_block.h"

namespace regard::REGARD_ISA {
namespace {

// The scores of a group of rows with all keys, and the weights of one row after another.
struct SparseRows {
    const Scores& a;
    const Choice choice;
    const int64_t ld;  // floats in a row of scores
    float* scores;     // [kRows][ld]; −∞ where hidden
    float* weights;    // [ld] of the keys with any weight, in order
    float* gaps;       // [ld] (z − max z, in the units of τ) of the candidates
    int32_t* keys;     // [ld]
    int64_t count = 0;
    float top[kRows];
    float unit = 1;        // a stored score times this is in the units of τ
    double slope_sum = 0;  // Σ slope(p) of the row
    float threshold = 0;   // τ

    static int64_t row(const Scores& a) { return round_up(a.keys, kPanel) + kLanes; }
    static int64_t floats(const Scores& a) { return (kRows + 3) * row(a); }

    SparseRows(const Scores& a_, Choice choice_, float* memory)
        : a(a_), choice(choice_), ld(row(a_)), scores(memory), weights(scores + kRows * ld), gaps(weights + ld),
          keys((int32_t*)(gaps + ld)) {}

    float slope(float p) const { return choice == Choice::entmax15 ? ::sqrtf(p) : 1.0f; }

    // Scores of a group of rows, packed in `rows`, with every visible key.
    template <class Scorer>
    void score(const Scorer& scorer, const ScoreHead& of, RowGroup& group, int64_t first, const float* rows) {
        int64_t low = a.keys, high = 0;
        group.widen_extent(low, high);
        for (int64_t j = 0; j < kRows * ld; j += kLanes) store(scores + j, splat(-INFINITY));
        Float largest[kRows], best[kRows];
        for (int i = 0; i < kRows; ++i) largest[i] = splat(-INFINITY);
        BlockVisibility visible;
        for (int64_t begin = low / kPanel * kPanel; begin < high; begin += kBlock) {
            if (!group.find_visible(begin, min(begin + kBlock, high), visible)) continue;
            score_block(scorer, of, visible, begin, first, rows, scores + begin, ld, best);
            for (int i = 0; i < kRows; ++i) largest[i] = max(largest[i], best[i]);
        }
        for (int i = 0; i < kRows; ++i) top[i] = horizontal_max(largest[i]);
        unit = of.transform.factor * (float)kLn2 * (choice == Choice::entmax15 ? 0.5f : 1.0f);
    }

    // The weights of row i: `count`, `keys`, `weights`, `slope_sum`, `threshold`. False if a visible score is NaN or +∞.
    bool weigh(int i) {
        const float* s = scores + i * ld;
        const float highest = top[i] == -INFINITY ? 0.0f : top[i];
        count = 0;
        Int bad = splat((int32_t)0);
        for (int64_t j = 0; j < round_up(a.keys, kLanes); j += kLanes) {
            const Float x = load(s + j), gap = (x - highest) * unit;
            bad |= x != x;
            if (!any(gap > -1.0f)) continue;
            for (int64_t c = j; c < j + kLanes; ++c) {
                const float g = (s[c] - highest) * unit;
                if (!(g > -1.0f)) continue;
                gaps[count] = g;
                keys[count++] = (int32_t)c;
            }
        }
        threshold = 0;
        slope_sum = 0;
        if (any(bad) || highest == INFINITY) return false;
        if (!count) return true;
        for (int64_t n = count; n < round_up(count, kLanes); ++n) gaps[n] = -2;
        const float tau = solve();
        int64_t kept = 0;
        for (int64_t n = 0; n < count; ++n) {
            const float above = gaps[n] - tau;
            if (!(above > 0)) continue;
            keys[kept] = keys[n];
            weights[kept] = choice == Choice::entmax15 ? above * above : above;
            slope_sum += choice == Choice::entmax15 ? above : 1.0f;
            ++kept;
        }
        count = kept;
        threshold = highest * unit + tau;
        return true;
    }

  private:
    float solve() const {
        constexpr int kMostSteps = 60;
        constexpr float kSmallStep = 1e-7f;
        float tau = -1;
        for (int step = 0; step < kMostSteps; ++step) {
            Float sum{}, derivative{};
            for (int64_t n = 0; n < count; n += kLanes) {
                const Float above = max(load(gaps + n) - tau, Float{});
                sum += choice == Choice::entmax15 ? above * above : above;
                derivative += choice == Choice::entmax15 ? 2.0f * above : select(above > 0.0f, splat(1.0f), Float{});
            }
            const float moved = (horizontal_sum(sum) - 1) / horizontal_sum(derivative);
            if (!(moved > kSmallStep)) return moved > 0 ? tau + moved : tau;
            tau += moved;
        }
        return tau;
    }
};

// Σ of n weights times rows of a matrix, each row `width` floats, n rows given by `keys`.
[[maybe_unused]] static void sum_rows(const float* matrix, int64_t width, const int32_t* keys, const float* weights, int64_t count,
                                      float* to) {
    constexpr int kAtOnce = 8;
    for (int64_t column = 0; column < width; column += kAtOnce * kLanes) {
        const int vectors = (int)min(kAtOnce, (width - column) / kLanes);
        Float sum[kAtOnce];
        for (int c = 0; c < kAtOnce; ++c) sum[c] = Float{};
        if (vectors == kAtOnce) {
            for (int64_t n = 0; n < count; ++n) {
                const float* from = matrix + keys[n] * width + column;
                const Float weight = splat(weights[n]);
                REGARD_UNROLL(8)
                for (int c = 0; c < kAtOnce; ++c) sum[c] += weight * load(from + c * kLanes);
            }
        } else {
            for (int64_t n = 0; n < count; ++n)
                for (int c = 0; c < vectors; ++c) sum[c] += splat(weights[n]) * load(matrix + keys[n] * width + column + c * kLanes);
        }
        for (int c = 0; c < vectors; ++c) store(to + column + c * kLanes, sum[c]);
    }
}

REGARD_INLINE void add_scaled(float factor, const float* from, int64_t width, float* to) {
    for (int64_t c = 0; c < width; c += kLanes) store(to + c, load(to + c) + factor * load(from + c));
}

REGARD_INLINE float dot_padded(const float* x, const float* y, int64_t width) {
    Float sum{};
    for (int64_t c = 0; c < width; c += kLanes) sum += load(x + c) * load(y + c);
    return horizontal_sum(sum);
}

}  // namespace
}  // namespace regard::REGARD_ISA
