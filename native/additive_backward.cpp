// Additive attention, backward.
#include "additive_few.h"
#include "stream_backward.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int64_t kHand = 32;  // keys whose (1 − tanh)/2 are kept between their scores and their gradients

// One query at a time. A task is a share of one key head's keys, for every row that looks at them.
struct Alone {
    const AdditiveBackward& a;
    Crew& crew;
    const int64_t hidden, width, group, rows, share, shares;  // rows: of one key head; share: keys in a task
    Scratch vector, grad_query, extras, scratch;

    static int64_t share_for(const Scores& a) { return round_up(ceil_div(a.keys, key_shares(a)), kHand); }

    Alone(const AdditiveBackward& a_, Crew& crew_)
        : a(a_), crew(crew_), hidden(padded(a_.width)), width(padded(a_.value_width)), group(a_.heads / a_.key_heads),
          rows(group * a_.queries), share(share_for(a_)), shares(ceil_div(a_.keys, share)), vector(4 * hidden),
          grad_query(4 * a_.batch * a_.key_heads * shares * rows * hidden),
          extras(4 * a_.batch * a_.key_heads * shares * (hidden + kLanes)), scratch(4 * crew_.threads() * slot()) {
        for (int64_t c = 0; c < hidden; ++c) vector.floats()[c] = c < a.width ? a.vector[c] : 0.0f;
    }

    int64_t slot() const { return (2 * kHand + 2) * hidden + (kHand + 2) * width; }

    void task(int64_t index, int worker) {
        const int64_t pair = index / shares, batch = pair / a.key_heads, key_head = pair % a.key_heads;
        float* faded = scratch.floats() + worker * slot();  // [kHand][hidden]
        float* grad_key = faded + kHand * hidden;
        float* query_copy = grad_key + kHand * hidden;
        float* key_copy = query_copy + hidden;
        float* grad_value = key_copy + hidden;  // [kHand][width]
        float* value_copy = grad_value + kHand * width;
        float* grad_copy = value_copy + width;
        float* grad_rows = grad_query.floats() + index * rows * hidden;
        float* extra = extras.floats() + index * (hidden + kLanes);
        std::memset(grad_rows, 0, 4 * rows * hidden);
        std::memset(extra, 0, 4 * (hidden + kLanes));
        const Matrix key(a.key, a.type, batch, key_head), value(a.value, a.type, batch, key_head);
        const int64_t last = min((index % shares + 1) * share, a.keys);
        double slopes_sum = 0;
        for (int64_t begin = index % shares * share; begin < last; begin += kHand) {
            const int64_t end = min(begin + kHand, last);
            std::memset(grad_key, 0, 4 * kHand * hidden);
            std::memset(grad_value, 0, 4 * kHand * width);
            for (int64_t r = 0; r < rows; ++r) {
                const int64_t head = key_head * group + r / a.queries, at = (batch * a.heads + head) * a.queries + r % a.queries;
                Group sight(a, batch, head, r % a.queries, 1);
                Seen seen;
                if (!sight.look(begin, end, seen)) continue;
                const float* query = row_of(Matrix(a.query, a.type, batch, head), r % a.queries, a.width, query_copy);
                const float* grad = row_of(Matrix(a.grad_out, a.type, batch, head), r % a.queries, a.value_width, grad_copy);
                float slopes[kHand];
                int64_t keys[kHand], count = 0;
                for (int s = 0; s < seen.count; ++s)
                    for (int64_t j = seen.segment[s].begin; j < seen.segment[s].end; ++j) {
                        const float weight = ::exp2f(
                            one(query, row_of(key, j, a.width, key_copy), faded + count * hidden) * (a.beta * kLog2e) - a.lse[at] * kLog2e);
                        const float* v = row_of(value, j, a.value_width, value_copy);
                        float* to = grad_value + (j - begin) * width;
                        Float dot{};
                        for (int64_t c = 0; c < width; c += kLanes) {
                            dot += load(grad + c) * load(v + c);
                            store(to + c, load(to + c) + weight * load(grad + c));
                        }
                        slopes[count] = weight * (horizontal_sum(dot) - a.delta[at]);
                        slopes_sum += slopes[count];
                        keys[count++] = j - begin;
                    }
                pull(faded, slopes, keys, count, grad_rows + r * hidden, grad_key, extra);
            }
            const View &k = a.grad_key, &v = a.grad_value;
            for (int64_t c = 0; c < hidden; c += kLanes)
                for (int64_t j = 0; j < end - begin; ++j)
                    store(grad_key + j * hidden + c, load(grad_key + j * hidden + c) * (4 * a.beta * load(vector.floats() + c)));
            for (int64_t j = begin; j < end; ++j) {
                store_row(k, a.type, batch, key_head, j, a.width, 1.0f, grad_key + (j - begin) * hidden);
                store_row(v, a.type, batch, key_head, j, a.value_width, 1.0f, grad_value + (j - begin) * width);
            }
            if (crew.stopped(worker)) return;
        }
        extra[hidden] = (float)slopes_sum;
    }

    // The score, and (1 − tanh)/2 of every column.
    float one(const float* query, const float* key, float* faded) const {
        Float sum{};
        for (int64_t c = 0; c < hidden; c += kLanes) {
            const Float r = fade(load(query + c) + load(key + c));
            store(faded + c, r);
            sum += load(vector.floats() + c) * (1.0f - 2.0f * r);
        }
        return horizontal_sum(sum);
    }

    void pull(const float* faded, const float* slopes, const int64_t* keys, int64_t count, float* grad_row, float* grad_key,
              float* extra) const {
        for (int64_t c = 0; c < hidden; c += kLanes) {
            Float across{}, total{};
            for (int64_t n = 0; n < count; ++n) {
                const Float r = load(faded + n * hidden + c), slope = splat(slopes[n]), u = slope * (r - r * r);
                float* to = grad_key + keys[n] * hidden + c;
                across += u;
                total += slope * r;
                store(to, load(to) + u);
            }
            store(grad_row + c, load(grad_row + c) + across);
            store(extra + c, load(extra + c) + total);
        }
    }

    void delta() const {
        for (int64_t row = 0; row < a.batch * a.heads; ++row) {
            const Matrix out(a.out, a.type, row / a.heads, row % a.heads), grad(a.grad_out, a.type, row / a.heads, row % a.heads);
            for (int64_t i = 0; i < a.queries; ++i) {
                double sum = 0;
                for (int64_t c = 0; c < a.value_width; ++c) sum += (double)out.at(i, c) * grad.at(i, c);
                const int64_t at = row * a.queries + i;
                a.delta[at] = (float)(sum - (a.grad_lse ? (double)a.grad_lse[at] : 0.0));
            }
        }
    }

    // The shares of dQ and of the vector's gradient, in order.
    void settle() const {
        for (int64_t pair = 0; pair < a.batch * a.key_heads; ++pair)
            for (int64_t r = 0; r < rows; ++r) {
                float* first = grad_query.floats() + (pair * shares * rows + r) * hidden;
                for (int64_t c = 0; c < hidden; c += kLanes) {
                    Float sum = load(first + c);
                    for (int64_t s = 1; s < shares; ++s) sum += load(first + s * rows * hidden + c);
                    store(first + c, sum * (4 * a.beta * load(vector.floats() + c)));
                }
                store_row(a.grad_query, a.type, pair / a.key_heads, pair % a.key_heads * group + r / a.queries, r % a.queries, a.width,
                          1.0f, first);
            }
        for (int64_t c = 0; c < a.width; ++c) {
            double sum = 0;
            for (int64_t t = 0; t < a.batch * a.key_heads * shares; ++t) {
                const float* mine = extras.floats() + t * (hidden + kLanes);
                sum += (double)mine[hidden] - 2.0 * mine[c];
            }
            a.grad_vector[c] = (float)(sum * a.beta);
        }
    }
};

}  // namespace

// Preconditions: additive_forward's; `out` and `lse` are its results for the same scores.
void additive_backward(const AdditiveBackward& a, Crew& crew) {
    if (!a.batch || !a.heads || !a.queries) return;
    if (a.queries <= kAlone) {
        Alone alone(a, crew);
        alone.delta();
        crew.run(
            a.batch * a.key_heads * alone.shares, [](void* self, int64_t index, int worker) { ((Alone*)self)->task(index, worker); },
            &alone);
        if (!crew.stopped()) alone.settle();
        return;
    }
    StreamBackward<Additive>(a, a.vector, a.grad_vector, crew).run();
}

}  // namespace regard::REGARD_ISA
