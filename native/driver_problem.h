// Random attention problems for driver.cpp: tensors in any layout and type, masks, and the expected numbers' tolerance.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "kernels.h"
#include "threads.h"

using namespace regard;

namespace {

std::mt19937 random_bits(1);
int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_bits); }

float from_bfloat16(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}

float from_float16(uint16_t half) {
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const float size = exponent ? std::ldexp(1024.0f + (float)fraction, exponent - 25) : std::ldexp((float)fraction, -24);
    return half & 0x8000 ? -size : size;  // of finite numbers
}

// (B, heads, rows, columns) in one of several orders of its axes, of any type.
struct Tensor {
    std::vector<float> data;
    std::vector<uint16_t> half;
    View strides;
    Type type;

    Tensor(int64_t batch, int64_t heads, int64_t rows, int64_t columns, bool fill, Type type_ = Type::float32, int order = 0)
        : type(type_) {
        const int64_t gap = order == 3 ? 3 : 0, width = columns + gap;  // between rows
        if (order == 1)
            strides = {nullptr, rows * heads * columns, columns, heads * columns, 1};
        else if (order == 2)
            strides = {nullptr, heads * rows * columns, rows * columns, 1, rows};
        else
            strides = {nullptr, heads * rows * width, rows * width, width, 1};
        data.resize(batch * heads * rows * width - gap);
        std::normal_distribution<float> normal;
        for (float& x : data) x = fill ? normal(random_bits) : 0.0f;
        if (type == Type::float32) return;
        half.resize(data.size());
        for (size_t i = 0; i < data.size(); ++i) {
            uint32_t bits;
            std::memcpy(&bits, &data[i], 4);
            half[i] = (uint16_t)(bits >> 16);  // any bfloat16 will do; as a float16, one in (−2, 2)
            if (type == Type::float16) half[i] &= 0xbfff;
        }
        data.clear();
    }
    View view() {
        View v = strides;
        v.data = half.empty() ? (void*)data.data() : (void*)half.data();
        return v;
    }
    double at(int64_t b, int64_t h, int64_t i, int64_t c) const {
        const int64_t n = b * strides.batch + h * strides.head + i * strides.row + c * strides.column;
        return type == Type::float32 ? data[n] : type == Type::bfloat16 ? from_bfloat16(half[n]) : from_float16(half[n]);
    }
};

uint32_t mix(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
    x = (x ^ (x >> 13)) * 0xC2B2AE35u;
    return x ^ (x >> 16);
}

int64_t bin(int64_t far) { return far < 2 ? far : 65 - __builtin_clzll((unsigned long long)(far - 1)); }

constexpr ScoreKind kDot = ScoreKind::dot, kAdditive = ScoreKind::additive, kGaussian = ScoreKind::gaussian;
enum Shape { kPlain, kShort, kFew, kLong, kShapes };
enum MaskKind { kOpen, kSpans, kPattern, kMasks };

// One random attention problem: its inputs and the kernels' arguments.
struct Problem {
    const char* isa;
    int number;
    ScoreKind score_kind;
    Type type;
    int64_t B, hk, group, h, L, S, d, dv;
    double tolerance;
    std::vector<int32_t> spans;
    std::vector<uint8_t> pattern;
    Scores arguments;

    Problem(const char* isa_, int number_, ScoreKind rule_, Shape shape, MaskKind mask_kind)
        : isa(isa_), number(number_), score_kind(rule_), type(rule_ != kDot || number_ % 4 != 3 ? Type::float32
                                                              : number_ % 8 == 3                ? Type::bfloat16
                                                                                                : Type::float16),
          B(integer(1, 2)), hk(integer(1, 2)), group(integer(1, 3)), L(integer(1, 60)), S(integer(1, 150)), d(integer(1, 40)),
          dv(integer(1, 40)), tolerance(type == Type::float32 ? 2e-5 : 0.05) {
        if (shape == kShort) B = integer(8, 12), L = integer(1, 20), S = integer(1, 24);
        if (shape == kFew) L = integer(1, 4), S = integer(300, 1200), d = number % 2 ? 32 : d, dv = number % 2 ? 64 : dv;
        if (shape == kLong) B = hk = 1, S = integer(500, 1300);
        if (shape == kPlain && number % 3 == 0) d = 48, dv = 16;
        h = hk * group;
        arguments.batch = B, arguments.heads = h, arguments.key_heads = hk, arguments.queries = L, arguments.keys = S, arguments.width = d,
        arguments.value_width = dv;
        arguments.type = type;
        arguments.kind = score_kind;
        if (score_kind == kDot) arguments.scale = 1 / std::sqrt((float)d);
        if (mask_kind == kSpans) make_spans(integer(1, 3));
        if (mask_kind == kPattern) make_pattern();
    }

    void make_spans(int64_t R) {
        spans.resize(L * R * 2);
        for (int64_t i = 0; i < L; ++i) {
            std::vector<int32_t> edges(2 * R);
            for (int32_t& e : edges) e = (int32_t)integer(0, S);
            std::sort(edges.begin(), edges.end());
            std::copy(edges.begin(), edges.end(), spans.begin() + i * R * 2);
        }
        arguments.spans = {spans.data(), 0, 0, R * 2, 2, R};
    }

    // Shared by batches, heads or rows, or transposed; some keys visible to all, some hidden from all.
    void make_pattern() {
        const int64_t batches = integer(0, 1) ? B : 1, heads = integer(0, 1) ? h : 1, rows = number % 5 ? L : 1;
        const bool across = number % 4 == 1;
        pattern.resize(batches * heads * rows * S);
        arguments.pattern = {pattern.data(), batches > 1 ? heads * rows * S : 0, heads > 1 ? rows * S : 0, rows > 1 ? (across ? 1 : S) : 0,
                             across ? rows : 1};
        const int64_t kinds = integer(1, 9);
        for (size_t n = 0; n < pattern.size(); ++n) pattern[n] = integer(0, 9) < kinds;
        const int64_t from = integer(0, S), to = integer(from, S);
        const bool value = integer(0, 1);
        for (int64_t n = 0; n < batches * heads * rows; ++n)
            for (int64_t j = from; j < to; ++j) pattern[across ? n / rows * rows * S + j * rows + n % rows : n * S + j] = value;
    }

    bool is_visible(int64_t b, int64_t head, int64_t i, int64_t j) const {
        if (arguments.pattern.data)
            return arguments.pattern.data[b * arguments.pattern.batch + head * arguments.pattern.head + i * arguments.pattern.row +
                                          j * arguments.pattern.column];
        bool visible = !arguments.spans.data;
        for (int64_t n = 0; n < arguments.spans.ranges; ++n) {
            const int32_t* s = arguments.spans.data + i * arguments.spans.row + n * arguments.spans.range;
            visible |= s[0] <= j && j < s[1];
        }
        return visible;
    }

    double dropout_factor(int64_t row, int64_t i, int64_t j) const {
        const uint32_t hash = mix(mix(mix(mix(arguments.seed) ^ (uint32_t)row) ^ (uint32_t)i) ^ (uint32_t)j);
        return hash < arguments.drop_below ? 0 : 1 / (double)arguments.kept;
    }

    void check(bool good, const char* what) const {
        if (good) return;
        std::fprintf(stderr, "%s is wrong on %s, problem %d (rule %d, B%ld h%ld k%ld L%ld S%ld d%ld dv%ld)\n", what, isa, number,
                     (int)score_kind, (long)B, (long)h, (long)hk, (long)L, (long)S, (long)d, (long)dv);
        std::exit(1);
    }
    void close(double got, double expected, double within, const char* what) const {
        check(std::abs(got - expected) < within * (1 + std::abs(expected)), what);
    }
};

}  // namespace
