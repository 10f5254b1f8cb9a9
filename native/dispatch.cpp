// Picks the instruction set at run time.
#include <atomic>
#include <cstdlib>
#include <cstring>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels.h"

namespace regard {

// CMakeLists.txt defines REGARD_HAS_x for each instruction set x that was compiled.
#if defined(REGARD_HAS_baseline)
namespace baseline {
extern const Kernels table;
}
#endif
#if defined(REGARD_HAS_avx2)
namespace avx2 {
extern const Kernels table;
}
#endif
#if defined(REGARD_HAS_avx512)
namespace avx512 {
extern const Kernels table;
}
#endif
#if defined(REGARD_HAS_avx512_bf16)
namespace avx512_bf16 {
extern const Kernels table;
}
#endif
#if defined(REGARD_HAS_neon)
namespace neon {
extern const Kernels table;
}
#endif

namespace {

#if defined(__x86_64__)
// F16C, which not every compiler's __builtin_cpu_supports knows.
bool converts_float16() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

struct InstructionSets {
    const Kernels* tables[8] = {};
    const char* names[8] = {};
    int count = 0;

    InstructionSets() {
#if defined(__x86_64__)
        __builtin_cpu_init();
        add(baseline::table);
        if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !converts_float16()) return;
#if defined(REGARD_HAS_avx2)
        add(avx2::table);
#endif
        if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
            !__builtin_cpu_supports("avx512vl"))
            return;
#if defined(REGARD_HAS_avx512)
        add(avx512::table);
#endif
#if defined(REGARD_HAS_avx512_bf16)
        if (__builtin_cpu_supports("avx512bf16")) add(avx512_bf16::table);
#endif
#elif defined(__aarch64__)
        add(neon::table);
#else
        add(baseline::table);
#endif
    }

    void add(const Kernels& table) {
        tables[count] = &table;
        names[count++] = table.name;
    }

    const Kernels* find(const char* name) const {
        for (int i = 0; i < count; ++i)
            if (!std::strcmp(names[i], name)) return tables[i];
        return nullptr;
    }
};

const InstructionSets& instruction_sets() {
    static const InstructionSets once;
    return once;
}

std::atomic<const Kernels*> active{nullptr};

}  // namespace

const char* const* available_instruction_sets() { return instruction_sets().names; }

bool force(const char* name) {
    const Kernels* table = name ? instruction_sets().find(name) : nullptr;
    if (name && !table) return false;
    active = table;
    return true;
}

const Kernels& kernels() {
    if (const Kernels* table = active.load(std::memory_order_relaxed)) return *table;
    const char* name = std::getenv("REGARD_ISA");
    const Kernels* table = name ? instruction_sets().find(name) : nullptr;
    if (!table) table = instruction_sets().tables[instruction_sets().count - 1];
    active = table;
    return *table;
}

}  // namespace regard
