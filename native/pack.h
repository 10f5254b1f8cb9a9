// Copies tensors into the layouts that the register tile reads, handling strides, element types and sizes that are no multiple of kLanes.
#pragma once
#include "tile.h"

namespace regard::REGARD_ISA {
namespace {

REGARD_INLINE float from_bfloat16(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}

// kLanes numbers of a type of two bytes, as float32; and the other way.
REGARD_INLINE Float load_half(Type type, const uint16_t* p) { return type == Type::bfloat16 ? load_bfloat16(p) : load_float16(p); }
REGARD_INLINE Half to_half(Type type, Float v) { return type == Type::bfloat16 ? to_bfloat16(v) : to_float16(v); }

[[maybe_unused]] static float from_half(Type type, uint16_t half) {
    uint16_t bits[kLanes] = {half};
    return load_half(type, bits)[0];
}

// A strided matrix of any type, read as float32.
struct Matrix {
    const void* data;
    int64_t row, column;
    Type type;

    Matrix(const View& view, Type type_, int64_t batch, int64_t head)
        : data((const char*)view.data + (batch * view.batch + head * view.head) * (type_ == Type::float32 ? 4 : 2)), row(view.row),
          column(view.column), type(type_) {}

    REGARD_INLINE_MEMBER float at(int64_t i, int64_t j) const {
        const int64_t offset = i * row + j * column;
        return type == Type::float32 ? ((const float*)data)[offset] : from_half(type, ((const uint16_t*)data)[offset]);
    }

    // One row of bfloat16 as it is; zeros up to `width`.
    void copy_bits(int64_t i, int64_t columns, int64_t width, uint16_t* to) const {
        const uint16_t* from = (const uint16_t*)data + i * row;
        if (column == 1) {
            std::memcpy(to, from, 2 * columns);
        } else {
            for (int64_t j = 0; j < columns; ++j) to[j] = from[j * column];
        }
        for (int64_t j = columns; j < width; ++j) to[j] = 0;
    }

    // Row i into `to`, zeros up to `width`. What is not finite leaves a NaN in `finite_check`.
    REGARD_INLINE_MEMBER void copy_row(int64_t i, int64_t columns, int64_t width, float* to, Float& finite_check) const {
        int64_t j = 0;
        if (type == Type::float32 && column == 1) {
            const float* from = (const float*)data + i * row;
            for (; j + kLanes <= columns; j += kLanes) {
                const Float x = load(from + j);
                finite_check += x * 0.0f;
                store(to + j, x);
            }
        } else if (column == 1) {
            const uint16_t* from = (const uint16_t*)data + i * row;
            for (; j + kLanes <= columns; j += kLanes) {
                const Float x = load_half(type, from + j);
                finite_check += x * 0.0f;
                store(to + j, x);
            }
        }
        for (; j < columns; ++j) {
            to[j] = at(i, j);
            finite_check[0] += to[j] * 0.0f;
        }
        for (; j < width; ++j) to[j] = 0;
    }
    void copy_row(int64_t i, int64_t columns, int64_t width, float* to) const {
        Float finite_check{};
        copy_row(i, columns, width, to, finite_check);
    }
};

// Σ of a matrix's row i times `b`, which is padded.
[[maybe_unused]] static float dot_row(const Matrix& a, int64_t i, const float* b, int64_t columns) {
    Float part{};
    int64_t j = 0;
    if (a.column == 1 && a.type == Type::float32) {
        const float* from = (const float*)a.data + i * a.row;
        for (; j + kLanes <= columns; j += kLanes) part += load(from + j) * load(b + j);
    } else if (a.column == 1) {
        const uint16_t* from = (const uint16_t*)a.data + i * a.row;
        for (; j + kLanes <= columns; j += kLanes) part += load_half(a.type, from + j) * load(b + j);
    }
    double sum = horizontal_sum(part);
    for (; j < columns; ++j) sum += (double)a.at(i, j) * b[j];
    return (float)sum;
}

// Rows [first, first + count) of `from`, count ≤ kRows, as [column][kRows], missing rows zero: one column's broadcasts are side by side.
[[maybe_unused]] static inline void pack_query_group(const Matrix& from, int64_t first, int64_t count, int64_t columns, float* to) {
    for (int64_t c = 0; c < columns; ++c)
        for (int64_t i = 0; i < kRows; ++i) to[c * kRows + i] = i < count ? from.at(first + i, c) : 0.0f;
}

// Whether every one of the n numbers is finite.
static inline bool all_finite(const float* x, int64_t n) {
    Float sum{};
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) sum += load(x + j) * 0.0f;
    float rest = horizontal_sum(sum);
    for (; j < n; ++j) rest += x[j] * 0.0f;
    return rest == 0.0f;
}

// Rows [first, first + count) of `from` in the `rows` layout, padding rows zeroed up to `total`. True if all are finite.
static bool pack_rows(const Matrix& from, int64_t first, int64_t count, int64_t total, int64_t columns, float* to) {
    const int64_t width = padded(columns);
    Float finite_check{};
    for (int64_t i = 0; i < count; ++i) from.copy_row(first + i, columns, width, to + i * width, finite_check);
    for (int64_t i = count * width; i < total * width; i += kLanes) store(to + i, Float{});
    return horizontal_sum(finite_check) == 0.0f;
}

// log2(kLanes) butterfly steps; at each, elements whose row and column bits differ change places.
template <int Bit = 1>
REGARD_INLINE void transpose_lanes(Float (&v)[kLanes]) {
    REGARD_UNROLL(16)
    for (int i = 0; i < kLanes; ++i) {
        if (i & Bit) continue;
        const Float a = v[i], b = v[i | Bit];
        v[i] = shuffle<Low<Bit>>(a, b);
        v[i | Bit] = shuffle<High<Bit>>(a, b);
    }
    if constexpr (2 * Bit < kLanes) transpose_lanes<2 * Bit>(v);
}

// kLanes×kLanes transpose in registers: kLanes rows at `from` (stride ld) become columns at `to` (stride kPanel).
static inline void transpose_square(const float* from, int64_t ld, float* to) {
    Float v[kLanes];
    REGARD_UNROLL(16)
    for (int i = 0; i < kLanes; ++i) v[i] = load(from + i * ld);
    transpose_lanes(v);
    REGARD_UNROLL(16)
    for (int i = 0; i < kLanes; ++i) store(to + i * kPanel, v[i]);
}

// `count` rows at `from` (stride ld, readable to whole vectors either way) become a panel of `columns` columns, zeros beyond.
static void transpose_panel(const float* from, int64_t ld, int64_t count, int64_t columns, float* to) {
    float square[kLanes * kPanel];
    if (count <= kLanes)
        for (int64_t k = 0; k < columns; ++k) store(to + k * kPanel + kLanes, Float{});
    for (int64_t r = 0; r < count; r += kLanes)
        for (int64_t k = 0; k < columns; k += kLanes) {
            if (k + kLanes <= columns) {
                transpose_square(from + r * ld + k, ld, to + k * kPanel + r);
            } else {  // the last, narrow one: keep its padding out of the next panel
                transpose_square(from + r * ld + k, ld, square);
                for (int64_t c = k; c < columns; ++c) std::memcpy(to + c * kPanel + r, square + (c - k) * kPanel, sizeof(Float));
            }
        }
}

// One panel: rows [first, first + count) (count ≤ kPanel, the rest zero) of `from`, transposed. `buffer` holds
// kPanel·padded(columns) floats. True if all are finite.
static bool pack_panel(const Matrix& from, int64_t first, int64_t count, int64_t columns, float* to, float* buffer) {
    const int64_t width = padded(columns);
    const float* source = (const float*)from.data + first * from.row;
    int64_t ld = from.row;
    bool all_finite = true;
    const bool direct = from.type == Type::float32 && from.column == 1 && count % kLanes == 0 && columns == width;
    if (!direct) {
        all_finite = pack_rows(from, first, count, round_up(count, kLanes), columns, buffer);
        source = buffer;
        ld = width;
    } else {
        Float finite_check{};
        for (int64_t i = 0; i < count; ++i)
            for (int64_t j = 0; j < columns; j += kLanes) finite_check += load(source + i * ld + j) * 0.0f;
        all_finite = horizontal_sum(finite_check) == 0.0f;
    }
    transpose_panel(source, ld, count, columns, to);
    return all_finite;
}

constexpr int64_t kLocal = 1 << 16;  // numbers of one head that fit the cache beside the rest: short sequences are packed by their task

enum class Layout { rows, panels, plain };

// One tensor (B, heads, rows, columns), repacked; a panel's worth of rows holding a number that is not finite is marked
// non-finite, because a hidden key must not affect a sum even as 0 · NaN. With `slots`, only that many pairs of (batch, head) are stored
// at a time: short sequences are packed where they are used, into memory that stays in the cache.
struct Pack {
    View view;
    Type type;
    Layout layout;
    int64_t heads, pairs, rows, columns, width, panels, slot_floats;
    bool direct;  // already laid out as rows: read in place
    Scratch data, marks, buffers;

    // `extra_rows` rows of zeros follow the last row.
    Pack(const View& view_, Type type_, Layout layout_, int64_t batch, int64_t heads_, int64_t rows_, int64_t columns_,
         int64_t extra_rows = 0, int64_t slots = 0)
        : view(view_), type(type_), layout(layout_), heads(heads_), pairs(batch * heads_), rows(rows_), columns(columns_),
          width(padded(columns_)), panels(ceil_div(rows_, kPanel)),
          slot_floats(layout != Layout::panels ? (panels * kPanel + extra_rows) * width : panels * kPanel * columns),
          direct(layout != Layout::panels && type == Type::float32 && view.column == 1 && view.row == width && columns == width &&
                 !extra_rows && !slots),
          data(direct ? 0 : 4 * (slots ? slots : pairs) * slot_floats), marks((slots ? slots : pairs) * panels),
          buffers(4 * slots * buffer()) {}

    const float* at(int64_t slot) const {
        if (direct) return (const float*)view.data + slot / heads * view.batch + slot % heads * view.head;
        return data.floats() + slot * slot_floats;
    }
    const float* panel(int64_t slot, int64_t p) const { return at(slot) + p * kPanel * columns; }
    const uint8_t* non_finite(int64_t slot) const { return (const uint8_t*)marks.data + slot * panels; }

    static constexpr int64_t kChunk = 16;  // panels in a task
    int64_t tasks() const { return pairs * ceil_div(panels, kChunk); }
    int64_t buffer() const { return layout == Layout::panels ? kPanel * width : 0; }

    void task(int64_t index, float* buffer) {
        const int64_t chunks = ceil_div(panels, kChunk), pair = index / chunks, first = index % chunks * kChunk;
        fill(pair, pair, first, min(first + kChunk, panels), buffer);
    }
    // All of a pair into one of the slots.
    void fill(int64_t pair, int64_t slot) { fill(pair, slot, 0, panels, buffers.floats() + slot * buffer()); }
    // The same out of its rows, packed just before.
    void fill(int64_t slot, const Pack& packed) {
        for (int64_t p = 0; p < panels; ++p) {
            const int64_t count = min(kPanel, rows - p * kPanel);
            transpose_panel(packed.at(slot) + p * kPanel * width, width, count, columns, (float*)panel(slot, p));
        }
        std::memcpy(marks.data + slot * panels, packed.marks.data + slot * panels, panels);
    }

    void fill(int64_t pair, int64_t slot, int64_t first, int64_t last, float* buffer) {
        const Matrix from(view, type, pair / heads, pair % heads);
        float* to = (float*)at(slot);
        for (int64_t p = first; p < last; ++p) {
            const int64_t count = min(kPanel, rows - p * kPanel);
            bool finite;
            if (direct) {
                finite = all_finite(to + p * kPanel * width, count * width);
            } else if (layout != Layout::panels) {
                finite = pack_rows(from, p * kPanel, count,
                                   p + 1 == panels ? min(round_up(rows, kRows), slot_floats / width) - p * kPanel : kPanel, columns,
                                   to + p * kPanel * width);
            } else {
                finite = pack_panel(from, p * kPanel, count, columns, to + p * kPanel * columns, buffer);
            }
            ((uint8_t*)marks.data)[slot * panels + p] = !finite;
        }
    }
};

// Packs every tensor of the list, as one set of tasks.
template <class Kind>
static void pack_all(Kind* const* packs, int count, ThreadTeam& team) {
    struct Context {
        Kind* const* packs;
        int count;
        ThreadTeam& team;
        int64_t buffer_floats;
        float* buffers;
    };
    int64_t tasks = 0, buffer_floats = 0;
    for (int i = 0; i < count; ++i) {
        tasks += packs[i]->tasks();
        buffer_floats = max(buffer_floats, packs[i]->buffer());
    }
    Scratch buffers(4 * buffer_floats * team.threads());
    Context context{packs, count, team, buffer_floats, buffers.floats()};
    team.run(
        tasks,
        [](void* opaque, int64_t index, int worker) {
            Context& c = *(Context*)opaque;
            if (c.team.stopped(worker)) return;
            for (int i = 0; i < c.count; index -= c.packs[i++]->tasks())
                if (index < c.packs[i]->tasks()) return c.packs[i]->task(index, c.buffers + worker * c.buffer_floats);
        },
        &context);
}

// One row of float32 results, times `factor`, into a strided tensor of any type.
static void store_row(const View& view, Type type, int64_t batch, int64_t head, int64_t row, int64_t columns, float factor,
                      const float* from) {
    const int64_t offset = batch * view.batch + head * view.head + row * view.row;
    if (type == Type::float32) {
        float* to = (float*)view.data + offset;
        if (view.column == 1) {
            for (int64_t c = 0; c < columns; ++c) to[c] = from[c] * factor;
        } else {
            for (int64_t c = 0; c < columns; ++c) to[c * view.column] = from[c] * factor;
        }
    } else {
        uint16_t* to = (uint16_t*)view.data + offset;
        int64_t c = 0;
        for (; view.column == 1 && c + kLanes <= columns; c += kLanes) *(LooseHalf*)(to + c) = to_half(type, load(from + c) * factor);
        for (; c < columns; ++c) to[c * view.column] = to_half(type, splat(from[c] * factor))[0];
    }
}

}  // namespace
}  // namespace regard::REGARD_ISA
