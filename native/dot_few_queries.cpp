// Dot-product attention of a few queries: bound by memory, so K and V are read once, in place.
//
// A task is a part of one key head's keys for all query rows that share it (grouped heads count as rows). Each writes a maximum, a sum and
// a partial output per row; a second phase combines them in order. The parts depend on the shape alone.
#include "dot_few_queries.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int64_t kRun = 128;         // keys processed at a time
constexpr int64_t kPrefetchRows = 8;  // rows prefetched at a time
constexpr int kValueVectors = 4;      // vectors of values processed at a time
constexpr int64_t kTasks = 64;        // aimed at, over all key heads

// kLanes dot products' partial vectors, reduced to their sums.
template <int Bit = kLanes / 2>
REGARD_INLINE Float reduce(Float (&v)[kLanes]) {
    // lanes with the bit clear keep sums of the first half's vectors, the others of the second's
    REGARD_UNROLL(16)
    for (int i = 0; i < Bit; ++i) v[i] = shuffle<Low<Bit>>(v[i], v[i + Bit]) + shuffle<High<Bit>>(v[i], v[i + Bit]);
    if constexpr (Bit > 1) return reduce<Bit / 2>(v);
    return v[0];
}

// Rows that will be read next, prefetched during computation: values during the scores, the next keys during the sums. The hardware
// prefetcher would start again with every run.
struct Prefetch {
    const float* data = nullptr;  // or null: nothing is
    int64_t stride = 0, width = 0, rows = 0;

    REGARD_INLINE_MEMBER void fetch(int64_t first, int64_t count) const {
        for (int64_t j = first; data && j < min(first + count, rows); ++j)
            for (int64_t c = 0; c < width; c += 16) __builtin_prefetch(data + j * stride + c, 0, 2);
    }
};

struct FewQueries {
    const DotForward& a;
    ThreadTeam& team;
    KeyBias key_bias;
    const int64_t group, rows, width, value_width, part_keys, parts;
    const bool key_direct, value_direct, masked;
    const int64_t state_floats;  // of one row in one part: maximum, sum, output
    Scratch states, scratch, row_masks;

    // The keys of the current run visible to one row.
    struct Row {
        RowGroup group;
        BlockVisibility visible;
    };

    static int64_t keys_per_part(const DotForward& a) {
        const int64_t even = a.keys * a.batch * a.key_heads / kTasks;
        return round_up(max(min(even, a.keys), 4 * kRun), kRun);
    }
    static bool in_place(const View& v, Type type, int64_t columns) {
        return type == Type::float32 && v.column == 1 && columns % kLanes == 0;
    }

    FewQueries(const DotForward& a_, ThreadTeam& team_)
        : a(a_), team(team_), key_bias(a_), group(a_.heads / a_.key_heads), rows(group * a_.queries), width(padded(a_.width)),
          value_width(padded(a_.value_width)), part_keys(keys_per_part(a_)), parts(ceil_div(a_.keys, part_keys)),
          key_direct(in_place(a_.key, a_.type, a_.width)), value_direct(in_place(a_.value, a_.type, a_.value_width)),
          masked(a_.spans.data || a_.pattern.data), state_floats(value_width + kLanes),
          states(4 * a_.batch * a_.key_heads * parts * rows * state_floats), scratch(4 * team_.threads() * slot()),
          row_masks(masked ? team_.threads() * rows * sizeof(Row) : 0) {}

    // Queries, scores, and copies of keys and values that cannot be read in place.
    int64_t slot() const { return rows * width + rows * kRun + (key_direct ? 0 : kRun * width) + (value_direct ? 0 : kRun * value_width); }

    float* state(int64_t pair, int64_t part, int64_t row) const {
        return states.floats() + ((pair * parts + part) * rows + row) * state_floats;
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
    static Prefetch next(const View& view, int64_t columns, bool direct, int64_t batch, int64_t head, int64_t begin, int64_t last) {
        if (!direct || begin >= last) return {};
        return {(const float*)view.data + batch * view.batch + head * view.head + begin * view.row, view.row, columns,
                min(kRun, last - begin)};
    }

    void task(int64_t index, int worker) {
        const int64_t pair = index / parts, part = index % parts, batch = pair / a.key_heads, key_head = pair % a.key_heads;
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
        Row* row = (Row*)row_masks.data + worker * rows;
        for (int64_t r = 0; masked && r < rows; ++r) row[r].group = RowGroup(a, batch, key_head * group + r / a.queries, r % a.queries, 1);
        const int64_t last = min((part + 1) * part_keys, a.keys);
        for (int64_t begin = part * part_keys; begin < last; begin += kRun) {
            const int64_t count = min(kRun, last - begin);
            bool all_visible = true, any = !masked;
            for (int64_t r = 0; masked && r < rows; ++r) {
                BlockVisibility& visible = row[r].visible;
                any |= row[r].group.find_visible(begin, begin + count, visible);
                all_visible &= visible.count == 1 && visible.segment[0].end - visible.segment[0].begin == count;
            }
            if (!any) continue;
            int64_t stride;
            const float* k = run(a.key, a.type, key_direct, batch, key_head, begin, count, a.width, key_copy, stride);
            const Prefetch values = next(a.value, a.value_width, value_direct, batch, key_head, begin, last),
                           keys = next(a.key, a.width, key_direct, batch, key_head, begin + kRun, last);
            int64_t r = 0;
            for (; r + 4 <= rows; r += 4) score_keys<4>(query + r * width, k, stride, count, scores + r * kRun, r ? Prefetch() : values);
            for (; r + 2 <= rows; r += 2) score_keys<2>(query + r * width, k, stride, count, scores + r * kRun, r ? Prefetch() : values);
            for (; r < rows; ++r) score_keys<1>(query + r * width, k, stride, count, scores + r * kRun, r ? Prefetch() : values);
            const float* v = run(a.value, a.type, value_direct, batch, key_head, begin, count, a.value_width, value_copy, stride);
            for (r = 0; r < rows; ++r)
                make_weights(batch, pair, part, r, begin, count, all_visible ? nullptr : &row[r].visible, scores + r * kRun);
            if (all_visible) {
                for (r = 0; r + 4 <= rows; r += 4)
                    add_values<4>(pair, part, r, scores + r * kRun, v, stride, 0, count, r ? Prefetch() : keys);
                for (; r + 2 <= rows; r += 2) add_values<2>(pair, part, r, scores + r * kRun, v, stride, 0, count, r ? Prefetch() : keys);
                for (; r < rows; ++r) add_values<1>(pair, part, r, scores + r * kRun, v, stride, 0, count, r ? Prefetch() : keys);
            } else {  // a hidden value is never read: it could be NaN
                for (r = 0; r < rows; ++r)
                    for (int i = 0; i < row[r].visible.count; ++i) {
                        const Segment& some = row[r].visible.segment[i];
                        add_values<1>(pair, part, r, scores + r * kRun, v, stride, some.begin - begin, some.end - begin, Prefetch());
                    }
            }
            if (team.stopped(worker)) return;
        }
    }

    // Raw products of Rows queries with `count` keys, kLanes dot products at a time.
    template <int Rows>
    REGARD_APART void score_keys(const float* query, const float* k, int64_t stride, int64_t count, float* scores,
                                 const Prefetch& prefetch) const {
        constexpr int Keys = kLanes / Rows;
        for (int64_t j = 0; j < count; j += Keys) {
            prefetch.fetch(j, Keys);
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
    // `visible`: of the row; null where every key is visible.
    void make_weights(int64_t batch, int64_t pair, int64_t part, int64_t r, int64_t begin, int64_t count, const BlockVisibility* visible,
                      float* s) const {
        const int64_t head = pair % a.key_heads * group + r / a.queries;
        for (int64_t j = count; j < round_up(count, kLanes); ++j) s[j] = -INFINITY;
        const ScoreTransform transform(a, head);
        const BiasRows bias(a, transform, batch, head);
        if (!transform.plain || bias) {
            const float* b = key_bias.row(batch * a.heads + head);
            for (int64_t j = 0; j < count; j += kLanes) {
                Float x = load(s + j);
                if (!transform.plain) x = transform.apply(x, b ? b + begin + j : nullptr);
                store(s + j, bias ? x + bias.at(r % a.queries, begin + j) : x);
            }
            for (int64_t j = count; j < round_up(count, kLanes); ++j) s[j] = -INFINITY;
        }
        if (visible) {
            int64_t j = 0;
            for (int i = 0; i < visible->count; j = visible->segment[i++].end - begin)
                for (; j < visible->segment[i].begin - begin; ++j) s[j] = -INFINITY;
            for (; j < count; ++j) s[j] = -INFINITY;
        }
        Float best = splat(-INFINITY);
        for (int64_t j = 0; j < count; j += kLanes) best = max(best, load(s + j));
        float* state_of_row = state(pair, part, r);
        const float top = horizontal_max(best), new_top = top > state_of_row[0] ? top : state_of_row[0],
                    finite_top = new_top == -INFINITY ? 0.0f : new_top;
        const float decay = state_of_row[0] == -INFINITY ? 0.0f : ::exp2f((state_of_row[0] - finite_top) * transform.factor);
        const Float shift = splat(finite_top * transform.factor);
        Float sum{};
        const Dropout dropout(a, batch * a.heads + head);
        const uint32_t hash = dropout.row(r % a.queries);
        for (int64_t j = 0; j < count; j += kLanes) {
            const Float weight = exp2(load(s + j) * transform.factor - shift);
            store(s + j, dropout ? select(dropout.keeps(hash, begin + j), weight, Float{}) : weight);
            sum += weight;
        }
        state_of_row[1] = state_of_row[1] * decay + horizontal_sum(sum);
        if (decay != 1.0f)
            for (int64_t c = 0; c < value_width; c += kLanes) store(state_of_row + kLanes + c, load(state_of_row + kLanes + c) * decay);
        state_of_row[0] = new_top;
    }

    // Adds weights [from, to) times their values to the outputs of Rows rows.
    template <int Rows>
    void add_values(int64_t pair, int64_t part, int64_t r, const float* weights, const float* v, int64_t stride, int64_t from, int64_t to,
                    const Prefetch& prefetch) const {
        int64_t column = 0;
        for (; column + kValueVectors * kLanes <= value_width; column += kValueVectors * kLanes)
            add_value_columns<Rows, kValueVectors>(pair, part, r, weights, v, stride, from, to, column, column ? Prefetch() : prefetch);
        for (; column < value_width; column += kLanes)
            add_value_columns<Rows, 1>(pair, part, r, weights, v, stride, from, to, column, column ? Prefetch() : prefetch);
    }

    template <int Rows, int Columns>
    REGARD_APART void add_value_columns(int64_t pair, int64_t part, int64_t r, const float* weights, const float* v, int64_t stride,
                                        int64_t from, int64_t to, int64_t column, const Prefetch& prefetch) const {
        Float acc[Rows][Columns];
        clear(acc);
        for (int64_t j = from; j < to; j += kPrefetchRows) {
            prefetch.fetch(j, kPrefetchRows);
            multiply(acc, weights + j, kRun, 1, v + j * stride + column, stride, min(kPrefetchRows, to - j));
        }
        for (int i = 0; i < Rows; ++i)
            for (int c = 0; c < Columns; ++c) {
                float* o = state(pair, part, r + i) + kLanes + column + c * kLanes;
                store(o, load(o) + acc[i][c]);
            }
    }

    void join(int64_t index) const {
        const int64_t pair = index / rows, r = index % rows;
        const int64_t head = pair % a.key_heads * group + r / a.queries;
        finish_parts(a, ScoreTransform(a, head), pair / a.key_heads, head, r % a.queries, state(pair, 0, r), parts, rows * state_floats);
    }
};

}  // namespace

void dot_few_queries(const DotForward& a, ThreadTeam& team) {
    FewQueries work(a, team);
    team.run(
        a.batch * a.key_heads * work.parts, [](void* context, int64_t index, int worker) { ((FewQueries*)context)->task(index, worker); },
        &work);
    if (team.stopped()) return;
    for (int64_t index = 0; index < a.batch * a.key_heads * work.rows; ++index) work.join(index);
}

}  // namespace regard::REGARD_ISA
