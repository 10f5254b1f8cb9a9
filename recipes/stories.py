"""One file of the bAbI stories the shipped reader learns from: those that need one sentence and those that need two, shuffled.

    python recipes/stories.py --data DATA --out data/reader/train.txt

DATA holds `babi/qa1_single-supporting-fact_train.txt` and `babi/qa2_two-supporting-facts_train.txt` (bAbI, "en-10k"). The order is a
function of the files alone. The bAbI test files are left as they are, for `regard evaluate reader`.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from regard.text.pairs import read_lines

FILES = ("qa1_single-supporting-fact_train.txt", "qa2_two-supporting-facts_train.txt")


def stories(path: Path) -> list[str]:
    """The stories of a bAbI file, each with its questions; a line numbered 1 begins one."""
    found: list[list[str]] = []
    for line in read_lines(path):
        if line.startswith("1 "):
            found.append([])
        found[-1].append(line)
    return ["\n".join(lines) + "\n" for lines in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    told = [story for name in FILES for story in stories(given.data / "babi" / name)]
    told.sort(key=lambda story: hashlib.sha256(story.encode()).hexdigest())
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text("".join(told), encoding="utf-8")
    print(f"{len(told):,} stories in {given.out}")


if __name__ == "__main__":
    main()
