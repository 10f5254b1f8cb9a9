// Additive attention, forward.
#include "additive_single_query.h"
#include "pair_forward.h"

namespace regard::REGARD_ISA {
namespace {

// One query at a time (a decoder's step): K and V are read in place, visible keys only. A task is a part of one row's
// keys; a second phase combines the parts of a row in order.
struct SingleQueryForward {
    const DotForward& a;
    ThreadTeam& team;
    ScoreTransform transform;
    const int64_t hidden, width, part_keys, parts, rows, state_floats;  // a state: maximum, sum, output
    Scratch vector, states, scratch;

    static int64_t keys_per_part(const Scores& a) { return round_up(max(a.keys * a.batch * a.heads * a.queries / 64, kBlock), kBlock); }

    SingleQueryForward(const DotForward& a_, ThreadTeam& team_)
        : a(a_), team(team_), transform(a_, 0), hidden(padded(a_.width)), width(padded(a_.value_width)), part_keys(keys_per_part(a_)),
          parts(ceil_div(a_.keys, part_keys)), rows(a_.batch * a_.heads * a_.queries), state_floats(width + kLanes), vector(4 * hidden),
          states(4 * rows * parts * state_floats), scratch(4 * team_.threads() * slot()) {
        transform.factor = a.beta * kLog2e;
        for (int64_t c = 0; c < hidden; ++c) vector.floats()[c] = c < a.width ? a.vector[c] : 0.0f;
    }

    int64_t slot() const { return kBlock + kLanes + 2 * hidden + width; }

    void task(int64_t index, int worker) {
        const int64_t row = index / parts, pair = row / a.queries, batch = pair / a.heads, head = pair % a.heads;
        const int64_t key_head = head / (a.heads / a.key_heads);
        float* scores = scratch.floats() + worker * slot();
        float* query_copy = scores + kBlock + kLanes;
        float* key_copy = query_copy + hidden;
        float* value_copy = key_copy + hidden;
        float* state = states.floats() + index * state_floats;
        float* out = state + kLanes;
        std::memset(out, 0, 4 * width);
        const Matrix key(a.key, a.type, batch, key_head), value(a.value, a.type, batch, key_head);
        const float* query = float_row(Matrix(a.query, a.type, batch, head), row % a.queries, a.width, query_copy);
        RowGroup group(a, batch, head, row % a.queries, 1);
        float top = -INFINITY, total = 0;
        BlockVisibility visible;
        const int64_t last = min((index % parts + 1) * part_keys, a.keys);
        for (int64_t begin = index % parts * part_keys; begin < last; begin += kBlock) {
            if (!group.find_visible(begin, min(begin + kBlock, last), visible)) continue;
            int64_t count = 0;
            float best = top;
            for (int s = 0; s < visible.count; ++s)
                for (int64_t j = visible.segment[s].begin; j < visible.segment[s].end; ++j) {
                    const float score = pair_score(query, float_row(key, j, a.width, key_copy));
                    best = score > best || score != score ? score : best;
                    scores[count++] = score;
                }
            for (int64_t j = count; j < round_up(count, kLanes); ++j) scores[j] = -INFINITY;
            const float finite_top = best == -INFINITY ? 0.0f : best,
                        decay = top == -INFINITY ? 0.0f : ::exp2f((top - finite_top) * transform.factor);
            Float sum{};
            for (int64_t j = 0; j < count; j += kLanes) {
                const Float weight = exp2(load(scores + j) * transform.factor - finite_top * transform.factor);
                store(scores + j, weight);
                sum += weight;
            }
            total = total * decay + horizontal_sum(sum);
            top = best;
            if (decay != 1.0f)
                for (int64_t c = 0; c < width; c += kLanes) store(out + c, load(out + c) * decay);
            count = 0;
            for (int s = 0; s < visible.count; ++s)
                for (int64_t j = visible.segment[s].begin; j < visible.segment[s].end; ++j) {
                    const float* v = float_row(value, j, a.value_width, value_copy);
                    const Float weight = splat(scores[count++]);
                    for (int64_t c = 0; c < width; c += kLanes) store(out + c, load(out + c) + weight * load(v + c));
                }
            if (team.stopped(worker)) return;
        }
        state[0] = top;
        state[1] = total;
    }

    float pair_score(const float* query, const float* key) const {
        Float sum{};
        for (int64_t c = 0; c < hidden; c += kLanes)
            sum += load(vector.floats() + c) * (1.0f - 2.0f * tanh_complement(load(query + c) + load(key + c)));
        return horizontal_sum(sum);
    }

    void join(int64_t row) {
        const int64_t pair = row / a.queries;
        finish_parts(a, transform, pair / a.heads, pair % a.heads, row % a.queries, states.floats() + row * parts * state_floats, parts,
                     state_floats);
    }
};

}  // namespace

// Preconditions: as kernels.h says of Scores; float32; beta > 0, no key bias, cap or dropout; scale is not used.
void additive_forward(const DotForward& a, ThreadTeam& team) {
    if (!a.batch || !a.heads || !a.queries) return;
    if (a.queries <= kSingleQueries) {
        SingleQueryForward work(a, team);
        team.run(
            work.rows * work.parts, [](void* self, int64_t index, int worker) { ((SingleQueryForward*)self)->task(index, worker); }, &work);
        if (!team.stopped())
            for (int64_t row = 0; row < work.rows; ++row) work.join(row);
        return;
    }
    PairForward<Additive>(a, a.vector, team).run();
}

}  // namespace regard::REGARD_ISA
