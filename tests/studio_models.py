"""Small real models for the tests of the studio, trained as a user would: two translators, and a language model that reads any length."""

from pathlib import Path
from random import Random

TRANSLATION = """
out = "{out}"
[data]
train = "train.tsv"
valid = "valid.tsv"
batch_tokens = 400
[source]
kind = "word"
[target]
kind = "word"
[model]
kind = "{kind}"
embedding = 16
state = 32
[training]
steps = {steps}
rate = 5e-3
warmup = 10
evaluate_every = {steps}
checkpoint_every = {steps}
[decoding]
beam = 3
max_length = 12
valid_sentences = 2
"""
LANGUAGE = """
out = "letters"
[data]
train = "letters.txt"
batch = 4
[vocabulary]
kind = "char"
[model]
d_model = 32
heads = 2
layers = 2
context = 32
positions = "rotary"
[training]
steps = 3
warmup = 1
evaluate_every = 3
checkpoint_every = 3
"""


def build(folder: Path) -> dict[str, Path]:
    """name → folder of its run."""
    from regard.training.runs import train

    dice = Random(0)
    for name, count in (("train", 300), ("valid", 4)):
        rows = [dice.choices("abcdefgh", k=dice.randint(2, 6)) for _ in range(count)]
        (folder / f"{name}.tsv").write_text("".join(f"{' '.join(r)}\t{' '.join(reversed(r))}\n" for r in rows))
    (folder / "letters.txt").write_text("the quick brown fox jumps over the lazy dog.\n" * 60)
    found = {}
    for name, kind, steps in (("reverser", "bahdanau", 150), ("fixed", "fixed", 40)):
        (folder / f"{name}.toml").write_text(TRANSLATION.format(out=name, kind=kind, steps=steps))
        found[name] = train("translation", folder / f"{name}.toml")[1]
    (folder / "letters.toml").write_text(LANGUAGE)
    found["letters"] = train("lm", folder / "letters.toml")[1]
    return found
