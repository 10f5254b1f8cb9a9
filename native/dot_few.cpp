// Dot-product attention of a few queries: bound by memory, so K and V are read once, in place.
//
// A task is a stretch of one key head's keys for all query rows that share it (grouped heads count as rows). Each leaves a
// maximum, a sum and a partial output per row; a second phase joins them in order. Stretches follow from the shape alone.
#include "few.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int64_t kRun = 128;   // keys taken at a time
constexpr int64_t kFetch = 8;   // rows asked of memory at a time
constexpr int kWide = 4;        // vectors of values taken at a time
constexpr int64_t kTasks = 64;  // wanted over all key heads

// kLanes dot products' partial vectors, reduced to their sums.
template <int Bit = kLanes / 2>
REGARD_INLINE Float reduce(Float (&v)[kLanes]) {
    // lanes with the bit clear keep sums of the first half's vectors, the others of the second's
    REGARD_UNROLL(16)
    for (int i = 0; i < Bit; ++i) v[i] = shuffle<Low<Bit>>(v[i], v[i + Bit]) + shuffle<High<Bit>>(v[i], v[i + Bit]);
    if constexpr (Bit > 1) return reduce<Bit / 2>(v);
    return v[0];
}

// Rows that will be read next, asked of memory while there is something to compute: values during the scores, the next keys
// during the sums. The processor's own guess starts anew with every run.
struct Ahead {
    const float* data = nullptr;  // or null: nothing is
    int64_t stride = 0, width = 0, rows = 0;

    REGARD_INLINE_MEMBER void fetch(int64_t first, int64_t count) const {
        for (int64_t j = first; data && j < min(first + count, rows); ++j)
            for (int64_t c = 0; c < width; c += 16) __builtin_prefetch(data + j * stride + c, 0, 2);
    }
};

struct Few {
    const DotForward& a;
    Crew& crew;
    Bias bias;
    Post post;
    const int64_t group, rows, width, value_width, stretch, stretches;
    const bool key_direct, value_direct, masked;
    const int64_t state_floats;  // of one row in one stretch: maximum, sum, output
    Scratch states, scratch, sight;

    // What one row sees of the run at hand.
    struct Row {
        Group group;
        Seen seen;
    };

    static int64_t stretch_for(const DotForward& a) {
        const int64_t even = a.keys * a.batch * a.key_heads / kTasks;
        return round_up(max(min(even, a.keys), 4 * kRun), kRun);
    }
    static bool in_place(const View& v, Type type, int64_t columns) {
        return type == Type::float32 && v.column == 1 && columns % kLanes == 0;
    }

    Few(const DotForward& a_, Crew& crew_)
        : a(a_), crew(crew_), bias(a_), post(a_), group(a_.heads / a_.key_heads), rows(group * a_.queries), width(padded(a_.width)),
          value_width(padded(a_.value_width)), stretch(stretch_for(a_)), stretches(ceil_div(a_.keys, stretch)),
          key_direct(in_place(a_.key, a_.type, a_.width)), value_direct(in_place(a_.value, a_.type, a_.value_width)),
          masked(a_.spans.data || a_.pattern.data), state_floats(value_width + kLanes),
          states(4 * a_.batch * a_.key_heads * stretches * rows * state_floats), scratch(4 * crew_.threads() * slot()),
          sight(masked ? crew_.threads() * rows * sizeof(Row) : 0) {}

    // Queries, scores, and copies of keys and values that cannot be read in place.
    int64_t slot() const { return rows * width + rows * kRun + (key_direct ? 0 : kRun * width) + (value_direct ? 0 : kRun * value_width); }

    float* state(int64_t pair, int64_t part, int64_t row) const {
        return states.floats() + ((pair * stretches + part) * rows + row) * state_floats;
    }

    // The rows of a run of keys or values, in place or copied: their address and stride.
    static const float* run(const View& view, Type type, bool direct, int64_t batch, int64_t head, int64_t begin, int64_t count,
                            int64_t columns, float* copy, int64_t& stride) {
        if (direct) {
            stride = view.row;
            return (const float*)view.data + batch * view.batch + head * view.head + begin * view.row;
        }
        stride = padded(columns);
        const Matrix from(view, type, batch, head);
        for (int64_t i = 0; i < count; ++i) from.copy_row(begin + i, columns, stride, copy + i * stride);
        return copy;
    }

    // The run of rows at `begin`, where it is read in place.
    static Ahead next(const View& view, int64_t columns, bool direct, int64_t batch, int64_t head, int64_t begin, int64_t last) {
        if (!direct || begin >= last) return {};
        return {(const float*)view.data + batch * view.batch + head * view.head + begin * view.row, view.row, columns,
                min(kRun, last - begin)};
    }

    void task(int64_t index, int worker) {
        const int64_t pair = index / stretches, part = index % stretches, batch = pair / a.key_heads, key_head = pair % a.key_heads;
        float* query = scratch.floats() + worker * slot();
        float* scores = query + rows * width;
        float* key_copy = scores + rows * kRun;
        float* value_copy = key_copy + (key_direct ? 0 : kRun * width);
        for (int64_t r = 0; r < rows; ++r) {
            Matrix(a.query, a.type, batch, key_head * group + r / a.queries).copy_row(r % a.queries, a.width, width, query + r * width);
            float* s = state(pair, part, r);
            s[0] = -INFINITY;
            s[1] = 0;
            std::memset(s + kLanes, 0, 4 * value_width);
        }
        Row* row = (Row*)sight.data + worker * rows;
        for (int64_t r = 0; masked && r < rows; ++r) row[r].group = Group(a, batch, key_head * group + r / a.queries, r % a.queries, 1);
        const int64_t last = min((part + 1) * stretch, a.keys);
        for (int64_t begin = part * stretch; begin < last; begin += kRun) {
            const int64_t count = min(kRun, last - begin);
            bool whole = true, any = !masked;
            for (int64_t r = 0; masked && r < rows; ++r) {
                Seen& seen = row[r].seen;
                any |= row[r].group.look(begin, begin + count, seen);
                whole &= seen.count == 1 && seen.segment[0].end - seen.segment[0].begin == count;
            }
            if (!any) continue;
            int64_t stride;
            const float* k = run(a.key, a.type, key_direct, batch, key_head, begin, count, a.width, key_copy, stride);
            const Ahead values = next(a.value, a.value_width, value_direct, batch, key_head, begin, last),
                        keys = next(a.key, a.width, key_direct, batch, key_head, begin + kRun, last);
            int64_t r = 0;
            for (; r + 4 <= rows; r += 4) dots<4>(query + r * width, k, stride, count, scores + r * kRun, r ? Ahead() : values);
            for (; r + 2 <= rows; r += 2) dots<2>(query + r * width, k, stride, count, scores + r * kRun, r ? Ahead() : values);
            for (; r < rows; ++r) dots<1>(query + r * width, k, stride, count, scores + r * kRun, r ? Ahead() : values);
            const float* v = run(a.value, a.type, value_direct, batch, key_head, begin, count, a.value_width, value_copy, stride);
            for (r = 0; r < rows; ++r) weigh(batch, pair, part, r, begin, count, whole ? nullptr : &row[r].seen, scores + r * kRun);
            if (whole) {
                for (r = 0; r + 4 <= rows; r += 4) gather<4>(pair, part, r, scores + r * kRun, v, stride, 0, count, r ? Ahead() : keys);
                for (; r + 2 <= rows; r += 2) gather<2>(pair, part, r, scores + r * kRun, v, stride, 0, count, r ? Ahead() : keys);
                for (; r < rows; ++r) gather<1>(pair, part, r, scores + r * kRun, v, stride, 0, count, r ? Ahead() : keys);
            } else {  // a value the row may not see is never read: it could be NaN
                for (r = 0; r < rows; ++r)
                    for (int i = 0; i < row[r].seen.count; ++i) {
                        const Segment& some = row[r].seen.segment[i];
                        gather<1>(pair, part, r, scores + r * kRun, v, stride, some.begin - begin, some.end - begin, Ahead());
                    }
            }
            if (crew.stopped(worker)) return;
        }
    }

    // Raw products of Rows queries with `count` keys, kLanes dot products at a time.
    template <int Rows>
    REGARD_APART void dots(const float* query, const float* k, int64_t stride, int64_t count, float* scores, const Ahead& ahead) const {
        constexpr int Keys = kLanes / Rows;
        for (int64_t j = 0; j < count; j += Keys) {
            ahead.fetch(j, Keys);
            const float* at[Keys];
            for (int c = 0; c < Keys; ++c) at[c] = k + min(j + c, count - 1) * stride;
            Float acc[kLanes];
            REGARD_UNROLL(16)
            for (int i = 0; i < kLanes; ++i) acc[i] = Float{};
            for (int64_t x = 0; x < width; x += kLanes) {
                REGARD_UNROLL(16)
                for (int c = 0; c < Keys; ++c) {
                    const Float key = load(at[c] + x);
                    REGARD_UNROLL(4)
                    for (int i = 0; i < Rows; ++i) acc[i * Keys + c] += load(query + i * width + x) * key;
                }
            }
            float sums[kLanes];
            store(sums, reduce(acc));
            for (int i = 0; i < Rows; ++i)
                for (int c = 0; c < Keys; ++c)
                    if (j + c < count) scores[i * kRun + j + c] = sums[i * Keys + c];
        }
    }

    // Scores become weights under the row's running maximum; its sum and output so far are brought to the new maximum.
    // `seen`: of the row; null where it sees everything.
    void weigh(int64_t batch, int64_t pair, int64_t part, int64_t r, int64_t begin, int64_t count, const Seen* seen, float* s) const {
        const int64_t head = pair % a.key_heads * group + r / a.queries;
        for (int64_t j = count; j < round_up(count, kLanes); ++j) s[j] = -INFINITY;
        if (!post.plain) {
            const float* b = bias.row(batch * a.heads + head);
            for (int64_t j = 0; j < count; j += kLanes) store(s + j, post.apply(load(s + j), b ? b + begin + j : nullptr));
            for (int64_t j = count; j < round_up(count, kLanes); ++j) s[j] = -INFINITY;
        }
        if (seen) {
            int64_t j = 0;
            for (int i = 0; i < seen->count; j = seen->segment[i++].end - begin)
                for (; j < seen->segment[i].begin - begin; ++j) s[j] = -INFINITY;
            for (; j < count; ++j) s[j] = -INFINITY;
        }
        Float best = splat(-INFINITY);
        for (int64_t j = 0; j < count; j += kLanes) best = max(best, load(s + j));
        float* held = state(pair, part, r);
        const float top = horizontal_max(best), now = top > held[0] ? top : held[0], safe = now == -INFINITY ? 0.0f : now;
        const float decay = held[0] == -INFINITY ? 0.0f : ::exp2f((held[0] - safe) * post.factor);
        const Float shift = splat(safe * post.factor);
        Float sum{};
        const Dropout dropout(a, batch * a.heads + head);
        const uint32_t hash = dropout.row(r % a.queries);
        for (int64_t j = 0; j < count; j += kLanes) {
            const Float weight = exp2(load(s + j) * post.factor - shift);
            store(s + j, dropout ? select(dropout.keeps(hash, begin + j), weight, Float{}) : weight);
            sum += weight;
        }
        held[1] = held[1] * decay + horizontal_sum(sum);
        if (decay != 1.0f)
            for (int64_t c = 0; c < value_width; c += kLanes) store(held + kLanes + c, load(held + kLanes + c) * decay);
        held[0] = now;
    }

    // Adds weights [from, to) times their values to the outputs of Rows rows.
    template <int Rows>
    void gather(int64_t pair, int64_t part, int64_t r, const float* weights, const float* v, int64_t stride, int64_t from, int64_t to,
                const Ahead& ahead) const {
        int64_t column = 0;
        for (; column + kWide * kLanes <= value_width; column += kWide * kLanes)
            gather_columns<Rows, kWide>(pair, part, r, weights, v, stride, from, to, column, column ? Ahead() : ahead);
        for (; column < value_width; column += kLanes)
            gather_columns<Rows, 1>(pair, part, r, weights, v, stride, from, to, column, column ? Ahead() : ahead);
    }

    template <int Rows, int Columns>
    REGARD_APART void gather_columns(int64_t pair, int64_t part, int64_t r, const float* weights, const float* v, int64_t stride,
                                     int64_t from, int64_t to, int64_t column, const Ahead& ahead) const {
        Float acc[Rows][Columns];
        clear(acc);
        for (int64_t j = from; j < to; j += kFetch) {
            ahead.fetch(j, kFetch);
            multiply(acc, weights + j, kRun, 1, v + j * stride + column, stride, min(kFetch, to - j));
        }
        for (int i = 0; i < Rows; ++i)
            for (int c = 0; c < Columns; ++c) {
                float* o = state(pair, part, r + i) + kLanes + column + c * kLanes;
                store(o, load(o) + acc[i][c]);
            }
    }

    void join(int64_t index) const {
        const int64_t pair = index / rows, r = index % rows;
        finish_parts(a, post, pair / a.key_heads, pair % a.key_heads * group + r / a.queries, r % a.queries, state(pair, 0, r), stretches,
                     rows * state_floats);
    }
};

}  // namespace

void dot_few(const DotForward& a, Crew& crew) {
    Few few(a, crew);
    crew.run(
        a.batch * a.key_heads * few.stretches, [](void* context, int64_t index, int worker) { ((Few*)context)->task(index, worker); },
        &few);
    if (crew.stopped()) return;
    for (int64_t index = 0; index < a.batch * a.key_heads * few.rows; ++index) few.join(index);
}

}  // namespace regard::REGARD_ISA
