#pragma once
#include "additive.h"

namespace regard::REGARD_ISA {
namespace {

// Up to this many queries per head are computed one at a time, key by key: precomputed exponentials would be reused too rarely.
constexpr int64_t kSingleQueries = kLanes > 8 ? 4 : 2;

// A row of a strided tensor as padded float32: in place where it already is, else copied.
REGARD_INLINE const float* float_row(const Matrix& m, int64_t i, int64_t columns, float* copy) {
    if (m.column == 1 && columns % kLanes == 0) return (const float*)m.data + i * m.row;
    m.copy_row(i, columns, padded(columns), copy);
    return copy;
}

}  // namespace
}  // namespace regard::REGARD_ISA
