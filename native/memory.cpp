#include "memory.h"

#include <cstdlib>
#include <mutex>
#include <new>

namespace regard {
namespace {

#ifdef REGARD_DRIVER
constexpr size_t kMaxCachedBytes = 0;  // a sanitizer detects a use after free only if the memory is freed
#else
constexpr size_t kMaxCachedBytes = 64 << 20;  // in all
#endif
constexpr size_t kMinCachedBytes = 256 << 10;  // smaller blocks are cached by the allocator itself
constexpr int kMaxCached = 8;

// Released blocks, oldest first. The lock is only tried: a thread that finds it locked, or a child forked meanwhile, does not use the
// cache.
std::mutex lock;
Allocation cache[kMaxCached];
int cached_count = 0;
size_t cached_bytes = 0;

Allocation remove_cached(int index) {
    const Allocation allocation = cache[index];
    cached_bytes -= allocation.bytes;
    --cached_count;
    for (int i = index; i < cached_count; ++i) cache[i] = cache[i + 1];
    return allocation;
}

}  // namespace

Allocation allocate_scratch(size_t bytes) {
    bytes = ((bytes < 64 ? 64 : bytes) + 63) / 64 * 64;
    if (bytes >= kMinCachedBytes && lock.try_lock()) {
        int best = -1;
        for (int i = 0; i < cached_count; ++i)
            if (cache[i].bytes >= bytes && cache[i].bytes / 2 <= bytes && (best < 0 || cache[i].bytes < cache[best].bytes)) best = i;
        const Allocation cached = best < 0 ? Allocation{nullptr, 0} : remove_cached(best);
        lock.unlock();
        if (cached.data) return cached;
    }
    void* data = std::aligned_alloc(64, bytes);
    if (!data) throw std::bad_alloc();
    return {data, bytes};
}

void release_scratch(Allocation allocation) noexcept {
    if (allocation.bytes < kMinCachedBytes || allocation.bytes > kMaxCachedBytes || !lock.try_lock()) return std::free(allocation.data);
    while (cached_count == kMaxCached || cached_bytes + allocation.bytes > kMaxCachedBytes) std::free(remove_cached(0).data);
    cache[cached_count++] = allocation;
    cached_bytes += allocation.bytes;
    lock.unlock();
}

}  // namespace regard
