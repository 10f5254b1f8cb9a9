"""Split the package descriptions into training, validation and test pairs that share neither a text nor a summary.

    python recipes/summaries.py --data DATA --out DATA/summaries

DATA has `summaries-en/packages.tsv` (the first paragraph of a Debian package's description, a tab, its synopsis). Descriptions of one
source package are often the same but for a word, so pairs are held out in groups: those that share a summary, or the first eight
words of the text or the last eight, are on the same side. Names and numbers do not count. It writes train.tsv, valid.tsv (1,000)
and test.tsv (1,500).
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from pathlib import Path

from pairs import shuffle_key, write

from regard.text.pairs import Pair, read_pairs

SIZES = {"test": 1500, "valid": 1000}
EDGE = 8  # words


def keys(pair: Pair) -> list[str]:
    """Return what may not be on both sides of the split: the summary, the first words and the last words of the text."""

    def plain(text: str) -> list[str]:
        return re.findall(r"[a-z]+", text.lower())

    words, summary = plain(pair.source), plain(pair.target)
    return [f"summary {' '.join(summary)}", f"first {' '.join(words[:EDGE])}", f"last {' '.join(words[-EDGE:])}"]


def groups(pairs: list[Pair]) -> list[list[int]]:
    """Return the connected components of pairs that share a key."""
    parent = list(range(len(pairs)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first: dict[str, int] = {}
    for i, pair in enumerate(pairs):
        for key in keys(pair):
            parent[root(i)] = root(first.setdefault(key, i))
    members: dict[int, list[int]] = defaultdict(list)
    for i in range(len(pairs)):
        members[root(i)].append(i)
    return list(members.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    pairs = read_pairs(arguments.data / "summaries-en/packages.tsv")
    ordered = sorted(groups(pairs), key=lambda group: shuffle_key("\t".join(min(pairs[i] for i in group))))
    parts: dict[str, list[Pair]] = {"test": [], "valid": [], "train": []}
    for group in ordered:
        part = next((name for name, size in SIZES.items() if len(parts[name]) < size), "train")
        if part == "train" or len(group) > 20:  # a large family stays in training
            parts["train"] += [pairs[i] for i in group]
        else:  # of a group that is held out one pair is kept
            parts[part].append(pairs[min(group, key=lambda i: shuffle_key("\t".join(pairs[i])))])
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, part_pairs in parts.items():
        write(arguments.out / f"{name}.tsv", part_pairs)
        print(f"{name}: {len(part_pairs):,} pairs")
    print(f"{len(ordered):,} groups, the largest of {max(map(len, ordered)):,} pairs")


if __name__ == "__main__":
    main()
