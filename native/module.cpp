// The Python module `regard._native`: typed records of addresses and strides, and one function per kernel. It does not use torch.
//
// Its types for Python are in src/regard/_native.pyi; kernels.h documents the records.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <type_traits>
#include <vector>

#include "kernels.h"
#include "threads.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace regard;

namespace {

using Address = int64_t;

template <class T>
T* pointer(Address address) {
    return (T*)address;
}

// Runs on the calling thread, which released the interpreter for the kernel.
bool interrupted() {
    nb::gil_scoped_acquire hold;
    return PyErr_CheckSignals() != 0;  // leaves the exception set
}

template <class Arguments>
void run(void (*kernel)(const Arguments&, ThreadTeam&), const Arguments& arguments, int threads) {
    ThreadTeam team(threads, interrupted);
    {
        nb::gil_scoped_release release;
        kernel(arguments, team);
    }
    if (team.stopped()) throw nb::python_error();
}

// A kernel's arguments, beginning with the scores all kernels share.
template <class Arguments>
Arguments with(const Scores& scores) {
    Arguments a;
    static_cast<Scores&>(a) = scores;
    return a;
}

template <class Forward>
void set_forward(Forward& a, const View& out, Address lse) {
    a.out = out;
    a.lse = pointer<float>(lse);
}

struct BackwardArguments {
    View out, grad_out, grad_query, grad_key, grad_value;
    Address lse = 0, grad_lse = 0, delta = 0;
};

template <class Backward>
void set_backward(Backward& a, const BackwardArguments& backward) {
    a.out = backward.out;
    a.lse = pointer<const float>(backward.lse);
    a.grad_out = backward.grad_out;
    a.grad_lse = pointer<const float>(backward.grad_lse);
    a.grad_query = backward.grad_query;
    a.grad_key = backward.grad_key;
    a.grad_value = backward.grad_value;
    a.delta = pointer<float>(backward.delta);
}

void set_bias_gradients(DotBackward& a, Address grad_key_bias, const View* grad_bias, int64_t grad_bias_share, Address grad_betas,
                        Address grad_entropy) {
    a.grad_key_bias = pointer<float>(grad_key_bias);
    if (grad_bias) a.grad_bias = *grad_bias;
    a.grad_bias_share = grad_bias_share;
    a.grad_betas = pointer<double>(grad_betas);
    a.grad_entropy = pointer<const float>(grad_entropy);
}

void dot_forward(const Scores& scores, const View& out, Address lse, int threads) {
    auto a = with<DotForward>(scores);
    set_forward(a, out, lse);
    run(kernels().dot_forward, a, threads);
}

// A tensor of four axes, given by its address, its sizes and its strides.
View view_of(Address address, const nb::tuple& strides) {
    return {pointer<void>(address), nb::cast<int64_t>(strides[0]), nb::cast<int64_t>(strides[1]), nb::cast<int64_t>(strides[2]),
            nb::cast<int64_t>(strides[3])};
}

// A decoding step: softmax(scale·q·kᵀ)·v of one query per head over all keys, with little around the kernel. out: (B, 1, h, dv) contiguous.
void single_query(Type type, Address query, nb::tuple query_sizes, nb::tuple query_strides, Address key, nb::tuple key_sizes,
                  nb::tuple key_strides, Address value, int64_t value_width, nb::tuple value_strides, Address out, double scale,
                  int threads) {
    DotForward a;
    a.type = type;
    a.batch = nb::cast<int64_t>(query_sizes[0]);
    a.heads = nb::cast<int64_t>(query_sizes[1]);
    a.queries = 1;
    a.width = nb::cast<int64_t>(query_sizes[3]);
    a.key_heads = nb::cast<int64_t>(key_sizes[1]);
    a.keys = nb::cast<int64_t>(key_sizes[2]);
    a.value_width = value_width;
    a.query = view_of(query, query_strides);
    a.key = view_of(key, key_strides);
    a.value = view_of(value, value_strides);
    a.out = {pointer<void>(out), a.heads * value_width, value_width, value_width, 1};
    a.scale = (float)scale;
    run(kernels().dot_forward, a, threads);
}

void dot_backward(const Scores& scores, const BackwardArguments& backward, Address grad_key_bias, const View* grad_bias,
                  int64_t grad_bias_share, Address grad_betas, Address grad_entropy, int threads) {
    auto a = with<DotBackward>(scores);
    set_backward(a, backward);
    set_bias_gradients(a, grad_key_bias, grad_bias, grad_bias_share, grad_betas, grad_entropy);
    run(kernels().dot_backward, a, threads);
}

void additive_forward(const Scores& scores, const View& out, Address lse, int threads) {
    auto a = with<DotForward>(scores);
    set_forward(a, out, lse);
    run(kernels().additive_forward, a, threads);
}

void additive_backward(const Scores& scores, const BackwardArguments& backward, Address grad_vector, int threads) {
    auto a = with<AdditiveBackward>(scores);
    set_backward(a, backward);
    a.grad_vector = pointer<float>(grad_vector);
    run(kernels().additive_backward, a, threads);
}

void gaussian_forward(const Scores& scores, const View& out, Address lse, int threads) {
    auto a = with<DotForward>(scores);
    set_forward(a, out, lse);
    run(kernels().gaussian_forward, a, threads);
}

void gaussian_backward(const Scores& scores, const BackwardArguments& backward, int threads) {
    auto a = with<DotBackward>(scores);
    set_backward(a, backward);
    run(kernels().gaussian_backward, a, threads);
}

void sparse_forward(const Scores& scores, Choice choice, const View& out, Address threshold, int threads) {
    auto a = with<SparseForward>(scores);
    a.choice = choice;
    a.out = out;
    a.threshold = pointer<float>(threshold);
    run(kernels().sparse_forward, a, threads);
}

void sparse_backward(const Scores& scores, Choice choice, int64_t row_shares, const BackwardArguments& backward, Address grad_key_bias,
                     const View* grad_bias, int64_t grad_bias_share, Address grad_betas, Address grad_entropy, int threads) {
    auto a = with<SparseBackward>(scores);
    set_backward(a, backward);
    a.choice = choice;
    a.row_shares = row_shares;
    set_bias_gradients(a, grad_key_bias, grad_bias, grad_bias_share, grad_betas, grad_entropy);
    run(kernels().sparse_backward, a, threads);
}

// The first largest key of each row, or with `uniform` the key where the distribution function passes it.
void pick(const Scores& scores, Address uniform, Address index, int threads) {
    auto a = with<Pick>(scores);
    a.uniform = pointer<const double>(uniform);
    a.index = pointer<int64_t>(index);
    run(kernels().pick, a, threads);
}

void read_weights(const Read& arguments, int threads) { run(kernels().read, arguments, threads); }

bool add_same(Read& a, Address rows, Address keys, bool itself, Address out) {
    if (a.same_count == Read::kMaxSame) return false;
    const int i = a.same_count++;
    a.same_rows[i] = pointer<const int32_t>(rows);
    a.same_keys[i] = pointer<const int32_t>(keys);
    a.same_itself[i] = itself;
    a.same[i] = pointer<float>(out);
    return true;
}

// What one measurement did, all threads together: operations of a "product", numbers through "exp" or "tanh", bytes "read" once.
double limits(Limits::What what, int64_t repeats, int threads, Address data, int64_t floats) {
    Limits a;
    a.what = what;
    a.repeats = repeats;
    a.data = pointer<const float>(data);
    a.floats = floats;
    a.shares = threads;
    std::vector<float> results(threads);
    double amount = 0;
    a.checksum = results.data();
    a.amount = &amount;
    run(kernels().limits, a, threads);
    return amount;
}

void bind_records(nb::module_& module) {
    nb::enum_<Type>(module, "Type", "The element type of query, key, value and output.")
        .value("float32", Type::float32)
        .value("bfloat16", Type::bfloat16)
        .value("float16", Type::float16);
    nb::enum_<Choice>(module, "Choice", "How scores become weights.")
        .value("softmax", Choice::softmax)
        .value("sparsemax", Choice::sparsemax)
        .value("entmax15", Choice::entmax15)
        .value("picked", Choice::picked);
    nb::enum_<ScoreKind>(module, "ScoreKind", "The score that a kernel of any score computes.")
        .value("dot", ScoreKind::dot)
        .value("additive", ScoreKind::additive)
        .value("gaussian", ScoreKind::gaussian);
    nb::class_<View>(module, "View", "A tensor (B, heads, rows, columns): address, and strides in elements.")
        .def(
            "__init__",
            [](View* self, Address address, int64_t batch, int64_t head, int64_t row, int64_t column) {
                new (self) View{pointer<void>(address), batch, head, row, column};
            },
            "address"_a, "batch"_a, "head"_a, "row"_a, "column"_a);
    nb::class_<Spans>(module, "Spans", "Key ranges, int32 (B, h, L, R, 2): address, strides in elements, and R.")
        .def(
            "__init__",
            [](Spans* self, Address address, int64_t batch, int64_t head, int64_t row, int64_t range, int64_t ranges) {
                new (self) Spans{pointer<const int32_t>(address), batch, head, row, range, ranges};
            },
            "address"_a, "batch"_a, "head"_a, "row"_a, "range"_a, "ranges"_a);
    nb::class_<Pattern>(module, "Pattern",
                        "A dense mask, one byte per (query, key) pair, 1 = visible, (B, h, L, S): address, and strides in bytes.")
        .def(
            "__init__",
            [](Pattern* self, Address address, int64_t batch, int64_t head, int64_t row, int64_t column) {
                new (self) Pattern{pointer<const uint8_t>(address), batch, head, row, column};
            },
            "address"_a, "batch"_a, "head"_a, "row"_a, "column"_a);
    nb::class_<Scores>(module, "Scores", "The scores of one attention: the first argument of every kernel.")
        .def(
            "__init__",
            [](Scores* self, Type type, int64_t batch, int64_t heads, int64_t key_heads, int64_t queries, int64_t keys, int64_t width,
               int64_t value_width, const View& query, const View& key, const View& value, const View* key_bias, const View* bias,
               Type bias_type, const Spans* spans, const Pattern* pattern, Address sinks, Address betas, ScoreKind kind, Address vector,
               double scale, double cap, double beta, double dropout, uint64_t seed) {
                new (self) Scores();
                self->type = type;
                self->batch = batch;
                self->heads = heads;
                self->key_heads = key_heads;
                self->queries = queries;
                self->keys = keys;
                self->width = width;
                self->value_width = value_width;
                self->query = query;
                self->key = key;
                self->value = value;
                if (key_bias) self->key_bias = *key_bias;
                if (bias) self->bias = *bias;
                self->bias_type = bias_type;
                if (spans) self->spans = *spans;
                if (pattern) self->pattern = *pattern;
                self->sinks = pointer<const float>(sinks);
                self->betas = pointer<const float>(betas);
                self->kind = kind;
                self->vector = pointer<const float>(vector);
                self->scale = (float)scale;
                self->cap = (float)cap;
                self->beta = (float)beta;
                self->drop_below = (uint32_t)(dropout * 4294967296.0);
                self->seed = (uint32_t)(seed ^ (seed >> 32));
                self->kept = (float)(1.0 - dropout);
            },
            "type"_a, "batch"_a, "heads"_a, "key_heads"_a, "queries"_a, "keys"_a, "width"_a, "value_width"_a, "query"_a, "key"_a, "value"_a,
            "key_bias"_a.none(), "bias"_a.none(), "bias_type"_a, "spans"_a.none(), "pattern"_a.none(), "sinks"_a, "betas"_a, "kind"_a,
            "vector"_a, "scale"_a, "cap"_a, "beta"_a, "dropout"_a, "seed"_a);
    nb::class_<BackwardArguments>(module, "Backward", "The arguments every backward kernel takes beside the scores.")
        .def(
            "__init__",
            [](BackwardArguments* self, const View& out, Address lse, const View& grad_out, Address grad_lse, const View& grad_query,
               const View& grad_key, const View& grad_value,
               Address delta) { new (self) BackwardArguments{out, grad_out, grad_query, grad_key, grad_value, lse, grad_lse, delta}; },
            "out"_a, "lse"_a, "grad_out"_a, "grad_lse"_a, "grad_query"_a, "grad_key"_a, "grad_value"_a, "delta"_a);
}

// A pointer of `Read` as a property: its address, or 0.
template <auto Member>
void bind_address(nb::class_<Read>& record, const char* name) {
    using Pointer = std::remove_reference_t<decltype(std::declval<Read&>().*Member)>;
    record.def_prop_rw(
        name, [](const Read& self) { return (Address)(self.*Member); },
        [](Read& self, Address address) { self.*Member = (Pointer)address; });
}

void bind_read(nb::module_& module) {
    nb::class_<Read> record(module, "Read", "The statistics one pass computes from the weights; fields left at 0 are not computed.");
    record.def(
        "__init__",
        [](Read* self, const Scores& scores, Address lse, int64_t shares) {
            new (self) Read(with<Read>(scores));
            self->lse = pointer<const float>(lse);
            self->shares = shares;
        },
        "scores"_a, "lse"_a, "shares"_a);
    bind_address<&Read::picked>(record, "picked");
    bind_address<&Read::entropy>(record, "entropy");
    bind_address<&Read::mass>(record, "mass");
    bind_address<&Read::max_logit>(record, "max_logit");
    bind_address<&Read::sink>(record, "sink");
    bind_address<&Read::at>(record, "at");
    bind_address<&Read::at_keys>(record, "at_keys");
    bind_address<&Read::by_query>(record, "by_query");
    bind_address<&Read::norms>(record, "norms");
    bind_address<&Read::received>(record, "received");
    bind_address<&Read::distance>(record, "distance");
    bind_address<&Read::pooled>(record, "pooled");
    bind_address<&Read::top_weights>(record, "top_weights");
    bind_address<&Read::top_keys>(record, "top_keys");
    bind_address<&Read::chosen>(record, "chosen");
    bind_address<&Read::rows>(record, "rows");
    record.def_rw("choice", &Read::choice);
    record.def_rw("sinks_read", &Read::sinks_read)
        .def_rw("side", &Read::side)
        .def_rw("pooled_rows", &Read::pooled_rows)
        .def_rw("pooled_columns", &Read::pooled_columns)
        .def_rw("top", &Read::top)
        .def_rw("chosen_count", &Read::chosen_count)
        .def("add_same", &add_same, "rows"_a, "keys"_a, "itself"_a, "out"_a, "One more Same reading; False when the pass holds no more.");
}

void bind_instruction_sets(nb::module_& module) {
    module.def("instruction_set", [] { return std::string(kernels().name); }, "The instruction set the kernels run with.");
    module.def(
        "instruction_sets",
        [] {
            std::vector<std::string> names;
            for (const char* const* name = available_instruction_sets(); *name; ++name) names.push_back(*name);
            return names;
        },
        "The instruction sets this build has and this machine can run, narrowest first.");
    module.def(
        "force_instruction_set",
        [](nb::object name) {
            if (!force(name.is_none() ? nullptr : nb::cast<std::string>(name).c_str()))
                throw nb::value_error("this build or this machine has no such instruction set; see instruction_sets()");
        },
        "name"_a.none(), "Run the kernels with this instruction set; None goes back to the widest.");
}

}  // namespace

NB_MODULE(_native, module) {
    module.doc() = "Compiled kernels of regard.";
    bind_instruction_sets(module);
    bind_records(module);
    bind_read(module);
    module.def("dot_forward", &dot_forward, "scores"_a, "out"_a, "lse"_a, "threads"_a);
    module.def("single_query", &single_query, "type"_a, "query"_a, "query_sizes"_a, "query_strides"_a, "key"_a, "key_sizes"_a,
               "key_strides"_a, "value"_a, "value_width"_a, "value_strides"_a, "out"_a, "scale"_a, "threads"_a);
    module.def("dot_backward", &dot_backward, "scores"_a, "backward"_a, "grad_key_bias"_a, "grad_bias"_a.none(), "grad_bias_share"_a,
               "grad_betas"_a, "grad_entropy"_a, "threads"_a);
    module.def("additive_forward", &additive_forward, "scores"_a, "out"_a, "lse"_a, "threads"_a);
    module.def("additive_backward", &additive_backward, "scores"_a, "backward"_a, "grad_vector"_a, "threads"_a);
    module.def("gaussian_forward", &gaussian_forward, "scores"_a, "out"_a, "lse"_a, "threads"_a);
    module.def("gaussian_backward", &gaussian_backward, "scores"_a, "backward"_a, "threads"_a);
    module.def("sparse_forward", &sparse_forward, "scores"_a, "choice"_a, "out"_a, "threshold"_a, "threads"_a);
    module.def("sparse_backward", &sparse_backward, "scores"_a, "choice"_a, "row_shares"_a, "backward"_a, "grad_key_bias"_a,
               "grad_bias"_a.none(), "grad_bias_share"_a, "grad_betas"_a, "grad_entropy"_a, "threads"_a);
    module.def("pick", &pick, "scores"_a, "uniform"_a, "index"_a, "threads"_a);
    module.def("read", &read_weights, "arguments"_a, "threads"_a);
    nb::enum_<Limits::What>(module, "Limit", "What `limits` measures.")
        .value("product", Limits::kProduct)
        .value("exp", Limits::kExp)
        .value("tanh", Limits::kTanh)
        .value("read", Limits::kRead);
    module.def("limits", &limits, "what"_a, "repeats"_a, "threads"_a, "data"_a, "floats"_a);
}
