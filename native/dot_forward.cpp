// Dot-product attention, forward: softmax(scores)·V and the log-sum-exp, in one pass over the keys.
//
// A task is a block of queries of one head. It takes kBlock keys at a time and, for each group of kRows queries, makes the
// scores (first-level cache), their exponentials under the running maximum, and adds their product with V, summed block by
// block from zero so that long rows do not lose digits.
// Milakov & Gimelshein 2018 (online softmax); Dao et al. 2022 (FlashAttention).
//
// In bfloat16, where the machine multiplies it (VDPBF16PS), K, V and the weights are read in pairs: the weights are rounded to
// bfloat16 before the product with V; scores and sums stay float32.
#include "dot_few_queries.h"
#include "weighted_sum.h"

namespace regard::REGARD_ISA {
namespace {

constexpr float kMaxBlockSum = 1 << 12;  // the previous maximum serves while a block's sum stays below this
constexpr float kSteadyDecay = 0.25f;    // a maximum that changed by a smaller factor is expected to stay

template <bool Bf16>
struct Forward {
    using Operands = Operand<Bf16>;
    static constexpr int64_t kPair = Operands::kPair;
    const DotForward& a;
    ThreadTeam& team;
    const bool local;  // keys and values are packed by the task that reads them, not all at once before
    typename Operands::Packed key, value;
    KeyBias key_bias;
    const int64_t width;     // of a row of values, padded
    const int64_t depth;     // of a score's sum
    const int64_t units;     // of a packed query
    int64_t groups, blocks;  // row groups in a block of queries; blocks in a head
    int64_t query_floats, out_floats;
    Scratch scratch;

    // Fewer groups in a task when there are few rows in all; by shape alone, so that threads change nothing.
    static int64_t groups_for(const DotForward& a) {
        const int64_t rows = a.batch * a.heads * ceil_div(a.queries, kRows);
        return max(1, min(kMaxGroups, rows / 64));
    }
    static bool is_local(const DotForward& a, int threads) {
        return a.batch * a.key_heads >= 4 * threads && a.keys * (a.width + a.value_width) <= kLocal;
    }

    Forward(const DotForward& a_, ThreadTeam& team_)
        : a(a_), team(team_), local(is_local(a_, team_.threads())),
          key(a_.key, a_.type, Layout::panels, a_.batch, a_.key_heads, a_.keys, a_.width, 0, local ? team_.threads() : 0),
          value(a_.value, a_.type, Layout::rows, a_.batch, a_.key_heads, a_.keys, a_.value_width, 0, local ? team_.threads() : 0),
          key_bias(a_), width(value.width), depth(ceil_div(a_.width, kPair)), units(padded(depth)), groups(groups_for(a_)),
          blocks(ceil_div(a_.queries, groups * kRows)), query_floats(groups * kRows * units), out_floats(groups * kRows * width),
          scratch(4 * team_.threads() * slot()) {}

    int64_t slot() const { return kRows * max(kScoreRow, units) + query_floats + out_floats; }
    int64_t tasks() const { return a.batch * (local ? a.key_heads : a.heads * blocks); }

    // What the scores of one head need beside its queries and keys.
    struct Head {
        int64_t row, pair;  // of (batch, head); where its keys are packed
        ScoreTransform transform;
        float query_factor;  // of the queries, in float32: their products are then scores in base 2
        BiasRows bias;
        const float* key_bias;

        Head(const Forward& work, int64_t row_, int64_t pair_)
            : row(row_), pair(pair_), transform(work.a, row_ % work.a.heads), query_factor(Bf16 ? 1.0f : transform.take_factor()),
              bias(work.a, transform, row_ / work.a.heads, row_ % work.a.heads), key_bias(work.key_bias.row(row_)) {}
    };

    struct State {
        RowGroup group;
        float top[kRows];     // running maximum or near it, in the units of the stored scores
        double total[kRows];  // running Σ 2^(s − top)
        bool steady = false;  // the maximum hardly moved last time
    };

    void task(int64_t index, int worker) {
        const int64_t group = a.heads / a.key_heads;
        if (!local) return block(index / blocks, index % blocks, index / blocks / group, worker);
        key.fill(index, worker);
        value.fill(index, worker);
        for (int64_t i = 0; i < group * blocks && !team.stopped(worker); ++i) block(index * group + i / blocks, i % blocks, worker, worker);
    }

    // One block of queries of head `row`, whose keys are packed in `pair`.
    void block(int64_t row, int64_t index, int64_t pair, int worker) const {
        const int64_t batch = row / a.heads, head = row % a.heads;
        const Head of(*this, row, pair);
        const int64_t first = (blocks - 1 - index) * groups * kRows;  // causal rows: the long ones first
        const int64_t count = min(groups * kRows, a.queries - first);
        float* scores = scratch.floats() + worker * slot();
        float* query = scores + kRows * max(kScoreRow, units);
        float* out = query + query_floats;
        State state[kMaxGroups];
        int64_t low = a.keys, high = 0;
        const int64_t group_count = ceil_div(count, kRows);
        for (int64_t g = 0; g < group_count; ++g) {
            State& s = state[g];
            s.group = RowGroup(a, batch, head, first + g * kRows, (int)min(kRows, count - g * kRows));
            s.group.widen_extent(low, high);
            for (int i = 0; i < kRows; ++i) {
                s.top[i] = -INFINITY;
                s.total[i] = 0;
            }
        }
        pack_queries(Matrix(a.query, a.type, batch, head), of.query_factor, first, count, query, scores);
        std::memset(out, 0, 4 * group_count * kRows * width);
        low = low / kPanel * kPanel;
        BlockVisibility visible;
        for (int64_t begin = low; begin < high; begin += kBlock) {
            const int64_t end = min(begin + kBlock, high);
            for (int64_t g = 0; g < group_count; ++g)
                if (state[g].group.find_visible(begin, end, visible))
                    step(of, state[g], visible, begin, first + g * kRows, query + g * kRows * units, scores, out + g * kRows * width);
            if (team.stopped(worker)) return;
        }
        for (int64_t i = 0; i < count; ++i)
            finish_row(a, of.transform, batch, head, first + i, state[i / kRows].top[i % kRows], state[i / kRows].total[i % kRows],
                       out + i * width);
    }

    // [group][unit][row]: a group's broadcasts are then side by side.
    void pack_queries(const Matrix& from, float query_factor, int64_t first, int64_t count, float* to, float* rows) const {
        for (int64_t g = 0; g < count; g += kRows, to += kRows * units) {
            const int64_t some = min(kRows, count - g);
            std::memset(rows, 0, 4 * kRows * units);
            for (int64_t i = 0; i < some; ++i) {
                if constexpr (Bf16) {
                    from.copy_bits(first + g + i, a.width, 2 * units, (uint16_t*)(rows + i * units));
                } else {
                    from.copy_row(first + g + i, a.width, units, rows + i * units);
                }
            }
            for (int64_t k = 0; k < depth; ++k) {
                REGARD_UNROLL(16)
                for (int i = 0; i < kRows; ++i) to[k * kRows + i] = Bf16 ? rows[i * units + k] : rows[i * units + k] * query_factor;
            }
        }
    }

    // Scores of panels [from, to), visible to every row, where the score is the raw product, with or without a bias. `best` is updated with
    // the largest of each row.
    template <bool Biased>
    REGARD_INLINE_MEMBER void score_full_panels(const Head& of, int64_t from, int64_t to, int64_t begin, int64_t first, const float* query,
                                                float* scores, Float (&best)[kRows]) const {
        const float* panel = key.panel(of.pair, begin / kPanel);
        for (int64_t p = from; p < to; ++p) {
            Float acc[kRows][2];
            clear(acc);
            Operands::product(acc, query, 1, kRows, panel + p * kPanel * depth, kPanel, depth);
            if (Biased) add_bias(acc, of, first, begin + p * kPanel);
            REGARD_UNROLL(16)
            for (int i = 0; i < kRows; ++i) {
                store(scores + i * kScoreRow + p * kPanel, acc[i][0]);
                store(scores + i * kScoreRow + p * kPanel + kLanes, acc[i][1]);
                best[i] = max(best[i], max(acc[i][0], acc[i][1]));
            }
        }
    }

    // Adds the bias of rows from `first` and of keys from j on.
    template <int Columns>
    REGARD_INLINE_MEMBER void add_bias(Float (&acc)[kRows][Columns], const Head& of, int64_t first, int64_t j) const {
        REGARD_UNROLL(16)
        for (int i = 0; i < kRows; ++i) {
            REGARD_UNROLL(2)
            for (int c = 0; c < Columns; ++c) acc[i][c] += of.bias.at(first + i, j + c * kLanes);
        }
    }

    // Scores of a row group with Columns vectors of keys, −∞ where hidden.
    template <int Columns>
    REGARD_APART void score_vectors(const Head& of, const BlockVisibility& visible, int64_t begin, int64_t first, int64_t v,
                                    const float* query, float* scores) const {
        const int64_t p = v / 2, offset = v % 2 * kLanes;
        Float acc[kRows][Columns];
        clear(acc);
        Operands::product(acc, query, 1, kRows, key.panel(of.pair, begin / kPanel + p) + offset, kPanel, depth);
        if (!of.transform.plain) {
            const float* b = of.key_bias ? of.key_bias + begin + v * kLanes : nullptr;
            for (int i = 0; i < kRows; ++i)
                for (int c = 0; c < Columns; ++c) acc[i][c] = of.transform.apply(acc[i][c], b ? b + c * kLanes : nullptr);
        }
        if (of.bias) add_bias(acc, of, first, begin + v * kLanes);
        if (visible.vector[v] == kSome || visible.vector[v + Columns - 1] == kSome) {
            const uint32_t* bits = visible.bits[p];
            for (int i = 0; i < kRows; ++i)
                for (int c = 0; c < Columns; ++c) acc[i][c] = choose(bits[i] >> (offset + c * kLanes), acc[i][c], splat(-INFINITY));
        }
        REGARD_UNROLL(16)
        for (int i = 0; i < kRows; ++i)
            for (int c = 0; c < Columns; ++c) store(scores + i * kScoreRow + (v + c) * kLanes, acc[i][c]);
    }

    // Weights of a fully visible block under the previous maximum, in one pass: any number near the maximum keeps 2^(s − top) in range.
    // Returns false, and changes nothing, if the sum shows that the maximum has moved too far.
    template <bool Biased>
    REGARD_APART bool weights_with_old_maximum(const Head& of, State& state, int64_t begin, int64_t first, const float* query,
                                               float* scores) const {
        const float factor = of.transform.factor, *panel = key.panel(of.pair, begin / kPanel);
        float shifts[kRows], total[kRows];
        Float sum[kRows];
        for (int i = 0; i < kRows; ++i) {
            shifts[i] = state.top[i] * factor;
            sum[i] = Float{};
        }
        for (int64_t p = 0; p < kPanels; ++p) {
            Float acc[kRows][2];
            clear(acc);
            Operands::product(acc, query, 1, kRows, panel + p * kPanel * depth, kPanel, depth);
            if (Biased) add_bias(acc, of, first, begin + p * kPanel);
            REGARD_UNROLL(16)
            for (int i = 0; i < kRows; ++i) {
                const Float shift = splat(shifts[i]);
                REGARD_UNROLL(2)
                for (int c = 0; c < 2; ++c) {
                    acc[i][c] = exp2<!Biased>(Bf16 ? acc[i][c] * factor - shift : acc[i][c] - shift);
                    Operands::store_weights(scores + i * kScoreRow + (p * kPanel + c * kLanes) / kPair, acc[i][c]);
                }
                sum[i] += acc[i][0] + acc[i][1];
            }
        }
        bool in_range = true;
        REGARD_UNROLL(16)
        for (int i = 0; i < kRows; ++i) {
            total[i] = horizontal_sum(sum[i]);
            in_range &= total[i] <= kMaxBlockSum;  // false of NaN
        }
        for (int i = 0; in_range && i < kRows; ++i) state.total[i] += total[i];
        return in_range;
    }

    REGARD_APART void step(const Head& of, State& state, const BlockVisibility& visible, int64_t begin, int64_t first, const float* query,
                           float* scores, float* out) const {
        const int64_t pair = of.pair;
        if (state.steady && of.transform.plain && visible.count == 1 && visible.segment[0].end - visible.segment[0].begin == kBlock &&
            !visible.partly_hidden && !a.drop_below) {
            state.steady = of.bias ? weights_with_old_maximum<true>(of, state, begin, first, query, scores)
                                   : weights_with_old_maximum<false>(of, state, begin, first, query, scores);
            if (state.steady) {
                float decay[kRows];
                for (int i = 0; i < kRows; ++i) decay[i] = 1;
                return add_values<Bf16>(value, visible, begin, pair, scores, decay, out);
            }
        }
        Float best[kRows];
        for (int i = 0; i < kRows; ++i) best[i] = splat(-INFINITY);
        for (int64_t p = 0; p < kPanels;) {
            int64_t to = p;
            while (of.transform.plain && to < kPanels && visible.panel[to] == kAll) ++to;
            if (to > p) {
                if (of.bias)
                    score_full_panels<true>(of, p, to, begin, first, query, scores, best);
                else
                    score_full_panels<false>(of, p, to, begin, first, query, scores, best);
                p = to;
                continue;
            }
            for (int64_t v = 2 * p, n = visible.visible_vectors(p, v); n; n = 0) {
                if (n == 2)
                    score_vectors<2>(of, visible, begin, first, v, query, scores);
                else
                    score_vectors<1>(of, visible, begin, first, v, query, scores);
                for (; n; --n, ++v)
                    for (int i = 0; i < kRows; ++i) best[i] = max(best[i], load(scores + i * kScoreRow + v * kLanes));
            }
            ++p;
        }
        float decay[kRows];
        const Dropout dropout(a, of.row);
        if (dropout)
            make_weights<true>(of.transform.factor, state, visible, begin, first, dropout, best, scores, decay);
        else
            make_weights<false>(of.transform.factor, state, visible, begin, first, dropout, best, scores, decay);
        if ((Bf16 || visible.partly_hidden) && hides_non_finite(value, visible, begin, pair)) {
            add_visible_values<Bf16>(value, visible, begin, pair, scores, decay, out);
        } else {
            add_values<Bf16>(value, visible, begin, pair, scores, decay, out);
        }
    }

    // Scores become weights under the running maximum, updated by `best`. The scalar work of each row is done for all rows
    // together, so that their latencies overlap.
    template <bool Drop>
    REGARD_APART void make_weights(const float factor, State& state, const BlockVisibility& visible, int64_t begin, int64_t first,
                                   const Dropout& dropout, const Float (&best)[kRows], float* scores, float (&decay)[kRows]) const {
        float shifts[kRows];
        Float sum[kRows];
        bool all_visible = true, steady = true;
        for (int64_t p = 0; p < kPanels; ++p) all_visible &= visible.panel[p] == kAll;
        REGARD_UNROLL(16)
        for (int i = 0; i < kRows; ++i) shifts[i] = horizontal_max(best[i]);
        for (int i = 0; i < kRows; ++i) {
            const float old_top = state.top[i], new_top = shifts[i] > old_top ? shifts[i] : old_top,
                        finite_top = new_top == -INFINITY ? 0.0f : new_top;
            decay[i] = old_top == -INFINITY ? 0.0f : old_top == new_top ? 1.0f : ::exp2f((old_top - finite_top) * factor);
            state.top[i] = new_top;
            shifts[i] = finite_top * factor;
            steady &= new_top != -INFINITY && (old_top == -INFINITY || decay[i] > kSteadyDecay);
        }
        state.steady = steady;
        for (int i = 0; i < kRows; ++i) {
            const Float shift = splat(shifts[i]);
            Float some[2] = {Float{}, Float{}};
            float* s = scores + i * kScoreRow;
            const uint32_t hash = Drop ? dropout.row(first + i) : 0;
            const auto weigh_vector = [&](int64_t v, Float& total) __attribute__((always_inline)) {
                const Float score = load(s + v * kLanes);
                Float weight = exp2(Bf16 ? score * factor - shift : score - shift);
                total += weight;
                if (Drop) weight = select(dropout.keeps(hash, begin + v * kLanes), weight, Float{});
                Operands::store_weights(s + v * kLanes / kPair, weight);  // pairs: behind what is still to be read
            };
            for (int64_t v = 0; all_visible && v < kVectors; v += 2) {
                weigh_vector(v, some[0]);
                weigh_vector(v + 1, some[1]);
            }
            for (int64_t p = 0; !all_visible && p < kPanels; ++p) {
                int64_t v = 2 * p;
                const int64_t n = visible.visible_vectors(p, v);
                if (n == 2) {
                    weigh_vector(v, some[0]);
                    weigh_vector(v + 1, some[1]);
                } else if (n == 1) {
                    weigh_vector(v, some[0]);
                }
            }
            sum[i] = some[0] + some[1];
        }
        REGARD_UNROLL(16)
        for (int i = 0; i < kRows; ++i) state.total[i] = state.total[i] * decay[i] + horizontal_sum(sum[i]);
    }
};

template <bool Bf16>
void forward(const DotForward& a, ThreadTeam& team) {
    Forward<Bf16> work(a, team);
    typename Operand<Bf16>::Packed* const packs[] = {&work.key, &work.value};
    if (!work.local) pack_all(packs, 2, team);
    team.run(work.tasks(), [](void* context, int64_t index, int worker) { ((Forward<Bf16>*)context)->task(index, worker); }, &work);
}

}  // namespace

// Precondition: as kernels.h says of Scores. Rows without a visible key get output 0 and lse −∞.
void dot_forward(const DotForward& a, ThreadTeam& team) {
    if (!a.batch || !a.heads || !a.queries) return;
    if (a.queries * (a.heads / a.key_heads) <= (a.keys > kFewKeys ? kFewRows : kFewRowsShort)) return dot_few_queries(a, team);
#if defined(__AVX512BF16__)
    if (a.type == Type::bfloat16) return forward<true>(a, team);
#endif
    forward<false>(a, team);
}

}  // namespace regard::REGARD_ISA
