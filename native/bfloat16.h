// bfloat16 in pairs for VDPBF16PS: each 32-bit unit holds two neighbours along the summed axis, so the layouts and the
// register tile are those of float32 with half the depth. Sums stay float32.
#pragma once
#include "pack.h"

namespace regard::REGARD_ISA {
namespace {

// How a product reads its operands: float32, or bfloat16 in pairs.
template <bool Bf16>
struct Operand {
    using Packed = Pack;
    static constexpr int64_t kPair = 1;  // elements of the summed axis in one 32-bit unit
    template <int Rows, int Columns>
    REGARD_INLINE void product(Float (&acc)[Rows][Columns], const float* a, int64_t row, int64_t step, const float* b, int64_t ldb,
                               int64_t depth) {
        multiply(acc, a, row, step, b, ldb, depth);
    }
    REGARD_INLINE void store_weights(float* to, Float weights) { store(to, weights); }
};

}  // namespace
}  // namespace regard::REGARD_ISA

#if defined(__AVX512BF16__)
namespace regard::REGARD_ISA {
namespace {

struct PairProduct {
    REGARD_INLINE Float broadcast(const float* a) { return (Float)_mm512_set1_epi32(*(const int32_t*)a); }
    REGARD_INLINE Float add(Float sum, Float left, Float right) {
        return (Float)_mm512_dpbf16_ps((__m512)sum, (__m512bh)left, (__m512bh)right);
    }
};

REGARD_INLINE bool all_finite(const uint16_t* x, int64_t n) {
    uint16_t bad = 0;
    for (int64_t i = 0; i < n; ++i) bad |= (x[i] & 0x7f80) == 0x7f80;
    return !bad;
}

// As Pack. panels: [panel][pair of columns][kPanel]; rows: [pair of rows][padded columns], for values;
// plain: [row][pair of columns], for what is broadcast.
struct Bf16Pack {
    View view;
    Layout layout;
    int64_t heads, pairs, rows, columns, width, panels, slot_floats;
    Scratch data, marks, buffers;

    Bf16Pack(const View& view_, Type, Layout layout_, int64_t batch, int64_t heads_, int64_t rows_, int64_t columns_,
             int64_t extra_rows = 0, int64_t slots = 0)
        : view(view_), layout(layout_), heads(heads_), pairs(batch * heads_), rows(rows_), columns(columns_), width(padded(columns_)),
          panels(ceil_div(rows_, kPanel)),
          slot_floats(layout == Layout::plain ? (panels * kPanel + extra_rows) * units()
                                              : panels * kPanel * (layout == Layout::panels ? ceil_div(columns, 2) : width / 2)),
          data(4 * (slots ? slots : pairs) * slot_floats), marks((slots ? slots : pairs) * panels), buffers(4 * slots * buffer()) {}

    const float* at(int64_t slot) const { return data.floats() + slot * slot_floats; }
    const float* panel(int64_t slot, int64_t p) const { return at(slot) + p * kPanel * ceil_div(columns, 2); }
    const uint8_t* non_finite(int64_t slot) const { return (const uint8_t*)marks.data + slot * panels; }

    static constexpr int64_t kChunk = 16;
    int64_t tasks() const { return pairs * ceil_div(panels, kChunk); }
    int64_t units() const { return padded(ceil_div(columns, 2)); }  // 32-bit units in a copied row
    int64_t buffer() const { return kPanel * max(units(), width / 2); }

    // Rows [first, first + count) as 16-bit numbers with stride `stride`, zeros up to row `total`.
    void copy(int64_t pair, int64_t first, int64_t count, int64_t total, int64_t stride, uint16_t* to) const {
        const Matrix from(view, Type::bfloat16, pair / heads, pair % heads);
        for (int64_t i = 0; i < count; ++i, to += stride) from.copy_bits(first + i, columns, stride, to);
        std::memset(to, 0, 2 * (total - count) * stride);
    }

    void task(int64_t index, float* buffer) {
        const int64_t chunks = ceil_div(panels, kChunk), pair = index / chunks, first = index % chunks * kChunk;
        fill(pair, pair, first, min(first + kChunk, panels), buffer);
    }
    void fill(int64_t pair, int64_t slot) { fill(pair, slot, 0, panels, buffers.floats() + slot * buffer()); }

    void fill(int64_t pair, int64_t slot, int64_t first, int64_t last, float* buffer) {
        for (int64_t p = first; p < last; ++p) {
            const int64_t count = min(kPanel, rows - p * kPanel);
            const int64_t stride = layout == Layout::rows ? width : 2 * units();
            uint16_t* rows16 = (uint16_t*)(layout == Layout::plain ? (float*)at(slot) + p * kPanel * units() : buffer);
            const int64_t total = layout == Layout::plain && p + 1 == panels ? slot_floats / units() - p * kPanel
                                  : layout == Layout::panels                 ? round_up(count, kLanes)
                                                                             : kPanel;
            copy(pair, p * kPanel, count, total, stride, rows16);
            ((uint8_t*)marks.data)[slot * panels + p] = !all_finite(rows16, count * stride);
            if (layout == Layout::panels) {
                transpose_panel(buffer, units(), count, ceil_div(columns, 2), (float*)panel(slot, p));
            } else if (layout == Layout::rows) {
                uint32_t* to = (uint32_t*)(at(slot) + p * kPanel / 2 * width);
                for (int64_t i = 0; i < kPanel; i += 2, to += width)
                    for (int64_t j = 0; j < width; ++j) to[j] = rows16[i * width + j] | (uint32_t)rows16[(i + 1) * width + j] << 16;
            }
        }
    }
};

template <>
struct Operand<true> {
    using Packed = Bf16Pack;
    static constexpr int64_t kPair = 2;
    template <int Rows, int Columns>
    REGARD_INLINE void product(Float (&acc)[Rows][Columns], const float* a, int64_t row, int64_t step, const float* b, int64_t ldb,
                               int64_t depth) {
        multiply<PairProduct>(acc, a, row, step, b, ldb, depth);
    }
    REGARD_INLINE void store_weights(float* to, Float weights) {
        _mm256_storeu_si256((__m256i*)to, (__m256i)_mm512_cvtneps_pbh((__m512)weights));
    }
};

}  // namespace
}  // namespace regard::REGARD_ISA
#endif
