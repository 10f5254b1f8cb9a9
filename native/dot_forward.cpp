// Dot-product attention, forward: softmax(scores)·V and the log-sum-exp, in one pass over the keys.
//
// A task is a block of queries of one head. It takes kBlock keys at a time and, for each group of kRows queries, makes the
// scores (first-level cache), their exponentials under the running maximum, and adds their product with V, summed block by
// block from zero so that long rows do not lose digits.
// Milakov & Gimelshein 2018 (online softmax); Dao et al. 2022 (FlashAttention).
//
// In bfloat16, where the machine multiplies it (VDPBF16PS), K, V and the weights are read in pairs: the weights are rounded to
// bfloat16 before they meet V; scores and sums stay float32.
#include "few.h"
#include "weighted_sum.h"

namespace regard::REGARD_ISA {
namespace {

constexpr float kNear = 1 << 12;  // a block's sum up to which the maximum found before is near enough
constexpr float kStill = 0.25f;   // a maximum that moved by less is expected to stay

template <bool Half>
struct Forward {
    using In = Operand<Half>;
    static constexpr int64_t kPair = In::kPair;
    const DotForward& a;
    Crew& crew;
    const bool local;  // keys and values are packed by the task that reads them, not all at once before
    typename In::Packed key, value;
    Bias bias;
    Post post;
    const float lift;        // of the queries, in float32: their products are then scores in base 2
    const int64_t width;     // of a row of values, padded
    const int64_t depth;     // of a score's sum
    const int64_t units;     // of a packed query
    int64_t groups, blocks;  // row groups in a block of queries; blocks in a head
    int64_t query_floats, out_floats;
    Scratch scratch;

    // Fewer groups in a task when there are few rows in all; by shape alone, so that threads change nothing.
    static int64_t groups_for(const DotForward& a) {
        const int64_t rows = a.batch * a.heads * ceil_div(a.queries, kRows);
        return max(1, min(kMostGroups, rows / 64));
    }
    static bool is_local(const DotForward& a, int threads) {
        return a.batch * a.key_heads >= 4 * threads && a.keys * (a.width + a.value_width) <= kLocal;
    }

    Forward(const DotForward& a_, Crew& crew_)
        : a(a_), crew(crew_), local(is_local(a_, crew_.threads())),
          key(a_.key, a_.type, Layout::panels, a_.batch, a_.key_heads, a_.keys, a_.width, 0, local ? crew_.threads() : 0),
          value(a_.value, a_.type, Layout::rows, a_.batch, a_.key_heads, a_.keys, a_.value_width, 0, local ? crew_.threads() : 0), bias(a_),
          post(a_), lift(Half ? 1.0f : post.lift()), width(value.width), depth(ceil_div(a_.width, kPair)), units(padded(depth)),
          groups(groups_for(a_)), blocks(ceil_div(a_.queries, groups * kRows)), query_floats(groups * kRows * units),
          out_floats(groups * kRows * width), scratch(4 * crew_.threads() * slot()) {}

    int64_t slot() const { return kRows * max(kScoreRow, units) + query_floats + out_floats; }
    int64_t tasks() const { return a.batch * (local ? a.key_heads : a.heads * blocks); }

    struct State {
        Group group;
        float top[kRows];     // running maximum or near it, in the units of the stored scores
        double total[kRows];  // running Σ 2^(s − top)
        bool steady = false;  // the maximum hardly moved last time
    };

    void task(int64_t index, int worker) {
        const int64_t group = a.heads / a.key_heads;
        if (!local) return block(index / blocks, index % blocks, index / blocks / group, worker);
        key.fill(index, worker);
        value.fill(index, worker);
        for (int64_t i = 0; i < group * blocks && !crew.stopped(worker); ++i) block(index * group + i / blocks, i % blocks, worker, worker);
    }

    // One block of queries of head `row`, whose keys are packed in `pair`.
    void block(int64_t row, int64_t index, int64_t pair, int worker) const {
        const int64_t batch = row / a.heads, head = row % a.heads;
        const int64_t first = (blocks - 1 - index) * groups * kRows;  // causal rows: the long ones first
        const int64_t count = min(groups * kRows, a.queries - first);
        float* scores = scratch.floats() + worker * slot();
        float* query = scores + kRows * max(kScoreRow, units);
        float* out = query + query_floats;
        State state[kMostGroups];
        int64_t low = a.keys, high = 0;
        const int64_t used = ceil_div(count, kRows);
        for (int64_t g = 0; g < used; ++g) {
            State& s = state[g];
            s.group = Group(a, batch, head, first + g * kRows, (int)min(kRows, count - g * kRows));
            s.group.extent(low, high);
            for (int i = 0; i < kRows; ++i) {
                s.top[i] = -INFINITY;
                s.total[i] = 0;
            }
        }
        pack_queries(Matrix(a.query, a.type, batch, head), first, count, query, scores);
        std::memset(out, 0, 4 * used * kRows * width);
        low = low / kPanel * kPanel;
        Seen seen;
        for (int64_t begin = low; begin < high; begin += kBlock) {
            const int64_t end = min(begin + kBlock, high);
            for (int64_t g = 0; g < used; ++g)
                if (state[g].group.look(begin, end, seen))
                    step(state[g], seen, begin, first + g * kRows, pair, row, query + g * kRows * units, scores, out + g * kRows * width);
            if (crew.stopped(worker)) return;
        }
        for (int64_t i = 0; i < count; ++i)
            finish_row(a, post, batch, head, first + i, state[i / kRows].top[i % kRows], state[i / kRows].total[i % kRows],
                       out + i * width);
    }

    // [group][unit][row]: a group's broadcasts are then side by side.
    void pack_queries(const Matrix& from, int64_t first, int64_t count, float* to, float* rows) const {
        for (int64_t g = 0; g < count; g += kRows, to += kRows * units) {
            const int64_t some = min(kRows, count - g);
            std::memset(rows, 0, 4 * kRows * units);
            for (int64_t i = 0; i < some; ++i) {
                if constexpr (Half) {
                    from.copy_bits(first + g + i, a.width, 2 * units, (uint16_t*)(rows + i * units));
                } else {
                    from.copy_row(first + g + i, a.width, units, rows + i * units);
                }
            }
            for (int64_t k = 0; k < depth; ++k) {
                REGARD_UNROLL(16)
                for (int i = 0; i < kRows; ++i) to[k * kRows + i] = Half ? rows[i * units + k] : rows[i * units + k] * lift;
            }
        }
    }

    // Panels [from, to), seen by every row, of a score that is its raw product. The largest of each row joins `best`.
    REGARD_INLINE_MEMBER void whole_panels(int64_t from, int64_t to, const float* panel, const float* query, float* scores,
                                           Float (&best)[kRows]) const {
        for (int64_t p = from; p < to; ++p) {
            Float acc[kRows][2];
            clear(acc);
            In::product(acc, query, 1, kRows, panel + p * kPanel * depth, kPanel, depth);
            REGARD_UNROLL(16)
            for (int i = 0; i < kRows; ++i) {
                store(scores + i * kScoreRow + p * kPanel, acc[i][0]);
                store(scores + i * kScoreRow + p * kPanel + kLanes, acc[i][1]);
                best[i] = max(best[i], max(acc[i][0], acc[i][1]));
            }
        }
    }

    // Scores of a row group with Columns vectors of keys, −∞ where hidden.
    template <int Columns>
    REGARD_APART void part(const Seen& seen, int64_t begin, int64_t v, int64_t pair, const float* key_bias, const float* query,
                           float* scores) const {
        const int64_t p = v / 2, offset = v % 2 * kLanes;
        Float acc[kRows][Columns];
        clear(acc);
        In::product(acc, query, 1, kRows, key.panel(pair, begin / kPanel + p) + offset, kPanel, depth);
        if (!post.plain) {
            const float* b = key_bias ? key_bias + begin + v * kLanes : nullptr;
            for (int i = 0; i < kRows; ++i)
                for (int c = 0; c < Columns; ++c) acc[i][c] = post.apply(acc[i][c], b ? b + c * kLanes : nullptr);
        }
        if (seen.vector[v] == kSome || seen.vector[v + Columns - 1] == kSome) {
            const uint32_t* bits = seen.bits[p];
            for (int i = 0; i < kRows; ++i)
                for (int c = 0; c < Columns; ++c) acc[i][c] = choose(bits[i] >> (offset + c * kLanes), acc[i][c], splat(-INFINITY));
        }
        REGARD_UNROLL(16)
        for (int i = 0; i < kRows; ++i)
            for (int c = 0; c < Columns; ++c) store(scores + i * kScoreRow + (v + c) * kLanes, acc[i][c]);
    }

    // Weights of a whole block without looking for its maximum first: any number near it serves to keep 2^(s − top) in range. A
    // sum that says the maximum has moved gives false, and nothing is changed.
    REGARD_APART bool weigh_near(State& state, int64_t begin, int64_t pair, const float* query, float* scores) const {
        const float factor = post.factor, *panel = key.panel(pair, begin / kPanel);
        float down[kRows], total[kRows];
        Float sum[kRows];
        for (int i = 0; i < kRows; ++i) {
            down[i] = state.top[i] * factor;
            sum[i] = Float{};
        }
        for (int64_t p = 0; p < kPanels; ++p) {
            Float acc[kRows][2];
            clear(acc);
            In::product(acc, query, 1, kRows, panel + p * kPanel * depth, kPanel, depth);
            REGARD_UNROLL(16)
            for (int i = 0; i < kRows; ++i) {
                const Float shift = splat(down[i]);
                REGARD_UNROLL(2)
                for (int c = 0; c < 2; ++c) {
                    acc[i][c] = exp2<true>(Half ? acc[i][c] * factor - shift : acc[i][c] - shift);
                    In::keep(scores + i * kScoreRow + (p * kPanel + c * kLanes) / kPair, acc[i][c]);
                }
                sum[i] += acc[i][0] + acc[i][1];
            }
        }
        bool near = true;
        REGARD_UNROLL(16)
        for (int i = 0; i < kRows; ++i) {
            total[i] = horizontal_sum(sum[i]);
            near &= total[i] <= kNear;  // false of NaN
        }
        for (int i = 0; near && i < kRows; ++i) state.total[i] += total[i];
        return near;
    }

    REGARD_APART void step(State& state, const Seen& seen, int64_t begin, int64_t first, int64_t pair, int64_t row, const float* query,
                           float* scores, float* out) const {
        if (state.steady && post.plain && seen.count == 1 && seen.segment[0].end - seen.segment[0].begin == kBlock && !seen.ragged &&
            !a.drop_below) {
            state.steady = weigh_near(state, begin, pair, query, scores);
            if (state.steady) {
                float decay[kRows];
                for (int i = 0; i < kRows; ++i) decay[i] = 1;
                return add_values<Half>(value, seen, begin, pair, scores, decay, out);
            }
        }
        Float best[kRows];
        for (int i = 0; i < kRows; ++i) best[i] = splat(-INFINITY);
        const float* key_bias = bias.row(row);
        for (int64_t p = 0; p < kPanels;) {
            int64_t to = p;
            while (post.plain && to < kPanels && seen.panel[to] == kAll) ++to;
            if (to > p) {
                whole_panels(p, to, key.panel(pair, begin / kPanel), query, scores, best);
                p = to;
                continue;
            }
            for (int64_t v = 2 * p, n = seen.pick(p, v); n; n = 0) {
                if (n == 2)
                    part<2>(seen, begin, v, pair, key_bias, query, scores);
                else
                    part<1>(seen, begin, v, pair, key_bias, query, scores);
                for (; n; --n, ++v)
                    for (int i = 0; i < kRows; ++i) best[i] = max(best[i], load(scores + i * kScoreRow + v * kLanes));
            }
            ++p;
        }
        float decay[kRows];
        const Dropout dropout(a, row);
        if (dropout)
            weigh<true>(state, seen, begin, first, dropout, best, scores, decay);
        else
            weigh<false>(state, seen, begin, first, dropout, best, scores, decay);
        if ((Half || seen.ragged) && hides_dirty(value, seen, begin, pair)) {
            add_visible_values<Half>(value, seen, begin, pair, scores, decay, out);
        } else {
            add_values<Half>(value, seen, begin, pair, scores, decay, out);
        }
    }

    // Scores become weights under the running maximum, which `best` joins. What is done once a row is done for all of them
    // together: each is a chain of steps that wait for one another.
    template <bool Drop>
    REGARD_APART void weigh(State& state, const Seen& seen, int64_t begin, int64_t first, const Dropout& dropout,
                            const Float (&best)[kRows], float* scores, float (&decay)[kRows]) const {
        const float factor = post.factor;  // here, because the stores below could be to it for all the compiler knows
        float shift[kRows];
        Float sum[kRows];
        bool whole = true, still = true;
        for (int64_t p = 0; p < kPanels; ++p) whole &= seen.panel[p] == kAll;
        REGARD_UNROLL(16)
        for (int i = 0; i < kRows; ++i) shift[i] = horizontal_max(best[i]);
        for (int i = 0; i < kRows; ++i) {
            const float before = state.top[i], now = shift[i] > before ? shift[i] : before, safe = now == -INFINITY ? 0.0f : now;
            decay[i] = before == -INFINITY ? 0.0f : before == now ? 1.0f : ::exp2f((before - safe) * factor);
            state.top[i] = now;
            shift[i] = safe * factor;
            still &= now != -INFINITY && (before == -INFINITY || decay[i] > kStill);
        }
        state.steady = still;
        for (int i = 0; i < kRows; ++i) {
            const Float down = splat(shift[i]);
            Float some[2] = {Float{}, Float{}};
            float* s = scores + i * kScoreRow;
            const uint32_t hash = Drop ? dropout.row(first + i) : 0;
            const auto one = [&](int64_t v, Float& total) __attribute__((always_inline)) {
                const Float score = load(s + v * kLanes);
                Float weight = exp2(Half ? score * factor - down : score - down);
                total += weight;
                if (Drop) weight = select(dropout.keeps(hash, begin + v * kLanes), weight, Float{});
                In::keep(s + v * kLanes / kPair, weight);  // pairs: behind what is still to be read
            };
            for (int64_t v = 0; whole && v < kVectors; v += 2) {
                one(v, some[0]);
                one(v + 1, some[1]);
            }
            for (int64_t p = 0; !whole && p < kPanels; ++p) {
                int64_t v = 2 * p;
                const int64_t n = seen.pick(p, v);
                if (n == 2) {
                    one(v, some[0]);
                    one(v + 1, some[1]);
                } else if (n == 1) {
                    one(v, some[0]);
                }
            }
            sum[i] = some[0] + some[1];
        }
        REGARD_UNROLL(16)
        for (int i = 0; i < kRows; ++i) state.total[i] = state.total[i] * decay[i] + horizontal_sum(sum[i]);
    }
};

template <bool Half>
void forward(const DotForward& a, Crew& crew) {
    Forward<Half> work(a, crew);
    typename Operand<Half>::Packed* const packs[] = {&work.key, &work.value};
    if (!work.local) pack_all(packs, 2, crew);
    crew.run(work.tasks(), [](void* context, int64_t index, int worker) { ((Forward<Half>*)context)->task(index, worker); }, &work);
}

}  // namespace

// Precondition: as kernels.h says of Scores. Rows that see no key get output 0 and lse −∞.
void dot_forward(const DotForward& a, Crew& crew) {
    if (!a.batch || !a.heads || !a.queries) return;
    if (a.queries * (a.heads / a.key_heads) <= (a.keys > kFewKeys ? kFewRows : kFewest)) return dot_few(a, crew);
#if defined(__AVX512BF16__)
    if (a.type == Type::bfloat16) return forward<true>(a, crew);
#endif
    forward<false>(a, crew);
}

}  // namespace regard::REGARD_ISA
