// Dot-product scores of one group of rows with one block of keys, for the kernels that make no output of them (pick, read).
#pragma once
#include "scores.h"

namespace regard::REGARD_ISA {
namespace {

// Fills to[kRows][kScoreRow], in units of 1/post.factor in base 2, −∞ where hidden, where a panel is visible at all; `best` becomes each
// row's largest, lane by lane. `key` is packed in panels, `query` by pack_query_group, `key_bias` (or null) padded to whole panels.
static void score_block(const Pack& key, const ScoreTransform& transform, const BlockVisibility& visible, int64_t begin, int64_t pair,
                        const float* key_bias, const float* query, float* to, Float (&best)[kRows]) {
    for (int i = 0; i < kRows; ++i) best[i] = splat(-INFINITY);
    for (int64_t p = 0; p < kPanels; ++p) {
        if (visible.panel[p] == kNone) continue;
        Float acc[kRows][2];
        clear(acc);
        multiply(acc, query, 1, kRows, key.panel(pair, begin / kPanel + p), kPanel, key.columns);
        if (!transform.plain) {
            const float* b = key_bias ? key_bias + begin + p * kPanel : nullptr;
            for (int i = 0; i < kRows; ++i)
                for (int c = 0; c < 2; ++c) acc[i][c] = transform.apply(acc[i][c], b ? b + c * kLanes : nullptr);
        }
        if (visible.panel[p] == kSome) {
            for (int i = 0; i < kRows; ++i)
                for (int c = 0; c < 2; ++c) acc[i][c] = choose(visible.bits[p][i] >> c * kLanes, acc[i][c], splat(-INFINITY));
        }
        REGARD_UNROLL(16)
        for (int i = 0; i < kRows; ++i) {
            store(to + i * kScoreRow + p * kPanel, acc[i][0]);
            store(to + i * kScoreRow + p * kPanel + kLanes, acc[i][1]);
            best[i] = max(best[i], max(acc[i][0], acc[i][1]));
        }
    }
}

}  // namespace
}  // namespace regard::REGARD_ISA
