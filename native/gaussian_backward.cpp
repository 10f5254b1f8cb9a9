// Attention under a Gaussian kernel, backward.
#include "gaussian.h"
#include "pair_backward.h"

namespace regard::REGARD_ISA {

// Preconditions: gaussian_forward's; `out` and `lse` are its results for the same scores.
void gaussian_backward(const DotBackward& a, ThreadTeam& team) {
    if (a.batch && a.heads && a.queries) PairBackward<Gaussian>(a, nullptr, nullptr, team).run();
}

}  // namespace regard::REGARD_ISA
