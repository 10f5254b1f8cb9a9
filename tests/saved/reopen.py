"""Open what is in files/ through public names and the command line alone, and say as plain numbers and texts what comes out.

`make.py` records what these functions return, `test_saved.py` compares what they return later. Nothing here knows where inside the
package a thing is implemented.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file

import regard as library
from regard import layers, models, zoo
from regard.cli import main
from regard.text import Vocabulary

FILES = Path(__file__).parent / "files"
EXPECTED = Path(__file__).parent / "expected"
TRAINING = FILES / "training"


@dataclasses.dataclass(frozen=True)
class Run:
    """A run in files/training: its task, the file it is evaluated on, and a text it is asked about."""

    task: str
    test: tuple[str, ...]
    text: str


RUNS = {
    "translation-fixed": Run("translation", ("letters-valid.tsv",), "a b c d"),
    "translation-bahdanau": Run("translation", ("chinese.tsv",), "我愛中國。"),
    "translation-bilinear": Run("translation", ("letters.jsonl",), "c a d"),
    "translation-transformer": Run("translation", ("numbers.source", "numbers.target"), "three one two"),
    "lm": Run("lm", ("rhyme.txt",), "the cat "),
    "lm-rotary": Run("lm", ("rhyme.txt",), "the dog sat"),
    "mlm": Run("mlm", (), "the cat sat"),
    "classify": Run("classify", ("topics-valid.tsv",), "the cat ran to the dog"),
    "classify-scratch": Run("classify", ("topics-valid.jsonl",), "the tea and the bread"),
    "reader": Run("reader", ("stories.txt",), "Mary went to the garden. John went to the office. Where is Mary?"),
    "reader-soft": Run("reader", ("stories.txt",), "Anna went to the park. Paul went to the hall. Where is Paul?"),
}

# A model in files/home → the run that was added under this name.
ADDED = {"numbers": "translation-transformer", "letters": "translation-bahdanau", "rhyme": "lm", "topics": "classify", "stories": "reader"}


def regard(*words: object, out: io.StringIO | None = None) -> str:
    """What `regard WORDS…` prints; an error if it does not succeed."""
    out = io.StringIO() if out is None else out
    before, sys.argv = sys.argv, ["regard", *map(str, words)]
    try:
        with contextlib.redirect_stdout(out):
            main()
    except SystemExit as leaving:
        if leaving.code:
            raise AssertionError(f"regard {' '.join(map(str, words))} ended with {leaving.code}: {out.getvalue()}") from leaving
    finally:
        sys.argv = before
    return out.getvalue()


# Runs


def resumed(name: str, folder: Path) -> dict[str, Any]:
    """What a run of `folder` (a copy of files/training) logs until its end; the run is then complete."""
    regard("train", RUNS[name].task, folder / f"{name}.toml", "--quiet")
    lines = [json.loads(line) for line in (folder / name / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    # What the model writes in its samples is shown by `asked`; the clock is of no interest.
    events = [{key: value for key, value in line.items() if key not in ("time", "samples", "crc32")} for line in lines]
    files = sorted(str(path.relative_to(folder / name)) for path in (folder / name).rglob("*") if path.is_file())
    return {"events": events, "files": files, "best": noted(folder / name / "best.safetensors")}


def noted(path: Path) -> Any:
    """The JSON in the header of a file of weights."""
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["regard"].partition("\n")[0])  # after the line end there is a checksum


def last_weights(run: Path) -> dict[str, torch.Tensor]:
    """The model's tensors in the newest checkpoint, NaN where training leaves them to chance.

    Some gradients are 0 but for rounding: of the keys' biases, and of words that all sentences share, since a softmax does not change
    when all its scores grow alike. AdamW divides by the size of the gradient and makes of that rounding a step like any other.
    """
    tensors = load_file(max((run / "checkpoints").iterdir()))
    result = {}
    for name in (name.removeprefix("model.") for name in tensors if name.startswith("model.")):
        mean_square = tensors.get(f"optimiser.{name}/exp_avg_sq", torch.zeros(()))
        result[name] = tensors[f"model.{name}"].masked_fill((mean_square > 0) & (mean_square < 1e-16), math.nan)
    return result


def asked(name: str, path: Path, model: str | Path | None = None) -> dict[str, Any]:
    """What a run (or the model of it called `model`) answers in Python and on the command line. `path` is for what is written."""
    run, model = RUNS[name], model or TRAINING / name
    tests = [word for file in run.test for word in ("--test", TRAINING / file)]
    results: dict[str, Any] = {"evaluate": json.loads(regard("evaluate", run.task, model, *tests, "--json"))}
    for score in results["evaluate"].get("scores", ()):
        score["signature"] = score["signature"].partition("|version:")[0]  # of sacrebleu as installed
    opened = None if run.task == "reader" else zoo.open(model)
    if run.task == "translation":
        best = opened.candidates([run.text], width=3, n_best=2, align=True)[0]
        results["python"] = [{"text": b.text, "score": b.score, "alignment": plain(b.alignment)} for b in best]
        results["translate"] = json.loads(regard("translate", run.text, "--model", model, "--n-best", 2, "--json"))["translations"]
    elif run.task == "lm":
        results["python"] = opened.generate(run.text, max_new=12, temperature=0)
        results["logits"] = plain(opened.model(torch.tensor([opened.encode(run.text)]))[0, -1].detach())
        options = ("--max-new", 12, "--seed", 1, "--temperature", 0.5, "--json")
        results["generate"] = json.loads(regard("generate", run.text, "--model", model, *options))["text"]
    elif run.task == "classify":
        results["python"] = opened.classify([run.text, "tea"])
    else:
        *story, question = [sentence.strip() for sentence in run.text.split(".")]
        file = path / f"{name}.txt"
        file.write_text("".join(f"{sentence}.\n" for sentence in story))
        results["read"] = json.loads(regard("read", file, "--ask", question, "--model", model, "--json"))
    if name != "translation-fixed":  # it has no attention to look at
        results["look"] = looked(model, run.text, path / f"{name}.json")
    return results


def looked(model: str | Path, text: str, out: Path) -> dict[str, Any]:
    """What `regard look` writes as JSON, without what differs from one machine to another."""
    regard("look", model, "--text", text, "--out", out, "--no-baseline", "--no-labels")
    return steady(json.loads(out.read_text(encoding="utf-8")))


def steady(summary: dict[str, Any]) -> dict[str, Any]:
    """A sighting's summary without the size of its rounding errors and the kernel that ran."""
    for call in summary["calls"]:
        call["proof"] = {"holds": call["proof"]["holds"], "rows_checked": call["proof"]["rows_checked"]}
    summary["heads"] = [{name: value for name, value in row.items() if name != "proof"} for row in summary["heads"]]
    return summary


def vocabularies() -> dict[str, Any]:
    """Every vocabulary in files/: its kind, its size, and a text there and back."""
    results = {}
    for path in sorted(FILES.rglob("*.vocabulary.json")):
        words = Vocabulary.load(path)
        ids = words.encode("The cat 我愛 a b. one")
        about = {"kind": words.kind, "size": len(words), "ids": ids, "text": words.decode(ids)}
        about["words"] = [list(dataclasses.astuple(word)) for word in words.words(ids)]
        results[path.relative_to(FILES).as_posix()] = about
    return results


# Models of `save_folder`, and layers


def saved_models() -> dict[str, Any]:
    """What each model in files/models computes."""
    ids, lengths = torch.tensor([[3, 7, 1, 9, 4], [2, 2, 8, 0, 0]]), torch.tensor([5, 3])
    folder = FILES / "models"
    with torch.no_grad():
        results = {name: plain(models.Gpt.from_folder(folder / name)(ids)) for name in ("gpt", "gpt-rotary")}
        bert = models.Bert.from_folder(folder / "bert")
        hidden = bert(ids, lengths, torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]]))
        results["bert"] = {"hidden": plain(hidden[0]), "unmasked": plain(bert.unmask(hidden[0, 1]))}
        results["classifier"] = plain(models.BertClassifier.from_folder(folder / "classifier")(ids, lengths))
        results["transformer"] = plain(models.Transformer.from_folder(folder / "transformer")(ids, lengths, ids[:, :3]))
    results["generate"] = zoo.open(folder / "gpt").generate("abc", max_new=8, temperature=0)
    for name in ("gpt", "gpt-rotary", "bert", "transformer"):
        costs = json.loads(regard("plan", "show", folder / name, "--no-roofline", "--json"))
        results[f"plan {name}"] = costs["file"] | {"path": None}
    return results


def _layers() -> dict[str, tuple[Callable[[], torch.nn.Module], Callable[[Any, torch.Tensor], Any]]]:
    """name → how the layer is made, and how it is called with x (2, 6, 8)."""

    def alone(layer: Any, x: torch.Tensor) -> Any:
        return layer(x)

    def pair(layer: Any, x: torch.Tensor) -> Any:
        return layer(x[:, :2], x)

    def score(layer: Any, x: torch.Tensor) -> Any:
        return library.attend(x[:, :2], x, x, score=layer)

    return {
        "multihead": (lambda: layers.MultiHeadAttention(8, 4, 2, rotary=True), alone),
        "multihead-cross": (lambda: layers.MultiHeadAttention(8, 2, kv_dim=8, bias=False), pair),
        "keyvalue": (lambda: layers.KeyValueAttention(library.Additive(8, 8, 5)), pair),
        "hard": (lambda: layers.HardAttention(library.Bilinear(8, 8)), lambda layer, x: pair(layer, x).output),
        "pooling": (lambda: layers.AttentionPooling(8, 2), alone),
        "gated": (lambda: layers.GatedPooling(8), alone),
        "winner": (lambda: layers.WinnerTakeAll(8), alone),
        "longformer": (lambda: layers.LongformerAttention(8, 2, 2, own_global_maps=True), lambda layer, x: layer(x, [0])),
        "linformer": (lambda: layers.LinformerAttention(8, 2, 6, 3, start="random"), alone),
        "lsh": (lambda: layers.LshAttention(8, 2, chunk=2, rounds=2), alone),
        "adaptive-span": (lambda: layers.AdaptiveSpanAttention(8, 2, 4, 2, start=0.5), alone),
        "learned": (lambda: layers.Learned(6, 8), alone),
        "factored": (lambda: library.Bilinear(8, 8, rank=3), score),
        "gaussian": (lambda: library.Gaussian(torch.ones(8) / 2, learn=True), score),
        "alibi": (lambda: library.Alibi(2), lambda layer, x: layer.tile(range(3), range(3), 3, 3)),
        "relative": (lambda: library.RelativeBias(2, 8, 16), lambda layer, x: layer.tile(range(3), range(3), 3, 3)),
    }


def layer_names() -> list[str]:
    return list(_layers())


def new_layer(name: str) -> torch.nn.Module:
    return _layers()[name][0]().eval()


def layer_output(name: str, layer: torch.nn.Module) -> Any:
    x = torch.linspace(-1, 1, 96).sin().mul(7).cos().view(2, 6, 8)
    with torch.no_grad():
        return plain(_layers()[name][1](layer, x))


# Sightings


def sightings() -> list[str]:
    return sorted(path.stem for path in (FILES / "sightings").glob("*.safetensors"))


def sighting(path: Path) -> dict[str, Any]:
    """Everything a saved sighting can be asked: its readings, labels, proof, and exact weights where queries and keys were kept."""
    loaded = library.Sighting.load(path)
    calls = []
    for seen in loaded:
        about = {"layer": seen.layer, "call": seen.call, "name": seen.name, "kind": seen.kind, "shape": list(seen.shape)}
        about |= {"head_ids": list(seen.head_ids), "query_pos": list(seen.query_pos), "key_pos": list(seen.key_pos)}
        about |= {"proof": [seen.proof.holds, seen.proof.rows_checked, seen.proof.mask], "labels": plain(seen.labels)}
        about["readings"] = {name: plain(value) for name, value in seen.readings.items()}
        heads = [seen.head(i) for i in seen.head_ids]
        about["tiles"] = None if seen.kept is None else [plain(head.tile(rows=slice(0, 4), cols=slice(0, 6))) for head in heads]
        visible = None if seen.mask is None else seen.mask.tile(seen.query_pos, seen.key_pos, len(seen.query_pos), len(seen.key_pos))
        about["mask"] = visible if isinstance(visible, str) else plain(visible)
        calls.append(about)
    top = {"model": loaded.model, "tokens": loaded.tokens, "source_tokens": loaded.source_tokens, "missed": plain(loaded.missed)}
    return top | {"layers": loaded.layers, "kept_bytes": loaded.kept_bytes, "calls": calls}


# Plain values


def plain(value: Any) -> Any:
    """Tensors as lists, tuples with names as dictionaries, six digits of every number."""
    if isinstance(value, torch.Tensor):
        return plain(value.tolist())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(part) for name, part in zip(value._fields, value, strict=True)}
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    return value


def differences(found: Any, wanted: Any, *, rel: float, least: float, at: str = "") -> Iterator[str]:
    """Where two plain values differ, numbers by more than `rel` of the wanted one and more than `least`.

    Keys that only `found` has are no difference: a later version may say more.
    """
    numbers = (int, float)
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in sorted(wanted.keys() - found.keys()):
            yield f"{at}.{key}: only wanted"
        for key in wanted.keys() & found.keys():
            yield from differences(found[key], wanted[key], rel=rel, least=least, at=f"{at}.{key}")
    elif isinstance(wanted, list) and isinstance(found, list):
        if len(wanted) != len(found):
            yield f"{at}: {len(found)} items, wanted {len(wanted)}"
        for i, (one, other) in enumerate(zip(found, wanted, strict=False)):
            yield from differences(one, other, rel=rel, least=least, at=f"{at}[{i}]")
    elif isinstance(wanted, float) and isinstance(found, numbers) and not isinstance(found, bool):
        if not abs(found - wanted) <= max(least, rel * abs(wanted)):
            yield f"{at}: {found!r}, wanted {wanted!r}"
    elif found != wanted or isinstance(found, bool) is not isinstance(wanted, bool):
        yield f"{at}: {found!r}, wanted {wanted!r}"
