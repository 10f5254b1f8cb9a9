// out = decay·out + weights·V of one group of rows over one block of keys: the last step of every forward kernel.
//
// weights: [kRows][kScoreRow], 0 where a key is hidden; out: [kRows][value.width]; `begin`: the block's first key, a multiple of kPanel.
#pragma once
#include "half.h"
#include "spans.h"

namespace regard::REGARD_ISA {
namespace {

// Columns vectors of the output, over the keys that any row sees. Every visible value must be finite wherever some row does not see it
// (`hides_dirty`), because hidden weights are multiplied as zeros.
template <bool Half, int Columns, class Packed>
REGARD_APART void add_columns(const Packed& value, const Seen& seen, int64_t begin, int64_t pair, int64_t column, const float* weights,
                              const float* decay, float* out) {
    using In = Operand<Half>;
    const int64_t width = value.width;
    const float* v = value.at(pair) + column;
    Float acc[kRows][Columns];
    clear(acc);
    for (int s = 0; s < seen.count; ++s) {
        const int64_t from = seen.segment[s].begin / In::kPair;  // a neighbour in a pair weighs 0
        const int64_t to = ceil_div(seen.segment[s].end, In::kPair);
        In::product(acc, weights + (from - begin / In::kPair), kScoreRow, 1, v + from * width, width, to - from);
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

template <bool Half, class Packed>
void add_values(const Packed& value, const Seen& seen, int64_t begin, int64_t pair, const float* weights, const float* decay, float* out) {
    int64_t column = 0;
    for (; column + 2 * kLanes <= value.width; column += 2 * kLanes)
        add_columns<Half, 2>(value, seen, begin, pair, column, weights, decay, out);
    if (column < value.width) add_columns<Half, 1>(value, seen, begin, pair, column, weights, decay, out);
}

// Whether a value that is not finite is hidden from some row of the group: 0 · NaN would reach the sum.
template <class Packed>
bool hides_dirty(const Packed& value, const Seen& seen, int64_t begin, int64_t pair) {
    const uint8_t* dirty = value.dirty(pair) + begin / kPanel;
    for (int64_t p = 0; p < kPanels; ++p)
        if (seen.panel[p] == kSome && dirty[p]) return true;
    return false;
}

// Element i of a row of 32-bit units.
template <bool Half>
REGARD_INLINE float unit(const float* units, int64_t i) {
    if constexpr (Half) return widen(((const uint16_t*)units)[i]);
    return units[i];
}

// As add_values, row by row, reading no value that the row does not see.
template <bool Half, class Packed>
void add_visible_values(const Packed& value, const Seen& seen, int64_t begin, int64_t pair, const float* weights, const float* decay,
                        float* out) {
    constexpr int64_t kPair = Operand<Half>::kPair;
    const int64_t width = value.width;
    const float* v = value.at(pair);
    for (int i = 0; i < kRows; ++i) {
        for (int64_t c = 0; c < width; ++c) out[i * width + c] *= decay[i];
        for (int s = 0; s < seen.count; ++s)
            for (int64_t j = seen.segment[s].begin; j < seen.segment[s].end; ++j)
                for (int64_t c = 0; seen.sees(i, j - begin) && c < width; ++c)
                    out[i * width + c] +=
                        unit<Half>(weights + i * kScoreRow, j - begin) * unit<Half>(v + (j / kPair * width + c), j % kPair);
    }
}

}  // namespace
}  // namespace regard::REGARD_ISA
