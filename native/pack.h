// Tensors repacked once a call into the layouts the register tile reads; strides, types and ragged edges end here.
#pragma once
#include "tile.h"

namespace regard::REGARD_ISA {
namespace {

REGARD_INLINE float widen(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}

// To the nearest bfloat16, ties to even; NaN stays NaN.
REGARD_INLINE uint16_t narrow(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)((bits >> 16) | 0x40);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// A strided matrix of either type, read as float32.
struct Matrix {
    const void* data;
    int64_t row, column;
    Type type;

    Matrix(const View& view, Type type_, int64_t batch, int64_t head)
        : data((const char*)view.data + (batch * view.batch + head * view.head) * (type_ == Type::float32 ? 4 : 2)),
          row(view.row), column(view.column), type(type_) {}

    REGARD_INLINE_MEMBER float at(int64_t i, int64_t j) const {
        const int64_t offset = i * row + j * column;
        return type == Type::float32 ? ((const float*)data)[offset] : widen(((const uint16_t*)data)[offset]);
    }

    REGARD_INLINE_MEMBER uint16_t bits(int64_t i, int64_t j) const { return ((const uint16_t*)data)[i * row + j * column]; }

    // One row, times `factor`, into `to`; zeros up to `width`.
    void copy_row(int64_t i, int64_t columns, int64_t width, float factor, float* to) const {
        if (type == Type::float32 && column == 1) {
            const float* from = (const float*)data + i * row;
            for (int64_t j = 0; j < columns; ++j) to[j] = from[j] * factor;
        } else if (type == Type::float32) {
            const float* from = (const float*)data + i * row;
            for (int64_t j = 0; j < columns; ++j) to[j] = from[j * column] * factor;
        } else if (column == 1) {
            const uint16_t* from = (const uint16_t*)data + i * row;
            for (int64_t j = 0; j < columns; ++j) to[j] = widen(from[j]) * factor;
        } else {
            const uint16_t* from = (const uint16_t*)data + i * row;
            for (int64_t j = 0; j < columns; ++j) to[j] = widen(from[j * column]) * factor;
        }
        for (int64_t j = columns; j < width; ++j) to[j] = 0;
    }
};

// Zero exactly when every one of the n numbers is finite.
static inline bool finite(const float* x, int64_t n) {
    Float sum{};
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) sum += load(x + j) * 0.0f;
    float rest = horizontal_sum(sum);
    for (; j < n; ++j) rest += x[j] * 0.0f;
    return rest == 0.0f;
}

// Rows [first, first + count) of `from` in the `rows` layout, padding rows zeroed up to `total`. True if all are finite.
static bool pack_rows(const Matrix& from, int64_t first, int64_t count, int64_t total, int64_t columns, float factor, float* to) {
    const int64_t width = padded(columns);
    for (int64_t i = 0; i < count; ++i) from.copy_row(first + i, columns, width, factor, to + i * width);
    for (int64_t i = count * width; i < total * width; ++i) to[i] = 0;
    return finite(to, count * width);
}

// kLanes×kLanes transpose in registers: kLanes rows at `from` (stride ld) become columns at `to` (stride kPanel).
static inline void transpose_square(const float* from, int64_t ld, float* to) {
    Float v[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) v[i] = load(from + i * ld);
    // log2(kLanes) butterfly steps; at each, elements whose row and column bits differ change places.
#pragma GCC unroll 4
    for (int bit = 1; bit < kLanes; bit *= 2) {
        Int low, high;
        for (int i = 0; i < kLanes; ++i) {
            low[i] = i & bit ? kLanes + (i ^ bit) : i;
            high[i] = i & bit ? kLanes + i : i ^ bit;
        }
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) {
            if (i & bit) continue;
            const Float a = v[i], b = v[i | bit];
            v[i] = __builtin_shuffle(a, b, low);
            v[i | bit] = __builtin_shuffle(a, b, high);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) store(to + i * kPanel, v[i]);
}

// kPanel rows at `from` (stride ld, readable to whole vectors) become a panel of `columns` columns.
static void transpose_panel(const float* from, int64_t ld, int64_t columns, float* to) {
    float square[kLanes * kPanel];
    for (int64_t r = 0; r < kPanel; r += kLanes)
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
    bool clean = true;
    const bool direct = from.type == Type::float32 && from.column == 1 && count == kPanel && columns == width;
    if (!direct) {
        clean = pack_rows(from, first, count, kPanel, columns, 1.0f, buffer);
        source = buffer;
        ld = width;
    } else {
        for (int64_t i = 0; i < kPanel; ++i) clean &= finite(source + i * ld, columns);
    }
    transpose_panel(source, ld, columns, to);
    return clean;
}

enum class Layout { rows, panels };

// One tensor (B, heads, rows, columns), repacked; a panel's worth of rows holding a number that is not finite is marked
// dirty, because a hidden key must not reach a sum even as 0 · NaN.
struct Pack {
    View view;
    Type type;
    Layout layout;
    int64_t heads, pairs, rows, columns, width, panels, room;
    bool direct;  // already laid out as rows: read in place
    Scratch data, marks;

    // `spare` rows of zeros follow the last row.
    Pack(const View& view_, Type type_, Layout layout_, int64_t batch, int64_t heads_, int64_t rows_, int64_t columns_, int64_t spare = 0)
        : view(view_), type(type_), layout(layout_), heads(heads_), pairs(batch * heads_), rows(rows_), columns(columns_),
          width(padded(columns_)), panels(ceil_div(rows_, kPanel)),
          room(layout == Layout::rows ? (panels * kPanel + spare) * width : panels * kPanel * columns),
          direct(layout == Layout::rows && type == Type::float32 && view.column == 1 && view.row == width && columns == width && !spare),
          data(direct ? 0 : 4 * pairs * room), marks(pairs * panels) {}

    const float* at(int64_t pair) const {
        if (direct) return (const float*)view.data + pair / heads * view.batch + pair % heads * view.head;
        return data.floats() + pair * room;
    }
    const float* panel(int64_t pair, int64_t p) const { return at(pair) + p * kPanel * columns; }
    const uint8_t* dirty(int64_t pair) const { return (const uint8_t*)marks.data + pair * panels; }

    static constexpr int64_t kChunk = 16;  // panels in a task
    int64_t tasks() const { return pairs * ceil_div(panels, kChunk); }
    int64_t buffer() const { return layout == Layout::panels ? kPanel * width : 0; }

    void task(int64_t index, float* spare) {
        const int64_t chunks = ceil_div(panels, kChunk), pair = index / chunks, first = index % chunks * kChunk;
        const Matrix from(view, type, pair / heads, pair % heads);
        float* to = (float*)at(pair);
        for (int64_t p = first; p < min(first + kChunk, panels); ++p) {
            const int64_t count = min(kPanel, rows - p * kPanel);
            bool clean;
            if (direct) {
                clean = finite(to + p * kPanel * width, count * width);
            } else if (layout == Layout::rows) {
                clean = pack_rows(from, p * kPanel, count, p + 1 == panels ? room / width - p * kPanel : kPanel, columns, 1.0f, to + p * kPanel * width);
            } else {
                clean = pack_panel(from, p * kPanel, count, columns, to + p * kPanel * columns, spare);
            }
            ((uint8_t*)marks.data)[pair * panels + p] = !clean;
        }
    }
};

// Packs every tensor of the list, in one go over the crew.
template <class Kind>
static void pack_all(Kind* const* packs, int count, Crew& crew) {
    struct Context {
        Kind* const* packs;
        int count;
        Crew& crew;
        int64_t room;
        float* spare;
    };
    int64_t tasks = 0, room = 0;
    for (int i = 0; i < count; ++i) {
        tasks += packs[i]->tasks();
        room = max(room, packs[i]->buffer());
    }
    Scratch spare(4 * room * crew.threads());
    Context context{packs, count, crew, room, spare.floats()};
    crew.run(tasks,
             [](void* opaque, int64_t index, int worker) {
                 Context& c = *(Context*)opaque;
                 if (c.crew.stopped(worker)) return;
                 for (int i = 0; i < c.count; index -= c.packs[i++]->tasks())
                     if (index < c.packs[i]->tasks()) return c.packs[i]->task(index, c.spare + worker * c.room);
             },
             &context);
}

// One row of float32 results, times `factor`, into a strided tensor of either type.
static void store_row(const View& view, Type type, int64_t batch, int64_t head, int64_t row, int64_t columns, float factor, const float* from) {
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
        for (int64_t c = 0; c < columns; ++c) to[c * view.column] = narrow(from[c] * factor);
    }
}

}  // namespace
}  // namespace regard::REGARD_ISA
