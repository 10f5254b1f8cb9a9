// Runs every kernel of every instruction set on random problems against plain double-precision loops, for `make sanitize`: built
// under the address and undefined-behaviour sanitizers, with every buffer of exactly the size its shape needs.
#include "driver_problem.h"

namespace {

// The scores of one row, their slope under the cap, and the weights, in double precision.
struct Row {
    std::vector<double> score, slope, weight;
    double lse;
};

struct Trial : Problem {
    Tensor q, k, v, out, grad_out, dq, dk, dvalue, key_bias, sinks, dlse, vector, bias, betas, grad_entropy;
    std::vector<float> grad_bias;
    std::vector<double> grad_betas;
    Choice choice = Choice::softmax;
    int64_t shares = 1;
    std::vector<float> lse, delta, dbias, dvector;

    Trial(const char* isa_, int number_, ScoreKind rule_, Shape shape, MaskKind mask_kind)
        : Problem(isa_, number_, rule_, shape, mask_kind), q(B, h, L, d, true, type, number % 4),
          k(B, hk, S, d, true, type, number / 2 % 4), v(B, hk, S, dv, true, type, number / 3 % 4),
          out(B, h, L, dv, false, type, number % 4), grad_out(B, h, L, dv, true, type, number / 2 % 4),
          dq(B, h, L, d, false, type, number % 4), dk(B, hk, S, d, false, type, number / 3 % 4),
          dvalue(B, hk, S, dv, false, type, number / 2 % 4), key_bias(B, h, 1, S, true), sinks(1, 1, 1, h, true), dlse(B, h, 1, L, true),
          vector(1, 1, 1, d, true), bias(1, 1, 1, std::max(B * h * L * S, h * (L + S)), true), betas(1, 1, 1, h, true),
          grad_entropy(B, h, 1, L, true), lse(B * h * L), delta(B * h * L), dbias(16 * B * h * S), dvector(d) {
        arguments.query = q.view(), arguments.key = k.view(), arguments.value = v.view(), arguments.vector = vector.data.data();
        if (score_kind == kDot && number % 3 == 1) arguments.key_bias = key_bias.view(), arguments.cap = 4;
        if (number % 3 == 2) arguments.sinks = sinks.data.data(), arguments.beta = 1.3f;
        if (score_kind == kDot && number % 5 == 2)
            arguments.drop_below = 1u << 30, arguments.kept = 0.75f, arguments.seed = (uint32_t)number;
        if (score_kind == kDot && number % 2) make_bias();
        if (score_kind == kDot && number % 5 < 2) {
            for (float& beta : betas.data) beta = 0.5f + std::abs(beta);
            arguments.betas = betas.data.data();
        }
        if (score_kind == kDot && number % 7 == 4) choice = Choice::sparsemax;
        if (score_kind == kDot && number % 7 == 5) choice = Choice::entmax15;
        if (choice != Choice::softmax) arguments.sinks = nullptr;
    }

    // By pair, by head, by key, by row, for all, or along diagonals.
    void make_bias() {
        const int kind = number / 2 % 6;
        View& view = arguments.bias;
        view.data = bias.data.data();
        if (kind == 0) view.batch = h * L * S, view.head = L * S, view.row = S, view.column = 1;
        if (kind == 1) view.head = L * S, view.row = 1, view.column = L;
        if (kind == 2) view.batch = S, view.column = 1;
        if (kind == 3) view.head = L, view.row = 1;
        if (kind == 4) view.row = S, view.column = 1;
        if (kind == 5) view.data = bias.data.data() + L - 1, view.head = L + S - 1, view.row = -1, view.column = 1;
    }
    double bias_at(int64_t b, int64_t head, int64_t i, int64_t j) const {
        const View& v = arguments.bias;
        return v.data ? ((const float*)v.data)[b * v.batch + head * v.head + i * v.row + j * v.column] : 0;
    }
    double beta(int64_t head) const { return arguments.betas ? betas.data[head] : arguments.beta; }

    Row row(int64_t b, int64_t head, int64_t i) const {
        Row r{std::vector<double>(S, -INFINITY), std::vector<double>(S, 1.0), std::vector<double>(S), -INFINITY};
        const double sink = arguments.sinks ? sinks.data[head] : -INFINITY;
        double top = sink, total = 0;
        for (int64_t j = 0; j < S; ++j) {
            if (!is_visible(b, head, i, j)) continue;
            double u = 0;
            for (int64_t c = 0; c < d; ++c) {
                const double x = q.at(b, head, i, c), y = k.at(b, head / group, j, c);
                u += score_kind == kDot ? x * y : score_kind == kAdditive ? vector.data[c] * std::tanh(x + y) : -0.5 * (x - y) * (x - y);
            }
            u = u * arguments.scale + (arguments.key_bias.data ? key_bias.at(b, head, 0, j) : 0);
            if (arguments.cap != 0) {
                r.slope[j] = 1 - std::tanh(u / arguments.cap) * std::tanh(u / arguments.cap);
                u = arguments.cap * std::tanh(u / arguments.cap);
            }
            r.score[j] = (u + bias_at(b, head, i, j)) * beta(head);
            top = std::max(top, r.score[j]);
        }
        if (top == -INFINITY) return r;
        if (choice != Choice::softmax) return sparse_row(r, top);
        for (int64_t j = 0; j < S; ++j) total += std::exp(r.score[j] - top);
        r.lse = top + std::log(total + std::exp(sink - top));
        for (int64_t j = 0; j < S; ++j) r.weight[j] = std::exp(r.score[j] - r.lse);
        return r;
    }

    // The threshold by bisection; `lse` becomes it.
    Row sparse_row(Row r, double top) const {
        const double unit = choice == Choice::entmax15 ? 0.5 : 1;
        double low = top * unit - 1, high = top * unit;
        for (int step = 0; step < 100; ++step) {
            const double middle = (low + high) / 2;
            double sum = 0;
            for (int64_t j = 0; j < S; ++j) sum += sparse_weight(r.score[j] * unit - middle);
            (sum > 1 ? low : high) = middle;
        }
        for (int64_t j = 0; j < S; ++j) r.weight[j] = sparse_weight(r.score[j] * unit - low);
        r.lse = low;
        return r;
    }
    double sparse_weight(double above) const { return above <= 0 ? 0 : choice == Choice::entmax15 ? above * above : above; }

    template <class Arguments>
    Arguments arguments_for() {
        Arguments a;
        (Scores&)a = arguments;
        return a;
    }

    void forward(ThreadTeam& team) {
        if (choice != Choice::softmax) {
            SparseForward f = arguments_for<SparseForward>();
            f.choice = choice, f.out = out.view(), f.threshold = lse.data();
            return kernels().sparse_forward(f, team);
        }
        DotForward f = arguments_for<DotForward>();
        f.out = out.view(), f.lse = lse.data();
        if (score_kind == kDot) kernels().dot_forward(f, team);
        if (score_kind == kAdditive) kernels().additive_forward(f, team);
        if (score_kind == kGaussian) kernels().gaussian_forward(f, team);
    }

    // Where the gradient of the bias is added: as the bias lies if every pair has a number of its own, else per head and share.
    bool whole_bias() const { return number / 2 % 6 % 2 == 0 ? number / 2 % 6 != 2 : number / 2 % 6 == 1; }
    int64_t slice() const { return number / 2 % 6 == 5 ? L + S - 1 : number / 2 % 6 == 3 ? L : S; }
    View bias_gradient_strides() const {
        View to = arguments.bias;
        if (!whole_bias()) to.batch = h * slice(), to.head = slice();
        return to;
    }
    int64_t bias_gradient_at(int64_t b, int64_t head, int64_t i, int64_t j) const {
        const View to = bias_gradient_strides();
        return b * to.batch + head * to.head + i * to.row + j * to.column + (to.row == -1 ? L - 1 : 0);
    }

    template <class Backward>
    void set_gradients(Backward& g) {
        const int64_t owners =
            arguments.bias.data && whole_bias() ? (arguments.bias.batch ? B : 1) * (arguments.bias.head ? hk : 1) : B * hk;
        shares = std::max<int64_t>(1, std::min((16 + owners - 1) / owners, choice == Choice::softmax ? (S + 255) / 256 : (L + 63) / 64));
        g.out = out.view(), g.grad_out = grad_out.view(), g.lse = lse.data(), g.grad_lse = dlse.data.data();
        g.grad_query = dq.view(), g.grad_key = dk.view(), g.grad_value = dvalue.view(), g.delta = delta.data();
        if (arguments.key_bias.data) g.grad_key_bias = dbias.data();
        if (arguments.bias.data) {
            const int64_t floats = whole_bias() ? (int64_t)bias.data.size() : B * h * slice();
            grad_bias.assign((whole_bias() ? 1 : shares) * floats, 0.0f);
            g.grad_bias = bias_gradient_strides();
            g.grad_bias.data = grad_bias.data() + (g.grad_bias.row == -1 ? L - 1 : 0);
            g.grad_bias_share = whole_bias() ? 0 : floats;
        }
        grad_betas.assign(shares * B * h, 0.0);
        if (arguments.betas) g.grad_betas = grad_betas.data();
        if (score_kind == kDot && number % 3 == 0) g.grad_entropy = grad_entropy.data.data();
    }

    void backward(ThreadTeam& team) {
        if (choice != Choice::softmax) {
            SparseBackward g = arguments_for<SparseBackward>();
            set_gradients(g);
            g.choice = choice, g.row_shares = shares;
            return kernels().sparse_backward(g, team);
        }
        AdditiveBackward g = arguments_for<AdditiveBackward>();
        set_gradients(g);
        g.grad_vector = dvector.data();
        std::vector<float> grad_lse(dlse.data);
        for (int64_t n = 0; g.grad_entropy && n < B * h * L; ++n) {  // Σ p·dP of a row, with dP = −g (ln p + 1)
            for (const double p : row(n / (h * L), n / L % h, n % L).weight)
                if (p > 0) grad_lse[n] += (float)(grad_entropy.data[n] * p * (std::log(p) + 1));
        }
        g.grad_lse = grad_lse.data();
        if (score_kind == kDot) kernels().dot_backward(g, team);
        if (score_kind == kAdditive) kernels().additive_backward(g, team);
        if (score_kind == kGaussian) kernels().gaussian_backward(g, team);
    }

    struct Gradients {
        std::vector<double> key, value, key_bias, vector, bias, betas;
    };

    void check_gradients() {
        Gradients wanted{std::vector<double>(B * hk * S * d),
                         std::vector<double>(B * hk * S * dv),
                         std::vector<double>(B * h * S),
                         std::vector<double>(d),
                         std::vector<double>(whole_bias() || !arguments.bias.data ? bias.data.size() : B * h * slice()),
                         std::vector<double>(h)};
        for (int64_t n = 0; n < B * h * L; ++n) check_row(n, wanted);
        for (int64_t n = 0; n < B * hk * S; ++n) {
            const int64_t b = n / (hk * S), head = n / S % hk, j = n % S;
            for (int64_t c = 0; c < d; ++c) close(dk.at(b, head, j, c), wanted.key[n * d + c], tolerance * 40, "grad of key");
            for (int64_t c = 0; c < dv; ++c) close(dvalue.at(b, head, j, c), wanted.value[n * dv + c], tolerance * 40, "grad of value");
        }
        for (int64_t n = 0; arguments.key_bias.data && n < B * h * S; ++n) {
            double got = 0;
            for (int64_t s = 0; s < (choice == Choice::softmax ? 1 : shares); ++s) got += dbias[s * B * h * S + n];
            close(got, wanted.key_bias[n], tolerance * 40, "grad of key bias");
        }
        for (size_t n = 0; arguments.bias.data && n < wanted.bias.size(); ++n) {
            double got = 0;
            for (size_t at = n; at < grad_bias.size(); at += wanted.bias.size()) got += grad_bias[at];
            close(got, wanted.bias[n], tolerance * 100, "grad of bias");
        }
        for (int64_t head = 0; arguments.betas && head < h; ++head) {
            double got = 0;
            for (int64_t n = head; n < shares * B * h; n += h) got += grad_betas[n];
            close(got * std::log(2.0) / (beta(head) * beta(head)), wanted.betas[head], tolerance * 200, "grad of temperature");
        }
        for (int64_t c = 0; score_kind == kAdditive && c < d; ++c) close(dvector[c], wanted.vector[c], tolerance * 100, "grad of vector");
    }

    // Output and lse of one row, and its part of every gradient.
    void check_row(int64_t n, Gradients& wanted) {
        const int64_t b = n / (h * L), head = n / L % h, i = n % L, kh = head / group;
        const Row r = row(b, head, i);
        const bool sparse = choice != Choice::softmax;
        if (!sparse)
            check(r.lse == -INFINITY ? lse[n] == -INFINITY : std::abs(lse[n] - r.lse) < tolerance * 3 * (1 + std::abs(r.lse)), "lse");
        for (int64_t c = 0; c < dv; ++c) {
            double o = 0;
            for (int64_t j = 0; j < S; ++j)
                if (r.weight[j] != 0) o += r.weight[j] * dropout_factor(b * h + head, i, j) * v.at(b, kh, j, c);
            close(out.at(b, head, i, c), o, tolerance * (sparse ? 4 : 1), "output");
        }
        std::vector<double> grad_weight(S), slope(S), wanted_dq(d);
        double mean = 0, mass = 0;
        for (int64_t j = 0; j < S; ++j) {
            if (r.weight[j] == 0) continue;
            for (int64_t c = 0; c < dv; ++c)
                grad_weight[j] += grad_out.at(b, head, i, c) * v.at(b, kh, j, c) * dropout_factor(b * h + head, i, j);
            if (score_kind == kDot && number % 3 == 0) grad_weight[j] -= grad_entropy.data[n] * (std::log(r.weight[j]) + 1);
            slope[j] = !sparse ? r.weight[j] : choice == Choice::entmax15 ? std::sqrt(r.weight[j]) : 1.0;
            mean += slope[j] * grad_weight[j];
            mass += slope[j];
        }
        mean = sparse ? mean / std::max(mass, 1e-30) : mean - dlse.data[n];
        for (int64_t j = 0; j < S; ++j) {
            if (r.weight[j] == 0) continue;
            for (int64_t c = 0; c < dv; ++c)
                wanted.value[((b * hk + kh) * S + j) * dv + c] +=
                    r.weight[j] * dropout_factor(b * h + head, i, j) * grad_out.at(b, head, i, c);
            const double dz = slope[j] * (grad_weight[j] - mean), ds = dz * beta(head) * r.slope[j];
            wanted.betas[head] += dz * r.score[j] / beta(head);
            if (arguments.bias.data) wanted.bias[bias_gradient_at(b, head, i, j)] += dz * beta(head);
            wanted.key_bias[(b * h + head) * S + j] += ds;
            for (int64_t c = 0; c < d; ++c) {
                const double x = q.at(b, head, i, c), y = k.at(b, kh, j, c), t = std::tanh(x + y);
                const double to_q = score_kind == kDot        ? arguments.scale * y
                                    : score_kind == kAdditive ? vector.data[c] * (1 - t * t)
                                                              : y - x;
                const double to_k = score_kind == kDot ? arguments.scale * x : score_kind == kAdditive ? to_q : x - y;
                wanted_dq[c] += ds * to_q;
                wanted.key[((b * hk + kh) * S + j) * d + c] += ds * to_k;
                wanted.vector[c] += ds * t;
            }
        }
        for (int64_t c = 0; c < d; ++c) close(dq.at(b, head, i, c), wanted_dq[c], tolerance * 20, "grad of query");
    }

    void check_readings(ThreadTeam& team) {
        const int64_t rows = B * h * L, shares = 2, top = 3, side = bin(std::max(L, S)), bins = 2 * side + 1, R = std::min<int64_t>(L, 5),
                      C = std::min<int64_t>(S, 7);
        std::vector<float> entropy(rows), mass(rows), max_logit(rows), sink(rows), at(rows), by_query(rows), same(rows),
            top_weights(rows * top);
        std::vector<int64_t> keys(rows * top), at_keys(rows), chosen{L / 2, L - 1};
        std::vector<double> received(shares * B * h * S), distance(shares * B * h * bins), pooled(shares * B * h * R * C);
        std::vector<float> norms(B * h * S), rows_out(B * h * chosen.size() * S);
        std::vector<int32_t> row_ids(B * L), key_ids(B * S);
        for (int64_t& key : at_keys) key = integer(0, S - 1);
        for (float& norm : norms) norm = (float)integer(0, 9);
        for (int32_t& id : row_ids) id = (int32_t)integer(0, 3);
        for (int32_t& id : key_ids) id = (int32_t)integer(0, 3);
        Read r = arguments_for<Read>();
        r.drop_below = 0, r.choice = choice;
        r.lse = lse.data(), r.shares = shares, r.entropy = entropy.data(), r.mass = mass.data(), r.max_logit = max_logit.data();
        r.sink = sink.data(), r.sinks_read = 2, r.at = at.data(), r.at_keys = at_keys.data(), r.by_query = by_query.data(),
        r.norms = norms.data();
        r.received = received.data(), r.distance = distance.data(), r.side = side, r.pooled = pooled.data(), r.pooled_rows = R,
        r.pooled_columns = C;
        r.top_weights = top_weights.data(), r.top_keys = keys.data(), r.top = top;
        r.chosen = chosen.data(), r.chosen_count = (int64_t)chosen.size(), r.rows = rows_out.data();
        r.same_count = 1, r.same[0] = same.data(), r.same_rows[0] = row_ids.data(), r.same_keys[0] = key_ids.data(),
        r.same_itself[0] = number % 2;
        kernels().read(r, team);
        std::vector<double> wanted_received(B * h * S), wanted_distance(B * h * bins), wanted_pooled(B * h * R * C);
        for (int64_t n = 0; n < rows; ++n) {
            const int64_t b = n / (h * L), head = n / L % h, i = n % L, pair = n / L;
            const Row w = row(b, head, i);
            double entropy_wanted = 0, total = 0, first = 0, norm = 0, same_mass = 0, best = -INFINITY;
            for (int64_t j = 0; j < S; ++j) {
                const double p = w.weight[j];
                best = std::max(best, w.score[j]);
                if (p == 0) continue;
                entropy_wanted -= p * std::log(p);
                total += p;
                first += j < 2 ? p : 0;
                norm += p * norms[pair * S + j];
                const int64_t offset = j - (i + S - L);
                same_mass += row_ids[b * L + i] == key_ids[b * S + j] && (r.same_itself[0] || offset != 0) ? p : 0;
                wanted_received[pair * S + j] += p;
                wanted_distance[pair * bins + side + (offset < 0 ? -bin(-offset) : bin(offset))] += p;
                wanted_pooled[(pair * R + i * R / L) * C + j * C / S] += p;
            }
            close(entropy[n], entropy_wanted, tolerance * 10, "entropy");
            close(mass[n], total, tolerance, "mass");
            check(best == -INFINITY ? max_logit[n] == -INFINITY : std::abs(max_logit[n] - best) < tolerance * 3 * (1 + std::abs(best)),
                  "max logit");
            close(sink[n], first, tolerance, "sink");
            close(at[n], w.weight[at_keys[n]], tolerance, "at");
            close(by_query[n], norm, tolerance * 4, "value norm");
            close(same[n], same_mass, tolerance, "same");
            for (size_t c = 0; c < chosen.size(); ++c)
                for (int64_t j = 0; chosen[c] == i && j < S; ++j)
                    close(rows_out[(pair * chosen.size() + c) * S + j], w.weight[j], tolerance, "rows");
            for (int64_t t = 0; t < top; ++t) {
                const int64_t key = keys[n * top + t];
                check(key < 0 ? top_weights[n * top + t] == 0 : std::abs(top_weights[n * top + t] - w.weight[key]) < tolerance, "top");
            }
        }
        const auto summed = [&](const std::vector<double>& got, const std::vector<double>& expected, const char* what) {
            for (size_t n = 0; n < expected.size(); ++n) close(got[n] + got[expected.size() + n], expected[n], tolerance * 10, what);
        };
        summed(received, wanted_received, "received");
        summed(distance, wanted_distance, "distance");
        summed(pooled, wanted_pooled, "pooled");
    }

    void check_picks(ThreadTeam& team) {
        std::vector<int64_t> largest(B * h * L), drawn(B * h * L);
        std::vector<double> uniform(B * h * L);
        for (double& u : uniform) u = std::uniform_real_distribution<double>(0, 1)(random_bits);
        Pick p = arguments_for<Pick>();
        p.sinks = nullptr, p.drop_below = 0, p.index = largest.data();
        kernels().pick(p, team);
        p.uniform = uniform.data(), p.index = drawn.data();
        kernels().pick(p, team);
        const Choice before_picking = choice;
        choice = Choice::softmax;
        for (int64_t n = 0; n < B * h * L; ++n) {
            const Row w = row(n / (h * L), n / L % h, n % L);
            const double best = *std::max_element(w.score.begin(), w.score.end());
            check((largest[n] < 0) == (best == -INFINITY) && (drawn[n] < 0) == (best == -INFINITY), "an empty row's pick");
            if (best == -INFINITY) continue;
            check(w.score[largest[n]] > best - tolerance * (1 + std::abs(best)), "argmax");
            double before = 0, total = 0;  // the draw may fall to either side of an edge it comes close to
            for (int64_t j = 0; j < S; ++j) total += w.weight[j];
            for (int64_t j = 0; j < drawn[n]; ++j) before += w.weight[j];
            const double low = before / total, high = (before + w.weight[drawn[n]]) / total;
            check(w.score[drawn[n]] != -INFINITY && uniform[n] > low - tolerance && uniform[n] < high + tolerance, "draw");
        }
        choice = before_picking;
    }
};

void measure_limits() {
    std::vector<float> data(1000);
    for (int what = 0; what < 4; ++what) {
        Limits a;
        double amount = 0;
        std::vector<float> checksum(2);
        a.what = (Limits::What)what, a.repeats = 2, a.data = data.data(), a.floats = (int64_t)data.size(), a.shares = 2,
        a.checksum = checksum.data(), a.amount = &amount;
        ThreadTeam team(2, nullptr);
        kernels().limits(a, team);
    }
}

}  // namespace

int main() {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    for (const char* const* isa = available_instruction_sets(); *isa; ++isa) {
        force(*isa);
        int number = 0;
        for (const ScoreKind score_kind : {kDot, kAdditive, kGaussian})
            for (int shape = 0; shape < kShapes; ++shape)
                for (int mask_kind = 0; mask_kind < kMasks; ++mask_kind)
                    for (int again = 0; again < (score_kind == kDot ? 6 : 2); ++again, ++number) {
                        Trial trial(*isa, number, score_kind, (Shape)shape, (MaskKind)mask_kind);
                        ThreadTeam team((int)integer(1, 3), nullptr);
                        trial.forward(team);
                        trial.backward(team);
                        trial.check_gradients();
                        trial.check_readings(team);
                        trial.check_picks(team);
                    }
        measure_limits();
        std::printf("%s: %d random attentions, forward, backward, readings and picks: right\n", *isa, number);
    }
}
