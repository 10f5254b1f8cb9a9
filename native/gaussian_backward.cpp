// Attention under a Gaussian kernel, backward.
#include "gaussian.h"
#include "stream_backward.h"

namespace regard::REGARD_ISA {

// Preconditions: gaussian_forward's; `out` and `lse` are its results for the same scores.
void gaussian_backward(const DotBackward& a, Crew& crew) {
    if (a.batch && a.heads && a.queries) StreamBackward<Gaussian>(a, nullptr, nullptr, crew).run();
}

}  // namespace regard::REGARD_ISA
