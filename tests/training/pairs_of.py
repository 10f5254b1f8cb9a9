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
    """A run's log without its clock."""
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "time"} for row in rows]
