// The arguments of every kernel, and the list of kernels each instruction set provides. Plain data: nothing here is inline code
// that the linker could share between instruction sets.
//
// Axes: B batch, h heads, hk key heads (hk divides h), L queries, S keys, d width, dv value width.
#pragma once
#include <cstdint>

namespace regard {

class ThreadTeam;

// A tensor (B, heads, rows, columns); strides in elements, zero where it is broadcast.
struct View {
    void* data = nullptr;
    int64_t batch = 0, head = 0, row = 0, column = 0;
};

// The ranges of keys visible to each row: int32 (B, h, L, R, 2), sorted, disjoint, half open. A null pointer means every key.
struct Spans {
    const int32_t* data = nullptr;
    int64_t batch = 0, head = 0, row = 0, range = 0;
    int64_t ranges = 0;
};

// A dense mask: one byte per (query, key) pair, 1 = visible, 0 = hidden, (B, h, L, S); strides in bytes, zero where it is broadcast. Read
// where it lies, a tile at a time; for masks that need too many ranges. A null pointer: use the spans.
struct Pattern {
    const uint8_t* data = nullptr;
    int64_t batch = 0, head = 0, row = 0, column = 0;
};

enum class ScoreKind : int { dot = 0, additive = 1, gaussian = 2 };
enum class Choice : int { softmax = 0, sparsemax = 1, entmax15 = 2, picked = 3 };
enum class Type : int { float32 = 0, bfloat16 = 1, float16 = 2 };

// The first arguments of every kernel. Preconditions of every kernel, ensured by its caller (src/regard/kernels/native):
//   - sizes are ≥ 0, width and value_width ≥ 1, key_heads ≥ 1 divides heads;
//   - every address is valid for the shape and strides beside it, and aligned to its element; outputs overlap nothing else;
//   - spans and pattern are not both given; each row's ranges are sorted and disjoint; a pattern's bytes are 0 or 1;
//   - scale, cap, beta and sinks are not NaN; cap ≥ 0.
// Strides may be anything, zero and negative included. Values may be NaN or ±∞: a hidden key never affects a row.
//
// The scores of dot-product attention: β·(cap·tanh((scale·q·k + key_bias)/cap) + bias), over the keys the mask allows. A bias that depends
// on key − query alone is one vector of L + S − 1 numbers per head: the address of its entry L − 1, row stride −1, column stride 1.
struct Scores {
    int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0, width = 0, value_width = 0;
    ScoreKind kind = ScoreKind::dot;  // of the kernels that take any
    const float* vector = nullptr;    // (d,), of an additive score
    Type type = Type::float32;
    View query, key, value;  // (B, h, L, d), (B, hk, S, d), (B, hk, S, dv) of `type`
    View key_bias;           // float32 (B, h, 1, S), or null
    View bias;               // (B, h, L, S) of `bias_type`, or null
    Type bias_type = Type::float32;
    Spans spans;
    Pattern pattern;               // in place of the spans
    const float* sinks = nullptr;  // (h,), or null
    float scale = 1, cap = 0;      // cap 0: none
    float beta = 1;                // the softmax's inverse temperature, applied after the cap
    const float* betas = nullptr;  // (h,), one of them for each head in place of `beta`; or null
    uint32_t drop_below = 0;       // weights whose hash (kernels/dropout.py) is below this are dropped, the others divided by `kept`
    uint32_t seed = 0;
    float kept = 1;
};

struct DotForward : Scores {
    View out;              // (B, h, L, dv) of `type`
    float* lse = nullptr;  // (B, h, L) contiguous, or null
};

struct DotBackward : Scores {
    View out, grad_out;                     // (B, h, L, dv) of `type`
    const float* lse = nullptr;             // (B, h, L) contiguous
    const float* grad_lse = nullptr;        // the same, or null
    View grad_query, grad_key, grad_value;  // shaped as query, key, value, of `type`
    float* grad_key_bias = nullptr;         // (B, h, S) contiguous, or null
    View grad_bias;                         // float32 (B, h, L, S), added to; stride 0 where the bias is broadcast; or null
    int64_t grad_bias_share = 0;            // floats between its copies, one per key share (`key_shares`); 0: shares never meet
    double* grad_betas = nullptr;           // (key shares, B, h): β·log2(e)·Σ dz·z, or null
    const float* grad_entropy = nullptr;    // (B, h, L), of each row's −Σ p·ln p; `grad_lse` holds the rest of its gradient; or null
    float* delta = nullptr;                 // (B, h, L) contiguous: Σ dO∘O − dlse, written
};

// Σ_c vector_c·tanh(q_c + k_c) in place of the scaled dot product. The Gaussian's −½‖q − k‖² needs nothing more than the dot's.
struct AdditiveBackward : DotBackward {
    float* grad_vector = nullptr;
};

// Sparsemax or 1.5-entmax in place of the softmax.
struct SparseForward : Scores {
    Choice choice = Choice::sparsemax;
    View out;                    // (B, h, L, dv) of `type`
    float* threshold = nullptr;  // (B, h, L) contiguous: τ
};

struct SparseBackward : DotBackward {
    Choice choice = Choice::sparsemax;
    int64_t row_shares = 1;  // in which dK and dV are summed; also the copies of grad_key_bias, grad_bias and grad_betas
};

// A hard choice: one key per row.
struct Pick : Scores {
    const double* uniform = nullptr;  // (B, h, L) in [0, 1): draw; null: the first largest
    int64_t* index = nullptr;         // (B, h, L), −1 on an empty row
};

// Statistics of the weights, computed from the known lse (τ of a sparse choice; the keys of a hard one), before dropout. A null pointer:
// not computed. Sums over rows are kept in `shares` parts, first axis, to be added up in order.
struct Read : Scores {
    static constexpr int kMaxSame = 4;
    const float* lse = nullptr;  // (B, h, L) contiguous, as are all outputs
    Choice choice = Choice::softmax;
    const int64_t* picked = nullptr;  // (B, h, L), −1 for none, of Choice::picked
    int64_t shares = 1;
    float *entropy = nullptr, *mass = nullptr, *max_logit = nullptr, *sink = nullptr, *at = nullptr, *by_query = nullptr;  // (B, h, L)
    double* received = nullptr;  // (shares, B, h, S)
    double* distance = nullptr;  // (shares, B, h, 2·side + 1)
    double* pooled = nullptr;    // (shares, B, h, pooled_rows, pooled_columns)
    int64_t side = 0, pooled_rows = 0, pooled_columns = 0, sinks_read = 0;
    float* top_weights = nullptr;  // (B, h, L, top), heaviest first, 0 and −1 where fewer keys are visible
    int64_t* top_keys = nullptr;
    int64_t top = 0;
    const int64_t* at_keys = nullptr;  // (B, h, L)
    const float* norms = nullptr;      // (B, h, S) of the values, finite
    const int64_t* chosen = nullptr;   // (chosen_count,) rows to copy whole
    int64_t chosen_count = 0;
    float* rows = nullptr;  // (B, h, chosen_count, S), zero where hidden: cleared by the caller
    int same_count = 0;
    const int32_t *same_rows[kMaxSame] = {}, *same_keys[kMaxSame] = {};  // ids (B, L) and (B, S)
    bool same_itself[kMaxSame] = {};
    float* same[kMaxSame] = {};  // (B, h, L)
};

// One measurement of the machine's peak throughput, on every thread at once.
struct Limits {
    enum What { kProduct, kExp, kTanh, kRead } what = kProduct;
    int64_t repeats = 1;
    const float* data = nullptr;  // what kRead reads once
    int64_t floats = 0, shares = 1;
    float* checksum = nullptr;  // (shares,) written, so that nothing is optimised away
    double* amount = nullptr;   // operations, numbers or bytes of all threads, written
};

// X(function, argument struct): a new kernel adds a line here and a file that defines it.
#define REGARD_KERNELS(X)                  \
    X(dot_forward, DotForward)             \
    X(additive_forward, DotForward)        \
    X(additive_backward, AdditiveBackward) \
    X(gaussian_forward, DotForward)        \
    X(gaussian_backward, DotBackward)      \
    X(limits, Limits)                      \
    X(dot_backward, DotBackward)           \
    X(read, Read)                          \
    X(sparse_forward, SparseForward)       \
    X(sparse_backward, SparseBackward)     \
    X(pick, Pick)

struct Kernels {
    const char* name;
#define X(function, Arguments) void (*function)(const Arguments&, ThreadTeam&);
    REGARD_KERNELS(X)
#undef X
};

// The widest instruction set this machine runs, or the one forced by `force` / the environment variable REGARD_ISA.
const Kernels& kernels();
const char* const* available_instruction_sets();  // null-terminated, narrowest first
bool force(const char* name);                     // nullptr undoes it; false when this build or machine has no such set

// Files compiled once per instruction set have its name in REGARD_ISA and define its kernels in the namespace of that name.
#ifdef REGARD_ISA
namespace REGARD_ISA {
#define X(function, Arguments) void function(const Arguments&, ThreadTeam&);
REGARD_KERNELS(X)
#undef X
}  // namespace REGARD_ISA
#endif

}  // namespace regard
