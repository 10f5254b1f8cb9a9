"""How long until a shipped model answers: import and load in a fresh process (at most 3 s), then one sentence (at most 150 ms).

    python benchmarks/zoo.py

The peer is the limit; a ratio of 1 just reaches it. Each model's load is the best of three fresh processes, each answer the best of 15.
"""

from __future__ import annotations

import subprocess
import sys
import time

import regard.zoo
from regard.text.stories import Story
from timing import Row, Table, alternate, main

LOAD, ANSWER = 3.0, 0.15  # seconds
SENTENCES = {
    "zh": ["我爱中国", "你今天晚上想和我们一起去看电影吗？"],
    "de": ["Ich liebe dich.", "Möchtest du heute Abend mit uns ins Kino gehen?"],
}
STORY = Story(("Mary got the football.", "John went to the office.", "Mary went to the garden."), "Where is the football?", "")


def fresh(name: str) -> float:
    """Seconds from nothing to a model that is ready, the start of Python included."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import regard.zoo; regard.zoo.open({name!r})"], check=True)
        best = min(best, time.perf_counter() - start)
    return best


def work() -> Table:
    table = Table("zoo", "How long until a shipped model answers?")
    for entry in regard.zoo.entries():
        if entry.origin != "shipped" or entry.card is None:
            continue
        table.add(Row(f"{entry.name}: import and load", "limit", fresh(entry.name), LOAD, 1.0, at_most=True))
        opened = regard.zoo.open(entry.name)
        if entry.card.task == "translation":
            for text in SENTENCES[entry.card.languages[0]]:
                times = alternate({"beam": lambda opened=opened, text=text: opened.candidates([text], align=True)})
                table.add(Row(f"{entry.name}: {text}", "limit", times["beam"], ANSWER, 1.0, at_most=True))
        elif entry.card.task == "lm":
            times = alternate({"written": lambda opened=opened: opened.generate("ROMEO:", max_new=50, seed=0)})
            table.add(Row(f"{entry.name}: 50 characters", "limit of a sentence", times["written"], ANSWER, at_most=True))
        elif entry.card.task == "reader":
            times = alternate({"read": lambda opened=opened: opened.answer([STORY])})
            table.add(Row(f"{entry.name}: a story of three sentences", "limit", times["read"], ANSWER, 1.0, at_most=True))
    return table


if __name__ == "__main__":
    main(work)
