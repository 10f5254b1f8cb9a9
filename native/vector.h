// Vectors of one instruction set through the compiler's vector types, with an intrinsic only where the type has no
// operator. Included by files compiled once per set; everything is static, so no two sets can share a function.
#pragma once
#ifndef REGARD_ISA
#error "compile with -DREGARD_ISA=<name>"
#endif
#include <cstdint>
#include <cstring>
#include <utility>
#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12's AVX-512 header initialises the ignored operand of its intrinsics with itself (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define REGARD_INLINE static inline __attribute__((always_inline))
#define REGARD_INLINE_MEMBER inline __attribute__((always_inline))
#define REGARD_APART __attribute__((noinline))  // a hot loop in a function of its own has the registers to itself
#define REGARD_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define REGARD_UNROLL(times) REGARD_PRAGMA(unroll times)  // before a loop
#else
#define REGARD_UNROLL(times) REGARD_PRAGMA(GCC unroll times)
#endif

namespace regard::REGARD_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
constexpr int kRows = 8;  // of a register tile; two vectors wide
#elif defined(__AVX2__)
constexpr int kLanes = 8;
constexpr int kRows = 6;
#elif defined(__aarch64__)
constexpr int kLanes = 4;
constexpr int kRows = 8;
#else
constexpr int kLanes = 4;
constexpr int kRows = 6;
#endif

typedef float Float __attribute__((vector_size(4 * kLanes)));
typedef int32_t Int __attribute__((vector_size(4 * kLanes)));
typedef uint32_t UInt __attribute__((vector_size(4 * kLanes)));
typedef float LooseFloat __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
typedef int32_t LooseInt __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

REGARD_INLINE Float load(const float* p) { return *(const LooseFloat*)p; }
REGARD_INLINE void store(float* p, Float v) { *(LooseFloat*)p = v; }
REGARD_INLINE Float splat(float x) { return x - Float{}; }
REGARD_INLINE Int splat(int32_t x) { return x - Int{}; }

// Numbers of lanes, known to the compiler: filled in at run time they would be put together lane by lane.
struct Lanes {
    alignas(4 * kLanes) int32_t number[kLanes];
    REGARD_INLINE_MEMBER operator Int() const { return *(const LooseInt*)number; }
};
template <class Rule>
constexpr Lanes lanes(Rule rule) {
    Lanes found{};
    for (int i = 0; i < kLanes; ++i) found.number[i] = rule(i);
    return found;
}
static constexpr Lanes kEach = lanes([](int i) { return i; });
REGARD_INLINE Int lane_numbers() { return kEach; }

// Lane i of the result is lane Rule::lane(i) of a followed by b: lanes from kLanes on are b's.
template <class Rule, int... Lane>
REGARD_INLINE Float shuffle(Float a, Float b, std::integer_sequence<int, Lane...>) {
    return __builtin_shufflevector(a, b, Rule::lane(Lane)...);
}
template <class Rule>
REGARD_INLINE Float shuffle(Float a, Float b) {
    return shuffle<Rule>(a, b, std::make_integer_sequence<int, kLanes>());
}

// The partner of a lane differs from it in one bit of its number. Low and High exchange the lanes of a with the bit set for the lanes of
// b with the bit clear: Low is then a's new value, High b's.
template <int Bit>
struct Partner {
    static constexpr int lane(int i) { return i ^ Bit; }
};
template <int Bit>
struct Low {
    static constexpr int lane(int i) { return i & Bit ? kLanes + (i ^ Bit) : i; }
};
template <int Bit>
struct High {
    static constexpr int lane(int i) { return i & Bit ? kLanes + i : i ^ Bit; }
};

// True lanes of `mask` (all ones) take a, the others b.
REGARD_INLINE Float select(Int mask, Float a, Float b) { return mask ? a : b; }
REGARD_INLINE Int select(Int mask, Int a, Int b) { return mask ? a : b; }

// Lanes whose bit is set take a, the others b.
REGARD_INLINE Float choose(uint32_t bits, Float a, Float b) {
#if defined(__AVX512F__)
    return (Float)_mm512_mask_mov_ps((__m512)b, (__mmask16)bits, (__m512)a);
#else
    return select(((splat((int32_t)bits) >> lane_numbers()) & 1) != 0, a, b);
#endif
}

typedef uint16_t Half __attribute__((vector_size(2 * kLanes)));  // the bits of bfloat16 or float16
typedef uint16_t LooseHalf __attribute__((vector_size(2 * kLanes), aligned(2), may_alias));

// bfloat16 is the upper half of a float32.
REGARD_INLINE Float load_bfloat16(const uint16_t* p) { return (Float)(__builtin_convertvector(*(const LooseHalf*)p, UInt) << 16); }

// To the nearest bfloat16, ties to even; NaN stays NaN.
REGARD_INLINE Half to_bfloat16(Float v) {
    const UInt bits = (UInt)v, rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16, quiet = (bits >> 16) | 0x40;
    return __builtin_convertvector((UInt)select(v == v, (Int)rounded, (Int)quiet), Half);
}

// float16: five bits of exponent, ten of fraction. Subnormal numbers are kept.
REGARD_INLINE Float load_float16(const uint16_t* p) {
#if defined(__AVX512F__)
    return (Float)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
#elif defined(__AVX2__)
    return (Float)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
#elif defined(__aarch64__)
    return (Float)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
#else
    const UInt bits = __builtin_convertvector(*(const LooseHalf*)p, UInt), size = bits & 0x7fff;
    const Float normal = (Float)((size << 13) + (112u << 23)), small = __builtin_convertvector((Int)size, Float) * 0x1p-24f;
    const UInt infinite = (size << 13) | 0x7f800000u;
    const Float x = select((Int)(size < 0x400), small, select((Int)(size >= 0x7c00), (Float)infinite, normal));
    return (Float)((UInt)x | (bits & 0x8000) << 16);
#endif
}

// To the nearest float16, ties to even; from 65520 on ±∞; NaN stays NaN.
REGARD_INLINE Half to_float16(Float v) {
#if defined(__AVX512F__)
    return (Half)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
    return (Half)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__aarch64__)
    return (Half)vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v));
#else
    const UInt sign = (UInt)v & 0x80000000u, size = (UInt)v ^ sign;
    const UInt normal = (size - (112u << 23) + 0xfff + ((size >> 13) & 1)) >> 13;
    const UInt small = (UInt)((Float)size + 0.5f) - 0x3f000000u;  // below 2^-14: the sum's unit is that of a subnormal
    const Int beyond = (Int)(size >= 0x477ff000u);                // 65520
    const UInt special = (UInt)select(v == v, splat((int32_t)0x7c00), splat((int32_t)0x7e00));
    const UInt half = (UInt)select(beyond, (Int)special, select((Int)(size < 0x38800000u), (Int)small, (Int)normal));
    return __builtin_convertvector(half | sign >> 16, Half);
#endif
}

// The second operand when either is NaN, as the x86 instruction does.
REGARD_INLINE Float max(Float a, Float b) {
#if defined(__AVX512F__)
    return (Float)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (Float)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (Float)_mm_max_ps((__m128)a, (__m128)b);
#else
    return a > b ? a : b;
#endif
}

// Whether any lane of a comparison is true.
REGARD_INLINE bool any(Int mask) {
#if defined(__AVX512F__)
    return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_ps((__m256)mask) != 0;
#elif defined(__x86_64__)
    return _mm_movemask_ps((__m128)mask) != 0;
#else
    int32_t all = 0;
    for (int i = 0; i < kLanes; ++i) all |= mask[i];
    return all != 0;
#endif
}

// The sum of all lanes, and the largest of them.
template <int Bit = kLanes / 2>
REGARD_INLINE float horizontal_sum(Float v) {
    v += shuffle<Partner<Bit>>(v, v);
    if constexpr (Bit > 1) return horizontal_sum<Bit / 2>(v);
    return v[0];
}

template <int Bit = kLanes / 2>
REGARD_INLINE float horizontal_max(Float v) {
    v = max(v, shuffle<Partner<Bit>>(v, v));
    if constexpr (Bit > 1) return horizontal_max<Bit / 2>(v);
    return v[0];
}

constexpr double kLog2eDouble = 1.4426950408889634;
constexpr float kLog2e = (float)kLog2eDouble;
constexpr double kLn2 = 0.6931471805599453;

// Adding kRound rounds |x| < 2^22 to the nearest integer n, which is then in the low bits of the sum: sum's bits − kRoundBits = n.
constexpr float kRound = 12582912.0f;  // 1.5·2^23
constexpr int32_t kRoundBits = 0x4B400000;
// The bits of 2^n, −127 ≤ n < 128, for `sum` = n + kRound; n = −127 gives 0.0.
REGARD_INLINE Float power_of_two(Float sum) { return (Float)(((Int)sum - (kRoundBits - 127)) << 23); }

// 2^r for r in [−½, ½], relative error 1.5e-7: a degree-5 minimax polynomial.
REGARD_INLINE Float exp2_near(Float r) {
    Float p = splat(0.0013276471979026833f);
    p = p * r + 0.009675541334205992f;
    p = p * r + 0.055507132735439654f;
    p = p * r + 0.24022119723848773f;
    p = p * r + 0.6931469670647324f;
    return p * r + 1.0000000716546822f;
}

// 2^x for x below 127; zero below −127, NaN for NaN. Of −∞: zero, or NaN with Finite = true, which is faster.
template <bool Finite = false>
REGARD_INLINE Float exp2(Float x) {
#if defined(__AVX512F__)
    // In place: on Zen 4 these two wait for the old contents of the register they write, which may be another 2^x at its end.
    Float n = x, r = x;
    __asm__("vrndscaleps $8, %0, %0" : "+v"(n));  // to the nearest integer, no exceptions
    if (Finite)
        r -= n;
    else
        __asm__("vreduceps $8, %0, %0" : "+v"(r));
    return (Float)_mm512_scalef_ps((__m512)exp2_near(r), (__m512)n);
#else
    x = max(splat(-127.0f), x);
    const Float sum = x + kRound;
    return exp2_near(x - (sum - kRound)) * power_of_two(sum);
#endif
}

// tanh to 2e-7 relative: an odd polynomial near zero, 1 − 2/(1 + e^2x) beyond.
REGARD_INLINE Float tanh(Float x) {
    const Int sign = (Int)x & (int32_t)0x80000000;
    const Float a = (Float)((Int)x & 0x7fffffff);
    const Float y = a * a;
    Float p = splat(-0.005717045296395041f);
    p = p * y + 0.020650587552321794f;
    p = p * y - 0.05374349817767668f;
    p = p * y + 0.1333149128850112f;
    p = p * y - 0.33333283925364304f;
    const Float near = a + a * y * p;
    const Float far = 1.0f - 2.0f / (1.0f + exp2((a < 20.0f ? a : splat(20.0f)) * (2 * kLog2e)));
    Float t = select(a < 0.625f, near, far);
    t = select(x == x, t, x);  // NaN stays NaN
    return (Float)((Int)t | sign);
}

}  // namespace
}  // namespace regard::REGARD_ISA
