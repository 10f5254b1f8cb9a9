"""Guess masked tokens from their neighbours by counts, on the masked tokens `regard evaluate mlm` scores: what a masked model must beat.

    python recipes/neighbour_guess.py bert-small --train DATA/bert/train.txt --test DATA/bert/valid-zh.txt

The guess is the token seen most often between the two neighbours in the training text; if that pair of neighbours was never seen, the
one seen most often after the left neighbour; else the most frequent token. A neighbour that is masked itself counts as such a gap.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from pathlib import Path

from regard import zoo
from regard.text.pairs import read_lines
from regard.text.vocabulary import MASK
from regard.training.runs import run_config
from regard.training.tasks.mlm import MaskedConfig, MaskedModel, held_out_batches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True, action="append")
    arguments = parser.parse_args()
    folder = zoo.locate(arguments.model)
    opened, config = MaskedModel.open(folder), run_config(folder, "mlm", MaskedConfig)
    both: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    left: dict[int, Counter[int]] = defaultdict(Counter)
    all_tokens: Counter[int] = Counter()
    for ids in opened.text.encode_all([line for line in read_lines(arguments.train) if line.strip()], opened.context):
        for a, b, c in zip(ids, ids[1:], ids[2:], strict=False):
            both[a, c][b] += 1
            left[a][b] += 1
            all_tokens[b] += 1
    common = all_tokens.most_common(1)[0][0]
    for file in arguments.test:
        texts = opened.text.encode_all([line for line in read_lines(file) if line.strip()], opened.context)
        right = total = 0
        for batch in held_out_batches(config, texts, words=opened.model.config.vocabulary):
            for row, place in (batch.targets != -100).nonzero().tolist():
                a, c = int(batch.ids[row, place - 1]), int(batch.ids[row, place + 1])
                counts = both.get((a, c)) if MASK not in (a, c) else None
                counts = counts or left.get(a)
                guess = counts.most_common(1)[0][0] if counts else common
                right += guess == int(batch.targets[row, place])
                total += 1
        print(f"{file.name}: {100 * right / total:.1f} % of {total:,} masked tokens")


if __name__ == "__main__":
    main()
