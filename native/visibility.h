// Which keys of a block are visible to a group of query rows, from their key ranges (Spans) or a dense mask (Pattern).
#pragma once
#include "tile.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int64_t kBlock = 512;  // keys processed at a time: their scores for a group of rows stay in the first-level cache
constexpr int64_t kPanels = kBlock / kPanel;
constexpr int64_t kVectors = kBlock / kLanes;
constexpr int64_t kScoreRow = kBlock + kLanes;  // a row of scores, off the power of two that would collide in the cache
constexpr int kMaxGroups = 8;                   // groups of kRows queries in a task

// Keys [begin, end), each visible to some row.
struct Segment {
    int32_t begin, end;
};

enum Visibility : uint8_t { kNone = 0, kAll = 1, kSome = 2 };

// Which keys of one block are visible to the rows of a group.
struct BlockVisibility {
    int count = 0;                  // of segments, in order, not touching each other
    uint8_t panel[kPanels];         // Visibility of each panel
    uint8_t vector[kVectors];       // and of each of its two vectors
    uint32_t bits[kPanels][kRows];  // where a panel is kSome: the keys visible to each row, one bit per key
    Segment segment[kBlock / 2 + 1];
    bool partly_hidden = false;  // some key of a segment is hidden from some row

    // The number of vectors of panel p (0, 1 or 2) with a visible key; v becomes the first of them.
    int64_t visible_vectors(int64_t p, int64_t& v) const {
        v = 2 * p + !vector[2 * p];
        return !!vector[2 * p] + !!vector[2 * p + 1];
    }
    // Whether key j of the block, j in a segment, is visible to row i.
    bool is_visible(int i, int64_t j) const { return panel[j / kPanel] == kAll || bits[j / kPanel][i] >> j % kPanel & 1; }

    void add(int64_t begin, int64_t end) {
        if (count && segment[count - 1].end == begin) {
            segment[count - 1].end = (int32_t)end;
        } else {
            segment[count++] = {(int32_t)begin, (int32_t)end};
        }
    }
};

// `count` ≤ kPanel bytes, 0 or 1, as bits.
static inline uint32_t pack_mask_bits(const uint8_t* from, int64_t column, int64_t count) {
    uint32_t bits = 0;
    int64_t j = 0;
    for (; column == 1 && j + 8 <= count; j += 8) {
        uint64_t eight;
        std::memcpy(&eight, from + j, 8);
        bits |= (uint32_t)((eight & 0x0101010101010101u) * 0x0102040810204080u >> 56) << j;
    }
    for (; j < count; ++j) bits |= (uint32_t)(from[j * column] & 1) << j;
    return bits;
}

// The masks of up to kRows consecutive query rows of one head.
struct RowGroup {
    const int32_t* spans;    // of the first row, or null
    const uint8_t* pattern;  // the same
    int64_t row, range, ranges, column, keys;
    int rows;                  // valid rows, ≤ kRows
    int64_t from, to;          // no key outside is visible to any row; for a pattern, all keys
    int64_t all_from, all_to;  // every key inside is visible to every row
    int64_t next_range[kRows];

    RowGroup() = default;
    RowGroup(const Scores& a, int64_t batch, int64_t head, int64_t first, int rows_)
        : spans(a.spans.data ? a.spans.data + batch * a.spans.batch + head * a.spans.head + first * a.spans.row : nullptr),
          pattern(a.pattern.data ? a.pattern.data + batch * a.pattern.batch + head * a.pattern.head + first * a.pattern.row : nullptr),
          row(pattern ? a.pattern.row : a.spans.row), range(a.spans.range), ranges(a.spans.ranges), column(a.pattern.column), keys(a.keys),
          rows(rows_), from(spans ? a.keys : 0), to(spans ? 0 : a.keys), all_from(0),
          all_to(pattern || (spans && ranges != 1) ? 0 : a.keys) {
        for (int i = 0; i < kRows; ++i) next_range[i] = 0;
        for (int i = 0; spans && i < (row ? rows : 1); ++i)
            for (int64_t r = 0; r < ranges; ++r) {
                const int32_t* s = spans + i * row + r * range;
                all_from = max(all_from, s[0]);
                all_to = min(all_to, s[1]);
                if (s[1] <= s[0]) continue;
                from = min(from, max(s[0], 0));
                to = max(to, min(s[1], keys));
            }
    }

    // Widens [low, high) to include every key visible to some row.
    void widen_extent(int64_t& low, int64_t& high) const {
        if (from >= to) return;
        low = min(low, from);
        high = max(high, to);
    }

    // Fills `visible` for keys [begin, end), end − begin ≤ kBlock. Blocks must come in increasing order. False if no key is visible.
    bool find_visible(int64_t begin, int64_t end, BlockVisibility& visible) {
        constexpr uint32_t lanes = (uint32_t)(((uint64_t)1 << kLanes) - 1);
        visible.count = 0;
        visible.partly_hidden = false;
        std::memset(visible.vector, kNone, sizeof visible.vector);
        std::memset(visible.panel, kNone, sizeof visible.panel);
        const int distinct = row ? rows : 1;
        end = min(end, to);
        const int64_t all_end = min(end, all_to);
        int64_t p = from > begin ? (from - begin) / kPanel : 0;
        for (; begin + p * kPanel < end; ++p) {
            const int64_t low = begin + p * kPanel, count = min(kPanel, end - low);
            if (low >= all_from && low + kPanel <= all_end) {
                const int64_t panels = (all_end - low) / kPanel;
                std::memset(visible.panel + p, kAll, panels);
                std::memset(visible.vector + 2 * p, kAll, 2 * panels);
                visible.add(low, low + panels * kPanel);
                p += panels - 1;
                continue;
            }
            uint32_t (&bits)[kRows] = visible.bits[p];
            uint32_t some = 0, all = ~0u;
            for (int i = 0; i < distinct; ++i) {
                bits[i] = pattern ? pack_mask_bits(pattern + i * row + low * column, column, count)
                          : spans ? range_bits(i, low, count)
                                  : first(count);
                some |= bits[i];
                all &= bits[i];
            }
            if (!some) continue;
            for (int i = distinct; i < kRows; ++i) bits[i] = i < rows ? bits[0] : 0;
            visible.partly_hidden |= some != all;
            for (int c = 0; c < 2; ++c)
                visible.vector[2 * p + c] = !(some >> c * kLanes & lanes) ? kNone : (all >> c * kLanes & lanes) == lanes ? kAll : kSome;
            visible.panel[p] = visible.vector[2 * p] == visible.vector[2 * p + 1] ? visible.vector[2 * p] : (uint8_t)kSome;
            for (int64_t from = 0; from < kPanel && some >> from;) {  // runs of keys
                from += __builtin_ctz(some >> from);
                const int64_t to = from + __builtin_ctzll(~((uint64_t)some >> from));
                visible.add(low + from, low + to);
                from = to;
            }
        }
        return visible.count;
    }

  private:
    static uint32_t first(int64_t count) { return (uint32_t)(((uint64_t)1 << count) - 1); }

    // The keys of [low, low + count) in row i's ranges, one bit per key.
    uint32_t range_bits(int i, int64_t low, int64_t count) {
        const int32_t* s = spans + i * row;
        int64_t& c = next_range[i];
        while (c < ranges && s[c * range + 1] <= low) ++c;
        uint32_t bits = 0;
        for (int64_t r = c; r < ranges && s[r * range] < low + count; ++r) {
            const int64_t from = max(s[r * range] - low, 0), to = min(s[r * range + 1] - low, count);
            if (from < to) bits |= first(to - from) << from;
        }
        return bits;
    }
};

}  // namespace
}  // namespace regard::REGARD_ISA
