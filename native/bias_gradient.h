// Adding dS of a group of rows to the gradient of a bias: by pair, by diagonal, by key, as the strides say.
#pragma once
#include "scores.h"

namespace regard::REGARD_ISA {
namespace {

// to[i·row + j·column] += slopes[i·kWeightRow + j] for `rows` rows and the first `keys` keys of a block, where their vector is visible.
// Row by row: along diagonals neighbouring rows add to overlapping vectors, which are then far apart in time.
[[maybe_unused]] static void add_bias_gradient(float* to, int64_t row, int64_t column, const float* slopes, const uint8_t* visible,
                                               int64_t rows, int64_t keys) {
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < keys; j += kLanes) {
            if (visible[j / kLanes] == kNone) continue;
            const float* s = slopes + i * kWeightRow + j;
            float* t = to + i * row + j * column;
            if (column == 1 && j + kLanes <= keys)
                store(t, load(t) + load(s));
            else
                for (int64_t c = 0; c < min(kLanes, keys - j); ++c) t[c * column] += s[c];
        }
}

// How many groups of key heads add to gradients of their own: heads or batches that share a bias add to the same numbers.
struct BiasOwners {
    int64_t batches, heads;  // batches · heads owners
    explicit BiasOwners(const DotBackward& a)
        : batches(a.grad_bias.data && !a.grad_bias.batch ? 1 : a.batch), heads(a.grad_bias.data && !a.grad_bias.head ? 1 : a.key_heads) {}
    int64_t count() const { return batches * heads; }

    // Calls visit(pair) for every key head of an owner, in order.
    template <class Visit>
    void pairs(const DotBackward& a, int64_t owner, Visit visit) const {
        const int64_t first_batch = batches == 1 ? 0 : owner / heads, first_head = heads == 1 ? 0 : owner % heads;
        for (int64_t b = first_batch; b < (batches == 1 ? a.batch : first_batch + 1); ++b)
            for (int64_t h = first_head; h < (heads == 1 ? a.key_heads : first_head + 1); ++h) visit(b * a.key_heads + h);
    }
};

}  // namespace
}  // namespace regard::REGARD_ISA
