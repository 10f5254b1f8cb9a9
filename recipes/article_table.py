r"""Print the table of pickers in docs/results.md: the share of questions whose sentence is among 1, 2 and 5 picks.

    python recipes/article_table.py article-reader data/articles/papers-test.json \
        --also cross-entropy=runs/article-cross-entropy --also soft=runs/article-soft --minilm

--also NAME=RUN adds a picker trained on the same data by another objective (recipes/article-reader.toml with `objective` and `out` changed,
`spans = false`). --minilm adds the cosine of MiniLM's sentence vectors alone, and as an addition to the picker (English only; needs
`regard models add minilm`). Seconds are of scoring all sentences of an article for a question, its sentences already cut, one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from regard.text.articles import read_questions
from regard.training.tasks.article.evaluation import PICKS, Asked, measure_baselines
from regard.training.tasks.article.reading import ArticleReader
from regard.training.tasks.article.vectors import SentenceVectors
from regard.zoo import locate
from regard.zoo import open as open_model


def row(asked: Sequence[Asked], weights: Callable[[Asked], torch.Tensor]) -> tuple[list[float], float]:
    """Return the percentages for 1, 2 and 5 picks, and the seconds a question."""
    found, seconds = [0] * len(PICKS), 0.0
    for item in asked:
        begin = time.perf_counter()
        order = weights(item).argsort(descending=True, stable=True).tolist()
        seconds += time.perf_counter() - begin
        found = [n + (not item.right.isdisjoint(order[:k])) for n, k in zip(found, PICKS, strict=True)]
    return [100 * n / len(asked) for n in found], seconds / len(asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("test", type=Path, nargs="+")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=RUN")
    parser.add_argument("--minilm", action="store_true")
    parser.add_argument("--every", type=int, default=1, help="use every n-th question only")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    reader = open_model(arguments.model, task="article")
    others = {name: ArticleReader.open(locate(run)) for name, _, run in (item.partition("=") for item in arguments.also)}
    vectors = SentenceVectors(open_model("minilm")) if arguments.minilm else None
    for file in arguments.test:
        asked = Asked.all_of(read_questions(file), reader.table)[:: arguments.every]
        baselines = measure_baselines(asked, reader.table)
        names = dict.fromkeys(name.rpartition("_")[0] for name in baselines)
        lines = [(name, [baselines[f"{name}_{k}"] for k in PICKS], None) for name in names]
        lines += [(name, *row(asked, lambda i, r=other: r.weights(i.article, i.question.text))) for name, other in others.items()]
        lines.append(("reinforce", *row(asked, lambda i: reader.weights(i.article, i.question.text))))
        if vectors is not None:
            lines.append(("minilm", *row(asked, lambda i: vectors.cosines(i.article, i.question.text))))
            reader.vectors = vectors
            lines.append(("reinforce + minilm", *row(asked, lambda i: reader.weights(i.article, i.question.text))))
            reader.vectors = None
        print(f"{file.name}: {len(asked)} questions")
        for name, shares, seconds in lines:
            print(f"  {name:<20}", " / ".join(f"{share:.1f}" for share in shares), "" if seconds is None else f"  {1000 * seconds:.1f} ms")


if __name__ == "__main__":
    main()
