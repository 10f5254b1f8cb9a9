// The register tile every matrix product is made of, and the two layouts it reads.
//
//   rows:   [row][padded columns]              padded to a whole number of vectors
//   panels: [panel of kPanel rows][column][kPanel]   the transpose, a panel at a time
#pragma once
#include <cstdlib>

#include "kernels.h"
#include "vector.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int64_t kPanel = 2 * kLanes;

REGARD_INLINE int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
REGARD_INLINE int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }
REGARD_INLINE int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
REGARD_INLINE int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
REGARD_INLINE int64_t padded(int64_t columns) { return round_up(columns, kLanes); }

// Memory for one call, freed with it. Cache-line aligned.
struct Scratch {
    char* data;
    explicit Scratch(int64_t bytes) : data((char*)std::aligned_alloc(64, (size_t)round_up(max(bytes, 64), 64))) {
        if (!data) std::abort();
    }
    ~Scratch() { std::free(data); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    float* floats() const { return (float*)data; }
};

// acc[i][c] += Σ_k a[i·row + k·step] · b[k·ldb + c·kLanes ...]
template <int Rows, int Columns>
REGARD_INLINE void multiply(Float (&acc)[Rows][Columns], const float* a, int64_t row, int64_t step, const float* b, int64_t ldb,
                            int64_t depth) {
    for (int64_t k = 0; k < depth; ++k) {
        Float right[Columns];
#pragma GCC unroll 4
        for (int c = 0; c < Columns; ++c) right[c] = load(b + c * kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < Rows; ++i) {
            const Float left = splat(a[i * row]);
#pragma GCC unroll 4
            for (int c = 0; c < Columns; ++c) acc[i][c] += left * right[c];
        }
        a += step;
        b += ldb;
    }
}

template <int Rows, int Columns>
REGARD_INLINE void clear(Float (&acc)[Rows][Columns]) {
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
        for (int c = 0; c < Columns; ++c) acc[i][c] = Float{};
}

REGARD_INLINE float widen(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}

// To the nearest bfloat16, ties to even; NaN stays NaN.
REGARD_INLINE uint16_t narrow(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)((bits >> 16) | 0x40);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// A strided matrix of either type, read as float32.
struct Matrix {
    const void* data;
    int64_t row, column;
    Type type;

    Matrix(const View& view, Type type_, int64_t batch, int64_t head)
        : data((const char*)view.data + (batch * view.batch + head * view.head) * (type_ == Type::float32 ? 4 : 2)),
          row(view.row), column(view.column), type(type_) {}

    REGARD_INLINE_MEMBER float at(int64_t i, int64_t j) const {
        const int64_t offset = i * row + j * column;
        return type == Type::float32 ? ((const float*)data)[offset] : widen(((const uint16_t*)data)[offset]);
    }

    // One row, times `factor`, into `to`; zeros up to `width`.
    void copy_row(int64_t i, int64_t columns, int64_t width, float factor, float* to) const {
        if (type == Type::float32 && column == 1) {
            const float* from = (const float*)data + i * row;
            for (int64_t j = 0; j < columns; ++j) to[j] = from[j] * factor;
        } else if (type == Type::float32) {
            const float* from = (const float*)data + i * row;
            for (int64_t j = 0; j < columns; ++j) to[j] = from[j * column] * factor;
        } else {
            const uint16_t* from = (const uint16_t*)data + i * row;
            for (int64_t j = 0; j < columns; ++j) to[j] = widen(from[j * column]) * factor;
        }
        for (int64_t j = columns; j < width; ++j) to[j] = 0;
    }
};

// Zero exactly when every one of the n numbers is finite.
static inline bool finite(const float* x, int64_t n) {
    Float sum{};
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) sum += load(x + j) * 0.0f;
    float rest = horizontal_sum(sum);
    for (; j < n; ++j) rest += x[j] * 0.0f;
    return rest == 0.0f;
}

// Rows [first, first + count) of `from` in the `rows` layout, padding rows zeroed up to `total`. True if all are finite.
static bool pack_rows(const Matrix& from, int64_t first, int64_t count, int64_t total, int64_t columns, float factor, float* to) {
    const int64_t width = padded(columns);
    for (int64_t i = 0; i < count; ++i) from.copy_row(first + i, columns, width, factor, to + i * width);
    for (int64_t i = count * width; i < total * width; ++i) to[i] = 0;
    return finite(to, count * width);
}

// kLanes×kLanes transpose in registers: kLanes rows at `from` (stride ld) become columns at `to` (stride kPanel).
static inline void transpose_square(const float* from, int64_t ld, float* to) {
    Float v[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) v[i] = load(from + i * ld);
    // log2(kLanes) butterfly steps; at each, elements whose row and column bits differ change places.
#pragma GCC unroll 4
    for (int bit = 1; bit < kLanes; bit *= 2) {
        Int low, high;
        for (int i = 0; i < kLanes; ++i) {
            low[i] = i & bit ? kLanes + (i ^ bit) : i;
            high[i] = i & bit ? kLanes + i : i ^ bit;
        }
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) {
            if (i & bit) continue;
            const Float a = v[i], b = v[i | bit];
            v[i] = __builtin_shuffle(a, b, low);
            v[i | bit] = __builtin_shuffle(a, b, high);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) store(to + i * kPanel, v[i]);
}

// One panel: rows [first, first + count) (count ≤ kPanel, the rest zero) of `from`, transposed. `buffer` holds
// kPanel·padded(columns) floats. True if all are finite.
static bool pack_panel(const Matrix& from, int64_t first, int64_t count, int64_t columns, float* to, float* buffer) {
    const int64_t width = padded(columns);
    const float* source = (const float*)from.data + first * from.row;
    int64_t ld = from.row;
    bool clean = true;
    const bool direct = from.type == Type::float32 && from.column == 1 && count == kPanel && columns == width;
    if (!direct) {
        clean = pack_rows(from, first, count, kPanel, columns, 1.0f, buffer);
        source = buffer;
        ld = width;
    } else {
        for (int64_t i = 0; i < kPanel; ++i) clean &= finite(source + i * ld, columns);
    }
    float square[kLanes * kPanel];
    for (int64_t r = 0; r < kPanel; r += kLanes)
        for (int64_t k = 0; k < columns; k += kLanes) {
            if (k + kLanes <= columns) {
                transpose_square(source + r * ld + k, ld, to + k * kPanel + r);
            } else {  // the last, narrow one: keep its padding out of the next panel
                transpose_square(source + r * ld + k, ld, square);
                for (int64_t c = k; c < columns; ++c) std::memcpy(to + c * kPanel + r, square + (c - k) * kPanel, sizeof(Float));
            }
        }
    return clean;
}

}  // namespace
}  // namespace regard::REGARD_ISA
