// Runs every dot-product kernel on random shapes against plain double-precision loops, for `make sanitize`: built under the
// address and undefined-behaviour sanitizers, with every buffer exactly as large as it is said to be.
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

struct Tensor {
    std::vector<float> data;
    std::vector<uint16_t> half;
    int64_t heads, rows, columns;
    Tensor(int64_t batch, int64_t heads_, int64_t rows_, int64_t columns_, bool fill, bool narrow)
        : data(batch * heads_ * rows_ * columns_), heads(heads_), rows(rows_), columns(columns_) {
        std::normal_distribution<float> normal;
        for (float& x : data) x = fill ? normal(random_bits) : 0.0f;
        if (!narrow) return;
        half.resize(data.size());
        for (size_t i = 0; i < data.size(); ++i) {
            uint32_t bits;
            std::memcpy(&bits, &data[i], 4);
            half[i] = (uint16_t)(bits >> 16);  // any bfloat16 will do
            bits &= 0xffff0000u;
            std::memcpy(&data[i], &bits, 4);
        }
    }
    View view() { return {half.empty() ? (void*)data.data() : (void*)half.data(), heads * rows * columns, rows * columns, columns, 1}; }
    double at(int64_t b, int64_t h, int64_t i, int64_t c) const {
        const int64_t n = ((b * heads + h) * rows + i) * columns + c;
        if (half.empty()) return data[n];
        const uint32_t bits = (uint32_t)half[n] << 16;
        float x;
        std::memcpy(&x, &bits, 4);
        return x;
    }
};

void check(bool good, const char* what, const char* isa, int trial) {
    if (good) return;
    std::fprintf(stderr, "%s is wrong on %s, trial %d\n", what, isa, trial);
    std::exit(1);
}

void trial(const char* isa, int number) {
    const bool narrow = number % 4 == 3;
    const double loose = narrow ? 0.05 : 2e-5;
    const int64_t B = integer(1, 2), hk = integer(1, 2), group = integer(1, 3), h = hk * group, L = integer(1, 70), d = integer(1, 40), dv = integer(1, 40);
    const int64_t S = number % 5 ? integer(1, 200) : integer(500, 700), R = integer(1, 3);
    Tensor q(B, h, L, d, true, narrow), k(B, hk, S, d, true, narrow), v(B, hk, S, dv, true, narrow), out(B, h, L, dv, false, narrow);
    Tensor grad_out(B, h, L, dv, true, narrow), dq(B, h, L, d, false, narrow), dk(B, hk, S, d, false, narrow), dvalue(B, hk, S, dv, false, narrow);
    Tensor bias(B, h, 1, S, true, false), sinks(1, 1, 1, h, true, false), dlse(B, h, 1, L, true, false);
    std::vector<float> lse(B * h * L), delta(B * h * L), dbias(B * h * S);
    std::vector<int32_t> spans(L * R * 2);
    for (int64_t i = 0; i < L; ++i) {
        std::vector<int32_t> edges(2 * R);
        for (int32_t& e : edges) e = (int32_t)integer(0, S);
        std::sort(edges.begin(), edges.end());
        std::copy(edges.begin(), edges.end(), spans.begin() + i * R * 2);
    }
    DotForward f;
    f.batch = B, f.heads = h, f.key_heads = hk, f.queries = L, f.keys = S, f.width = d, f.value_width = dv;
    f.type = narrow ? Type::bfloat16 : Type::float32;
    f.query = q.view(), f.key = k.view(), f.value = v.view(), f.out = out.view(), f.lse = lse.data();
    f.scale = 1 / std::sqrt((float)d);
    if (number % 2) f.spans = {spans.data(), 0, 0, R * 2, 2, R};
    if (number % 3 == 1) f.key_bias = bias.view(), f.cap = 4;
    if (number % 3 == 2) f.sinks = sinks.data.data(), f.beta = 1.3f;
    Crew crew((int)integer(1, 3), nullptr);
    kernels().dot_forward(f, crew);

    DotBackward g;
    (Scores&)g = f;
    g.out = out.view(), g.grad_out = grad_out.view(), g.lse = lse.data(), g.grad_lse = dlse.data.data();
    g.grad_query = dq.view(), g.grad_key = dk.view(), g.grad_value = dvalue.view(), g.delta = delta.data();
    if (f.key_bias.data) g.grad_key_bias = dbias.data();
    kernels().dot_backward(g, crew);

    Read r;
    (Scores&)r = f;
    std::vector<float> entropy(B * h * L), heavy(B * h * L * 3);
    std::vector<int64_t> keys(B * h * L * 3);
    std::vector<double> received(2 * B * h * S);
    r.lse = lse.data(), r.shares = 2, r.entropy = entropy.data(), r.received = received.data(), r.top_weights = heavy.data(), r.top_keys = keys.data(), r.top = 3;
    kernels().read(r, crew);

    std::vector<double> wanted_dk(B * hk * S * d), wanted_dv(B * hk * S * dv), wanted_bias(B * h * S), wanted_received(B * h * S);
    for (int64_t b = 0; b < B; ++b)
        for (int64_t head = 0; head < h; ++head)
            for (int64_t i = 0; i < L; ++i) {
                std::vector<double> s(S, -INFINITY), slope(S, 1.0), p(S), ds(S);
                double top = f.sinks ? sinks.data[head] : -INFINITY, total = 0, entropy_wanted = 0;
                for (int64_t j = 0; j < S; ++j) {
                    bool seen = !f.spans.data;
                    for (int64_t n = 0; f.spans.data && n < R; ++n) seen |= spans[(i * R + n) * 2] <= j && j < spans[(i * R + n) * 2 + 1];
                    if (!seen) continue;
                    double u = 0;
                    for (int64_t c = 0; c < d; ++c) u += q.at(b, head, i, c) * k.at(b, head / group, j, c);
                    u = u * f.scale + (f.key_bias.data ? bias.at(b, head, 0, j) : 0);
                    if (f.cap != 0) {
                        slope[j] = 1 - std::tanh(u / f.cap) * std::tanh(u / f.cap);
                        u = f.cap * std::tanh(u / f.cap);
                    }
                    s[j] = u * f.beta;
                    top = std::max(top, s[j]);
                }
                for (int64_t j = 0; j < S; ++j) total += s[j] == -INFINITY ? 0 : std::exp(s[j] - top);
                if (f.sinks) total += std::exp(sinks.data[head] - top);
                const int64_t at = (b * h + head) * L + i;
                check(total == 0 ? lse[at] == -INFINITY : std::abs(lse[at] - (top + std::log(total))) < loose * 3, "lse", isa, number);
                for (int64_t j = 0; j < S; ++j) p[j] = s[j] == -INFINITY ? 0 : std::exp(s[j] - top) / total;
                double mean = -dlse.data[at];
                for (int64_t c = 0; c < dv; ++c) {
                    double o = 0;
                    for (int64_t j = 0; j < S; ++j) o += p[j] * v.at(b, head / group, j, c);
                    check(std::abs(o - out.at(b, head, i, c)) < loose, "output", isa, number);
                    mean += grad_out.at(b, head, i, c) * o;
                }
                for (int64_t j = 0; j < S; ++j) {
                    if (p[j] == 0) continue;
                    double dp = 0;
                    for (int64_t c = 0; c < dv; ++c) {
                        dp += grad_out.at(b, head, i, c) * v.at(b, head / group, j, c);
                        wanted_dv[((b * hk + head / group) * S + j) * dv + c] += p[j] * grad_out.at(b, head, i, c);
                    }
                    ds[j] = p[j] * (dp - mean) * slope[j] * f.beta;
                    wanted_bias[(b * h + head) * S + j] += ds[j];
                    wanted_received[(b * h + head) * S + j] += p[j];
                    entropy_wanted -= p[j] * std::log(p[j]);
                    for (int64_t c = 0; c < d; ++c) wanted_dk[((b * hk + head / group) * S + j) * d + c] += ds[j] * f.scale * q.at(b, head, i, c);
                }
                for (int64_t c = 0; c < d; ++c) {
                    double x = 0;
                    for (int64_t j = 0; j < S; ++j) x += ds[j] * f.scale * k.at(b, head / group, j, c);
                    check(std::abs(x - dq.at(b, head, i, c)) < loose * 10, "grad of query", isa, number);
                }
                check(std::abs(entropy[at] - entropy_wanted) < loose * 10, "entropy", isa, number);
                for (int n = 0; n < 3; ++n) {
                    const int64_t key = keys[at * 3 + n];
                    check(key < 0 ? heavy[at * 3 + n] == 0 : std::abs(heavy[at * 3 + n] - p[key]) < loose, "top", isa, number);
                }
            }
    for (int64_t n = 0; n < B * hk * S; ++n) {
        const int64_t b = n / (hk * S), head = n / S % hk, j = n % S;
        for (int64_t c = 0; c < d; ++c) check(std::abs(dk.at(b, head, j, c) - wanted_dk[n * d + c]) < loose * 40, "grad of key", isa, number);
        for (int64_t c = 0; c < dv; ++c) check(std::abs(dvalue.at(b, head, j, c) - wanted_dv[n * dv + c]) < loose * 40, "grad of value", isa, number);
    }
    for (int64_t n = 0; n < B * h * S; ++n) {
        check(std::abs(received[n] + received[B * h * S + n] - wanted_received[n]) < loose * 10, "received", isa, number);
        if (g.grad_key_bias) check(std::abs(dbias[n] - wanted_bias[n]) < loose * 40, "grad of key bias", isa, number);
    }
}

}  // namespace

int main() {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    for (const char* const* isa = available(); *isa; ++isa) {
        force(*isa);
        for (int number = 0; number < 24; ++number) trial(*isa, number);
        std::printf("%s: 24 random attentions, forward, backward and readings: right\n", *isa);
    }
}
