// Sums across the lanes of several vectors at once.
#pragma once
#include "vector.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int kSums = kRows > 4 && kLanes > 4 ? 8 : 4;

// Neighbours added pairwise until one vector holds them all: lane i, and every kSums-th after it, belongs to part i.
template <int Bit = 1>
REGARD_INLINE void fold_pairs(Float (&part)[kSums]) {
    REGARD_UNROLL(8)
    for (int i = 0; i + Bit < kSums; i += 2 * Bit)
        part[i] = shuffle<Low<Bit>>(part[i], part[i + Bit]) + shuffle<High<Bit>>(part[i], part[i + Bit]);
    if constexpr (2 * Bit < kSums) fold_pairs<2 * Bit>(part);
}

// to[i] += the sum of v[i]'s lanes, for kRows vectors; kSums of them are reduced at once.
REGARD_INLINE void add_lane_sums(const Float (&v)[kRows], float* to) {
    REGARD_UNROLL(2)
    for (int first = 0; first < kRows; first += kSums) {
        Float part[kSums];
        REGARD_UNROLL(8)
        for (int i = 0; i < kSums; ++i) part[i] = first + i < kRows ? v[first + i < kRows ? first + i : 0] : Float{};
        fold_pairs(part);
        float sums[kLanes];
        store(sums, part[0]);
        for (int i = 0; i < kSums && first + i < kRows; ++i) {
            float sum = sums[i];
            for (int lane = i + kSums; lane < kLanes; lane += kSums) sum += sums[lane];
            to[first + i] += sum;
        }
    }
}

}  // namespace
}  // namespace regard::REGARD_ISA
