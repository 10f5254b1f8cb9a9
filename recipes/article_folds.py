"""Cross-validate the picker on papers: five times, train on four fifths of them (and on Chinese questions), and pick in the rest.

    python recipes/article_folds.py runs/article-reader --data data/articles --steps 300

Prints the share of questions whose sentence is among 1, 2 and 5 picks over all papers, each picked by a model that was not trained on it,
beside the baselines. The table of units (rarity of words, no answers) is that of the run. --fold N trains and tests only one of the five.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import torch

from regard.text.articles import read_questions
from regard.training.loop.trainer import Trainer
from regard.training.runs import run_config
from regard.training.tasks.article import ArticleConfig, ArticleReader, TrainableArticleReader
from regard.training.tasks.article.evaluation import PICKS, Asked, measure_baselines
from regard.training.tasks.article.training import Example

FOLDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--chinese", type=int, default=1500, help="Chinese questions to train on beside the papers")
    parser.add_argument("--fold", type=int, choices=range(FOLDS), help="only this one of the five")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    config = run_config(arguments.run, "article", ArticleConfig)
    training = dataclasses.replace(config.training, steps=arguments.steps, evaluate_every=arguments.steps, checkpoint_every=arguments.steps)
    config = dataclasses.replace(config, training=training, model=dataclasses.replace(config.model, spans=False))
    table = ArticleReader.untrained(config, arguments.run).table
    papers = [article for part in ("train", "valid", "test") for article in read_questions(arguments.data / f"papers-{part}.json")]
    chinese = Example.all_of(read_questions(arguments.data / "cmrc-train.json")[: arguments.chinese // 4], table)
    examples = [Example.all_of([paper], table) for paper in papers]
    result, questions = np.zeros(len(PICKS)), 0
    for fold in range(FOLDS) if arguments.fold is None else [arguments.fold]:
        torch.manual_seed(config.training.seed)
        reader = ArticleReader.untrained(config, arguments.run)
        train = chinese + [example for n, rows in enumerate(examples) if n % FOLDS != fold for example in rows]
        reader.model.picker.normalise_by(torch.from_numpy(np.concatenate([example.skimmed for example in train])))
        held_out = [example for n, rows in enumerate(examples) if n % FOLDS == fold for example in rows]
        with tempfile.TemporaryDirectory() as folder:
            Trainer(TrainableArticleReader(config, reader, train, papers[fold::FOLDS][:1]), config.training, folder).run()
        reader.model.eval()
        for example in held_out:
            with torch.no_grad():
                order = reader.model.picker.scores(torch.from_numpy(example.skimmed).unsqueeze(0))[0].argsort(descending=True).tolist()
            result += [not example.right.isdisjoint(order[:k]) for k in PICKS]
        questions += len(held_out)
        print(f"after fold {fold + 1}: {questions} questions", " / ".join(f"{100 * n / questions:.1f}" for n in result), flush=True)
    if arguments.fold is not None:
        papers = papers[arguments.fold :: FOLDS]
    baselines = measure_baselines(Asked.all_of(papers, table), table)
    for name in dict.fromkeys(name.rpartition("_")[0] for name in baselines):
        print(f"{name:<16}", " / ".join(f"{baselines[f'{name}_{k}']:.1f}" for k in PICKS))


if __name__ == "__main__":
    main()
