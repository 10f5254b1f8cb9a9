"""Write files/ and expected/ anew with the code that is installed: what users have on disk, and what came out of it.

    OMP_NUM_THREADS=1 python tests/saved/make.py

Do NOT run this because a test of test_saved.py fails: the files stand for what users wrote with an earlier version, and must be
opened by every later one. Run it into an empty folder (`make.py FOLDER`) and copy what is new when something new can be written to
disk, so that the old files stay. Everything follows from fixed seeds. Only public names and the command line are used.

files/training    inputs, a TOML file and a run for every task, each run stopped by a signal
files/models      folders of `save_folder`
files/home        models added with `regard models add`: $REGARD_HOME of a user
files/sightings   sightings as `save` writes them
files/examples    what `regard train TASK --example` printed
files/layers.safetensors   state_dicts of layers, scores and biases
files/table.csv   for `regard fit`
expected          what reopen.py says of each
"""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from random import Random

import reopen
import torch
from reopen import regard
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

import regard as library
from regard import models, sight
from regard.layers import Rotary

TASKS = ("translation", "lm", "mlm", "classify", "reader")
STOP = 24  # the step after which the runs are interrupted

TRAINING = """
[training]
steps = 36
rate = 2e-2
warmup = 5
evaluate_every = 12
checkpoint_every = 30
log_every = 10
keep = 1
seed = {seed}
{more}"""

CONFIGS = {
    "translation-fixed": """
[data]
train = "letters-train.tsv"
valid = "letters-valid.tsv"
batch_tokens = 60
[source]
kind = "word"
lowercase = true
[target]
kind = "word"
[model]
kind = "fixed"
embedding = 6
state = 8
dropout = 0.2
[decoding]
beam = 2
max_length = 8
""",
    "translation-bahdanau": """
[data]
train = "chinese.tsv"
held_out = 0.2
batch_tokens = 60
[source]
kind = "char"
simplify = true
[target]
kind = "bpe"
size = 60
[model]
kind = "bahdanau"
embedding = 8
state = 12
alignment = 5
dropout = 0.2
[decoding]
beam = 2
max_length = 12
""",
    "translation-bilinear": """
[data]
train = "letters.jsonl"
valid = "letters-valid.jsonl"
keys = ["in", "out"]
batch_tokens = 60
[source]
kind = "word"
[target]
kind = "shared"
[model]
kind = "bahdanau"
embedding = 6
state = 6
score = "bilinear"
query = "current"
dropout = 0.0
tied = false
[decoding]
beam = 2
max_length = 8
""",
    "translation-transformer": """
[data]
train = ["numbers.source", "numbers.target"]
held_out = 0.1
batch_tokens = 80
[source]
kind = "bpe"
size = 40
[target]
kind = "shared"
[model]
kind = "transformer"
d_model = 8
heads = 2
kv_heads = 1
hidden = 12
encoder_layers = 1
decoder_layers = 2
dropout = 0.1
attention_dropout = 0.1
context = 32
[decoding]
beam = 2
max_length = 12
tokenize = "none"
""",
    "lm": """
[data]
train = "rhyme.txt"
batch = 4
[vocabulary]
kind = "char"
[model]
d_model = 8
heads = 2
layers = 2
context = 16
hidden = 12
dropout = 0.1
attention_dropout = 0.1
""",
    "lm-rotary": """
[data]
train = "rhyme.txt"
valid = "rhyme-valid.txt"
batch = 3
[vocabulary]
kind = "bpe"
size = 50
[model]
d_model = 8
heads = 2
kv_heads = 1
layers = 2
context = 12
hidden = 10
norm = "rms"
activation = "swiglu"
positions = "rotary"
bias = false
window = 6
tied = false
""",
    "mlm": """
[data]
train = "rhyme.txt"
valid = "rhyme-valid.txt"
batch_tokens = 60
rate = 0.3
[vocabulary]
kind = "unigram"
size = 60
[model]
d_model = 8
heads = 2
layers = 1
context = 24
hidden = 12
dropout = 0.1
""",
    "classify": """
[data]
train = "topics-train.tsv"
valid = "topics-valid.tsv"
batch_tokens = 80
""",
    "classify-scratch": """
[data]
train = "topics-train.jsonl"
valid = "topics-valid.jsonl"
batch_tokens = 60
[vocabulary]
kind = "word"
lowercase = true
[model]
d_model = 8
heads = 2
layers = 1
context = 16
hidden = 12
placement = "pre"
positions = "sinusoidal"
norm = "rms"
""",
    "reader": """
[data]
train = "stories.txt"
held_out = 6
batch = 8
first = 0.5
grow = 2
[model]
attention = "hard"
hops = 2
width = 6
state = 6
draws = 4
""",
    "reader-soft": """
[data]
train = "stories.txt"
valid = "stories-valid.txt"
batch = 8
[model]
attention = "soft"
width = 6
state = 6
""",
}

# Settings beside those all runs have: schedules, accumulated batches, averaged checkpoints, other measures of the best.
MORE = {
    "translation-fixed": 'metric = "chrf"\nclip = 0.5\n',
    "translation-bahdanau": "checkpoint_every = 10\nkeep = 2\naverage = 2\nsteps = 30\nrate = 4e-2\n",
    "translation-transformer": 'accumulate = 2\nschedule = "cosine"\nfloor = 0.1\nsmoothing = 0.1\nweight_decay = 0.1\n',
    "lm-rotary": 'schedule = "inverse-sqrt"\nbetas = [0.9, 0.99]\npatience = 5\n',
    "mlm": 'metric = "accuracy"\n',
    "classify": 'start = "mlm"\n',
    "classify-scratch": "steps = 0\nepochs = 20\n",
}


# What the models are trained on


def inputs(folder: Path) -> None:
    dice = Random(7)
    letters = [dice.choices("abcdef", k=dice.randint(2, 5)) for _ in range(40)]
    pairs = [(" ".join(row), " ".join(reversed(row))) for row in letters]
    for name, rows in (("train", pairs[:30]), ("valid", pairs[30:])):
        _write(folder / f"letters-{name}.tsv", [f"{a}\t{b}" for a, b in rows])
    _write(folder / "letters.jsonl", [json.dumps({"in": a, "out": b}) for a, b in pairs[:25]])
    _write(folder / "letters-valid.jsonl", [json.dumps({"in": a, "out": b}) for a, b in pairs[25:30]])
    who, does = {"我": "I", "你": "you", "他": "he", "她": "she"}, {"爱": "love", "看": "see", "有": "have"}
    what = {"中国": "China", "书": "books", "茶": "tea", "猫": "cats"}
    chinese = [(f"{a}{b}{c}。", f"{who[a]} {does[b]} {what[c]} .") for a in who for b in does for c in what]
    _write(folder / "chinese.tsv", [f"{a}\t{b}" for a, b in dice.sample(chinese, 36)])
    words = ["one", "two", "three", "four", "five"]
    numbers = [dice.choices(words, k=dice.randint(2, 5)) for _ in range(40)]
    _write(folder / "numbers.source", [" ".join(row) for row in numbers])
    _write(folder / "numbers.target", [" ".join(reversed(row)) for row in numbers])

    def line() -> str:
        names, verbs, places = ["cat", "dog", "bird", "child"], ["sat", "ran", "slept"], ["mat", "tree", "house"]
        return f"the {dice.choice(names)} {dice.choice(verbs)} {dice.choice(['on', 'by'])} the {dice.choice(places)} ,"

    _write(folder / "rhyme.txt", [line() for _ in range(30)])
    _write(folder / "rhyme-valid.txt", [line() for _ in range(6)])
    animals, foods = ["the cat ran", "a dog slept", "the bird sat by the tree"], ["we had tea", "the bread was good", "a tea and bread"]
    topics = [(dice.choice(animals), "animal") if dice.random() < 0.5 else (dice.choice(foods), "food") for _ in range(30)]
    for name, part in (("train", topics[:24]), ("valid", topics[24:])):
        _write(folder / f"topics-{name}.tsv", [f"{text}\t{label}" for text, label in part])
        _write(folder / f"topics-{name}.jsonl", [json.dumps({"text": text, "label": label}) for text, label in part])
    _write(folder / "stories.txt", _stories(dice, 12))
    _write(folder / "stories-valid.txt", _stories(dice, 3))


def _stories(dice: Random, count: int) -> list[str]:
    people, places = ["Mary", "John", "Anna", "Paul"], ["kitchen", "garden", "office", "hall", "park"]
    lines = []
    for _ in range(count):
        last: dict[str, tuple[str, int]] = {}
        number = 0
        for _ in range(2):
            for _ in range(2):
                number += 1
                person, place = dice.choice(people), dice.choice(places)
                last[person] = (place, number)
                lines.append(f"{number} {person} went to the {place}.")
            number += 1
            person = dice.choice(sorted(last))
            lines.append(f"{number} Where is {person}? \t{last[person][0]}\t{last[person][1]}")
    return lines


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


# Runs


class _Stopping(io.StringIO):
    """Standard output that sends this process a signal when a step's scores are printed, before the step's checkpoint is written."""

    def write(self, text: str) -> int:
        if f"step {STOP} " in text:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().write(text)


def runs(folder: Path) -> None:
    for number, (name, config) in enumerate(CONFIGS.items()):
        settings = {}
        for row in (TRAINING.format(seed=number, more=MORE.get(name, ""))).splitlines():
            settings[row.split(" = ")[0]] = row  # a later line takes the place of an earlier one
        start = settings.pop("start", "")
        _write(folder / f"{name}.toml", [f'out = "{name}"', start, *config.splitlines(), *settings.values()])
        told = regard("train", reopen.RUNS[name].task, folder / f"{name}.toml", out=_Stopping())
        assert f"stopped at step {STOP}" in told, told


def home(folder: Path, training: Path) -> None:
    """Runs and a folder of weights, added under names; the cards say more than `add` can know, as the shipped ones do."""
    os.environ["REGARD_HOME"] = str(folder)
    added = {
        "numbers": "translation-transformer",
        "letters": "translation-bahdanau",
        "rhyme": "lm",
        "topics": "classify",
        "stories": "reader",
    }
    for name, run in added.items():
        regard("models", "add", training / run, "--name", name)
        scores = {}
        if tests := [word for file in reopen.RUNS[run].test for word in ("--test", training / file)]:
            scores = {"its own data": json.loads(regard("evaluate", reopen.RUNS[run].task, name, *tests, "--json"))}
        _tell(folder / "models" / name, comes_from=f"training/{run}", scores=scores)
    regard("models", "add", folder.parent / "models" / "gpt", "--name", "alphabet")
    _tell(folder / "models" / "alphabet", comes_from="models/gpt")
    data = [{"name": "numbers.source, numbers.target", "licence": "Apache-2.0", "attribution": "made by make.py"}]
    told = {"about": "Says number words backwards.", "languages": ["eo", "eo"], "licence": "Apache-2.0", "data": data}
    _tell(folder / "models" / "numbers", **told, command=["regard train translation translation-transformer.toml"], limits=["Untrained."])


def _tell(folder: Path, **about: object) -> None:
    """Change what a card tells, and write its page again. `add` notes where a model was copied from: a path of this machine."""
    card = json.loads((folder / "card.json").read_text(encoding="utf-8")) | about
    (folder / "card.json").write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "MODEL.md").write_text(regard("models", "show", folder.name), encoding="utf-8")


# Models and layers


def saved_models(folder: Path) -> None:
    torch.manual_seed(0)
    small = {"vocabulary": 28, "d_model": 8, "heads": 2, "layers": 1, "context": 16, "hidden": 12}
    gpt = _sharp(models.Gpt(models.GptConfig(**small)))
    gpt.save_folder(folder / "gpt")
    _tokenizer(folder / "gpt" / "tokenizer.json")
    rotary = Rotary(base=500.0, fraction=0.5, scaling="llama3", factor=2.0, original=8)
    options = {
        "positions": "rotary",
        "rotary": rotary,
        "kv_heads": 1,
        "norm": "rms",
        "activation": "swiglu",
        "bias": False,
        "qkv_bias": True,
    }
    windows = {"layers": 2, "window": 4, "window_layers": (1,), "tied": False}
    _sharp(models.Gpt(models.GptConfig(**small | options | windows))).save_folder(folder / "gpt-rotary")
    _sharp(models.Bert(models.BertConfig(**small))).save_folder(folder / "bert")
    plain = models.Bert(models.BertConfig(**small, types=0, masked=False))
    _sharp(models.BertClassifier(plain, 3, dropout=0.2)).save_folder(folder / "classifier")
    words = {"source_vocabulary": 28, "target_vocabulary": 28, "d_model": 8, "heads": 2, "hidden": 12, "context": 16}
    config = models.TransformerConfig(**words, encoder_layers=1, decoder_layers=2, shared=True)
    _sharp(models.Transformer(config)).save_folder(folder / "transformer")


def _sharp(model: nn.Module) -> nn.Module:
    """Untrained weights are small, so that everything comes out alike; larger ones, and biases that are not 0, tell parts apart."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def _tokenizer(path: Path) -> None:
    from tokenizers import Regex, Tokenizer, pre_tokenizers
    from tokenizers import models as kinds

    letters = {letter: i for i, letter in enumerate("?abcdefghijklmnopqrstuvwxyz ")}
    tokenizer = Tokenizer(kinds.WordLevel(letters, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.save(str(path))


def saved_layers(path: Path) -> dict[str, object]:
    torch.manual_seed(1)
    tensors, outputs = {}, {}
    for name in reopen.layer_names():
        layer = _sharp(reopen.new_layer(name))
        # A tensor with two names is stored once under each, as torch.save would.
        tensors |= {f"{name}/{key}": value.clone() for key, value in layer.state_dict().items()}
        outputs[name] = reopen.layer_output(name, layer)
    save_file(tensors, path)
    return outputs


# Sightings


class _Own(nn.Module):
    """Attention of torch with an additive bias and a scale of its own, and one written out by hand, which cannot be seen."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.maps(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)  # (B, h, L, 4) each
        distance = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=-distance.abs() / 3.0, scale=0.7)
        by_hand = (q @ k.mT).softmax(-1) @ v
        return out + by_hand


def saved_sightings(folder: Path, training: Path) -> None:
    folder.mkdir()
    torch.manual_seed(2)
    small = {"d_model": 8, "heads": 2, "hidden": 12, "context": 24}
    gpt = _sharp(models.Gpt(models.GptConfig(vocabulary=20, layers=2, positions="rotary", window=5, window_layers=(1,), **small)))
    ids = torch.tensor([[1, 5, 9, 5, 2, 7, 5, 3]])
    here = torch.arange(8)
    every = [library.At(here - 1), library.Same(ids), library.Rows([0, -1]), library.TopK(2), library.Pooled(4, 4)]
    every += [reading for reading in sight.default_readings() if reading.name not in ("top", "pooled")]
    tokens = [["<s>", "▁the", "▁cat", "▁the", "我", "▁sat", "▁the", "."]]
    with torch.no_grad(), library.watch(gpt, every, tokens=tokens) as seen:
        gpt(ids)
    seen.with_labels(library.label_heads(gpt, length=8)).save(folder / "gpt.safetensors")
    with torch.no_grad(), library.watch(gpt, layers=[1], heads=[1]) as seen:  # three calls, one with a cache, of one head
        gpt.generate(ids[:, :4], max_new=3, temperature=0)
    seen.save(folder / "gpt-generating.safetensors", kept=False)
    words = {"source_vocabulary": 20, "target_vocabulary": 20}
    both = _sharp(models.Transformer(models.TransformerConfig(encoder_layers=1, decoder_layers=1, **words, **small)))
    with torch.no_grad(), library.watch(both, [library.Entropy(), library.TopK(2), library.Received()], proof="full") as seen:
        both(torch.tensor([[5, 6, 7, 8], [9, 4, 0, 0]]), torch.tensor([4, 2]), ids[:, :3].expand(2, -1))
    seen.tokens, seen.source_tokens = [["a", "b", "c"]] * 2, [["我", "爱", "中", "国"], ["你", "好", "", ""]]
    seen.save(folder / "transformer.safetensors")
    own = _sharp(_Own())
    with torch.no_grad(), library.watch(own, [library.Entropy(), library.MaxLogit(), library.ValueNorm()]) as seen:
        own(torch.linspace(-1, 1, 40).mul(9).sin().view(1, 5, 8))
    seen.save(folder / "bias-and-missed.safetensors")
    for name in ("translation-bahdanau", "reader", "classify"):  # an additive score, a pick, an encoder
        regard("look", training / name, "--text", reopen.RUNS[name].text, "--no-baseline", "--out", folder / f"{name}.safetensors")
    for path in sorted(folder.glob("*.safetensors")):
        library.Sighting.load(path).save(path.with_suffix(".json"))


def table(path: Path) -> None:
    dice = Random(3)
    rows = [(dice.uniform(0, 6), dice.uniform(0, 1)) for _ in range(40)]
    _write(path, ["x,z,y", *(f"{x:.4f},{z:.4f},{math.sin(x) + 0.1 * z:.5f}" for x, z in rows)])


def record(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def main(root: Path) -> None:
    reopen.FILES, reopen.EXPECTED = root / "files", root / "expected"
    reopen.TRAINING = training = root / "files" / "training"
    files, expected = reopen.FILES, reopen.EXPECTED
    for folder in (files, expected):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    training.mkdir()
    os.environ["REGARD_HOME"] = str(root / "nothing-here")
    inputs(training)
    runs(training)
    saved_models(files / "models")
    home(files / "home", training)
    saved_sightings(files / "sightings", training)
    table(files / "table.csv")
    (files / "examples").mkdir()
    for task in TASKS:
        (files / "examples" / f"{task}.toml").write_text(regard("train", task, "--example"), encoding="utf-8")

    record(expected / "layers.json", saved_layers(files / "layers.safetensors"))
    record(expected / "models.json", reopen.saved_models())
    record(expected / "vocabularies.json", reopen.vocabularies())
    record(expected / "fit.json", json.loads(regard("fit", files / "table.csv", "--target", "y", "--json")))
    for name in reopen.sightings():
        record(expected / f"sighting-{name}.json", reopen.sighting(files / "sightings" / f"{name}.safetensors"))
    with tempfile.TemporaryDirectory() as scratch:
        for name, run in reopen.RUNS.items():
            if run.task != "mlm":  # it can be gone on with and started from, but not yet opened
                record(expected / f"asked-{name}.json", reopen.asked(name, Path(scratch)))
        for name in reopen.RUNS:
            copy = Path(scratch) / name
            shutil.copytree(training, copy)
            record(expected / f"resumed-{name}.json", reopen.resumed(name, copy))
            save_file(reopen.last_weights(copy / name), expected / f"resumed-{name}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent))
