"""One file of the stories the shipped reader learns from, shuffled: bAbI's that need one sentence and that need two, and some told by
`regard.text.stories`, which are shorter and busier: a reader of bAbI alone gets one in ten of those wrong.

    python recipes/stories.py --data DATA --out data/reader/train.txt

DATA holds `babi/qa1_single-supporting-fact_train.txt` and `babi/qa2_two-supporting-facts_train.txt` (bAbI, "en-10k"). The order is a
function of the files alone. The bAbI test files are left as they are, for `regard evaluate reader`.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from regard.text.pairs import read_lines
from regard.text.stories import Story, tell_stories

FILES = ("qa1_single-supporting-fact_train.txt", "qa2_two-supporting-facts_train.txt")


def stories(path: Path) -> list[str]:
    """The stories of a bAbI file, each with its questions; a line numbered 1 begins one."""
    found: list[list[str]] = []
    for line in read_lines(path):
        if line.startswith("1 "):
            found.append([])
        found[-1].append(line)
    return ["\n".join(lines) + "\n" for lines in found]


def as_babi(story: Story) -> str:
    """A story with its question as the lines of a bAbI file."""
    lines = [f"{n} {sentence}\n" for n, sentence in enumerate(story.sentences, 1)]
    supports = " ".join(str(n + 1) for n in story.supports)
    return "".join([*lines, f"{len(lines) + 1} {story.question}\t{story.answer}\t{supports}\n"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    told = [story for name in FILES for story in stories(given.data / "babi" / name)]
    told += [as_babi(story) for story in tell_stories(4000, facts=2, sentences=(4, 14), seed=101)]
    told.sort(key=lambda story: hashlib.sha256(story.encode()).hexdigest())
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text("".join(told), encoding="utf-8")
    print(f"{len(told):,} stories in {given.out}")


if __name__ == "__main__":
    main()
