// The compiled half of regard, as Python sees it: pointers and strides in, nothing of torch.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "kernels.h"
#include "threads.h"

namespace nb = nanobind;
using namespace regard;

namespace {

// Runs on the calling thread, which gave up the interpreter for the kernel.
bool interrupted() {
    nb::gil_scoped_acquire hold;
    return PyErr_CheckSignals() != 0;  // leaves the exception set
}

int64_t integer(PyObject* tuple, Py_ssize_t i) {
    const int64_t value = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
    if (value == -1 && PyErr_Occurred()) throw nb::python_error();
    return value;
}

// (address, stride of batch, head, row, column), or None.
View view(nb::handle tensor) {
    View v;
    if (tensor.is_none()) return v;
    PyObject* t = tensor.ptr();
    if (!PyTuple_Check(t) || PyTuple_GET_SIZE(t) != 5) throw nb::type_error("a tensor is (address, batch, head, row, column strides) or None");
    v.data = (void*)integer(t, 0);
    v.batch = integer(t, 1);
    v.head = integer(t, 2);
    v.row = integer(t, 3);
    v.column = integer(t, 4);
    return v;
}

// (address, stride of batch, head, row, range; number of ranges), or None.
Spans spans(nb::handle tensor) {
    Spans s;
    if (tensor.is_none()) return s;
    PyObject* t = tensor.ptr();
    if (!PyTuple_Check(t) || PyTuple_GET_SIZE(t) != 6) throw nb::type_error("what is seen is spans (address, batch, head, row, range strides, ranges), a pattern (address, batch, head, row, column strides) or None");
    s.data = (const int32_t*)integer(t, 0);
    s.batch = integer(t, 1);
    s.head = integer(t, 2);
    s.row = integer(t, 3);
    s.range = integer(t, 4);
    s.ranges = integer(t, 5);
    return s;
}

// (address, stride of batch, head, row, column), of bytes.
Pattern pattern(nb::handle tensor) {
    const View v = view(tensor);
    return {(const uint8_t*)v.data, v.batch, v.head, v.row, v.column};
}

template <class Arguments>
void run(void (*kernel)(const Arguments&, Crew&), const Arguments& arguments, int threads) {
    Crew crew(threads, interrupted);
    {
        nb::gil_scoped_release release;
        kernel(arguments, crew);
    }
    if (crew.stopped()) throw nb::python_error();
}

// shape: (B, h, hk, L, S, d, dv, type, threads, drop below, seed). numbers: (scale, cap or 0, inverse temperature, share kept).
int scores(Scores& a, nb::tuple shape, nb::tuple numbers, nb::handle query, nb::handle key, nb::handle value, nb::handle key_bias, nb::handle seen,
           int64_t sinks) {
    PyObject* s = shape.ptr();
    if (PyTuple_GET_SIZE(s) != 11 || PyTuple_GET_SIZE(numbers.ptr()) != 4) throw nb::type_error("shape has 11 integers, numbers 4");
    a.batch = integer(s, 0);
    a.heads = integer(s, 1);
    a.key_heads = integer(s, 2);
    a.queries = integer(s, 3);
    a.keys = integer(s, 4);
    a.width = integer(s, 5);
    a.value_width = integer(s, 6);
    a.type = (Type)integer(s, 7);
    a.scale = (float)PyFloat_AsDouble(PyTuple_GET_ITEM(numbers.ptr(), 0));
    a.cap = (float)PyFloat_AsDouble(PyTuple_GET_ITEM(numbers.ptr(), 1));
    a.beta = (float)PyFloat_AsDouble(PyTuple_GET_ITEM(numbers.ptr(), 2));
    a.kept = (float)PyFloat_AsDouble(PyTuple_GET_ITEM(numbers.ptr(), 3));
    a.drop_below = (uint32_t)integer(s, 9);
    a.seed = (uint32_t)integer(s, 10);
    if (PyErr_Occurred()) throw nb::python_error();
    a.query = view(query);
    a.key = view(key);
    a.value = view(value);
    a.key_bias = view(key_bias);
    if (PyTuple_Check(seen.ptr()) && PyTuple_GET_SIZE(seen.ptr()) == 5) {
        a.pattern = pattern(seen);
    } else {
        a.spans = spans(seen);
    }
    a.sinks = (const float*)sinks;
    return (int)integer(s, 8);
}

void dot_forward(nb::tuple shape, nb::tuple numbers, nb::handle query, nb::handle key, nb::handle value, nb::handle key_bias, nb::handle seen,
                 int64_t sinks, nb::handle out, int64_t lse) {
    DotForward a;
    const int threads = scores(a, shape, numbers, query, key, value, key_bias, seen, sinks);
    a.out = view(out);
    a.lse = (float*)lse;
    run(kernels().dot_forward, a, threads);
}

void dot_backward(nb::tuple shape, nb::tuple numbers, nb::handle query, nb::handle key, nb::handle value, nb::handle key_bias, nb::handle seen,
                  int64_t sinks, nb::handle out, int64_t lse, nb::handle grad_out, int64_t grad_lse, nb::handle grad_query, nb::handle grad_key,
                  nb::handle grad_value, int64_t grad_key_bias, int64_t delta) {
    DotBackward a;
    const int threads = scores(a, shape, numbers, query, key, value, key_bias, seen, sinks);
    a.out = view(out);
    a.lse = (const float*)lse;
    a.grad_out = view(grad_out);
    a.grad_lse = (const float*)grad_lse;
    a.grad_query = view(grad_query);
    a.grad_key = view(grad_key);
    a.grad_value = view(grad_value);
    a.grad_key_bias = (float*)grad_key_bias;
    a.delta = (float*)delta;
    run(kernels().dot_backward, a, threads);
}

// The first largest key of each row, or with `uniform` the key where the distribution function passes it.
void pick(nb::tuple shape, nb::tuple numbers, nb::handle query, nb::handle key, nb::handle key_bias, nb::handle seen, int64_t uniform, int64_t index) {
    Pick a;
    const int threads = scores(a, shape, numbers, query, key, nb::none(), key_bias, seen, 0);
    a.uniform = (const double*)uniform;
    a.index = (int64_t*)index;
    run(kernels().pick, a, threads);
}

// wanted: addresses of outputs and inputs, and counts, by the names of `Read`; what is absent is not read.
void read_weights(nb::tuple shape, nb::tuple numbers, nb::handle query, nb::handle key, nb::handle key_bias, nb::handle seen, int64_t lse, nb::dict wanted) {
    Read a;
    const int threads = scores(a, shape, numbers, query, key, nb::none(), key_bias, seen, 0);
    const auto number = [&](const std::string& name) {
        PyObject* found = PyDict_GetItemString(wanted.ptr(), name.c_str());
        return found ? nb::cast<int64_t>(nb::handle(found)) : 0;
    };
    a.lse = (const float*)lse;
    a.shares = number("shares");
    a.entropy = (float*)number("entropy");
    a.mass = (float*)number("mass");
    a.max_logit = (float*)number("max_logit");
    a.sink = (float*)number("sink");
    a.sinks_read = number("sinks_read");
    a.at = (float*)number("at");
    a.at_keys = (const int64_t*)number("at_keys");
    a.by_query = (float*)number("by_query");
    a.norms = (const float*)number("norms");
    a.received = (double*)number("received");
    a.distance = (double*)number("distance");
    a.side = number("side");
    a.pooled = (double*)number("pooled");
    a.pooled_rows = number("pooled_rows");
    a.pooled_columns = number("pooled_columns");
    a.top_weights = (float*)number("top_weights");
    a.top_keys = (int64_t*)number("top_keys");
    a.top = number("top");
    a.chosen = (const int64_t*)number("chosen");
    a.chosen_count = number("chosen_count");
    a.rows = (float*)number("rows");
    a.same_count = (int)number("same_count");
    if (a.same_count > Read::kMostSame) throw nb::value_error("too many Same readings for one pass");
    for (int i = 0; i < a.same_count; ++i) {
        const std::string n = std::to_string(i);
        a.same[i] = (float*)number("same" + n);
        a.same_rows[i] = (const int32_t*)number("same_rows" + n);
        a.same_keys[i] = (const int32_t*)number("same_keys" + n);
        a.same_itself[i] = number("same_itself" + n) != 0;
    }
    run(kernels().read, a, threads);
}

// What one measurement did, all threads together: operations of a "product", numbers through "exp" or "tanh", bytes "read" once.
double limits(int what, int64_t repeats, int threads, int64_t data, int64_t floats) {
    Limits a;
    a.what = (Limits::What)what;
    a.repeats = repeats;
    a.data = (const float*)data;
    a.floats = floats;
    a.shares = threads;
    std::vector<float> found(threads);
    double amount = 0;
    a.found = found.data();
    a.amount = &amount;
    run(kernels().limits, a, threads);
    return amount;
}

// The scores made pair by pair. vector: the additive score's; none: the Gaussian's.
void pair_forward(nb::tuple shape, nb::tuple numbers, nb::handle query, nb::handle key, nb::handle value, nb::handle seen, int64_t sinks,
                  int64_t vector, nb::handle out, int64_t lse) {
    AdditiveForward a;
    const int threads = scores(a, shape, numbers, query, key, value, nb::none(), seen, sinks);
    a.vector = (const float*)vector;
    a.out = view(out);
    a.lse = (float*)lse;
    if (vector)
        run(kernels().additive_forward, a, threads);
    else
        run<DotForward>(kernels().gaussian_forward, a, threads);
}

void pair_backward(nb::tuple shape, nb::tuple numbers, nb::handle query, nb::handle key, nb::handle value, nb::handle seen, int64_t sinks,
                   int64_t vector, nb::handle out, int64_t lse, nb::handle grad_out, int64_t grad_lse, nb::handle grad_query, nb::handle grad_key,
                   nb::handle grad_value, int64_t grad_vector, int64_t delta) {
    AdditiveBackward a;
    const int threads = scores(a, shape, numbers, query, key, value, nb::none(), seen, sinks);
    a.vector = (const float*)vector;
    a.out = view(out);
    a.lse = (const float*)lse;
    a.grad_out = view(grad_out);
    a.grad_lse = (const float*)grad_lse;
    a.grad_query = view(grad_query);
    a.grad_key = view(grad_key);
    a.grad_value = view(grad_value);
    a.grad_vector = (float*)grad_vector;
    a.delta = (float*)delta;
    if (vector)
        run(kernels().additive_backward, a, threads);
    else
        run<DotBackward>(kernels().gaussian_backward, a, threads);
}

}  // namespace

NB_MODULE(_native, module) {
    module.doc() = "Compiled kernels of regard.";
    module.def("instruction_set", [] { return std::string(kernels().name); }, "The instruction set the kernels run with.");
    module.def(
        "instruction_sets",
        [] {
            std::vector<std::string> names;
            for (const char* const* name = available(); *name; ++name) names.push_back(*name);
            return names;
        },
        "The instruction sets this build has and this machine can run, narrowest first.");
    module.def(
        "force_instruction_set",
        [](nb::object name) {
            if (!force(name.is_none() ? nullptr : nb::cast<std::string>(name).c_str()))
                throw nb::value_error("this build or this machine has no such instruction set; see instruction_sets()");
        },
        nb::arg("name").none(), "Run the kernels with this instruction set; None goes back to the widest.");
    module.def("dot_forward", &dot_forward, nb::arg("shape"), nb::arg("numbers"), nb::arg("query"), nb::arg("key"), nb::arg("value"),
               nb::arg("key_bias").none(), nb::arg("seen").none(), nb::arg("sinks"), nb::arg("out"), nb::arg("lse"));
    module.def("pick", &pick, nb::arg("shape"), nb::arg("numbers"), nb::arg("query"), nb::arg("key"), nb::arg("key_bias").none(), nb::arg("seen").none(),
               nb::arg("uniform"), nb::arg("index"));
    module.def("read", &read_weights, nb::arg("shape"), nb::arg("numbers"), nb::arg("query"), nb::arg("key"), nb::arg("key_bias").none(), nb::arg("seen").none(),
               nb::arg("lse"), nb::arg("wanted"));
    module.def("limits", &limits, nb::arg("what"), nb::arg("repeats"), nb::arg("threads"), nb::arg("data"), nb::arg("floats"));
    module.def("pair_forward", &pair_forward, nb::arg("shape"), nb::arg("numbers"), nb::arg("query"), nb::arg("key"), nb::arg("value"),
               nb::arg("seen").none(), nb::arg("sinks"), nb::arg("vector"), nb::arg("out"), nb::arg("lse"));
    module.def("pair_backward", &pair_backward, nb::arg("shape"), nb::arg("numbers"), nb::arg("query"), nb::arg("key"), nb::arg("value"),
               nb::arg("seen").none(), nb::arg("sinks"), nb::arg("vector"), nb::arg("out"), nb::arg("lse"), nb::arg("grad_out"), nb::arg("grad_lse"),
               nb::arg("grad_query"), nb::arg("grad_key"), nb::arg("grad_value"), nb::arg("grad_vector"), nb::arg("delta"));
    module.def("dot_backward", &dot_backward, nb::arg("shape"), nb::arg("numbers"), nb::arg("query"), nb::arg("key"), nb::arg("value"),
               nb::arg("key_bias").none(), nb::arg("seen").none(), nb::arg("sinks"), nb::arg("out"), nb::arg("lse"), nb::arg("grad_out"),
               nb::arg("grad_lse"), nb::arg("grad_query"), nb::arg("grad_key"), nb::arg("grad_value"), nb::arg("grad_key_bias"), nb::arg("delta"));
}
