// Peak throughput of this machine with the kernels' own building blocks: the upper bounds that benchmarks compare with.
#include "additive.h"
#include "threads.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int64_t kDepth = 64;      // of the measured product: a panel in the first-level cache
constexpr int64_t kNumbers = 2048;  // of the measured functions: the same

float product(const float* a, const float* b, int64_t repeats) {
    Float sum{};
    for (int64_t r = 0; r < repeats; ++r) {
        Float acc[kRows][2];
        clear(acc);
        __asm__ volatile("" ::: "memory");  // every repeat is done
        multiply(acc, a, 1, kRows, b, kPanel, kDepth);
        for (int i = 0; i < kRows; ++i) sum += acc[i][0] + acc[i][1];
    }
    return horizontal_sum(sum);
}

template <class Function>
float apply(const float* x, int64_t repeats, Function function) {
    Float sum[4] = {};
    for (int64_t r = 0; r < repeats; ++r) {
        __asm__ volatile("" ::: "memory");
        for (int64_t j = 0; j < kNumbers; j += 4 * kLanes) {
            REGARD_UNROLL(4)
            for (int u = 0; u < 4; ++u) sum[u] += function(load(x + j + u * kLanes));
        }
    }
    return horizontal_sum(sum[0] + sum[1] + sum[2] + sum[3]);
}

}  // namespace

// Preconditions: 1 ≤ shares, 0 ≤ repeats; for kRead, `data` holds `floats` numbers.
void limits(const Limits& a, ThreadTeam& team) {
    const double per_repeat = a.what == Limits::kProduct ? 2.0 * kRows * kPanel * kDepth : kNumbers;
    *a.amount =
        a.what == Limits::kRead ? 4.0 * (a.floats / a.shares / (8 * kLanes) * (8 * kLanes)) * a.shares : per_repeat * a.repeats * a.shares;
    team.run(
        a.shares,
        [](void* opaque, int64_t task, int) {
            const Limits& a = *(const Limits*)opaque;
            Scratch scratch(4 * (kNumbers + kDepth * (kRows + kPanel)));
            float* x = scratch.floats();
            for (int64_t i = 0; i < kNumbers + kDepth * (kRows + kPanel); ++i) x[i] = (float)(i % 97) / 97 - 0.5f;
            float checksum = 0;
            if (a.what == Limits::kProduct) checksum = product(x, x + kDepth * kRows, a.repeats);
            if (a.what == Limits::kExp) checksum = apply(x, a.repeats, [](Float v) { return exp2(v); });
            if (a.what == Limits::kTanh) checksum = apply(x, a.repeats, [](Float v) { return 1.0f - 2.0f * tanh_complement(v); });
            if (a.what == Limits::kRead) {
                const int64_t share = a.floats / a.shares / (8 * kLanes) * (8 * kLanes);
                const float* from = a.data + task * share;
                Float sum[8] = {};
                for (int64_t j = 0; j < share; j += 8 * kLanes) {
                    REGARD_UNROLL(8)
                    for (int u = 0; u < 8; ++u) sum[u] += load(from + j + u * kLanes);
                }
                for (int u = 0; u < 8; ++u) checksum += horizontal_sum(sum[u]);
            }
            a.checksum[task] = checksum;
        },
        (void*)&a);
}

}  // namespace regard::REGARD_ISA
