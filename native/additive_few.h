#pragma once
#include "additive.h"

namespace regard::REGARD_ISA {
namespace {

// Up to so many queries a head, each is taken alone, key by key: powers would not be used often enough to pay.
constexpr int64_t kAlone = kLanes > 8 ? 4 : 2;

// A row of a strided tensor as padded float32: in place where it already is, else copied.
REGARD_INLINE const float* row_of(const Matrix& m, int64_t i, int64_t columns, float* copy) {
    if (m.column == 1 && columns % kLanes == 0) return (const float*)m.data + i * m.row;
    m.copy_row(i, columns, padded(columns), copy);
    return copy;
}

}  // namespace
}  // namespace regard::REGARD_ISA
