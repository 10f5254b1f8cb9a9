// Additive attention, forward.
#include "additive_few.h"
#include "stream_forward.h"

namespace regard::REGARD_ISA {
namespace {

// One query at a time (a decoder's step): K and V are read in place and only where the row sees them. A task is a stretch
// of keys of one row; a second phase joins a row's stretches in order.
struct Alone {
    const AdditiveForward& a;
    Crew& crew;
    Post post;
    const int64_t hidden, width, stretch, stretches, rows, state_floats;  // a state: maximum, sum, output
    Scratch vector, states, scratch;

    static int64_t stretch_for(const Scores& a) { return round_up(max(a.keys * a.batch * a.heads * a.queries / 64, kBlock), kBlock); }

    Alone(const AdditiveForward& a_, Crew& crew_)
        : a(a_), crew(crew_), post(a_), hidden(padded(a_.width)), width(padded(a_.value_width)), stretch(stretch_for(a_)),
          stretches(ceil_div(a_.keys, stretch)), rows(a_.batch * a_.heads * a_.queries), state_floats(width + kLanes), vector(4 * hidden),
          states(4 * rows * stretches * state_floats), scratch(4 * crew_.threads() * slot()) {
        post.factor = a.beta * kLog2e;
        for (int64_t c = 0; c < hidden; ++c) vector.floats()[c] = c < a.width ? a.vector[c] : 0.0f;
    }

    int64_t slot() const { return kBlock + kLanes + 2 * hidden + width; }

    void task(int64_t index, int worker) {
        const int64_t row = index / stretches, pair = row / a.queries, batch = pair / a.heads, head = pair % a.heads;
        const int64_t key_head = head / (a.heads / a.key_heads);
        float* scores = scratch.floats() + worker * slot();
        float* query_copy = scores + kBlock + kLanes;
        float* key_copy = query_copy + hidden;
        float* value_copy = key_copy + hidden;
        float* state = states.floats() + index * state_floats;
        float* out = state + kLanes;
        std::memset(out, 0, 4 * width);
        const Matrix key(a.key, a.type, batch, key_head), value(a.value, a.type, batch, key_head);
        const float* query = row_of(Matrix(a.query, a.type, batch, head), row % a.queries, a.width, query_copy);
        Group group(a, batch, head, row % a.queries, 1);
        float top = -INFINITY, total = 0;
        Seen seen;
        const int64_t last = min((index % stretches + 1) * stretch, a.keys);
        for (int64_t begin = index % stretches * stretch; begin < last; begin += kBlock) {
            if (!group.look(begin, min(begin + kBlock, last), seen)) continue;
            int64_t count = 0;
            float best = top;
            for (int s = 0; s < seen.count; ++s)
                for (int64_t j = seen.segment[s].begin; j < seen.segment[s].end; ++j) {
                    const float score = one(query, row_of(key, j, a.width, key_copy));
                    best = score > best || score != score ? score : best;
                    scores[count++] = score;
                }
            for (int64_t j = count; j < round_up(count, kLanes); ++j) scores[j] = -INFINITY;
            const float safe = best == -INFINITY ? 0.0f : best, decay = top == -INFINITY ? 0.0f : ::exp2f((top - safe) * post.factor);
            Float sum{};
            for (int64_t j = 0; j < count; j += kLanes) {
                const Float weight = exp2(load(scores + j) * post.factor - safe * post.factor);
                store(scores + j, weight);
                sum += weight;
            }
            total = total * decay + horizontal_sum(sum);
            top = best;
            if (decay != 1.0f)
                for (int64_t c = 0; c < width; c += kLanes) store(out + c, load(out + c) * decay);
            count = 0;
            for (int s = 0; s < seen.count; ++s)
                for (int64_t j = seen.segment[s].begin; j < seen.segment[s].end; ++j) {
                    const float* v = row_of(value, j, a.value_width, value_copy);
                    const Float weight = splat(scores[count++]);
                    for (int64_t c = 0; c < width; c += kLanes) store(out + c, load(out + c) + weight * load(v + c));
                }
            if (crew.stopped(worker)) return;
        }
        state[0] = top;
        state[1] = total;
    }

    float one(const float* query, const float* key) const {
        Float sum{};
        for (int64_t c = 0; c < hidden; c += kLanes)
            sum += load(vector.floats() + c) * (1.0f - 2.0f * fade(load(query + c) + load(key + c)));
        return horizontal_sum(sum);
    }

    void join(int64_t row) {
        const int64_t pair = row / a.queries;
        finish_parts(a, post, pair / a.heads, pair % a.heads, row % a.queries, states.floats() + row * stretches * state_floats, stretches,
                     state_floats);
    }
};

}  // namespace

// Preconditions: as kernels.h says of Scores; float32; beta > 0, no key bias, cap or dropout; scale is not used.
void additive_forward(const AdditiveForward& a, Crew& crew) {
    if (!a.batch || !a.heads || !a.queries) return;
    if (a.queries <= kAlone) {
        Alone alone(a, crew);
        crew.run(alone.rows * alone.stretches, [](void* self, int64_t index, int worker) { ((Alone*)self)->task(index, worker); }, &alone);
        if (!crew.stopped())
            for (int64_t row = 0; row < alone.rows; ++row) alone.join(row);
        return;
    }
    StreamForward<Additive>(a, a.vector, crew).run();
}

}  // namespace regard::REGARD_ISA
