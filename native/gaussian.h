// The Gaussian score −½‖q − k‖² of a tile of queries and keys, and its gradient. The difference is computed pair by pair:
// expanding the square would cancel.
#pragma once
#include "pair_gradients.h"
#include "scores.h"

namespace regard::REGARD_ISA {
namespace {

struct Gaussian {
    const Scores& a;
    Pack key;  // panels
    const int64_t hidden;
    const float factor;  // −‖q − k‖² times this is in base 2

    Gaussian(const Scores& a_, const float*)
        : a(a_), key(a_.key, a_.type, Layout::panels, a_.batch, a_.key_heads, a_.keys, a_.width), hidden(a_.width),
          factor(0.5f * a_.beta * kLog2e) {}

    int64_t tasks() const { return 0; }
    void task(int64_t) {}

    int64_t row_floats() const { return round_up(hidden * kRows, kLanes); }
    bool load_rows(int64_t batch, int64_t head, int64_t first, int64_t count, float* to) const {
        const Matrix q(a.query, a.type, batch, head);
        for (int64_t i = hidden * kRows; i < row_floats(); ++i) to[i] = 0;
        pack_query_group(q, first, count, hidden, to);
        return all_finite(to, row_floats());
    }

    void add_scores(Float (&acc)[kRows][2], int64_t pair, int64_t panel, const float* rows) const {
        const float* k = key.panel(pair, panel);
        for (int64_t c = 0; c < hidden; ++c) {
            const Float right[2] = {load(k + c * kPanel), load(k + c * kPanel + kLanes)};
            REGARD_UNROLL(16)
            for (int i = 0; i < kRows; ++i) {
                const Float left = splat(rows[c * kRows + i]);
                REGARD_UNROLL(2)
                for (int half = 0; half < 2; ++half) {
                    const Float gap = right[half] - left;
                    acc[i][half] -= gap * gap;
                }
            }
        }
    }

    // dq_c += Σ_j dS·(k − q)   dk_c −= Σ_i dS·(k − q)
    template <bool Careful>
    void add_gradients(int64_t pair, int64_t first_panel, const uint8_t* visible, int64_t panels, const float* rows, const float* slopes,
                       int64_t ld, float* grad_rows, float* grad_keys, float*) const {
        add_pair_gradients(visible, panels, hidden, key.panel(pair, first_panel), slopes, ld, grad_rows, grad_keys, Term<Careful>{rows});
    }

    template <bool Careful>
    struct Term {
        const float* rows;

        REGARD_INLINE_MEMBER void operator()(int64_t c, int i, Float key, Float slope, Float& row_sum, Float& key_sum) const {
            Float gap = key - splat(rows[c * kRows + i]);
            if (Careful) gap = select(slope == 0.0f, Float{}, gap);
            row_sum += slope * gap;
            key_sum -= slope * gap;
        }
        void finish(int64_t) const {}
    };

    float gradient_factor(int64_t) const { return a.beta; }
    static constexpr bool kHasVector = false;
};

}  // namespace
}  // namespace regard::REGARD_ISA
