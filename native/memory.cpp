#include "memory.h"

#include <cstdlib>
#include <mutex>
#include <new>

namespace regard {
namespace {

#ifdef REGARD_DRIVER
constexpr size_t kMost = 0;  // a sanitizer sees what is done to freed memory only if it was freed
#else
constexpr size_t kMost = 64 << 20;  // bytes kept in all
#endif
constexpr size_t kLeast = 256 << 10;  // smaller pieces the allocator keeps by itself
constexpr int kPlaces = 8;

// Oldest first. Never waited for: a thread that finds it locked, or a child forked while it was, does without.
std::mutex lock;
Piece shelf[kPlaces];
int count = 0;
size_t kept = 0;

Piece take(int place) {
    const Piece piece = shelf[place];
    kept -= piece.bytes;
    --count;
    for (int i = place; i < count; ++i) shelf[i] = shelf[i + 1];
    return piece;
}

}  // namespace

Piece borrow(size_t bytes) {
    bytes = ((bytes < 64 ? 64 : bytes) + 63) / 64 * 64;
    if (bytes >= kLeast && lock.try_lock()) {
        int best = -1;
        for (int i = 0; i < count; ++i)
            if (shelf[i].bytes >= bytes && shelf[i].bytes / 2 <= bytes && (best < 0 || shelf[i].bytes < shelf[best].bytes)) best = i;
        const Piece found = best < 0 ? Piece{nullptr, 0} : take(best);
        lock.unlock();
        if (found.data) return found;
    }
    void* data = std::aligned_alloc(64, bytes);
    if (!data) throw std::bad_alloc();
    return {data, bytes};
}

void give_back(Piece piece) noexcept {
    if (piece.bytes < kLeast || piece.bytes > kMost || !lock.try_lock()) return std::free(piece.data);
    while (count == kPlaces || kept + piece.bytes > kMost) std::free(take(0).data);
    shelf[count++] = piece;
    kept += piece.bytes;
    lock.unlock();
}

}  // namespace regard
