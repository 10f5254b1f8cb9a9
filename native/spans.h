// What a group of query rows sees of the keys, block by block: from their key ranges, or from a pattern written out.
#pragma once
#include "tile.h"

namespace regard::REGARD_ISA {
namespace {

constexpr int64_t kBlock = 512;  // keys taken at a time: their scores for a group of rows stay in the first-level cache
constexpr int64_t kPanels = kBlock / kPanel;
constexpr int64_t kVectors = kBlock / kLanes;
constexpr int64_t kScoreRow = kBlock + kLanes;  // a row of scores, off the power of two that would collide in the cache
constexpr int kMostGroups = 8;                  // groups of kRows queries in a task

// Keys [begin, end), each seen by some row.
struct Segment {
    int32_t begin, end;
};

enum Sight : uint8_t { kNone = 0, kAll = 1, kSome = 2 };

// What a group of rows sees of one block of keys.
struct Seen {
    int count = 0;                  // segments, in order, apart from each other
    uint8_t panel[kPanels];         // Sight of each panel
    uint8_t vector[kVectors];       // and of each of its two vectors
    uint32_t bits[kPanels][kRows];  // where a panel is kSome: its keys that each row sees, one bit a key
    Segment segment[kBlock / 2 + 1];
    bool ragged = false;  // some key of a segment is hidden from some row

    // How many vectors of panel p anybody sees, from v on.
    int64_t pick(int64_t p, int64_t& v) const {
        v = 2 * p + !vector[2 * p];
        return !!vector[2 * p] + !!vector[2 * p + 1];
    }
    // Whether row i sees key j of the block, j in a segment.
    bool sees(int i, int64_t j) const { return panel[j / kPanel] == kAll || bits[j / kPanel][i] >> j % kPanel & 1; }

    void add(int64_t begin, int64_t end) {
        if (count && segment[count - 1].end == begin) {
            segment[count - 1].end = (int32_t)end;
        } else {
            segment[count++] = {(int32_t)begin, (int32_t)end};
        }
    }
};

// `count` ≤ kPanel bytes, 0 or 1, as bits.
static inline uint32_t gather_bits(const uint8_t* from, int64_t column, int64_t count) {
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

struct Group {
    const int32_t* spans;    // of the first row, or null
    const uint8_t* pattern;  // the same
    int64_t row, range, ranges, column, keys;
    int rows;                    // valid rows, ≤ kRows
    int64_t from, to;            // outside of these no row sees a key; of a pattern, known when its turn comes
    int64_t sure_from, sure_to;  // between these every row sees every key
    int64_t cursor[kRows];

    Group() = default;
    Group(const Scores& a, int64_t batch, int64_t head, int64_t first, int rows_)
        : spans(a.spans.data ? a.spans.data + batch * a.spans.batch + head * a.spans.head + first * a.spans.row : nullptr),
          pattern(a.pattern.data ? a.pattern.data + batch * a.pattern.batch + head * a.pattern.head + first * a.pattern.row : nullptr),
          row(pattern ? a.pattern.row : a.spans.row), range(a.spans.range), ranges(a.spans.ranges), column(a.pattern.column), keys(a.keys),
          rows(rows_), from(spans ? a.keys : 0), to(spans ? 0 : a.keys), sure_from(0),
          sure_to(pattern || (spans && ranges != 1) ? 0 : a.keys) {
        for (int i = 0; i < kRows; ++i) cursor[i] = 0;
        for (int i = 0; spans && i < (row ? rows : 1); ++i)
            for (int64_t r = 0; r < ranges; ++r) {
                const int32_t* s = spans + i * row + r * range;
                sure_from = max(sure_from, s[0]);
                sure_to = min(sure_to, s[1]);
                if (s[1] <= s[0]) continue;
                from = min(from, max(s[0], 0));
                to = max(to, min(s[1], keys));
            }
    }

    // Widens [low, high) to the keys that any row sees.
    void extent(int64_t& low, int64_t& high) const {
        if (from >= to) return;
        low = min(low, from);
        high = max(high, to);
    }

    // Fills `seen` for keys [begin, end), end − begin ≤ kBlock. Blocks must come in increasing order. False if nothing is seen.
    bool look(int64_t begin, int64_t end, Seen& seen) {
        constexpr uint32_t lanes = (uint32_t)(((uint64_t)1 << kLanes) - 1);
        seen.count = 0;
        seen.ragged = false;
        std::memset(seen.vector, kNone, sizeof seen.vector);
        std::memset(seen.panel, kNone, sizeof seen.panel);
        const int distinct = row ? rows : 1;
        end = min(end, to);
        const int64_t sure = min(end, sure_to);
        int64_t p = from > begin ? (from - begin) / kPanel : 0;
        for (; begin + p * kPanel < end; ++p) {
            const int64_t low = begin + p * kPanel, count = min(kPanel, end - low);
            if (low >= sure_from && low + kPanel <= sure) {
                const int64_t whole = (sure - low) / kPanel;
                std::memset(seen.panel + p, kAll, whole);
                std::memset(seen.vector + 2 * p, kAll, 2 * whole);
                seen.add(low, low + whole * kPanel);
                p += whole - 1;
                continue;
            }
            uint32_t (&bits)[kRows] = seen.bits[p];
            uint32_t some = 0, all = ~0u;
            for (int i = 0; i < distinct; ++i) {
                bits[i] = pattern ? gather_bits(pattern + i * row + low * column, column, count)
                          : spans ? cover(i, low, count)
                                  : first(count);
                some |= bits[i];
                all &= bits[i];
            }
            if (!some) continue;
            for (int i = distinct; i < kRows; ++i) bits[i] = i < rows ? bits[0] : 0;
            seen.ragged |= some != all;
            for (int c = 0; c < 2; ++c)
                seen.vector[2 * p + c] = !(some >> c * kLanes & lanes) ? kNone : (all >> c * kLanes & lanes) == lanes ? kAll : kSome;
            seen.panel[p] = seen.vector[2 * p] == seen.vector[2 * p + 1] ? seen.vector[2 * p] : (uint8_t)kSome;
            for (int64_t from = 0; from < kPanel && some >> from;) {  // runs of keys
                from += __builtin_ctz(some >> from);
                const int64_t to = from + __builtin_ctzll(~((uint64_t)some >> from));
                seen.add(low + from, low + to);
                from = to;
            }
        }
        return seen.count;
    }

  private:
    static uint32_t first(int64_t count) { return (uint32_t)(((uint64_t)1 << count) - 1); }

    // What row i's ranges say of keys [low, low + count), one bit a key.
    uint32_t cover(int i, int64_t low, int64_t count) {
        const int32_t* s = spans + i * row;
        int64_t& c = cursor[i];
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
