// Runs every kernel of every instruction set on random problems against plain double-precision loops, for `make sanitize`: built
// under the address and undefined-behaviour sanitizers, with every buffer of exactly the size its shape needs.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "kernels.h"
#include "threads.h"

using namespace regard;

namespace {

std::mt19937 random_bits(1);
int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_bits); }

float from_bfloat16(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}

// (B, heads, rows, columns) in one of several orders of its axes, float32 or bfloat16.
struct Tensor {
    std::vector<float> data;
    std::vector<uint16_t> half;
    View strides;

    Tensor(int64_t batch, int64_t heads, int64_t rows, int64_t columns, bool fill, bool narrow, int order = 0) {
        const int64_t gap = order == 3 ? 3 : 0, width = columns + gap;  // between rows
        if (order == 1)
            strides = {nullptr, rows * heads * columns, columns, heads * columns, 1};
        else if (order == 2)
            strides = {nullptr, heads * rows * columns, rows * columns, 1, rows};
        else
            strides = {nullptr, heads * rows * width, rows * width, width, 1};
        data.resize(batch * heads * rows * width - gap);
        std::normal_distribution<float> normal;
        for (float& x : data) x = fill ? normal(random_bits) : 0.0f;
        if (!narrow) return;
        half.resize(data.size());
        for (size_t i = 0; i < data.size(); ++i) {
            uint32_t bits;
            std::memcpy(&bits, &data[i], 4);
            half[i] = (uint16_t)(bits >> 16);  // any bfloat16 will do
        }
        data.clear();
    }
    View view() {
        View v = strides;
        v.data = half.empty() ? (void*)data.data() : (void*)half.data();
        return v;
    }
    double at(int64_t b, int64_t h, int64_t i, int64_t c) const {
        const int64_t n = b * strides.batch + h * strides.head + i * strides.row + c * strides.column;
        return half.empty() ? data[n] : from_bfloat16(half[n]);
    }
};

uint32_t mix(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
    x = (x ^ (x >> 13)) * 0xC2B2AE35u;
    return x ^ (x >> 16);
}

int64_t bin(int64_t far) { return far < 2 ? far : 65 - __builtin_clzll((unsigned long long)(far - 1)); }

enum ScoreKind { kDot, kAdditive, kGaussian };
enum Shape { kPlain, kShort, kFew, kLong, kShapes };
enum MaskKind { kOpen, kSpans, kPattern, kMasks };

// One random attention problem: its inputs and the kernels' arguments.
struct Problem {
    const char* isa;
    int number;
    ScoreKind score_kind;
    bool narrow;
    int64_t B, hk, group, h, L, S, d, dv;
    double tolerance;
    std::vector<int32_t> spans;
    std::vector<uint8_t> pattern;
    Scores arguments;

    Problem(const char* isa_, int number_, ScoreKind rule_, Shape shape, MaskKind mask_kind)
        : isa(isa_), number(number_), score_kind(rule_), narrow(rule_ == kDot && number_ % 4 == 3), B(integer(1, 2)), hk(integer(1, 2)),
          group(integer(1, 3)), L(integer(1, 60)), S(integer(1, 150)), d(integer(1, 40)), dv(integer(1, 40)),
          tolerance(narrow ? 0.05 : 2e-5) {
        if (shape == kShort) B = integer(8, 12), L = integer(1, 20), S = integer(1, 24);
        if (shape == kFew) L = integer(1, 4), S = integer(300, 1200), d = number % 2 ? 32 : d, dv = number % 2 ? 64 : dv;
        if (shape == kLong) B = hk = 1, S = integer(500, 1300);
        if (shape == kPlain && number % 3 == 0) d = 48, dv = 16;
        h = hk * group;
        arguments.batch = B, arguments.heads = h, arguments.key_heads = hk, arguments.queries = L, arguments.keys = S, arguments.width = d,
        arguments.value_width = dv;
        arguments.type = narrow ? Type::bfloat16 : Type::float32;
        if (score_kind == kDot) arguments.scale = 1 / std::sqrt((float)d);
        if (mask_kind == kSpans) make_spans(integer(1, 3));
        if (mask_kind == kPattern) make_pattern();
    }

    void make_spans(int64_t R) {
        spans.resize(L * R * 2);
        for (int64_t i = 0; i < L; ++i) {
            std::vector<int32_t> edges(2 * R);
            for (int32_t& e : edges) e = (int32_t)integer(0, S);
            std::sort(edges.begin(), edges.end());
            std::copy(edges.begin(), edges.end(), spans.begin() + i * R * 2);
        }
        arguments.spans = {spans.data(), 0, 0, R * 2, 2, R};
    }

    // Shared by batches, heads or rows, or transposed; some keys visible to all, some hidden from all.
    void make_pattern() {
        const int64_t batches = integer(0, 1) ? B : 1, heads = integer(0, 1) ? h : 1, rows = number % 5 ? L : 1;
        const bool across = number % 4 == 1;
        pattern.resize(batches * heads * rows * S);
        arguments.pattern = {pattern.data(), batches > 1 ? heads * rows * S : 0, heads > 1 ? rows * S : 0, rows > 1 ? (across ? 1 : S) : 0,
                             across ? rows : 1};
        const int64_t kinds = integer(1, 9);
        for (size_t n = 0; n < pattern.size(); ++n) pattern[n] = integer(0, 9) < kinds;
        const int64_t from = integer(0, S), to = integer(from, S);
        const bool value = integer(0, 1);
        for (int64_t n = 0; n < batches * heads * rows; ++n)
            for (int64_t j = from; j < to; ++j) pattern[across ? n / rows * rows * S + j * rows + n % rows : n * S + j] = value;
    }

    bool is_visible(int64_t b, int64_t head, int64_t i, int64_t j) const {
        if (arguments.pattern.data)
            return arguments.pattern.data[b * arguments.pattern.batch + head * arguments.pattern.head + i * arguments.pattern.row +
                                          j * arguments.pattern.column];
        bool visible = !arguments.spans.data;
        for (int64_t n = 0; n < arguments.spans.ranges; ++n) {
            const int32_t* s = arguments.spans.data + i * arguments.spans.row + n * arguments.spans.range;
            visible |= s[0] <= j && j < s[1];
        }
        return visible;
    }

    double dropout_factor(int64_t row, int64_t i, int64_t j) const {
        const uint32_t hash = mix(mix(mix(mix(arguments.seed) ^ (uint32_t)row) ^ (uint32_t)i) ^ (uint32_t)j);
        return hash < arguments.drop_below ? 0 : 1 / (double)arguments.kept;
    }

    void check(bool good, const char* what) const {
        if (good) return;
        std::fprintf(stderr, "%s is wrong on %s, problem %d (rule %d, B%ld h%ld k%ld L%ld S%ld d%ld dv%ld)\n", what, isa, number,
                     (int)score_kind, (long)B, (long)h, (long)hk, (long)L, (long)S, (long)d, (long)dv);
        std::exit(1);
    }
    void close(double got, double expected, double within, const char* what) const {
        check(std::abs(got - expected) < within * (1 + std::abs(expected)), what);
    }
};

// The scores of one row, their slope under the cap, and the weights, in double precision.
struct Row {
    std::vector<double> score, slope, weight;
    double lse;
};

struct Trial : Problem {
    Tensor q, k, v, out, grad_out, dq, dk, dvalue, bias, sinks, dlse, vector;
    std::vector<float> lse, delta, dbias, dvector;

    Trial(const char* isa_, int number_, ScoreKind rule_, Shape shape, MaskKind mask_kind)
        : Problem(isa_, number_, rule_, shape, mask_kind), q(B, h, L, d, true, narrow, number % 4),
          k(B, hk, S, d, true, narrow, number / 2 % 4), v(B, hk, S, dv, true, narrow, number / 3 % 4),
          out(B, h, L, dv, false, narrow, number % 4), grad_out(B, h, L, dv, true, narrow, number / 2 % 4),
          dq(B, h, L, d, false, narrow, number % 4), dk(B, hk, S, d, false, narrow, number / 3 % 4),
          dvalue(B, hk, S, dv, false, narrow, number / 2 % 4), bias(B, h, 1, S, true, false), sinks(1, 1, 1, h, true, false),
          dlse(B, h, 1, L, true, false), vector(1, 1, 1, d, true, false), lse(B * h * L), delta(B * h * L), dbias(B * h * S), dvector(d) {
        arguments.query = q.view(), arguments.key = k.view(), arguments.value = v.view();
        if (score_kind == kDot && number % 3 == 1) arguments.key_bias = bias.view(), arguments.cap = 4;
        if (number % 3 == 2) arguments.sinks = sinks.data.data(), arguments.beta = 1.3f;
        if (score_kind == kDot && number % 5 == 2)
            arguments.drop_below = 1u << 30, arguments.kept = 0.75f, arguments.seed = (uint32_t)number;
    }

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
            u = u * arguments.scale + (arguments.key_bias.data ? bias.at(b, head, 0, j) : 0);
            if (arguments.cap != 0) {
                r.slope[j] = 1 - std::tanh(u / arguments.cap) * std::tanh(u / arguments.cap);
                u = arguments.cap * std::tanh(u / arguments.cap);
            }
            r.score[j] = u * arguments.beta;
            top = std::max(top, r.score[j]);
        }
        if (top == -INFINITY) return r;
        for (int64_t j = 0; j < S; ++j) total += std::exp(r.score[j] - top);
        r.lse = top + std::log(total + std::exp(sink - top));
        for (int64_t j = 0; j < S; ++j) r.weight[j] = std::exp(r.score[j] - r.lse);
        return r;
    }

    template <class Arguments>
    Arguments arguments_for() {
        Arguments a;
        (Scores&)a = arguments;
        return a;
    }

    void forward(ThreadTeam& team) {
        AdditiveForward f = arguments_for<AdditiveForward>();
        f.out = out.view(), f.lse = lse.data(), f.vector = vector.data.data();
        if (score_kind == kDot) kernels().dot_forward(f, team);
        if (score_kind == kAdditive) kernels().additive_forward(f, team);
        if (score_kind == kGaussian) kernels().gaussian_forward(f, team);
    }

    void backward(ThreadTeam& team) {
        AdditiveBackward g = arguments_for<AdditiveBackward>();
        g.out = out.view(), g.grad_out = grad_out.view(), g.lse = lse.data(), g.grad_lse = dlse.data.data();
        g.grad_query = dq.view(), g.grad_key = dk.view(), g.grad_value = dvalue.view(), g.delta = delta.data();
        g.vector = vector.data.data(), g.grad_vector = dvector.data();
        if (arguments.key_bias.data) g.grad_key_bias = dbias.data();
        if (score_kind == kDot) kernels().dot_backward(g, team);
        if (score_kind == kAdditive) kernels().additive_backward(g, team);
        if (score_kind == kGaussian) kernels().gaussian_backward(g, team);
    }

    void check_gradients() {
        std::vector<double> wanted_dk(B * hk * S * d), wanted_dv(B * hk * S * dv), wanted_bias(B * h * S), wanted_vector(d);
        for (int64_t n = 0; n < B * h * L; ++n) {
            const int64_t b = n / (h * L), head = n / L % h, i = n % L, kh = head / group;
            const Row r = row(b, head, i);
            check(r.lse == -INFINITY ? lse[n] == -INFINITY : std::abs(lse[n] - r.lse) < tolerance * 3 * (1 + std::abs(r.lse)), "lse");
            double mean = -dlse.data[n];
            for (int64_t c = 0; c < dv; ++c) {
                double o = 0;
                for (int64_t j = 0; j < S; ++j)
                    if (r.weight[j] != 0) o += r.weight[j] * dropout_factor(b * h + head, i, j) * v.at(b, kh, j, c);
                close(out.at(b, head, i, c), o, tolerance, "output");
                mean += grad_out.at(b, head, i, c) * o;
            }
            std::vector<double> wanted_dq(d);
            for (int64_t j = 0; j < S; ++j) {
                if (r.weight[j] == 0) continue;
                const double kept = dropout_factor(b * h + head, i, j);
                double grad_weight = 0;
                for (int64_t c = 0; c < dv; ++c) {
                    grad_weight += grad_out.at(b, head, i, c) * v.at(b, kh, j, c) * kept;
                    wanted_dv[((b * hk + kh) * S + j) * dv + c] += r.weight[j] * kept * grad_out.at(b, head, i, c);
                }
                const double ds = r.weight[j] * (grad_weight - mean) * r.slope[j] * arguments.beta;
                wanted_bias[(b * h + head) * S + j] += ds;
                for (int64_t c = 0; c < d; ++c) {
                    const double x = q.at(b, head, i, c), y = k.at(b, kh, j, c), t = std::tanh(x + y);
                    const double to_q = score_kind == kDot        ? arguments.scale * y
                                        : score_kind == kAdditive ? vector.data[c] * (1 - t * t)
                                                                  : y - x;
                    const double to_k = score_kind == kDot ? arguments.scale * x : score_kind == kAdditive ? to_q : x - y;
                    wanted_dq[c] += ds * to_q;
                    wanted_dk[((b * hk + kh) * S + j) * d + c] += ds * to_k;
                    wanted_vector[c] += ds * t;
                }
            }
            for (int64_t c = 0; c < d; ++c) close(dq.at(b, head, i, c), wanted_dq[c], tolerance * 10, "grad of query");
        }
        for (int64_t n = 0; n < B * hk * S; ++n) {
            const int64_t b = n / (hk * S), head = n / S % hk, j = n % S;
            for (int64_t c = 0; c < d; ++c) close(dk.at(b, head, j, c), wanted_dk[n * d + c], tolerance * 40, "grad of key");
            for (int64_t c = 0; c < dv; ++c) close(dvalue.at(b, head, j, c), wanted_dv[n * dv + c], tolerance * 40, "grad of value");
        }
        for (int64_t n = 0; arguments.key_bias.data && n < B * h * S; ++n)
            close(dbias[n], wanted_bias[n], tolerance * 40, "grad of key bias");
        for (int64_t c = 0; score_kind == kAdditive && c < d; ++c) close(dvector[c], wanted_vector[c], tolerance * 100, "grad of vector");
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
        r.drop_below = 0;
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
                        if (score_kind != kDot) continue;
                        trial.check_readings(team);
                        trial.check_picks(team);
                    }
        measure_limits();
        std::printf("%s: %d random attentions, forward, backward, readings and picks: right\n", *isa, number);
    }
}
