"""Small made-up jobs for the tests of training, written to files as a user would."""

import json
from pathlib import Path
from random import Random

CONFIG = """
out = "run"
[data]
train = "train.tsv"
valid = "valid.tsv"
batch_tokens = {batch_tokens}
[source]
kind = "word"
[target]
kind = "word"
[model]
kind = "{kind}"
{model}
[training]
{training}
[decoding]
beam = 3
max_length = 40
"""


def reversal(folder: Path, *, train: int, valid: int, longest: int, letters: str = "abcdefgh", seed: int = 0) -> None:
    """Sequences of letters and the same backwards."""
    dice = Random(seed)
    for name, count in (("train", train), ("valid", valid)):
        rows = [dice.choices(letters, k=dice.randint(2, longest)) for _ in range(count)]
        (folder / f"{name}.tsv").write_text("".join(f"{' '.join(r)}\t{' '.join(reversed(r))}\n" for r in rows))


def config(folder: Path, training: str, *, kind: str = "bahdanau", model: str = "", batch_tokens: int = 400) -> Path:
    """A translation config beside the data."""
    path = folder / "config.toml"
    path.write_text(CONFIG.format(kind=kind, model=model, training=training, batch_tokens=batch_tokens))
    return path


def events(run: Path) -> list[dict]:
    """A run's log without its clock and checksums."""
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key not in ("time", "crc32")} for row in rows]


NAMES = ["mary", "john", "anna", "paul"]
PLACES = ["kitchen", "garden", "office", "hall", "park"]
VERBS = ["sold", "found", "lost"]
THINGS = ["milk", "keys", "books"]


def questions(folder: Path, *, train: int, valid: int, seed: int = 0) -> None:
    """A question of who, where or what, a report, and the answer: JSONL, as `question` and `answer`."""
    dice = Random(seed)
    for name, count in (("train", train), ("valid", valid)):
        rows = []
        for _ in range(count):
            who, did, what, where = (dice.choice(words) for words in (NAMES, VERBS, THINGS, PLACES))
            report = dice.choice([f"in the {where} {who} {did} the {what} .", f"{who} {did} the {what} in the {where} ."])
            ask, answer = dice.choice([("who did it", who), ("where was it", where), (f"what was {did}", what)])
            rows.append({"question": f"{ask} ? {report}", "answer": answer})
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def articles(folder: Path, *, train: int, valid: int, seed: int = 0) -> None:
    """Reports of several events, one of them called the news, and the summary that tells it: JSONL, as `article` and `summary`."""
    dice = Random(seed)
    for name, count in (("train", train), ("valid", valid)):
        rows = []
        for _ in range(count):
            told = [f"{dice.choice(NAMES)} {dice.choice(VERBS)} the {dice.choice(THINGS)}" for _ in range(3)]
            news = dice.randrange(3)
            told_in_full = [f"{event} in the {dice.choice(PLACES)} ." for event in told]
            article = " ".join(("the news : " if i == news else "also ") + event for i, event in enumerate(told_in_full))
            rows.append({"article": article, "summary": f"{told[news]} ."})
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
