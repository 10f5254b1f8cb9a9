// Scratch memory for the duration of a call. Large blocks are cached for the next call: returned to the system, their pages would have to
// be mapped and cleared again every time.
#pragma once
#include <cstddef>

namespace regard {

struct Allocation {
    void* data;
    size_t bytes;
};

Allocation allocate_scratch(size_t bytes);  // at least `bytes`, cache-line aligned, uninitialised; throws std::bad_alloc
void release_scratch(Allocation allocation) noexcept;

}  // namespace regard
