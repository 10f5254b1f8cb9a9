// dK and dV of a vector of keys: products of the transposed weights, or of dS, with rows of dO, or of Q.
#pragma once
#include "scores.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int kKeyRows = kRows == 8 && kLanes >= 8 ? 8 : 4;  // of a register tile whose rows are keys; divides a vector
static_assert(kLanes % kKeyRows == 0, "a vector of keys is a whole number of register tiles");

template <int Columns>
REGARD_INLINE void add_key_tile(const float* weights, const float* right, int64_t columns, int64_t depth, float* total) {
    Float acc[kKeyRows][Columns];
    clear(acc);
    multiply(acc, weights, 1, kWeightRow, right, columns, depth);
    REGARD_UNROLL(16)
    for (int i = 0; i < kKeyRows; ++i) {
        REGARD_UNROLL(2)
        for (int c = 0; c < Columns; ++c) {
            float* t = total + i * columns + c * kLanes;
            store(t, load(t) + acc[i][c]);
        }
    }
}

// total[keys of vector v] += weightsᵀ · right: rows of the tile are keys, the sum runs over queries.
[[maybe_unused]] static void add_key_gradients(const float* weights, const float* right, int64_t columns, int64_t depth, int64_t v,
                                               float* total) {
    for (int64_t column = 0; column < columns; column += 2 * kLanes)
        for (int64_t j = v * kLanes; j < (v + 1) * kLanes; j += kKeyRows)
            if (column + 2 * kLanes <= columns) {
                add_key_tile<2>(weights + j, right + column, columns, depth, total + j * columns + column);
            } else {
                add_key_tile<1>(weights + j, right + column, columns, depth, total + j * columns + column);
            }
}

}  // namespace
}  // namespace regard::REGARD_ISA
