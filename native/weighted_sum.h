// out = decay·out + weights·V of one group of rows over one block of keys: the last step of every forward kernel.
//
// weights: [kRows][kScoreRow], 0 where a key is hidden; out: [kRows][value.width]; `begin`: the block's first key, a multiple of kPanel.
#pragma once
#include "bfloat16.h"
#include "visibility.h"

namespace regard::REGARD_ISA {
namespace {

// Columns vectors of the output, over the keys visible to any row. Precondition: values hidden from some of the rows are finite (see
// `hides_non_finite`), because their weights of 0 are multiplied with them.
template <bool Bf16, int Columns, class Packed>
REGARD_APART void add_columns(const Packed& value, const BlockVisibility& visible, int64_t begin, int64_t pair, int64_t column,
                              const float* weights, const float* decay, float* out) {
    using Operands = Operand<Bf16>;
    const int64_t width = value.width;
    const float* v = value.at(pair) + column;
    Float acc[kRows][Columns];
    clear(acc);
    for (int s = 0; s < visible.count; ++s) {
        const int64_t from = visible.segment[s].begin / Operands::kPair;  // a neighbour in a pair weighs 0
        const int64_t to = ceil_div(visible.segment[s].end, Operands::kPair);
        Operands::product(acc, weights + (from - begin / Operands::kPair), kScoreRow, 1, v + from * width, width, to - from);
    }
    REGARD_UNROLL(16)
    for (int i = 0; i < kRows; ++i) {
        REGARD_UNROLL(2)
        for (int c = 0; c < Columns; ++c) {
            float* o = out + i * width + column + c * kLanes;
            store(o, load(o) * decay[i] + acc[i][c]);
        }
    }
}

template <bool Bf16, class Packed>
void add_values(const Packed& value, const BlockVisibility& visible, int64_t begin, int64_t pair, const float* weights, const float* decay,
                float* out) {
    int64_t column = 0;
    for (; column + 2 * kLanes <= value.width; column += 2 * kLanes)
        add_columns<Bf16, 2>(value, visible, begin, pair, column, weights, decay, out);
    if (column < value.width) add_columns<Bf16, 1>(value, visible, begin, pair, column, weights, decay, out);
}

// Whether a value that is not finite is hidden from some row of the group: 0 · NaN would reach the sum.
template <class Packed>
bool hides_non_finite(const Packed& value, const BlockVisibility& visible, int64_t begin, int64_t pair) {
    const uint8_t* non_finite = value.non_finite(pair) + begin / kPanel;
    for (int64_t p = 0; p < kPanels; ++p)
        if (visible.panel[p] == kSome && non_finite[p]) return true;
    return false;
}

// Element i of a row of 32-bit units.
template <bool Bf16>
REGARD_INLINE float unit(const float* units, int64_t i) {
    if constexpr (Bf16) return from_bfloat16(((const uint16_t*)units)[i]);
    return units[i];
}

// As add_values, row by row, reading only values visible to the row.
template <bool Bf16, class Packed>
void add_visible_values(const Packed& value, const BlockVisibility& visible, int64_t begin, int64_t pair, const float* weights,
                        const float* decay, float* out) {
    constexpr int64_t kPair = Operand<Bf16>::kPair;
    const int64_t width = value.width;
    const float* v = value.at(pair);
    for (int i = 0; i < kRows; ++i) {
        for (int64_t c = 0; c < width; ++c) out[i * width + c] *= decay[i];
        for (int s = 0; s < visible.count; ++s)
            for (int64_t j = visible.segment[s].begin; j < visible.segment[s].end; ++j)
                for (int64_t c = 0; visible.is_visible(i, j - begin) && c < width; ++c)
                    out[i * width + c] +=
                        unit<Bf16>(weights + i * kScoreRow, j - begin) * unit<Bf16>(v + (j / kPair * width + c), j % kPair);
    }
}

}  // namespace
}  // namespace regard::REGARD_ISA
