"""Write the training stories of the shipped reader to one file, shuffled.

They are bAbI's stories that need one supporting sentence and two, and generated ones (`regard.text.stories`), which have more events per
sentence: a reader trained on bAbI alone answers one in ten of those wrong.

    python recipes/stories.py --data DATA --out data/reader/train.txt

DATA holds `babi/qa1_single-supporting-fact_train.txt` and `babi/qa2_two-supporting-facts_train.txt` (bAbI, "en-10k"). The order
depends only on the files. The bAbI test files are not used; they are for `regard evaluate reader`.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from regard.text.pairs import read_lines
from regard.text.stories import Story, tell_stories

FILES = ("qa1_single-supporting-fact_train.txt", "qa2_two-supporting-facts_train.txt")


def stories(path: Path) -> list[str]:
    """Return the stories of a bAbI file, each with its questions; a line numbered 1 begins a story."""
    result: list[list[str]] = []
    for line in read_lines(path):
        if line.startswith("1 "):
            result.append([])
        result[-1].append(line)
    return ["\n".join(lines) + "\n" for lines in result]


def as_babi(story: Story) -> str:
    """Return a story with its question as the lines of a bAbI file."""
    lines = [f"{n} {sentence}\n" for n, sentence in enumerate(story.sentences, 1)]
    supports = " ".join(str(n + 1) for n in story.supports)
    return "".join([*lines, f"{len(lines) + 1} {story.question}\t{story.answer}\t{supports}\n"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    texts = [story for name in FILES for story in stories(arguments.data / "babi" / name)]
    texts += [as_babi(story) for story in tell_stories(4000, facts=2, sentences=(4, 14), seed=101)]
    texts.sort(key=lambda story: hashlib.sha256(story.encode()).hexdigest())
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text("".join(texts), encoding="utf-8")
    print(f"{len(texts):,} stories in {arguments.out}")


if __name__ == "__main__":
    main()
