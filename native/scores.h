// From a raw product q·k to a score in base 2 (times log2 e, so that the softmax is 2^(s − m)), and K packed for it.
#pragma once
#include <cmath>

#include "spans.h"
#include "threads.h"

namespace regard::REGARD_ISA {
namespace {

constexpr float kLog2e = 1.4426950408889634f;
constexpr double kLn2 = 0.6931471805599453;

struct Post {
    bool plain;      // the score is raw·factor: one multiply, folded into the exponential's subtraction
    float factor;
    float scale, cap, inverse_cap, to_base2;

    explicit Post(const Scores& a) {
        scale = a.scale;
        cap = a.cap;
        inverse_cap = a.cap != 0 ? 1 / a.cap : 0;
        to_base2 = a.beta * kLog2e;
        const float whole = a.scale * a.beta * kLog2e;
        plain = !a.key_bias.data && a.cap == 0 && whole > 0;  // a negative factor would turn the running maximum round
        factor = plain ? whole : 1.0f;
    }

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

// K in panels, V in rows and the key bias in padded rows, once a call, shared by every task. A (panel, batch, key head)
// holding a number that is not finite is marked dirty: a hidden key must not reach a sum even as 0 · NaN.
struct Packed {
    const Scores& a;
    int64_t width, value_width, panels, keys;  // padded value width; panels and keys of one (batch, key head)
    bool direct;                               // V is already laid out as rows: read it in place
    Scratch key, value, bias, dirty, buffer;
    int64_t bias_bytes;

    Packed(const Scores& a_, int threads)
        : a(a_), width(a_.width), value_width(padded(a_.value_width)), panels(ceil_div(a_.keys, kPanel)), keys(panels * kPanel),
          direct(a_.type == Type::float32 && a_.value.column == 1 && a_.value.row == value_width && a_.value_width == value_width),
          key(4 * a_.batch * a_.key_heads * keys * width),
          value(direct ? 0 : 4 * a_.batch * a_.key_heads * keys * value_width),
          bias(a_.key_bias.data ? 4 * a_.batch * a_.heads * keys : 0), dirty(a_.batch * a_.key_heads * panels),
          buffer(4 * threads * kPanel * max(padded(a_.width), value_width)) {}

    const float* key_panel(int64_t pair, int64_t panel) const { return key.floats() + (pair * panels + panel) * width * kPanel; }
    const float* value_rows(int64_t pair) const {
        if (direct) return (const float*)a.value.data + pair / a.key_heads * a.value.batch + pair % a.key_heads * a.value.head;
        return value.floats() + pair * keys * value_width;
    }
    const float* bias_row(int64_t head) const { return a.key_bias.data ? bias.floats() + head * keys : nullptr; }
    const uint8_t* dirty_panels(int64_t pair) const { return (const uint8_t*)dirty.data + pair * panels; }

    void pack(Crew& crew) {
        struct Task {
            Packed& self;
            Crew& crew;
        } task{*this, crew};
        crew.run(a.batch * a.key_heads * ceil_div(panels, kPanels),
                 [](void* context, int64_t index, int worker) {
                     Task& t = *(Task*)context;
                     if (t.crew.stopped(worker)) return;
                     t.self.pack_block(index, worker);
                 },
                 &task);
        if (!a.key_bias.data) return;
        for (int64_t row = 0; row < a.batch * a.heads; ++row) {
            float* to = bias.floats() + row * keys;
            Matrix(a.key_bias, Type::float32, row / a.heads, row % a.heads).copy_row(0, a.keys, keys, 1.0f, to);
        }
    }

    void pack_block(int64_t index, int worker) {
        const int64_t blocks = ceil_div(panels, kPanels), pair = index / blocks, first = index % blocks * kPanels;
        const Matrix k(a.key, a.type, pair / a.key_heads, pair % a.key_heads), v(a.value, a.type, pair / a.key_heads, pair % a.key_heads);
        float* spare = buffer.floats() + worker * kPanel * max(padded(width), value_width);
        for (int64_t p = first; p < min(first + kPanels, panels); ++p) {
            const int64_t count = min(kPanel, a.keys - p * kPanel);
            bool clean = pack_panel(k, p * kPanel, count, width, (float*)key_panel(pair, p), spare);
            if (direct) {
                clean &= finite(value_rows(pair) + p * kPanel * value_width, count * value_width);
            } else {
                clean &= pack_rows(v, p * kPanel, count, kPanel, a.value_width, 1.0f, (float*)value_rows(pair) + p * kPanel * value_width);
            }
            ((uint8_t*)dirty.data)[pair * panels + p] = !clean;
        }
    }
};

}  // namespace
}  // namespace regard::REGARD_ISA
