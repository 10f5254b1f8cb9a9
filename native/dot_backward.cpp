// Dot-product attention, backward: P recomputed from the saved log-sum-exp, five products a tile, no atomics.
//
//   dV += Pᵀ dO    dP = dO Vᵀ    dS = P ∘ (dP − D)    dQ += dS K    dK += dSᵀ Q,    D = Σ dO∘O − dlse
//
// A task owns every c-th block of keys of one key head: dK and dV of its keys are its own, and its share of dQ is
// summed separately and added in order afterwards. The number of shares depends on the shape alone, so the result does not depend on the
// number of threads.
// With many short sequences a task packs only the head it works on, which then stays in the cache.
//
// In bfloat16, where the machine multiplies it (VDPBF16PS), scores and dP are made from the tensors as they are; P and dS stay float32.
#include "bfloat16.h"
#include "bias_gradient.h"
#include "key_gradient.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int64_t kQueries = kMaxGroups * kRows;
constexpr int64_t kKeyVectors = kKeyBlock / kLanes;

template <bool Bf16>
struct Backward {
    using Operands = Operand<Bf16>;
    using Packed = typename Operands::Packed;
    const DotBackward& a;
    ThreadTeam& team;
    const bool local;                 // a task packs what it reads, and sums its own dQ
    const int64_t slots;              // heads packed at a time, or 0: all
    Packed key_panels, value_panels;  // the right-hand sides of scores and dP
    Packed query_units, grad_units;   // and their left-hand sides, where they are not float32
    Pack key_rows, query, grad_out;
    KeyBias key_bias;
    const BiasOwners owners;
    const bool apart;  // slopes under the cap are kept apart from dS, which the gradients of biases and temperatures need
    int64_t group, blocks, key_blocks, shares, width, value_width, share_floats;
    Scratch grad_query, extents, scratch;

    static bool is_local(const DotBackward& a, int threads) {
        return BiasOwners(a).count() >= 4 * threads && BiasOwners(a).count() == a.batch * a.key_heads && a.keys <= kKeyBlock &&
               max(a.keys, a.queries) * (a.width + a.value_width) <= kLocal;
    }

    Backward(const DotBackward& a_, ThreadTeam& team_)
        : a(a_), team(team_), local(is_local(a_, team_.threads())), slots(local ? team_.threads() : 0),
          key_panels(a_.key, a_.type, Layout::panels, a_.batch, a_.key_heads, a_.keys, a_.width, 0, slots),
          value_panels(a_.value, a_.type, Layout::panels, a_.batch, a_.key_heads, a_.keys, a_.value_width, 0, slots),
          query_units(a_.query, a_.type, Layout::plain, a_.batch, a_.heads, Bf16 ? a_.queries : 0, a_.width, Bf16 ? kRows : 0, slots),
          grad_units(a_.grad_out, a_.type, Layout::plain, a_.batch, a_.heads, Bf16 ? a_.queries : 0, a_.value_width, Bf16 ? kRows : 0,
                     slots),
          key_rows(a_.key, a_.type, Layout::rows, a_.batch, a_.key_heads, a_.keys, a_.width, 0, slots),
          query(a_.query, a_.type, Layout::rows, a_.batch, a_.heads, a_.queries, a_.width, a_.queries % kRows ? kRows : 0, slots),
          grad_out(a_.grad_out, a_.type, Layout::rows, a_.batch, a_.heads, a_.queries, a_.value_width, a_.queries % kRows ? kRows : 0,
                   slots),
          key_bias(a_), owners(a_), apart(a_.cap != 0 && (a_.grad_bias.data || a_.grad_betas)), group(a_.heads / a_.key_heads),
          blocks(ceil_div(a_.queries, kQueries)), key_blocks(ceil_div(a_.keys, kKeyBlock)),
          shares(local ? 1 : key_shares(a_, owners.count())), width(padded(a_.width)), value_width(padded(a_.value_width)),
          share_floats((local ? slots : a_.batch * a_.heads) * blocks * kQueries * width), grad_query(4 * shares * share_floats),
          extents(2 * 8 * a_.batch * a_.heads * blocks), scratch(4 * team_.threads() * slot()) {}

    int64_t slot() const {
        return (apart ? 3 : 2) * kQueries * kWeightRow + min(kKeyBlock, round_up(a.keys, kPanel)) * (width + value_width) + 2 * kLanes;
    }

    void run() {
        const int64_t rows = a.batch * a.heads * blocks;
        if (!local) {
            Pack* const packs[] = {&key_rows, &query, &grad_out};
            Packed* const units[] = {&key_panels, &value_panels, &query_units, &grad_units};
            pack_all(packs, 3, team);
            pack_all(units, Bf16 ? 4 : 2, team);
            team.run(
                rows, [](void* self, int64_t index, int) { ((Backward*)self)->prepare(index, index / ((Backward*)self)->blocks); }, this);
        }
        team.run(owners.count() * shares, [](void* self, int64_t index, int worker) { ((Backward*)self)->task(index, worker); }, this);
        if (!local && !team.stopped())
            team.run(rows, [](void* self, int64_t index, int) { ((Backward*)self)->sum_query_shares(index); }, this);
    }

    // D of a block of rows, whose dO is packed in `queries`, and the range of keys visible to them.
    void prepare(int64_t index, int64_t queries) {
        const int64_t row = index / blocks, batch = row / a.heads, head = row % a.heads, first = index % blocks * kQueries;
        const int64_t count = min(kQueries, a.queries - first);
        const Matrix out(a.out, a.type, batch, head);
        const float* grad = grad_out.at(queries);
        for (int64_t i = first; i < first + count; ++i) {
            const int64_t at = row * a.queries + i;
            a.delta[at] = dot_row(out, i, grad + i * value_width, a.value_width) - (a.grad_lse ? a.grad_lse[at] : 0.0f);
        }
        int64_t low = a.keys, high = 0;
        for (int64_t i = 0; i < count; i += kRows) RowGroup(a, batch, head, first + i, (int)min(kRows, count - i)).widen_extent(low, high);
        int64_t* extent = (int64_t*)extents.data + 2 * index;
        extent[0] = low;
        extent[1] = high;
    }

    struct Work {
        float *weights, *slopes;       // P and dS, [kQueries][kWeightRow]
        float* cap_slopes;             // the same, or null: not apart
        Float beta_sum;                // Σ dS·z
        float *grad_key, *grad_value;  // [kKeyBlock][width], [kKeyBlock][value_width]
        BlockVisibility visible[kMaxGroups];
        bool group_visible[kMaxGroups];
    };

    void task(int64_t index, int worker) {
        owners.pairs(a, index / shares, [&](int64_t pair) {
            if (!team.stopped()) task(pair, index % shares, worker);
        });
    }

    void task(int64_t pair, int64_t share, int worker) {
        const int64_t batch = pair / a.key_heads, first_head = pair % a.key_heads * group;
        const int64_t keys = local ? worker : pair;  // where the keys are packed
        Work work;
        work.weights = scratch.floats() + worker * slot();
        work.slopes = work.weights + kQueries * kWeightRow;
        work.cap_slopes = apart ? work.slopes + kQueries * kWeightRow : nullptr;
        work.grad_key = work.slopes + (apart ? 2 : 1) * kQueries * kWeightRow;
        work.grad_value = work.grad_key + min(kKeyBlock, round_up(a.keys, kPanel)) * width;
        if (local) {
            key_rows.fill(pair, worker);
            if constexpr (Bf16) {
                key_panels.fill(pair, worker);
            } else {
                key_panels.fill(worker, key_rows);
            }
            value_panels.fill(pair, worker);
        }
        float* share_sums = grad_query.floats() + (local ? worker * blocks : (batch * a.heads + first_head) * blocks) * kQueries * width +
                            share * share_floats;
        if (!local) std::memset(share_sums, 0, 4 * group * blocks * kQueries * width);
        double* beta_sums = a.grad_betas ? a.grad_betas + share * a.batch * a.heads + batch * a.heads + first_head : nullptr;
        for (int64_t g = 0; beta_sums && g < group; ++g) beta_sums[g] = 0;
        for (int64_t block = share; block < key_blocks; block += shares) {
            const int64_t begin = block * kKeyBlock, end = min(begin + kKeyBlock, a.keys), padded_keys = round_up(end - begin, kLanes);
            std::memset(work.grad_key, 0, 4 * padded_keys * width);
            std::memset(work.grad_value, 0, 4 * padded_keys * value_width);
            for (int64_t g = 0; g < group; ++g) {
                const int64_t row = batch * a.heads + first_head + g;
                float* column_sums = a.grad_key_bias ? a.grad_key_bias + row * a.keys : nullptr;
                if (column_sums) std::memset(column_sums + begin, 0, 4 * (end - begin));
                float* total = share_sums + (local ? 0 : g * blocks) * kQueries * width;
                if (local) pack_head(row, worker, total);
                const Head of(*this, row, share, keys, local ? worker : row);
                for (int64_t b = 0; b < blocks; ++b) {
                    const int64_t* extent = (const int64_t*)extents.data + 2 * (row * blocks + b);
                    if (extent[0] < end && extent[1] > begin) {
                        add_block(work, of, b * kQueries, begin, end, total + b * kQueries * width, column_sums);
                        if (beta_sums) beta_sums[g] += horizontal_sum(work.beta_sum);
                    }
                    if (team.stopped(worker)) return;
                }
                for (int64_t b = 0; local && b < blocks; ++b) store_query_gradient(row, b * kQueries, total + b * kQueries * width);
            }
            for (int64_t j = begin; j < end; ++j) {
                store_row(a.grad_key, a.type, batch, pair % a.key_heads, j, a.width, a.scale, work.grad_key + (j - begin) * width);
                store_row(a.grad_value, a.type, batch, pair % a.key_heads, j, a.value_width, 1.0f,
                          work.grad_value + (j - begin) * value_width);
            }
        }
    }

    // What a local task packs of one head of queries.
    void pack_head(int64_t row, int worker, float* total) {
        query.fill(row, worker);
        grad_out.fill(row, worker);
        if (Bf16) {
            query_units.fill(row, worker);
            grad_units.fill(row, worker);
        }
        for (int64_t b = 0; b < blocks; ++b) prepare(row * blocks + b, worker);
        std::memset(total, 0, 4 * round_up(a.queries, kRows) * width);
    }

    // What P and dS of one head need beside its packed tensors.
    struct Head {
        int64_t row, keys, queries;  // of (batch, head); where the head's keys and its queries are packed
        ScoreTransform transform;
        BiasRows bias;
        const float* key_bias;
        float* grad_bias;  // or null

        Head(const Backward& work, int64_t row_, int64_t share, int64_t keys_, int64_t queries_)
            : row(row_), keys(keys_), queries(queries_), transform(work.a, row_ % work.a.heads),
              bias(work.a, transform, row_ / work.a.heads, row_ % work.a.heads), key_bias(work.key_bias.row(row_)), grad_bias(nullptr) {
            const View& to = work.a.grad_bias;
            if (to.data)
                grad_bias = (float*)to.data + share * work.a.grad_bias_share + row / work.a.heads * to.batch + row % work.a.heads * to.head;
        }
    };

    void add_block(Work& w, const Head& of, int64_t first, int64_t begin, int64_t end, float* grad_q, float* column_sums) const {
        const int64_t keys = of.keys, queries = of.queries;
        w.beta_sum = Float{};
        const int64_t count = min(kQueries, a.queries - first), vectors = ceil_div(end - begin, kLanes);
        const int group_count = (int)ceil_div(count, kRows);
        bool any_visible = false, all_visible = true;
        for (int g = 0; g < group_count; ++g) {
            RowGroup rows(a, of.row / a.heads, of.row % a.heads, first + g * kRows, (int)min(kRows, count - g * kRows));
            w.group_visible[g] = rows.find_visible(begin, end, w.visible[g]);
            any_visible |= w.group_visible[g];
            if (!w.group_visible[g]) std::memset(w.visible[g].vector, kNone, kKeyVectors);
            const Segment& only = w.visible[g].segment[0];
            all_visible &=
                w.group_visible[g] && !w.visible[g].partly_hidden && w.visible[g].count == 1 && only.begin == begin && only.end == end;
            if (!w.group_visible[g]) continue;
            slopes(w, g, of, first + g * kRows, begin);
            add_bias_gradients(w, g, of, first + g * kRows, begin, end, column_sums);
        }
        if (!any_visible) return;
        if (!all_visible && any_non_finite(keys, queries, first, count, begin, end))
            return add_visible_products(w, keys, queries, first, count, begin, end, grad_q);
        const float* q = query.at(queries) + first * width;
        const float* o = grad_out.at(queries) + first * value_width;
        for (int64_t v = 0; v < vectors; ++v) {
            int from = group_count, to = 0;  // the groups these keys are visible to
            for (int g = 0; g < group_count; ++g)
                if (w.visible[g].vector[v]) {
                    from = from < g ? from : g;
                    to = g + 1;
                }
            if (from >= to) continue;
            for (int g = from; g < to; ++g)
                if (!w.visible[g].vector[v])
                    for (int64_t i = g * kRows; i < (g + 1) * kRows; ++i) {
                        store(w.weights + i * kWeightRow + v * kLanes, Float{});
                        store(w.slopes + i * kWeightRow + v * kLanes, Float{});
                    }
            const int64_t top = from * kRows, depth = min(to * kRows, count) - top;
            add_key_gradients(w.weights + top * kWeightRow, o + top * value_width, value_width, depth, v, w.grad_value);
            add_key_gradients(w.slopes + top * kWeightRow, q + top * width, width, depth, v, w.grad_key);
        }
        for (int g = 0; g < group_count; ++g) {
            if (!w.group_visible[g]) continue;
            int64_t column = 0;
            for (; column + 2 * kLanes <= width; column += 2 * kLanes) add_query_gradients<2>(w, g, keys, begin, end, column, grad_q);
            if (column < width) add_query_gradients<1>(w, g, keys, begin, end, column, grad_q);
        }
    }

    // dS of a row group is complete but for the cap: the gradients of both biases.
    void add_bias_gradients(Work& w, int g, const Head& of, int64_t first, int64_t begin, int64_t end, float* column_sums) const {
        const int64_t rows = min(kRows, a.queries - first);
        const uint8_t* visible = w.visible[g].vector;
        float* slopes = w.slopes + g * kRows * kWeightRow;
        if (of.grad_bias) {
            const View& to = a.grad_bias;
            add_bias_gradient(of.grad_bias + first * to.row + begin * to.column, to.row, to.column, slopes, visible, rows, end - begin);
        }
        for (int64_t i = g * kRows; w.cap_slopes && i < (g + 1) * kRows; ++i)
            for (int64_t v = 0; v < kKeyVectors; ++v) {
                float* s = w.slopes + i * kWeightRow + v * kLanes;
                if (visible[v]) store(s, load(s) * load(w.cap_slopes + i * kWeightRow + v * kLanes));
            }
        if (column_sums) add_bias_gradient(column_sums + begin, 0, 1, slopes, visible, rows, end - begin);
    }

    // What P and dS of a row group need of their rows.
    struct Rows {
        const float *query, *grad;
        int64_t query_row, grad_row, first;
        float shift[kRows], delta[kRows], entropy[kRows];  // entropy: times ln 2
        uint32_t hash[kRows];
    };

    // P and dS of one row group.
    void slopes(Work& w, int g, const Head& of, int64_t first, int64_t begin) const {
        const int64_t queries = of.queries, row = of.row;
        const Dropout dropout(a, row);
        Rows r;
        r.query_row = Bf16 ? padded(ceil_div(a.width, 2)) : width;
        r.grad_row = Bf16 ? padded(ceil_div(a.value_width, 2)) : value_width;
        r.query = (Bf16 ? query_units.at(queries) : query.at(queries)) + first * r.query_row;
        r.grad = (Bf16 ? grad_units.at(queries) : grad_out.at(queries)) + first * r.grad_row;
        r.first = first;
        for (int i = 0; i < kRows; ++i) {
            const bool valid = first + i < a.queries;
            const float lse = valid ? a.lse[row * a.queries + first + i] : INFINITY;
            r.shift[i] = lse == -INFINITY ? INFINITY : lse * kLog2e;  // an empty row weighs nothing
            r.delta[i] = valid ? a.delta[row * a.queries + first + i] : 0.0f;
            r.entropy[i] = valid && a.grad_entropy ? a.grad_entropy[row * a.queries + first + i] * (float)kLn2 : 0.0f;
            r.hash[i] = dropout.row(first + i);
        }
        const uint8_t* vector = w.visible[g].vector;
        const bool logits = a.grad_entropy || a.grad_betas;
        for (int64_t v = 0; v < kKeyVectors; v += 2) {
            if (vector[v] && vector[v + 1]) {
                logits ? slopes_tile<2, true>(w, g, of, r, dropout, begin, v) : slopes_tile<2, false>(w, g, of, r, dropout, begin, v);
            } else if (vector[v] || vector[v + 1]) {
                const int64_t only = v + !vector[v];
                logits ? slopes_tile<1, true>(w, g, of, r, dropout, begin, only) : slopes_tile<1, false>(w, g, of, r, dropout, begin, only);
            }
        }
    }

    // The same for Columns vectors of keys: scores, weights and their gradients without leaving the registers more than once.
    // Logits: log p is kept between the two products, for the gradients of entropies and temperatures.
    template <int Columns, bool Logits>
    void slopes_tile(Work& w, int g, const Head& of, const Rows& r, const Dropout& dropout, int64_t begin, int64_t v) const {
        const BlockVisibility& visible = w.visible[g];
        const ScoreTransform& transform = of.transform;
        const int64_t p = v / 2, offset = v % 2 * kLanes;
        const float inverse_kept = 1 / a.kept;
        float* weights = w.weights + g * kRows * kWeightRow + v * kLanes;
        float* slopes = w.slopes + g * kRows * kWeightRow + v * kLanes;
        const bool some = visible.vector[v] == kSome || visible.vector[v + Columns - 1] == kSome;
        const uint32_t* bits = visible.bits[p];
        Float acc[kRows][Columns];
        [[maybe_unused]] Float log_weight[kRows][Columns];
        clear(acc);
        Operands::product(acc, r.query, r.query_row, 1, key_panels.panel(of.keys, begin / kPanel + p) + offset, kPanel,
                          ceil_div(a.width, Operands::kPair));
        const float* b = of.key_bias ? of.key_bias + begin + v * kLanes : nullptr;
        REGARD_UNROLL(16)
        for (int i = 0; i < kRows; ++i) {
            REGARD_UNROLL(2)
            for (int c = 0; c < Columns; ++c) {
                Float slope = splat(1.0f), s = acc[i][c];
                if (!transform.plain) s = transform.apply(s, b ? b + c * kLanes : nullptr, slope);
                if (of.bias) s += of.bias.at(r.first + i, begin + (v + c) * kLanes);
                const Float exponent = s * transform.factor - r.shift[i];
                if (Logits) log_weight[i][c] = max(splat(-200.0f), exponent);  // finite, so that 0 · x is 0
                Float weight = exp2(exponent);
                if (some) weight = choose(bits[i] >> (offset + c * kLanes), weight, Float{});
                if (Logits && some) log_weight[i][c] = choose(bits[i] >> (offset + c * kLanes), log_weight[i][c], Float{});  // may be NaN
                if (apart) store(w.cap_slopes + (g * kRows + i) * kWeightRow + (v + c) * kLanes, slope);
                store(slopes + i * kWeightRow + c * kLanes, apart ? weight : weight * slope);
                if (dropout) weight = select(dropout.keeps(r.hash[i], begin + (v + c) * kLanes), weight * inverse_kept, Float{});
                store(weights + i * kWeightRow + c * kLanes, weight);
            }
        }
        clear(acc);
        Operands::product(acc, r.grad, r.grad_row, 1, value_panels.panel(of.keys, begin / kPanel + p) + offset, kPanel,
                          ceil_div(a.value_width, Operands::kPair));
        REGARD_UNROLL(16)
        for (int i = 0; i < kRows; ++i) {
            REGARD_UNROLL(2)
            for (int c = 0; c < Columns; ++c) {
                float* s = slopes + i * kWeightRow + c * kLanes;
                Float grad_weight = acc[i][c];
                if (dropout) grad_weight = select(dropout.keeps(r.hash[i], begin + (v + c) * kLanes), grad_weight * inverse_kept, Float{});
                if (Logits) grad_weight -= r.entropy[i] * (log_weight[i][c] + kLog2e);
                Float slope = load(s) * (grad_weight - r.delta[i]) * transform.beta;
                if (some) slope = choose(bits[i] >> (offset + c * kLanes), slope, Float{});
                store(s, slope);
                if (Logits && r.shift[i] != INFINITY) w.beta_sum += slope * (log_weight[i][c] + r.shift[i]);
            }
        }
    }

    // dQ += dS·K of one row group, over its visible keys.
    template <int Columns>
    void add_query_gradients(const Work& w, int g, int64_t keys, int64_t begin, int64_t end, int64_t column, float* grad_q) const {
        const uint8_t* vector = w.visible[g].vector;
        const float* k = key_rows.at(keys) + column;
        Float acc[kRows][Columns];
        clear(acc);
        for (int64_t v = 0; v < kKeyVectors;) {
            if (vector[v] == kNone) {
                ++v;
                continue;
            }
            const int64_t from = v * kLanes;
            while (v < kKeyVectors && vector[v] != kNone) ++v;
            const int64_t to = min(v * kLanes, end - begin);
            multiply(acc, w.slopes + g * kRows * kWeightRow + from, kWeightRow, 1, k + (begin + from) * width, width, to - from);
        }
        REGARD_UNROLL(16)
        for (int i = 0; i < kRows; ++i) {
            REGARD_UNROLL(2)
            for (int c = 0; c < Columns; ++c) {
                float* t = grad_q + (g * kRows + i) * width + column + c * kLanes;
                store(t, load(t) + acc[i][c]);
            }
        }
    }

    bool any_non_finite(int64_t keys, int64_t queries, int64_t first, int64_t count, int64_t begin, int64_t end) const {
        for (int64_t p = begin / kPanel; p * kPanel < end; ++p)
            if (key_rows.non_finite(keys)[p]) return true;
        for (int64_t p = first / kPanel; p * kPanel < first + count; ++p)
            if (query.non_finite(queries)[p] || grad_out.non_finite(queries)[p]) return true;
        return false;
    }

    // The three sums pair by pair, leaving out hidden pairs: 0 · NaN must not reach them.
    void add_visible_products(const Work& w, int64_t keys, int64_t queries, int64_t first, int64_t count, int64_t begin, int64_t end,
                              float* grad_q) const {
        const float* k = key_rows.at(keys) + begin * width;
        const float* q = query.at(queries) + first * width;
        const float* o = grad_out.at(queries) + first * value_width;
        for (int64_t i = 0; i < count; ++i) {
            const int g = (int)(i / kRows);
            if (!w.group_visible[g]) continue;
            for (int64_t j = 0; j < end - begin; ++j) {
                if (w.visible[g].vector[j / kLanes] == kNone) continue;
                const float weight = w.weights[i * kWeightRow + j], slope = w.slopes[i * kWeightRow + j];
                if (weight == 0 && slope == 0) continue;
                for (int64_t c = 0; c < value_width; ++c) w.grad_value[j * value_width + c] += weight * o[i * value_width + c];
                for (int64_t c = 0; c < width; ++c) w.grad_key[j * width + c] += slope * q[i * width + c];
                for (int64_t c = 0; c < width; ++c) grad_q[i * width + c] += slope * k[j * width + c];
            }
        }
    }

    // The shares of dQ, added up in order.
    void sum_query_shares(int64_t index) {
        const int64_t row = index / blocks, first = index % blocks * kQueries, count = min(kQueries, a.queries - first);
        float* total = grad_query.floats() + index * kQueries * width;
        for (int64_t share = 1; share < shares; ++share) {
            const float* part = total + share * share_floats;
            for (int64_t i = 0; i < count * width; i += kLanes) store(total + i, load(total + i) + load(part + i));
        }
        store_query_gradient(row, first, total);
    }

    void store_query_gradient(int64_t row, int64_t first, const float* total) const {
        for (int64_t i = 0; i < min(kQueries, a.queries - first); ++i)
            store_row(a.grad_query, a.type, row / a.heads, row % a.heads, first + i, a.width, a.scale, total + i * width);
    }
};

}  // namespace

// Preconditions: as kernels.h says of Scores; `out` and `lse` are dot_forward's for the same scores, seed included; grad_key_bias is given
// only with a key bias, grad_betas only with betas. With no queries or no keys nothing is written.
void dot_backward(const DotBackward& a, ThreadTeam& team) {
    if (!a.batch || !a.heads || !a.queries || !a.keys) return;
#if defined(__AVX512BF16__)
    if (a.type == Type::bfloat16) return Backward<true>(a, team).run();
#endif
    Backward<false>(a, team).run();
}

}  // namespace regard::REGARD_ISA
