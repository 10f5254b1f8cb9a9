// Attention under a Gaussian kernel (Nadaraya–Watson regression), forward.
#include "gaussian.h"
#include "pair_forward.h"

namespace regard::REGARD_ISA {

// Preconditions: as kernels.h says of Scores; float32; beta > 0, no key bias, cap or dropout; scale is not used.
void gaussian_forward(const DotForward& a, ThreadTeam& team) {
    if (a.batch && a.heads && a.queries) PairForward<Gaussian>(a, nullptr, team).run();
}

}  // namespace regard::REGARD_ISA
