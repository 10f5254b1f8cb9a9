// The gradients of scores that are sums over columns of a function of (q_c, k_c): what the additive and the Gaussian score share.
#pragma once
#include "lane_sums.h"
#include "pack.h"

namespace regard::REGARD_ISA {
namespace {

// For every column c, row i and key j of the visible panels, adds the terms of dS_ij to the gradients:
//   term(c, i, k_jc, dS_ij, row_sum, key_sum) with row_sum → grad_rows[c][i], key_sum → grad_keys[panel][c][lane]; then term.finish(c).
// keys, grad_keys: [panel][hidden][kPanel]; slopes (dS): [kRows][ld], columns from the first panel on; grad_rows: [hidden][kRows].
template <class Term>
REGARD_INLINE void add_pair_gradients(const uint8_t* visible, int64_t panels, int64_t hidden, const float* keys, const float* slopes,
                                      int64_t ld, float* grad_rows, float* grad_keys, Term term) {
    for (int64_t c = 0; c < hidden; ++c) {
        Float row_sums[kRows];
        for (int i = 0; i < kRows; ++i) row_sums[i] = Float{};
        for (int64_t p = 0; p < panels; ++p) {
            if (!visible[p]) continue;
            const int64_t column = (p * hidden + c) * kPanel;
            for (int half = 0; half < 2; ++half) {
                const Float key = load(keys + column + half * kLanes);
                Float key_sum = load(grad_keys + column + half * kLanes);
                const float* s = slopes + p * kPanel + half * kLanes;
                REGARD_UNROLL(16)
                for (int i = 0; i < kRows; ++i) term(c, i, key, load(s + i * ld), row_sums[i], key_sum);
                store(grad_keys + column + half * kLanes, key_sum);
            }
        }
        add_lane_sums(row_sums, grad_rows + c * kRows);
        term.finish(c);
    }
}

}  // namespace
}  // namespace regard::REGARD_ISA
