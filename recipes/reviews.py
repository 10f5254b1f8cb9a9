"""Split the reviews into training, validation and test texts, and measure two linear classifiers on them.

    python recipes/reviews.py --data DATA --out DATA/reviews              # writes the files
    python recipes/reviews.py --data DATA --out DATA/reviews --linear     # and prints the accuracy of the linear classifiers

DATA has `reviews-zh/{hotels,shopping}.tsv` and `reviews-en/movies.tsv`. For each of hotels, shopping (sentiment), category (of shopping)
and movies it writes NAME-train.tsv, NAME-valid.tsv and NAME-test.tsv: a label, a tab, a review. A tenth each is held out by a hash of the
review's letters, so that a review that is there twice (in other punctuation, too) is on one side. reviews.txt and reviews-valid.txt are the
training reviews in Chinese, one per line, for masked-token training.

Linear classifiers: logistic regression on 1- and 2-grams (of characters in Chinese, of words in English), and a linear support vector
machine on character 1- to 4-grams, both of tf-idf weights.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from pairs import plain

from regard.text.chinese import folding_table
from regard.text.pairs import Pair, read_pairs

SETS = {  # name → (file, columns of the text and of the label)
    "hotels": ("reviews-zh/hotels.tsv", (1, 0)),
    "shopping": ("reviews-zh/shopping.tsv", (2, 1)),
    "category": ("reviews-zh/shopping.tsv", (2, 0)),
    "movies": ("reviews-en/movies.tsv", (1, 0)),
}


def split(pairs: list[Pair], fold: dict[int, str]) -> dict[str, list[Pair]]:
    """Split by a hash of the text; of texts with the same letters the first is kept."""
    parts: dict[str, list[Pair]] = {"train": [], "valid": [], "test": []}
    seen: set[str] = set()
    for pair in pairs:
        key = plain(pair.source, fold) or pair.source
        if key in seen:
            continue
        seen.add(key)
        number = int(hashlib.sha256(key.encode()).hexdigest()[:8], 16) % 10
        parts["test" if number == 0 else "valid" if number == 1 else "train"].append(pair)
    return parts


def linear(parts: dict[str, list[Pair]], english: bool) -> dict[str, float]:
    """Return the test accuracies (percent) of the two linear classifiers."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    words = {"analyzer": "word", "token_pattern": r"\S+"} if english else {"analyzer": "char"}
    models = {
        "logistic regression, 1-2-grams": make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, **words), LogisticRegression(C=10, max_iter=1000)
        ),
        "SVM, character 1-4-grams": make_pipeline(
            TfidfVectorizer(analyzer="char", ngram_range=(1, 4), sublinear_tf=True), LinearSVC(C=0.5)
        ),
    }
    train = parts["train"] + parts["valid"]
    result = {}
    for name, model in models.items():
        model.fit([pair.source for pair in train], [pair.target for pair in train])
        result[name] = 100 * model.score([pair.source for pair in parts["test"]], [pair.target for pair in parts["test"]])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--linear", action="store_true")
    parser.add_argument("--only", choices=list(SETS), action="append")
    arguments = parser.parse_args()
    fold = str.maketrans(folding_table())
    arguments.out.mkdir(parents=True, exist_ok=True)
    chinese: dict[str, list[str]] = {"train": [], "valid": []}
    for name in arguments.only or SETS:
        file, columns = SETS[name]
        parts = split(read_pairs(arguments.data / file, columns=columns), fold)
        for part, pairs in parts.items():
            text = "".join(f"{pair.target}\t{' '.join(pair.source.split())}\n" for pair in pairs)
            (arguments.out / f"{name}-{part}.tsv").write_text(text, encoding="utf-8")
            if part in chinese and name in ("hotels", "shopping"):
                chinese[part] += [" ".join(pair.source.split()) for pair in pairs]
        print(name, {part: len(pairs) for part, pairs in parts.items()}, flush=True)
        if arguments.linear:
            print(name, {key: round(value, 1) for key, value in linear(parts, name == "movies").items()}, flush=True)
    if not arguments.only:
        for part, target in (("train", "reviews.txt"), ("valid", "reviews-valid.txt")):
            lines = chinese[part] if part == "train" else chinese[part][:2000]
            (arguments.out / target).write_text("".join(line + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
