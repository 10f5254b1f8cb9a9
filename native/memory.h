// Memory for the length of a call. Large pieces are kept for the next one: given back to the system, every call would have each
// of their pages cleared and mapped anew.
#pragma once
#include <cstddef>

namespace regard {

struct Piece {
    void* data;
    size_t bytes;
};

Piece borrow(size_t bytes);  // at least so many, aligned to a cache line, holding anything; throws std::bad_alloc
void give_back(Piece piece) noexcept;

}  // namespace regard
