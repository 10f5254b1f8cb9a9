// The additive score Σ_c v_c·tanh(q_c + k_c) of a tile of queries and keys, and its gradient. Bahdanau et al. 2015.
//
// (1 − tanh x)/2 = 1/(1 + e^2x), and e^2(q+k) = e^2q · e^2k: with the exponentials made once per query and once per key,
// a pair costs one reciprocal and four multiply-adds. tanh is then right to 2e-7 absolute. Where a number is too large
// for its exponential (|x| > kExponentLimit) q + k is summed first and its exponential computed per pair.
#pragma once
#include "pair_gradients.h"
#include "scores.h"

namespace regard::REGARD_ISA {
namespace {

constexpr float kExponentLimit = 21.8f;  // e^(4·kExponentLimit) < 2^126: products of two exponentials stay finite
constexpr int64_t kPartLength = 32;      // terms summed before 1 − 2r is completed: long sums of r alone would lose digits

// 1/d for 1 ≤ d ≤ 2^126, to 0.6 units in the last place.
REGARD_INLINE Float reciprocal(Float d) {
#if defined(__AVX512F__)
    const __m512 r = _mm512_rcp14_ps((__m512)d);
    return (Float)_mm512_fmadd_ps(r, _mm512_fnmadd_ps((__m512)d, r, _mm512_set1_ps(1.0f)), r);
#else
    return 1.0f / d;
#endif
}

// e^2x for |x| ≤ kExponentLimit to 8e-8 relative: the argument is reduced exactly, so that size costs no digits.
REGARD_INLINE Float exp_2x(Float x) {
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
REGARD_INLINE Float tanh_complement(Float x) {
    x = select(x > kExponentLimit, splat(kExponentLimit), x);
    x = select(x < -kExponentLimit, splat(-kExponentLimit), x);
    return reciprocal(1.0f + exp_2x(x));
}

// to[j] = e^2x of n numbers, n a multiple of kLanes. True if one is beyond the limit, or NaN: its e^2x must then not be used.
static bool fill_exp_2x(const float* from, int64_t n, float* to) {
    Int in_range = splat((int32_t)-1);
    for (int64_t j = 0; j < n; j += kLanes) {
        const Float x = load(from + j);
        in_range &= (x <= kExponentLimit) & (x >= -kExponentLimit);
        store(to + j, exp_2x(x));
    }
    for (int i = 0; i < kLanes; ++i)
        if (!in_range[i]) return true;
    return false;
}

template <bool Beyond>
REGARD_INLINE Float tanh_complement_of(Float q, Float k) {
    return Beyond ? tanh_complement(q + k) : reciprocal(q * k + 1.0f);
}

struct Additive {
    const Scores& a;
    Pack key;  // panels
    Scratch key_exponentials, key_beyond, vector;
    const int64_t hidden;
    const float factor;  // a raw score times this is in base 2

    Additive(const Scores& a_, const float* v)
        : a(a_), key(a_.key, a_.type, Layout::panels, a_.batch, a_.key_heads, a_.keys, a_.width),
          key_exponentials(4 * key.pairs * key.slot_floats), key_beyond(key.pairs * key.panels),
          vector(4 * (a_.width + ceil_div(a_.width, kPartLength))), hidden(a_.width), factor(a_.beta * kLog2e) {
        float* sums = vector.floats() + hidden;
        for (int64_t c = 0; c < hidden; ++c) {
            vector.floats()[c] = v[c];
            sums[c / kPartLength] = (c % kPartLength ? sums[c / kPartLength] : 0.0f) + v[c];
        }
    }

    // After packing: e^2x of one panel.
    int64_t tasks() const { return key.pairs * key.panels; }
    void task(int64_t index) {
        const int64_t at = index * kPanel * hidden;
        ((uint8_t*)key_beyond.data)[index] = fill_exp_2x(key.data.floats() + at, kPanel * hidden, key_exponentials.floats() + at);
    }

    // A group of rows: [column][row], then their e^2x, then whether one of them is beyond the limit.
    int64_t row_floats() const { return 2 * round_up(hidden * kRows, kLanes) + kLanes; }
    bool load_rows(int64_t batch, int64_t head, int64_t first, int64_t count, float* to) const {
        const Matrix q(a.query, a.type, batch, head);
        const int64_t block = round_up(hidden * kRows, kLanes);
        for (int64_t i = hidden * kRows; i < block; ++i) to[i] = 0;
        pack_query_group(q, first, count, hidden, to);
        to[2 * block] = fill_exp_2x(to, block, to + block) ? 1.0f : 0.0f;
        return all_finite(to, block);
    }

    bool beyond_limit(int64_t pair, int64_t panel, const float* rows) const {
        return rows[row_floats() - kLanes] != 0.0f || ((const uint8_t*)key_beyond.data)[pair * key.panels + panel];
    }

    void add_scores(Float (&acc)[kRows][2], int64_t pair, int64_t panel, const float* rows) const {
        const int64_t at = (pair * key.panels + panel) * kPanel * hidden;
        if (beyond_limit(pair, panel, rows))
            sum<true>(acc, rows, key.data.floats() + at);
        else
            sum<false>(acc, rows + round_up(hidden * kRows, kLanes), key_exponentials.floats() + at);
    }

    template <bool Beyond>
    void sum(Float (&acc)[kRows][2], const float* q, const float* k) const {
        const float* v = vector.floats();
        for (int64_t begin = 0; begin < hidden; begin += kPartLength) {
            Float part[kRows][2];
            clear(part);
            for (int64_t c = begin; c < min(begin + kPartLength, hidden); ++c) {
                const Float weight = splat(v[c]), right[2] = {load(k + c * kPanel), load(k + c * kPanel + kLanes)};
                REGARD_UNROLL(16)
                for (int i = 0; i < kRows; ++i) {
                    const Float left = splat(q[c * kRows + i]);
                    REGARD_UNROLL(2)
                    for (int half = 0; half < 2; ++half) part[i][half] += weight * tanh_complement_of<Beyond>(left, right[half]);
                }
            }
            const float vector_sum = v[hidden + begin / kPartLength];
            for (int i = 0; i < kRows; ++i)
                for (int half = 0; half < 2; ++half) acc[i][half] += vector_sum - 2.0f * part[i][half];
        }
    }

    // Gradients of one group of rows and the keys of one panel range, per column; without the factor 4·v_c, which `gradient_factor` gives.
    //   dq_c += Σ_j dS·r(1−r)   dk_c += Σ_i dS·r(1−r)   dv_c += Σ dS·r
    template <bool Careful>
    void add_gradients(int64_t pair, int64_t first_panel, const uint8_t* visible, int64_t panels, const float* rows, const float* slopes,
                       int64_t ld, float* grad_rows, float* grad_keys, float* vector_sums) const {
        bool any_beyond = false;
        for (int64_t p = 0; p < panels; ++p) any_beyond |= visible[p] && beyond_limit(pair, first_panel + p, rows);
        const int64_t at = (pair * key.panels + first_panel) * kPanel * hidden;
        if (any_beyond || Careful) {
            add_pair_gradients(visible, panels, hidden, key.data.floats() + at, slopes, ld, grad_rows, grad_keys,
                               Term<true, Careful>{rows, vector_sums});
        } else {
            const float* row_exponentials = rows + round_up(hidden * kRows, kLanes);
            add_pair_gradients(visible, panels, hidden, key_exponentials.floats() + at, slopes, ld, grad_rows, grad_keys,
                               Term<false, false>{row_exponentials, vector_sums});
        }
    }

    template <bool Beyond, bool Careful>
    struct Term {
        const float* rows;
        float* vector_sums;
        Float total = Float{};

        REGARD_INLINE_MEMBER void operator()(int64_t c, int i, Float key, Float slope, Float& row_sum, Float& key_sum) {
            Float r = tanh_complement_of<Beyond>(splat(rows[c * kRows + i]), key);
            if (Careful) r = select(slope == 0.0f, Float{}, r);
            const Float u = r - r * r;
            row_sum += slope * u;
            key_sum += slope * u;
            total += slope * r;
        }
        REGARD_INLINE_MEMBER void finish(int64_t c) {
            store(vector_sums + c * kLanes, load(vector_sums + c * kLanes) + total);
            total = Float{};
        }
    };

    float gradient_factor(int64_t c) const { return 4 * vector.floats()[c] * a.beta; }
    static constexpr bool kHasVector = true;  // a gradient per column beside the rows' and the keys'
};

}  // namespace
}  // namespace regard::REGARD_ISA
