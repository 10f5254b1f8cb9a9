"""Reading the picked sentences compared with reading everything, with the same reader: seconds, skimming included.

    python benchmarks/reading.py ARTICLES.json --picks 5

Every article is read for its first question, warm, one thread: cut into sentences, skimmed, picked and read; and beside it cut and read
whole. Best of several alternating runs each; the ratio is of the sums over the articles.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from regard.text.articles import read_questions
from regard.zoo import open as open_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", default="article-reader")
    parser.add_argument("--picks", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    reader = open_model(arguments.model, task="article")
    articles = read_questions(arguments.file)
    picked = everything = 0.0
    for article in articles:
        question = article.questions[0].text
        times = [
            (reader.read(article.text, question, picks=arguments.picks).seconds, reader.seconds_of_everything(article.text, question))
            for _ in range(arguments.runs + 1)
        ][1:]  # the first run warms up
        picked += min(time for time, _ in times)
        everything += min(time for _, time in times)
    n = len(articles)
    print(f"{n} articles, {arguments.picks} picks: {1000 * picked / n:.1f} ms, everything {1000 * everything / n:.1f} ms, one thread")
    print(f"{everything / picked:.2f} × faster")


if __name__ == "__main__":
    main()
