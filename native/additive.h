// The additive score Σ_c v_c·tanh(q_c + k_c) of a tile of queries and keys, and its gradient. Bahdanau et al. 2015.
//
// (1 − tanh x)/2 = 1/(1 + e^2x), and e^2(q+k) = e^2q · e^2k: with the exponentials made once per query and once per key,
// a pair costs one reciprocal and four multiply-adds. tanh is then right to 2e-7 absolute. Where a number is too large
// for its exponential (|x| > 21.8) the sum is taken first.
#pragma once
#include "pair_gradients.h"
#include "scores.h"

namespace regard::REGARD_ISA {
namespace {

constexpr float kWide = 21.8f;    // e^(4·kWide) < 2^126: products of two exponentials stay finite
constexpr int64_t kStretch = 32;  // terms summed before 1 − 2r is completed: long sums of r alone would lose digits

// 1/d for 1 ≤ d ≤ 2^126, to 0.6 units in the last place.
REGARD_INLINE Float reciprocal(Float d) {
#if defined(__AVX512F__)
    const __m512 r = _mm512_rcp14_ps((__m512)d);
    return (Float)_mm512_fmadd_ps(r, _mm512_fnmadd_ps((__m512)d, r, _mm512_set1_ps(1.0f)), r);
#else
    return 1.0f / d;
#endif
}

// e^2x for |x| ≤ kWide to 8e-8 relative: the argument is reduced exactly, so that size costs no digits.
REGARD_INLINE Float power(Float x) {
    const Float sum = x * (2 * kLog2e) + kRound;
    const Float n = sum - kRound;
    const Float y = (2.0f * x - n * 0.693145751953125f) - n * 1.42860677e-6f;
    Float p = splat(0.0013933645180634968f);
    p = p * y + 0.008363176671257156f;
    p = p * y + 0.04166646496118959f;
    p = p * y + 0.1666657699651914f;
    p = p * y + 0.5000000013463715f;
    p = 1.0f + (y + y * y * p);
    return p * power_of_two(sum);
}

// (1 − tanh x)/2 of any x; NaN for NaN.
REGARD_INLINE Float fade(Float x) {
    x = select(x > kWide, splat(kWide), x);
    x = select(x < -kWide, splat(-kWide), x);
    return reciprocal(1.0f + power(x));
}

// The powers of n numbers (n a multiple of kLanes). True if one is too large, or NaN; its power is then of no use.
static bool powers(const float* from, int64_t n, float* to) {
    Int calm = splat((int32_t)-1);
    for (int64_t j = 0; j < n; j += kLanes) {
        const Float x = load(from + j);
        calm &= (x <= kWide) & (x >= -kWide);
        store(to + j, power(x));
    }
    for (int i = 0; i < kLanes; ++i)
        if (!calm[i]) return true;
    return false;
}

template <bool Wide>
REGARD_INLINE Float faded(Float q, Float k) {
    return Wide ? fade(q + k) : reciprocal(q * k + 1.0f);
}

struct Additive {
    const Scores& a;
    Pack key;  // panels
    Scratch key_powers, key_wide, vector;
    const int64_t hidden;
    const float factor;  // a raw score times this is in base 2

    Additive(const Scores& a_, const float* v)
        : a(a_), key(a_.key, a_.type, Layout::panels, a_.batch, a_.key_heads, a_.keys, a_.width), key_powers(4 * key.pairs * key.room),
          key_wide(key.pairs * key.panels), vector(4 * (a_.width + ceil_div(a_.width, kStretch))), hidden(a_.width),
          factor(a_.beta * kLog2e) {
        float* sums = vector.floats() + hidden;
        for (int64_t c = 0; c < hidden; ++c) {
            vector.floats()[c] = v[c];
            sums[c / kStretch] = (c % kStretch ? sums[c / kStretch] : 0.0f) + v[c];
        }
    }

    // After the pack: one panel's powers.
    int64_t tasks() const { return key.pairs * key.panels; }
    void task(int64_t index) {
        const int64_t at = index * kPanel * hidden;
        ((uint8_t*)key_wide.data)[index] = powers(key.data.floats() + at, kPanel * hidden, key_powers.floats() + at);
    }

    // A group of rows: [column][row], then their powers, then whether one is wide.
    int64_t row_floats() const { return 2 * round_up(hidden * kRows, kLanes) + kLanes; }
    bool take(int64_t batch, int64_t head, int64_t first, int64_t count, float* to) const {
        const Matrix q(a.query, a.type, batch, head);
        const int64_t room = round_up(hidden * kRows, kLanes);
        for (int64_t i = hidden * kRows; i < room; ++i) to[i] = 0;
        pack_query_group(q, first, count, hidden, to);
        to[2 * room] = powers(to, room, to + room) ? 1.0f : 0.0f;
        return finite(to, room);
    }

    bool wide(int64_t pair, int64_t panel, const float* rows) const {
        return rows[row_floats() - kLanes] != 0.0f || ((const uint8_t*)key_wide.data)[pair * key.panels + panel];
    }

    void tile(Float (&acc)[kRows][2], int64_t pair, int64_t panel, const float* rows) const {
        const int64_t at = (pair * key.panels + panel) * kPanel * hidden;
        if (wide(pair, panel, rows))
            sum<true>(acc, rows, key.data.floats() + at);
        else
            sum<false>(acc, rows + round_up(hidden * kRows, kLanes), key_powers.floats() + at);
    }

    template <bool Wide>
    void sum(Float (&acc)[kRows][2], const float* q, const float* k) const {
        const float* v = vector.floats();
        for (int64_t begin = 0; begin < hidden; begin += kStretch) {
            Float part[kRows][2];
            clear(part);
            for (int64_t c = begin; c < min(begin + kStretch, hidden); ++c) {
                const Float weight = splat(v[c]), right[2] = {load(k + c * kPanel), load(k + c * kPanel + kLanes)};
                REGARD_UNROLL(16)
                for (int i = 0; i < kRows; ++i) {
                    const Float left = splat(q[c * kRows + i]);
                    REGARD_UNROLL(2)
                    for (int half = 0; half < 2; ++half) part[i][half] += weight * faded<Wide>(left, right[half]);
                }
            }
            const float whole = v[hidden + begin / kStretch];
            for (int i = 0; i < kRows; ++i)
                for (int half = 0; half < 2; ++half) acc[i][half] += whole - 2.0f * part[i][half];
        }
    }

    // Gradients of one group of rows and the keys of one panel range, per column; the factor 4·v_c waits for `settle`.
    //   dq_c += Σ_j dS·r(1−r)   dk_c += Σ_i dS·r(1−r)   dv_c += Σ dS·r
    template <bool Careful>
    void pull(int64_t pair, int64_t first_panel, const uint8_t* seen, int64_t panels, const float* rows, const float* slopes, int64_t ld,
              float* grad_rows, float* grad_keys, float* extra) const {
        bool any_wide = false;
        for (int64_t p = 0; p < panels; ++p) any_wide |= seen[p] && wide(pair, first_panel + p, rows);
        const int64_t at = (pair * key.panels + first_panel) * kPanel * hidden;
        if (any_wide || Careful) {
            add_pair_gradients(seen, panels, hidden, key.data.floats() + at, slopes, ld, grad_rows, grad_keys,
                               Term<true, Careful>{rows, extra});
        } else {
            const float* row_powers = rows + round_up(hidden * kRows, kLanes);
            add_pair_gradients(seen, panels, hidden, key_powers.floats() + at, slopes, ld, grad_rows, grad_keys,
                               Term<false, false>{row_powers, extra});
        }
    }

    template <bool Wide, bool Careful>
    struct Term {
        const float* rows;
        float* extra;
        Float total = Float{};

        REGARD_INLINE_MEMBER void operator()(int64_t c, int i, Float key, Float slope, Float& row_sum, Float& key_sum) {
            Float r = faded<Wide>(splat(rows[c * kRows + i]), key);
            if (Careful) r = select(slope == 0.0f, Float{}, r);
            const Float u = r - r * r;
            row_sum += slope * u;
            key_sum += slope * u;
            total += slope * r;
        }
        REGARD_INLINE_MEMBER void finish(int64_t c) {
            store(extra + c * kLanes, load(extra + c * kLanes) + total);
            total = Float{};
        }
    };

    float settle(int64_t c) const { return 4 * vector.floats()[c] * a.beta; }
    static constexpr bool kExtra = true;  // a gradient per column beside the rows' and the keys'
};

}  // namespace
}  // namespace regard::REGARD_ISA
