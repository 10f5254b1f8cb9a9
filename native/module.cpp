// The compiled half of regard: plain pointers and strides in, nothing of torch.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

namespace nb = nanobind;

// The widest instruction set this processor (and its operating system) can run.
static std::string instruction_set() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512bf16")) return "avx512_bf16";
    if (__builtin_cpu_supports("avx512f")) return "avx512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "avx2";
    return "baseline";
#elif defined(__aarch64__)
    return "neon";
#else
    return "baseline";
#endif
}

NB_MODULE(_native, module) {
    module.doc() = "Compiled kernels of regard.";
    module.def("instruction_set", &instruction_set, "The widest instruction set this machine can run.");
}
