// From a raw product q·k to a score in base 2 (times log2 e, so that the softmax is 2^(s − m)).
#pragma once
#include <cmath>

#include "pack.h"
#include "visibility.h"

namespace regard::REGARD_ISA {
namespace {

// A backward kernel's task owns every n-th block of kKeyBlock keys of one key head, n = key_shares(a): by shape alone, so that the number
// of threads changes nothing. Key heads that add to the same gradient of a bias are done by one task; `owners` is what remains.
constexpr int64_t kKeyBlock = 256;
constexpr int64_t kWeightRow = kKeyBlock + kLanes;  // a row of P or dS, off the power of two that would collide in the cache
REGARD_INLINE int64_t key_shares(const Scores& a, int64_t owners) {
    constexpr int64_t kLeastTasks = 16;
    return max(1, min(ceil_div(kLeastTasks, owners), ceil_div(a.keys, kKeyBlock)));
}
REGARD_INLINE int64_t key_shares(const Scores& a) { return key_shares(a, a.batch * a.key_heads); }

// Of one head. Scores are stored in units of 1/factor in base 2.
struct ScoreTransform {
    bool plain;  // a score without its bias is raw·factor: one multiply, folded into the exponential's subtraction
    float factor;
    float scale, cap, inverse_cap, beta, to_base2;

    ScoreTransform(const Scores& a, int64_t head) {
        scale = a.scale;
        cap = a.cap;
        inverse_cap = a.cap != 0 ? 1 / a.cap : 0;
        beta = a.betas ? a.betas[head] : a.beta;
        to_base2 = beta * kLog2e;
        const float whole = a.scale * beta * kLog2e;
        plain = !a.key_bias.data && a.cap == 0 && whole > 0;  // a negative factor would turn the running maximum round
        factor = plain ? whole : 1.0f;
    }

    // Returns the factor of a plain score and sets it to 1: the caller multiplies the queries by it instead.
    float take_factor() {
        const float taken = factor;
        factor = 1;
        return taken;
    }

    // A bias times this is in the units of a stored score.
    float bias_unit() const { return to_base2 / factor; }

    // `bias`: of these keys, or null.
    REGARD_INLINE_MEMBER Float apply(Float raw, const float* bias) const {
        Float u = raw * scale;
        if (bias) u += load(bias);
        if (cap != 0) u = cap * tanh(u * inverse_cap);
        return u * to_base2;
    }

    // The same, and d(cap·tanh(u/cap))/du.
    REGARD_INLINE_MEMBER Float apply(Float raw, const float* bias, Float& slope) const {
        Float u = raw * scale;
        if (bias) u += load(bias);
        slope = splat(1.0f);
        if (cap != 0) {
            const Float t = tanh(u * inverse_cap);
            slope -= t * t;
            u = cap * t;
        }
        return u * to_base2;
    }
};

// MurmurHash3's finaliser, of a number or of a vector of them.
template <class T>
REGARD_INLINE T mix(T x) {
    x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
    x = (x ^ (x >> 13)) * 0xC2B2AE35u;
    return x ^ (x >> 16);
}

// Which weights dropout keeps: a hash of (seed, batch, head, row, column), as kernels/dropout.py has it.
struct Dropout {
    uint32_t below, head;

    Dropout(const Scores& a, int64_t row_of_heads) : below(a.drop_below), head(mix(mix(a.seed) ^ (uint32_t)row_of_heads)) {}
    explicit operator bool() const { return below != 0; }
    uint32_t row(int64_t i) const { return mix(head ^ (uint32_t)i); }
    bool keeps_one(int64_t i, int64_t j) const { return mix(row(i) ^ (uint32_t)j) >= below; }
    // Lane mask of columns [column, column + kLanes) of a row with this hash.
    REGARD_INLINE_MEMBER Int keeps(uint32_t row, int64_t column) const {
        return (Int)(mix((UInt)(lane_numbers() + (int32_t)column) ^ row) >= below);
    }
};

// The bias of one head, read where it lies.
struct BiasRows {
    Matrix matrix;
    int64_t rows, keys;
    float unit;

    BiasRows(const Scores& a, const ScoreTransform& transform, int64_t batch, int64_t head)
        : matrix(a.bias, a.bias_type, batch, head), rows(a.queries), keys(a.keys), unit(transform.bias_unit()) {
        if (!a.bias.data) matrix.data = nullptr;
    }
    explicit operator bool() const { return matrix.data; }

    // Of query i, or the last if there is no i, and keys [j, j + kLanes), in the units of a stored score; 0 beyond the last key.
    REGARD_INLINE_MEMBER Float at(int64_t i, int64_t j) const {
        i = min(i, rows - 1);
        if (matrix.column == 1 && matrix.type == Type::float32 && j + kLanes <= keys)
            return load((const float*)matrix.data + i * matrix.row + j) * unit;
        return apart(i, j);
    }

  private:
    REGARD_APART Float apart(int64_t i, int64_t j) const {
        Float x{};
        if (matrix.column == 1 && j + kLanes <= keys)
            x = load_half(matrix.type, (const uint16_t*)matrix.data + i * matrix.row + j);
        else
            for (int64_t c = 0; c < min(kLanes, keys - j); ++c) x[c] = matrix.at(i, j + c);
        return x * unit;
    }
};

// The key bias (B, h, S) in rows padded to whole panels; null where there is none.
struct KeyBias {
    int64_t keys;
    bool present;
    Scratch data;

    explicit KeyBias(const Scores& a)
        : keys(round_up(a.keys, kPanel)), present(a.key_bias.data), data(present ? 4 * a.batch * a.heads * keys : 0) {
        for (int64_t row = 0; present && row < a.batch * a.heads; ++row)
            Matrix(a.key_bias, Type::float32, row / a.heads, row % a.heads).copy_row(0, a.keys, keys, data.floats() + row * keys);
    }
    const float* row(int64_t head) const { return present ? data.floats() + head * keys : nullptr; }
};

// The end of a row: its sink is added to the sum, then output and log-sum-exp. `top` is in stored units, `total` = Σ 2^(s − top).
[[maybe_unused]] static void finish_row(const DotForward& a, const ScoreTransform& transform, int64_t batch, int64_t head, int64_t row,
                                        float top, double total, const float* out) {
    double top2 = top == -INFINITY ? -INFINITY : (double)top * transform.factor;  // base 2
    double share = 1;                                                             // of the sum so far once the sink has joined
    if (a.sinks) {
        const double sink = (double)a.sinks[head] * kLog2eDouble;
        const double higher = sink > top2 ? sink : top2;
        if (higher != -INFINITY) {
            share = ::exp2(top2 - higher);
            total = total * share + ::exp2(sink - higher);
            top2 = higher;
        }
    }
    const bool empty = top2 == -INFINITY && total == 0;
    store_row(a.out, a.type, batch, head, row, a.value_width, empty ? 0.0f : (float)(share / (total * a.kept)), out);
    if (a.lse) a.lse[(batch * a.heads + head) * a.queries + row] = empty ? -INFINITY : (float)(top2 * kLn2 + ::log(total));
}

// The end of a row whose keys were split into `count` parts, `stride` floats apart, each [maximum, sum, (padding to kLanes), output]: they
// are joined in order, in the first one's output.
[[maybe_unused]] static void finish_parts(const DotForward& a, const ScoreTransform& transform, int64_t batch, int64_t head, int64_t row,
                                          float* parts, int64_t count, int64_t stride) {
    const int64_t width = padded(a.value_width);
    float top = -INFINITY;
    for (int64_t p = 0; p < count; ++p) {
        const float t = parts[p * stride];
        top = t > top || t != t ? t : top;
    }
    double total = 0;
    float* out = parts + kLanes;
    for (int64_t p = 0; p < count; ++p) {
        const float* part = parts + p * stride;
        const float factor = part[0] == -INFINITY ? 0.0f : ::exp2f((part[0] - top) * transform.factor);
        total += (double)part[1] * factor;
        for (int64_t c = 0; c < width; c += kLanes) {
            const Float x = load(part + kLanes + c) * factor;
            store(out + c, p ? load(out + c) + x : x);
        }
    }
    finish_row(a, transform, batch, head, row, top, total, out);
}

}  // namespace
}  // namespace regard::REGARD_ISA
