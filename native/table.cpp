// The kernels of one instruction set; compiled once for each.
#include "kernels.h"

#define TEXT(name) #name
#define NAME(name) TEXT(name)

namespace regard::REGARD_ISA {

extern const Kernels table;
const Kernels table = {NAME(REGARD_ISA),
#define X(function, Arguments) function,
                       REGARD_KERNELS(X)
#undef X
};

}  // namespace regard::REGARD_ISA
