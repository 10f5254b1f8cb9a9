// Walks the key ranges of a group of query rows: which keys, for which rows.
#pragma once
#include "tile.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int64_t kBlock = 512;  // keys taken at a time: their scores for a group of rows stay in the first-level cache
constexpr int64_t kPanels = kBlock / kPanel;
constexpr int64_t kVectors = kBlock / kLanes;

// Keys [begin, end), all seen by exactly the rows whose bit is set.
struct Segment {
    int32_t begin, end;
    uint32_t rows;
};

enum Sight : uint8_t { kNone = 0, kAll = 1, kSome = 2 };

// What a group of rows sees of one block of keys.
struct Seen {
    int count = 0;              // segments, in order, none with an empty row set
    uint8_t panel[kPanels];     // Sight of each panel
    uint8_t vector[kVectors];   // and of each of its two vectors
    Segment segment[kBlock];
    bool ragged = false;        // some segment is hidden from some row

    // How many vectors of panel p anybody sees, from v on.
    int64_t pick(int64_t p, int64_t& v) const {
        v = 2 * p + !vector[2 * p];
        return !!vector[2 * p] + !!vector[2 * p + 1];
    }
};

struct Group {
    const int32_t* spans;  // of the first row, or null
    int64_t row, range, ranges, keys;
    int rows;              // valid rows, ≤ kRows
    int64_t cursor[kRows];

    Group() = default;
    Group(const Spans& s, int64_t batch, int64_t head, int64_t first, int rows_, int64_t keys_)
        : spans(s.data ? s.data + batch * s.batch + head * s.head + first * s.row : nullptr),
          row(s.row), range(s.range), ranges(s.ranges), keys(keys_), rows(rows_) {
        for (int i = 0; i < kRows; ++i) cursor[i] = 0;
    }

    // The first and one past the last key that any row sees.
    void extent(int64_t& low, int64_t& high) const {
        if (!spans) {
            low = 0;
            high = keys;
            return;
        }
        const int distinct = row ? rows : 1;
        for (int i = 0; i < distinct; ++i)
            for (int64_t r = 0; r < ranges; ++r) {
                const int32_t* s = spans + i * row + r * range;
                if (s[1] <= s[0]) continue;
                low = min(low, max(s[0], 0));
                high = max(high, min(s[1], keys));
            }
    }

    // Fills `seen` for keys [begin, end), end − begin ≤ kBlock. Blocks must come in increasing order. False if nothing.
    bool look(int64_t begin, int64_t end, Seen& seen) {
        const uint32_t everyone = (1u << rows) - 1;
        seen.count = 0;
        seen.ragged = false;
        if (!spans) {
            seen.segment[seen.count++] = {(int32_t)begin, (int32_t)end, everyone};
        } else {
            const int distinct = row ? rows : 1;
            for (int64_t j = begin; j < end;) {
                int64_t next = end;
                uint32_t mask = 0;
                for (int i = 0; i < distinct; ++i) {
                    const int32_t* s = spans + i * row;
                    int64_t& c = cursor[i];
                    while (c < ranges && s[c * range + 1] <= j) ++c;
                    if (c == ranges) continue;
                    const int64_t from = s[c * range], to = s[c * range + 1];
                    if (from <= j) {
                        mask |= 1u << i;
                        next = min(next, to);
                    } else if (from < to) {
                        next = min(next, from);
                    } else {  // an empty range ahead: step over it
                        next = min(next, to);
                    }
                }
                if (!row && mask) mask = everyone;
                if (mask) {
                    Segment* last = seen.count ? &seen.segment[seen.count - 1] : nullptr;
                    if (last && last->end == j && last->rows == mask) {
                        last->end = (int32_t)next;
                    } else {
                        seen.segment[seen.count++] = {(int32_t)j, (int32_t)next, mask};
                    }
                    seen.ragged |= mask != everyone;
                }
                j = next;
            }
        }
        if (!seen.count) return false;
        std::memset(seen.vector, kNone, sizeof seen.vector);
        for (int s = 0; s < seen.count; ++s) {
            const int64_t from = seen.segment[s].begin - begin, to = seen.segment[s].end - begin;
            for (int64_t v = from / kLanes; v * kLanes < to; ++v)
                seen.vector[v] = seen.segment[s].rows == everyone && from <= v * kLanes && v * kLanes + kLanes <= to ? kAll : kSome;
        }
        for (int64_t p = 0; p < kPanels; ++p)
            seen.panel[p] = seen.vector[2 * p] == seen.vector[2 * p + 1] ? seen.vector[2 * p] : kSome;
        return true;
    }
};

// The keys of panel p (of the block at `begin`) that each row sees, one bit a key.
static inline void panel_bits(const Seen& seen, int64_t begin, int64_t p, uint32_t (&bits)[kRows]) {
    for (int i = 0; i < kRows; ++i) bits[i] = 0;
    const int64_t low = begin + p * kPanel, high = low + kPanel;
    for (int s = 0; s < seen.count; ++s) {
        const int64_t from = max(seen.segment[s].begin, low) - low, to = min(seen.segment[s].end, high) - low;
        if (from >= to) continue;
        const uint32_t range = (uint32_t)((((uint64_t)1 << (to - from)) - 1) << from);
        for (int i = 0; i < kRows; ++i)
            if (seen.segment[s].rows >> i & 1) bits[i] |= range;
    }
}

}  // namespace
}  // namespace regard::REGARD_ISA
