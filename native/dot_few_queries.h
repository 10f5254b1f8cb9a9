#pragma once
#include "scores.h"

namespace regard::REGARD_ISA {

// Up to so many query rows a key head, K is not worth repacking; if the keys are few as well, up to fewer.
constexpr int64_t kFewRows = 16, kFewKeys = 128, kFewRowsShort = 4;

// Preconditions: dot_forward's, and at least one row.
// dot_forward for a few queries against many keys (decoding with a cache): reads K and V once, splits the keys over tasks.
void dot_few_queries(const DotForward& a, ThreadTeam& team);

}  // namespace regard::REGARD_ISA
