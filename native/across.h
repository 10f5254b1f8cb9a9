// Sums across the lanes of several vectors at once.
#pragma once
#include "vector.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int kSums = kRows > 4 && kLanes > 4 ? 8 : 4;

// to[i] += the sum of v[i]'s lanes, for kRows vectors; kSums of them are reduced at once.
REGARD_INLINE void add_across(const Float (&v)[kRows], float* to) {
#pragma GCC unroll 2
    for (int from = 0; from < kRows; from += kSums) {
        Float part[kSums];
#pragma GCC unroll 8
        for (int i = 0; i < kSums; ++i) part[i] = from + i < kRows ? v[from + i < kRows ? from + i : 0] : Float{};
#pragma GCC unroll 3
        for (int bit = 1; bit < kSums; bit *= 2) {
            Int own, other;  // lanes with the bit set belong to the second vector
            for (int i = 0; i < kLanes; ++i) {
                own[i] = i & bit ? kLanes + i : i;
                other[i] = i & bit ? kLanes + (i ^ bit) : i ^ bit;
            }
#pragma GCC unroll 8
            for (int i = 0; i + bit < kSums; i += 2 * bit)
                part[i] = __builtin_shuffle(part[i], part[i + bit], own) + __builtin_shuffle(part[i], part[i + bit], other);
        }
        float sums[kLanes];
        store(sums, part[0]);
        for (int i = 0; i < kSums && from + i < kRows; ++i) {
            float sum = sums[i];
            for (int lane = i + kSums; lane < kLanes; lane += kSums) sum += sums[lane];
            to[from + i] += sum;
        }
    }
}

}  // namespace
}  // namespace regard::REGARD_ISA
