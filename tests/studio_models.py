"""Small real models for the tests of the studio, trained as a user would: translators, and a language model that reads any length."""

from pathlib import Path
from random import Random
from typing import Any

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
    models = {}
    for name, kind, steps in (("reverser", "bahdanau", 150), ("fixed", "fixed", 40)):
        (folder / f"{name}.toml").write_text(TRANSLATION.format(out=name, kind=kind, steps=steps))
        models[name] = train("translation", folder / f"{name}.toml")[1]
    (folder / "letters.toml").write_text(LANGUAGE)
    models["letters"] = train("lm", folder / "letters.toml")[1]
    return models


CHINESE = """
out = "{out}"
[data]
train = "zh.tsv"
valid = "zh-valid.tsv"
batch_tokens = 600
[source]
kind = "char"
[target]
kind = "word"
[model]
{model}
[training]
steps = {steps}
rate = 5e-3
warmup = 10
evaluate_every = {steps}
checkpoint_every = {steps}
[decoding]
beam = 3
max_length = 16
valid_sentences = 2
"""
KINDS = {
    "zh-en-transformer": ('kind = "transformer"\nd_model = 32\nheads = 2\nencoder_layers = 2\ndecoder_layers = 1', 80),
    "zh-en-fixed": ('kind = "fixed"\nembedding = 16\nstate = 24', 30),
}
WHO, DO = {"我": "I", "你": "you", "他": "he", "她": "she"}, {"爱": "love", "打": "hit", "买": "buy", "吃": "eat"}
WHAT = {"中国": "China", "苹果": "apples", "书": "books", "鱼": "fish", "车": "cars"}


def chinese(folder: Path) -> dict[str, Path]:
    """name → folder of a packed translator of a toy Chinese: characters in, its card with hashes and scores by sentence length."""
    from regard.training.runs import train
    from regard.zoo.packing import pack

    dice = Random(1)
    pairs = {name: [_sentence(dice) for _ in range(count)] for name, count in (("zh", 300), ("zh-valid", 4), ("zh-test", 24))}
    for name, rows in pairs.items():
        (folder / f"{name}.tsv").write_text("".join(f"{zh}\t{en}\n" for zh, en in rows), encoding="utf-8")
    models = {}
    for name, (model, steps) in KINDS.items():
        (folder / f"{name}.toml").write_text(CHINESE.format(out=f"runs/{name}", model=model, steps=steps), encoding="utf-8")
        run = train("translation", folder / f"{name}.toml")[1]
        about = {"about": "A toy translator.", "languages": ("zh", "en")}
        models[name] = folder / "packed" / name
        pack(run, models[name], about, scores={"toy test": _scored(run, pairs["zh-test"])})
    return models


def changed(model: Path, folder: Path) -> Path:
    """A copy of a packed model, its weights not the ones its card tells of: the last byte is another."""
    import shutil

    shutil.copytree(model, folder)
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    return folder


def _sentence(dice: Random) -> tuple[str, str]:
    what = dice.sample(list(WHAT), dice.choice((1, 1, 2, 3)))
    who, do = dice.choice(list(WHO)), dice.choice(list(DO))
    return f"{who}{do}{'和'.join(what)}。", f"{WHO[who]} {DO[do]} {' and '.join(WHAT[one] for one in what)} ."


def _scored(run: Path, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """What the card keeps of an evaluation."""
    from regard.training import metrics
    from regard.training.tasks.translation import Translations

    opened = Translations.open(run)
    outputs = [beams[0].text for beams in opened.candidates([zh for zh, _ in pairs], width=1)]
    references, lengths = [en for _, en in pairs], [len(row) for row in opened.encode([zh for zh, _ in pairs])]
    rows = [metrics.as_dict(row) for row in metrics.by_length(outputs, references, lengths, rows=3)]
    return {"scores": [metrics.as_dict(metrics.bleu(outputs, references))], "by_length": rows}
