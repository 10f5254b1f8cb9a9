"""Cross-validate the picker for English questions on papers: five times, train it on four fifths of them, and pick in the rest.

    python recipes/article_folds.py recipes/article-reader.toml --data data/articles

Prints the share of questions whose sentence is among 1, 2 and 5 picks over all papers, each picked by a model that was not trained on it,
beside the baselines. The pickers of the two languages learn nothing from each other, so no Chinese questions are needed. The table of units
(rarity of words, no answers) is that of the run the config starts with. --fold N trains and tests only one of the five; --objective and
--seed replace those of the config. --minilm also adds the cosine of MiniLM's sentence vectors to the scores, with several weights.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import torch

from regard.text.articles import read_questions
from regard.text.units import UnitTable
from regard.training.config import read_config
from regard.training.loop.trainer import Trainer
from regard.training.tasks.article import ArticleConfig, ArticleReader, TrainableArticleReader
from regard.training.tasks.article.evaluation import PICKS, Asked, measure_baselines
from regard.training.tasks.article.reading import UNITS
from regard.training.tasks.article.training import Example
from regard.training.tasks.article.vectors import SentenceVectors
from regard.zoo import locate
from regard.zoo import open as open_model

FOLDS = 5
WEIGHTS = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)  # of the cosine of sentence vectors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--start", help="the run or model with the table of units, if not the config's")
    parser.add_argument("--objective")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--fold", type=int, choices=range(FOLDS), help="only this one of the five")
    parser.add_argument("--minilm", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    config = read_config(arguments.config, ArticleConfig)
    training = dataclasses.replace(config.training, seed=config.training.seed if arguments.seed is None else arguments.seed)
    model = dataclasses.replace(config.model, objective=arguments.objective or config.model.objective)
    config = dataclasses.replace(config, training=training, model=model)
    start = locate(arguments.start) if arguments.start else arguments.config.parent / str(config.start)
    table = UnitTable.load(start / UNITS).with_all_features()
    papers = [article for part in ("train", "valid", "test") for article in read_questions(arguments.data / f"papers-{part}.json")]
    examples = [Example.all_of([paper], table) for paper in papers]
    vectors = SentenceVectors(open_model("minilm")) if arguments.minilm else None
    weights = WEIGHTS if vectors else WEIGHTS[:1]
    result, questions = np.zeros((len(weights), len(PICKS))), 0
    for fold in range(FOLDS) if arguments.fold is None else [arguments.fold]:
        with tempfile.TemporaryDirectory() as folder:
            table.save(Path(folder) / UNITS)
            torch.manual_seed(config.training.seed)
            reader = ArticleReader.untrained(config, Path(folder))
            train = [example for n, rows in enumerate(examples) if n % FOLDS != fold for example in rows]
            held_out = [example for n, rows in enumerate(examples) if n % FOLDS == fold for example in rows]
            if config.model.by_language:
                reader.model.keep_picker("zh", None)
            reader.model.picker.normalise_by(torch.from_numpy(np.concatenate([example.skimmed for example in train])))
            Trainer(TrainableArticleReader(config, reader, train, papers[fold::FOLDS][:1]), config.training, folder).run()
        reader.model.eval()
        for example in held_out:
            with torch.no_grad():
                scores = reader.model.picker.scores(torch.from_numpy(example.skimmed).unsqueeze(0))[0]
            cosines = vectors.cosines(example.article, example.question.text) if vectors else torch.zeros_like(scores)
            for row, weight in zip(result, weights, strict=True):
                order = (scores + weight * cosines).argsort(descending=True).tolist()
                row += [not example.right.isdisjoint(order[:k]) for k in PICKS]
        questions += len(held_out)
        for row, weight in zip(result, weights, strict=True):
            added = f", MiniLM {weight:g}" if vectors else ""
            print(f"after fold {fold + 1}: {questions} questions{added}", " / ".join(f"{100 * n / questions:.1f}" for n in row), flush=True)
    if arguments.fold is not None:
        papers = papers[arguments.fold :: FOLDS]
    baselines = measure_baselines(Asked.all_of(papers, table), table)
    for name in dict.fromkeys(name.rpartition("_")[0] for name in baselines):
        print(f"{name:<16}", " / ".join(f"{baselines[f'{name}_{k}']:.1f}" for k in PICKS))


if __name__ == "__main__":
    main()
