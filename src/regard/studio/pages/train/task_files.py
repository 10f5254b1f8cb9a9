"""The data and config of a run that the Train page starts: an ordinary folder for `regard train translation`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

from ....files import write_text
from ....text.script import script_of
from ...request_error import RequestError
from ...runs_folder import runs_home

TASKS = ("reverse", "adjectives", "own")
HELD_OUT = 40  # pairs
NOUNS = ("cat", "dog", "cup", "tree", "house", "bird", "car", "boat")
ADJECTIVES = ("red", "blue", "soft", "big", "old", "fast", "cold", "round")
CONFIG = """\
# Written by the Train page of `regard studio`; continue it anywhere with: regard train translation config.toml
out = "."

[data]
train = "train.tsv"
valid = "valid.tsv"
batch_tokens = {batch_tokens}

[source]
kind = "{source}"

[target]
kind = "{target}"

[model]
{model}

[training]
steps = {steps}
rate = {rate}
warmup = 20
schedule = "cosine"
floor = 0.1
evaluate_every = {evaluate_every}
checkpoint_every = {checkpoint_every}
log_every = 5
keep = 100
seed = 0

[decoding]
beam = 1
max_length = 40
valid_sentences = {held_out}
"""


def reverse_pairs(count: int) -> list[tuple[str, str]]:
    """A sequence of letters, and the same in reverse: the attention must run from right to left."""
    dice = Random(0)
    rows = [dice.choices("abcdefgh", k=dice.randint(3, 9)) for _ in range(count)]
    return [(" ".join(row), " ".join(reversed(row))) for row in rows]


def adjective_pairs(count: int) -> list[tuple[str, str]]:
    """Phrases of an adjective and a noun, in any order of things; the target names each noun, then its adjective."""
    dice = Random(0)
    pairs = []
    for _ in range(count):
        things = [(dice.choice(ADJECTIVES), noun) for noun in dice.sample(NOUNS, dice.randint(2, 4))]
        pairs.append((" and ".join(f"a {adjective} {noun}" for adjective, noun in things), " ".join(f"{n} {a}" for a, n in things)))
    return pairs


def own_pairs(text: str) -> list[tuple[str, str]]:
    """The pairs of a text: one a line, source and target separated by a tab."""
    rows = [line.split("\t") for line in text.splitlines() if line.strip()]
    pairs = [(row[0].strip(), row[1].strip()) for row in rows if len(row) > 1 and row[0].strip() and row[1].strip()]
    if len(pairs) < 20:
        raise RequestError(
            "few_pairs", f"the file has {len(pairs)} pairs; give at least 20 lines of source, tab, target", count=len(pairs), least=20
        )
    return pairs


def write_run(task: str, options: dict[str, Any]) -> str:
    """Write train.tsv, valid.tsv and config.toml into a new folder; return the run's name."""
    pairs = _pairs(task, options)
    home = runs_home()
    try:
        home.mkdir(parents=True, exist_ok=True)
        taken = [int(m[1]) for folder in home.iterdir() if (m := re.fullmatch(rf"{task}-(\d+)", folder.name))]
        folder = home / f"{task}-{max(taken, default=0) + 1}"
        folder.mkdir()
        _write_files(folder, task, options, pairs)
    except OSError as error:
        raise RequestError(
            "unwritable", f"the run cannot be written to {home}: {error}; start the studio in a folder you may write to"
        ) from error
    return f"runs/{folder.name}"


def write_files(folder: Path, task: str, options: dict[str, Any]) -> None:
    """Write train.tsv, valid.tsv and config.toml into a folder."""
    _write_files(folder, task, options, _pairs(task, options))


def _pairs(task: str, options: dict[str, Any]) -> list[tuple[str, str]]:
    if task == "own":
        return own_pairs(options["pairs"])
    return reverse_pairs(3000) if task == "reverse" else adjective_pairs(3000)


def _write_files(folder: Path, task: str, options: dict[str, Any], pairs: list[tuple[str, str]]) -> None:
    held_out = min(HELD_OUT, max(2, len(pairs) // 10))
    _write_pairs(folder / "valid.tsv", pairs[:held_out])
    _write_pairs(folder / "train.tsv", pairs[held_out:])
    write_text(folder / "config.toml", _config(task, options, pairs, held_out))


def _write_pairs(path: Path, pairs: list[tuple[str, str]]) -> None:
    write_text(path, "".join(f"{source}\t{target}\n" for source, target in pairs))


def _config(task: str, options: dict[str, Any], pairs: list[tuple[str, str]], held_out: int) -> str:
    steps = options["steps"]
    kinds = ["char" if script_of(" ".join(pair[side] for pair in pairs[:500])) == "CJK" else "word" for side in (0, 1)]
    size = 128 if task == "own" else 48
    every = max(5, steps // 25)
    return CONFIG.format(
        batch_tokens=2000 if task == "own" else 900, source=kinds[0], target=kinds[1], model=_model(options, size), steps=steps,
        rate="3e-3" if options["model"] == "transformer" else "6e-3", evaluate_every=2 * every, checkpoint_every=every, held_out=held_out,
    )  # fmt: skip


def _model(options: dict[str, Any], size: int) -> str:
    """The [model] table; the switches of the page are its keys."""
    if options["model"] == "transformer":
        table: dict[str, Any] = {
            "kind": "transformer", "d_model": size, "heads": options["heads"], "encoder_layers": 1, "decoder_layers": 1,
            "positions": options["positions"], "causal": options["mask"] == "causal", "scaled": options["scaled"], "dropout": 0.0,
        }  # fmt: skip
    else:
        table = {"kind": options["model"], "embedding": size // 2, "state": size, "dropout": 0.0}
        if options["model"] == "bahdanau":
            table |= {"alignment": size, "score": options["score"]}
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items())
