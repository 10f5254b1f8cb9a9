// Attention with sparsemax or 1.5-entmax, backward, of dot-product scores: the weights are found again, and only their keys are touched.
//
//   dp = dO·v    dz = g ∘ (dp − Σ g·dp / Σ g),    g = slope(p): 1 on the support of sparsemax, √p for entmax
//
// A task owns every n-th group of rows of one key head (of all key heads that share the gradient of a bias): dQ of its rows is its own, and
// its share of dK and dV is summed separately and added in order afterwards. The number of shares depends on the shape alone.
#include "bias_gradient.h"
#include "sparse.h"

namespace regard::REGARD_ISA {
namespace {

struct SparseGradients {
    const SparseBackward& a;
    ThreadTeam& team;
    DotScorer scorer;
    Pack key, value, query, grad_out;  // rows
    const BiasOwners owners;
    const int64_t group, row_groups, share_floats;
    Scratch sums, scratch;  // dK and dV: [share][pair][key][width + value width]

    SparseGradients(const SparseBackward& a_, ThreadTeam& team_)
        : a(a_), team(team_), scorer(a_), key(a_.key, a_.type, Layout::rows, a_.batch, a_.key_heads, a_.keys, a_.width),
          value(a_.value, a_.type, Layout::rows, a_.batch, a_.key_heads, a_.keys, a_.value_width),
          query(a_.query, a_.type, Layout::rows, a_.batch, a_.heads, a_.queries, a_.width),
          grad_out(a_.grad_out, a_.type, Layout::rows, a_.batch, a_.heads, a_.queries, a_.value_width), owners(a_),
          group(a_.heads / a_.key_heads), row_groups(ceil_div(a_.queries, kRows)),
          share_floats(a_.batch * a_.key_heads * a_.keys * (key.width + value.width)), sums(4 * a_.row_shares * share_floats),
          scratch(4 * team_.threads() * slot()) {}

    int64_t slot() const { return SparseRows::floats(a) + 2 * SparseRows::row(a) + scorer.row_floats() + key.width; }

    void run() {
        scorer.prepare(team);
        Pack* const packs[] = {&key, &value, &query, &grad_out};
        pack_all(packs, 4, team);
        team.run(
            owners.count() * a.row_shares, [](void* self, int64_t index, int worker) { ((SparseGradients*)self)->task(index, worker); },
            this);
        if (!team.stopped())
            team.run(a.batch * a.key_heads, [](void* self, int64_t index, int) { ((SparseGradients*)self)->add_up(index); }, this);
    }

    float* sums_of(int64_t share, int64_t pair) const {
        return sums.floats() + share * share_floats + pair * a.keys * (key.width + value.width);
    }

    void task(int64_t index, int worker) {
        const int64_t share = index % a.row_shares;
        owners.pairs(a, index / a.row_shares, [&](int64_t pair) {
            std::memset(sums_of(share, pair), 0, 4 * a.keys * (key.width + value.width));
            for (int64_t g = 0; g < group; ++g) {
                const int64_t row = pair / a.key_heads * a.heads + pair % a.key_heads * group + g;
                double beta_sum = 0;
                for (int64_t n = share; n < row_groups && !team.stopped(worker); n += a.row_shares)
                    add_rows(row, share, n * kRows, sums_of(share, pair), worker, beta_sum);
                if (a.grad_betas) a.grad_betas[share * a.batch * a.heads + row] = beta_sum;
            }
        });
    }

    void add_rows(int64_t row, int64_t share, int64_t first, float* grad_keys, int worker, double& beta_sum) {
        const int64_t batch = row / a.heads, head = row % a.heads;
        float* memory = scratch.floats() + worker * slot();
        SparseRows sparse(a, a.choice, memory);
        float* grad_weights = memory + SparseRows::floats(a);
        float* slopes = grad_weights + SparseRows::row(a);
        float* rows = slopes + SparseRows::row(a);
        float* grad_query = rows + scorer.row_floats();
        RowGroup visible(a, batch, head, first, (int)min(kRows, a.queries - first));
        const ScoreHead of = scorer.head(row);
        scorer.load_rows(row, first, visible.rows, rows);
        sparse.score(scorer, of, visible, first, rows);
        for (int i = 0; i < visible.rows; ++i) {
            const int64_t at = first + i;
            const bool good = sparse.weigh(i);
            for (int64_t c = 0; c < key.width; ++c) grad_query[c] = good ? 0.0f : NAN;
            if (good && sparse.count) {
                differentiate_weights(sparse, of, row, at, grad_weights);
                differentiate_scores(sparse, of, share, row, at, sparse.scores + i * sparse.ld, grad_weights, slopes, beta_sum);
                float* grad_values = grad_keys + a.keys * key.width;
                for (int64_t n = 0; n < sparse.count; ++n) {
                    const int64_t j = sparse.keys[n];
                    add_scaled(slopes[n], key.at(of.pair) + j * key.width, key.width, grad_query);
                    add_scaled(slopes[n], query.at(row) + at * key.width, key.width, grad_keys + j * key.width);
                    add_scaled(sparse.weights[n], grad_out.at(row) + at * value.width, value.width, grad_values + j * value.width);
                }
            }
            store_row(a.grad_query, a.type, batch, head, at, a.width, a.scale, grad_query);
        }
    }

    // g·(dp − mean) of each key with weight; `sparse.weights` become those after dropout.
    void differentiate_weights(SparseRows& sparse, const ScoreHead& of, int64_t row, int64_t i, float* grad_weights) const {
        const Dropout dropout(a, row);
        const float* grad = grad_out.at(row) + i * value.width;
        const float entropy = a.grad_entropy ? a.grad_entropy[of.first_row + i] : 0.0f;
        double mean = 0;
        for (int64_t n = 0; n < sparse.count; ++n) {
            const int64_t j = sparse.keys[n];
            const float weight = sparse.weights[n], kept = !dropout ? 1.0f : dropout.keeps_one(i, j) ? 1 / a.kept : 0.0f;
            float g = kept == 0 ? 0.0f : dot_padded(grad, value.at(of.pair) + j * value.width, value.width) * kept;
            if (entropy != 0) g -= entropy * (::logf(weight) + 1);
            grad_weights[n] = g;
            mean += (double)sparse.slope(weight) * g;
        }
        mean /= sparse.slope_sum;
        for (int64_t n = 0; n < sparse.count; ++n) {
            const float weight = sparse.weights[n];
            grad_weights[n] = sparse.slope(weight) * (grad_weights[n] - (float)mean);
            if (dropout) sparse.weights[n] = dropout.keeps_one(i, sparse.keys[n]) ? weight / a.kept : 0.0f;
        }
    }

    // From dz to the gradients of temperature, biases and raw scores.
    void differentiate_scores(const SparseRows& sparse, const ScoreHead& of, int64_t share, int64_t row, int64_t i, const float* scores,
                              const float* grad_weights, float* slopes, double& beta_sum) const {
        const ScoreTransform& t = of.transform;
        const View& to = a.grad_bias;
        float* grad_bias =
            to.data ? (float*)to.data + share * a.grad_bias_share + row / a.heads * to.batch + row % a.heads * to.head + i * to.row
                    : nullptr;
        float* column_sums = a.grad_key_bias ? a.grad_key_bias + (share * a.batch * a.heads + row) * a.keys : nullptr;
        for (int64_t n = 0; n < sparse.count; ++n) {
            const int64_t j = sparse.keys[n];
            float slope = grad_weights[n] * t.beta;
            beta_sum += (double)slope * scores[j] * t.factor;
            if (grad_bias) grad_bias[j * to.column] += slope;
            if (t.cap != 0) {
                float capped = scores[j] * t.factor / t.to_base2;
                if (of.bias) capped -= of.bias.matrix.at(i, j);
                slope *= 1 - capped * t.inverse_cap * (capped * t.inverse_cap);
            }
            if (column_sums) column_sums[j] += slope;
            slopes[n] = slope;
        }
    }

    // dK and dV of one key head: the shares in order.
    void add_up(int64_t pair) {
        const int64_t floats = a.keys * (key.width + value.width);
        float* total = sums_of(0, pair);
        for (int64_t share = 1; share < a.row_shares; ++share) {
            const float* part = sums_of(share, pair);
            for (int64_t n = 0; n < floats; n += kLanes) store(total + n, load(total + n) + load(part + n));
        }
        const int64_t batch = pair / a.key_heads, head = pair % a.key_heads;
        for (int64_t j = 0; j < a.keys; ++j) {
            store_row(a.grad_key, a.type, batch, head, j, a.width, a.scale, total + j * key.width);
            store_row(a.grad_value, a.type, batch, head, j, a.value_width, 1.0f, total + a.keys * key.width + j * value.width);
        }
    }
};

}  // namespace

// Preconditions: as kernels.h says of Scores; a dot-product score; grad_key_bias is zeroed, one copy per share of rows; row_shares ≥ 1.
// `out`, `lse` and `delta` are not used. With no queries or no keys nothing is written.
void sparse_backward(const SparseBackward& a, ThreadTeam& team) {
    if (a.batch && a.heads && a.queries && a.keys) SparseGradients(a, team).run();
}

}  // namespace regard::REGARD_ISA
