// bfloat16 in pairs for VDPBF16PS: each 32-bit unit holds two neighbours along the summed axis, so the layouts and the
// register tile are those of float32 with half the depth. Sums stay float32.
#pragma once
#include "pack.h"

#if defined(__AVX512BF16__)
namespace regard::REGARD_ISA {
namespace {

template <int Rows, int Columns>
REGARD_INLINE void multiply_pairs(Float (&acc)[Rows][Columns], const float* a, int64_t row, int64_t step, const float* b, int64_t ldb,
                                  int64_t depth) {
    for (int64_t k = 0; k < depth; ++k) {
        Float right[Columns];
#pragma GCC unroll 4
        for (int c = 0; c < Columns; ++c) right[c] = load(b + c * kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < Rows; ++i) {
            const __m512bh left = (__m512bh)_mm512_set1_epi32(((const int32_t*)a)[i * row]);
#pragma GCC unroll 4
            for (int c = 0; c < Columns; ++c) acc[i][c] = (Float)_mm512_dpbf16_ps((__m512)acc[i][c], left, (__m512bh)right[c]);
        }
        a += step;
        b += ldb;
    }
}

// 32 weights to bfloat16, in order.
REGARD_INLINE void store_pairs(float* to, Float low, Float high) {
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low));
}

REGARD_INLINE bool finite_half(const uint16_t* x, int64_t n) {
    bool good = true;
    for (int64_t i = 0; i < n; ++i) good &= (x[i] & 0x7f80) != 0x7f80;
    return good;
}

// As Pack. panels: [panel][pair of columns][kPanel]; rows: [pair of rows][padded columns], for values.
struct HalfPack {
    View view;
    Layout layout;
    int64_t heads, pairs, rows, columns, width, panels, room;
    Scratch data, marks;

    HalfPack(const View& view_, Type, Layout layout_, int64_t batch, int64_t heads_, int64_t rows_, int64_t columns_)
        : view(view_), layout(layout_), heads(heads_), pairs(batch * heads_), rows(rows_), columns(columns_), width(padded(columns_)),
          panels(ceil_div(rows_, kPanel)), room(panels * kPanel * (layout == Layout::panels ? ceil_div(columns, 2) : width / 2)),
          data(4 * pairs * room), marks(pairs * panels) {}

    const float* at(int64_t pair) const { return data.floats() + pair * room; }
    const float* panel(int64_t pair, int64_t p) const { return at(pair) + p * kPanel * ceil_div(columns, 2); }
    const uint8_t* dirty(int64_t pair) const { return (const uint8_t*)marks.data + pair * panels; }

    static constexpr int64_t kChunk = 16;
    int64_t tasks() const { return pairs * ceil_div(panels, kChunk); }
    int64_t units() const { return padded(ceil_div(columns, 2)); }  // 32-bit units in a copied row
    int64_t buffer() const { return kPanel * max(units(), width / 2); }

    // Rows [first, first + count) as 16-bit numbers with stride `stride`, zeros beyond.
    void copy(int64_t pair, int64_t first, int64_t count, int64_t stride, uint16_t* to) const {
        const uint16_t* from = (const uint16_t*)view.data + pair / heads * view.batch + pair % heads * view.head + first * view.row;
        for (int64_t i = 0; i < kPanel; ++i, to += stride, from += view.row) {
            const int64_t n = i < count ? columns : 0;
            if (view.column == 1) {
                std::memcpy(to, from, i < count ? 2 * n : 0);
            } else {
                for (int64_t j = 0; j < n; ++j) to[j] = from[j * view.column];
            }
            std::memset(to + n, 0, 2 * (stride - n));
        }
    }

    void task(int64_t index, float* spare) {
        const int64_t chunks = ceil_div(panels, kChunk), pair = index / chunks, first = index % chunks * kChunk;
        uint16_t* rows16 = (uint16_t*)spare;
        for (int64_t p = first; p < min(first + kChunk, panels); ++p) {
            const int64_t count = min(kPanel, rows - p * kPanel);
            const int64_t stride = layout == Layout::panels ? 2 * units() : width;
            copy(pair, p * kPanel, count, stride, rows16);
            ((uint8_t*)marks.data)[pair * panels + p] = !finite_half(rows16, count * stride);
            if (layout == Layout::panels) {
                transpose_panel(spare, units(), ceil_div(columns, 2), (float*)panel(pair, p));
            } else {
                uint16_t* to = (uint16_t*)(at(pair) + p * kPanel / 2 * width);
                for (int64_t i = 0; i < kPanel; i += 2, to += 2 * width)
                    for (int64_t j = 0; j < width; ++j) {
                        to[2 * j] = rows16[i * width + j];
                        to[2 * j + 1] = rows16[(i + 1) * width + j];
                    }
            }
        }
    }
};

}  // namespace
}  // namespace regard::REGARD_ISA
#endif
