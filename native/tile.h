// The register tile every matrix product is made of, and the two layouts it reads.
//
//   rows:   [row][padded columns]              padded to a whole number of vectors
//   panels: [panel of kPanel rows][column][kPanel]   the transpose, a panel at a time
#pragma once
#include "kernels.h"
#include "memory.h"
#include "threads.h"
#include "vector.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int64_t kPanel = 2 * kLanes;

REGARD_INLINE int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
REGARD_INLINE int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }
REGARD_INLINE int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
REGARD_INLINE int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
REGARD_INLINE int64_t padded(int64_t columns) { return round_up(columns, kLanes); }

// Memory for one call. Cache-line aligned.
struct Scratch {
    const Allocation allocation;
    char* const data;
    explicit Scratch(int64_t bytes) : allocation(allocate_scratch((size_t)bytes)), data((char*)allocation.data) {}
    ~Scratch() { release_scratch(allocation); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    float* floats() const { return (float*)data; }
};

// How one product of the register tile is made: of float32 here, of pairs of bfloat16 in bfloat16.h.
struct FloatProduct {
    REGARD_INLINE Float broadcast(const float* a) { return splat(*a); }
    REGARD_INLINE Float add(Float sum, Float left, Float right) { return sum + left * right; }
};

// acc[i][c] += Σ_k a[i·row + k·step] · b[k·ldb + c·kLanes ...]
template <class Product = FloatProduct, int Rows, int Columns>
REGARD_INLINE void multiply(Float (&acc)[Rows][Columns], const float* a, int64_t row, int64_t step, const float* b, int64_t ldb,
                            int64_t depth) {
    for (int64_t k = 0; k < depth; ++k) {
        Float right[Columns];
        REGARD_UNROLL(4)
        for (int c = 0; c < Columns; ++c) right[c] = load(b + c * kLanes);
        REGARD_UNROLL(16)
        for (int i = 0; i < Rows; ++i) {
            const Float left = Product::broadcast(a + i * row);
            REGARD_UNROLL(4)
            for (int c = 0; c < Columns; ++c) acc[i][c] = Product::add(acc[i][c], left, right[c]);
        }
        a += step;
        b += ldb;
    }
}

template <int Rows, int Columns>
REGARD_INLINE void clear(Float (&acc)[Rows][Columns]) {
    REGARD_UNROLL(16)
    for (int i = 0; i < Rows; ++i) {
        REGARD_UNROLL(4)
        for (int c = 0; c < Columns; ++c) acc[i][c] = Float{};
    }
}

}  // namespace
}  // namespace regard::REGARD_ISA
