// Attention under a Gaussian kernel (Nadaraya–Watson regression), forward.
#include "gaussian.h"
#include "stream_forward.h"

namespace regard::REGARD_ISA {

// Preconditions: as kernels.h says of Scores; float32; beta > 0, no key bias, cap or dropout; scale is not used.
void gaussian_forward(const DotForward& a, Crew& crew) {
    if (a.batch && a.heads && a.queries) StreamForward<Gaussian>(a, nullptr, crew).run();
}

}  // namespace regard::REGARD_ISA
