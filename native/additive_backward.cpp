// Additive attention, backward.
#include "additive_single_query.h"
#include "pair_backward.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int64_t kKeyRun = 32;  // keys whose (1 − tanh)/2 are kept between their scores and their gradients

// One query at a time. A task is a share of one key head's keys, for every query row of that head.
struct SingleQueryBackward {
    const AdditiveBackward& a;
    ThreadTeam& team;
    const int64_t hidden, width, group, rows, share_keys, shares;  // rows: of one key head; share: keys in a task
    Scratch vector, grad_query, all_vector_sums, scratch;

    static int64_t keys_per_share(const Scores& a) { return round_up(ceil_div(a.keys, key_shares(a)), kKeyRun); }

    SingleQueryBackward(const AdditiveBackward& a_, ThreadTeam& team_)
        : a(a_), team(team_), hidden(padded(a_.width)), width(padded(a_.value_width)), group(a_.heads / a_.key_heads),
          rows(group * a_.queries), share_keys(keys_per_share(a_)), shares(ceil_div(a_.keys, share_keys)), vector(4 * hidden),
          grad_query(4 * a_.batch * a_.key_heads * shares * rows * hidden),
          all_vector_sums(4 * a_.batch * a_.key_heads * shares * (hidden + kLanes)), scratch(4 * team_.threads() * slot()) {
        for (int64_t c = 0; c < hidden; ++c) vector.floats()[c] = c < a.width ? a.vector[c] : 0.0f;
    }

    int64_t slot() const { return (2 * kKeyRun + 2) * hidden + (kKeyRun + 2) * width; }

    void task(int64_t index, int worker) {
        const int64_t pair = index / shares, batch = pair / a.key_heads, key_head = pair % a.key_heads;
        float* complements = scratch.floats() + worker * slot();  // [kHand][hidden]
        float* grad_key = complements + kKeyRun * hidden;
        float* query_copy = grad_key + kKeyRun * hidden;
        float* key_copy = query_copy + hidden;
        float* grad_value = key_copy + hidden;  // [kHand][width]
        float* value_copy = grad_value + kKeyRun * width;
        float* grad_copy = value_copy + width;
        float* grad_rows = grad_query.floats() + index * rows * hidden;
        float* vector_sums = all_vector_sums.floats() + index * (hidden + kLanes);
        std::memset(grad_rows, 0, 4 * rows * hidden);
        std::memset(vector_sums, 0, 4 * (hidden + kLanes));
        const Matrix key(a.key, a.type, batch, key_head), value(a.value, a.type, batch, key_head);
        const int64_t last = min((index % shares + 1) * share_keys, a.keys);
        double slopes_sum = 0;
        for (int64_t begin = index % shares * share_keys; begin < last; begin += kKeyRun) {
            const int64_t end = min(begin + kKeyRun, last);
            std::memset(grad_key, 0, 4 * kKeyRun * hidden);
            std::memset(grad_value, 0, 4 * kKeyRun * width);
            for (int64_t r = 0; r < rows; ++r) {
                const int64_t head = key_head * group + r / a.queries, at = (batch * a.heads + head) * a.queries + r % a.queries;
                RowGroup rows_visible(a, batch, head, r % a.queries, 1);
                BlockVisibility visible;
                if (!rows_visible.find_visible(begin, end, visible)) continue;
                const float* query = float_row(Matrix(a.query, a.type, batch, head), r % a.queries, a.width, query_copy);
                const float* grad = float_row(Matrix(a.grad_out, a.type, batch, head), r % a.queries, a.value_width, grad_copy);
                float slopes[kKeyRun];
                int64_t keys[kKeyRun], count = 0;
                for (int s = 0; s < visible.count; ++s)
                    for (int64_t j = visible.segment[s].begin; j < visible.segment[s].end; ++j) {
                        const float weight = ::exp2f(pair_score(query, float_row(key, j, a.width, key_copy), complements + count * hidden) *
                                                         (a.beta * kLog2e) -
                                                     a.lse[at] * kLog2e);
                        const float* v = float_row(value, j, a.value_width, value_copy);
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
                add_gradients(complements, slopes, keys, count, grad_rows + r * hidden, grad_key, vector_sums);
            }
            const View &k = a.grad_key, &v = a.grad_value;
            for (int64_t c = 0; c < hidden; c += kLanes)
                for (int64_t j = 0; j < end - begin; ++j)
                    store(grad_key + j * hidden + c, load(grad_key + j * hidden + c) * (4 * a.beta * load(vector.floats() + c)));
            for (int64_t j = begin; j < end; ++j) {
                store_row(k, a.type, batch, key_head, j, a.width, 1.0f, grad_key + (j - begin) * hidden);
                store_row(v, a.type, batch, key_head, j, a.value_width, 1.0f, grad_value + (j - begin) * width);
            }
            if (team.stopped(worker)) return;
        }
        vector_sums[hidden] = (float)slopes_sum;
    }

    // The score, and (1 − tanh)/2 of every column.
    float pair_score(const float* query, const float* key, float* complements) const {
        Float sum{};
        for (int64_t c = 0; c < hidden; c += kLanes) {
            const Float r = tanh_complement(load(query + c) + load(key + c));
            store(complements + c, r);
            sum += load(vector.floats() + c) * (1.0f - 2.0f * r);
        }
        return horizontal_sum(sum);
    }

    void add_gradients(const float* complements, const float* slopes, const int64_t* keys, int64_t count, float* grad_row, float* grad_key,
                       float* vector_sums) const {
        for (int64_t c = 0; c < hidden; c += kLanes) {
            Float across{}, total{};
            for (int64_t n = 0; n < count; ++n) {
                const Float r = load(complements + n * hidden + c), slope = splat(slopes[n]), u = slope * (r - r * r);
                float* to = grad_key + keys[n] * hidden + c;
                across += u;
                total += slope * r;
                store(to, load(to) + u);
            }
            store(grad_row + c, load(grad_row + c) + across);
            store(vector_sums + c, load(vector_sums + c) + total);
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
    void finish() const {
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
                const float* share_sums = all_vector_sums.floats() + t * (hidden + kLanes);
                sum += (double)share_sums[hidden] - 2.0 * share_sums[c];
            }
            a.grad_vector[c] = (float)(sum * a.beta);
        }
    }
};

}  // namespace

// Preconditions: additive_forward's; `out` and `lse` are its results for the same scores.
void additive_backward(const AdditiveBackward& a, ThreadTeam& team) {
    if (!a.batch || !a.heads || !a.queries) return;
    if (a.queries <= kSingleQueries) {
        SingleQueryBackward work(a, team);
        work.delta();
        team.run(
            a.batch * a.key_heads * work.shares,
            [](void* self, int64_t index, int worker) { ((SingleQueryBackward*)self)->task(index, worker); }, &work);
        if (!team.stopped()) work.finish();
        return;
    }
    PairBackward<Additive>(a, a.vector, a.grad_vector, team).run();
}

}  // namespace regard::REGARD_ISA
