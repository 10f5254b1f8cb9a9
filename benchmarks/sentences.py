"""What does a short sentence cost when it is translated alone, beside its share of a batch?

python benchmarks/sentences.py
"""

from __future__ import annotations

import regard.zoo
from timing import Row, Table, alternate, main

SENTENCES = ["我爱中国。", "你好吗？", "他在家。", "我们走吧。", "今天很热。", "她喜欢猫。", "请坐。", "我饿了。"] * 2


def sentences() -> Table:
    table = Table("sentences", "What does a short sentence cost when it is translated alone?")
    opened = regard.zoo.open("zh-en-transformer")
    for name, width in (("greedy", 1), ("beam 5", 5)):
        works = {
            "alone": lambda width=width: [opened.candidates([text], width=width) for text in SENTENCES],
            "batch": lambda width=width: opened.candidates(SENTENCES, width=width),
        }
        times = alternate(works, rounds=8)
        table.add(
            Row(
                f"{len(SENTENCES)} short sentences one at a time, {name}",
                "the same in a batch",
                times["alone"],
                times["batch"],
                4.0,
                at_most=True,
            )
        )
    return table


if __name__ == "__main__":
    main(sentences)
