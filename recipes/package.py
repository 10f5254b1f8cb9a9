r"""Package a finished run as a shipped model with its card.

    python recipes/package.py zh-en-transformer runs/zh-en-transformer \
        --test "held out=data/zh-en/test.tsv" --test "3AM=data/zh-en/3am-test.tsv"

The descriptive fields of the card (data, licence, limits) are in recipes/cards.toml under the model's name. Its scores are measured here:
every --test LABEL=FILE (or FILE,FILE for two parallel files) is evaluated with the packaged half-precision weights, and the first one also
with the run's own weights, for comparison. The first is the card's main score: of two translators of a language `regard translate` uses the
one whose first BLEU is higher, so use the same test set for both. --scores LABEL=evaluation.json reads an existing output of
`regard evaluate --json` on the packaged weights.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from regard.zoo.card import Data, first_score
from regard.zoo.catalog import SOURCE_TREE, task_of
from regard.zoo.packing import pack, write_card

CARDS = Path(__file__).with_name("cards.toml")


def description(name: str) -> dict[str, Any]:
    """Return the fields of a model's card that are in cards.toml."""
    cards = tomllib.loads(CARDS.read_text(encoding="utf-8"))
    if name not in cards:
        sys.exit(f"{CARDS.name} has no table [{name}]; it has {', '.join(key for key in cards if key != 'data')}")
    fields = cards[name]
    fields["command"] = [f"python recipes/remake.py {name} --data DATA   # does all that follows", *fields["command"]]
    fields["data"] = tuple(Data(**cards["data"][key]) for key in fields.get("data", ()))
    return {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}


def evaluate(task: str, folder: Path, files: str) -> dict[str, Any]:
    """Return the output of `regard evaluate --json` in a process of its own."""
    tests = [part for file in files.split(",") for part in ("--test", file)]
    command = [sys.executable, "-m", "regard", "evaluate", task, str(folder), *tests, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{result.stderr}")
    return dict(json.loads(result.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("run", type=Path)
    parser.add_argument("--test", action="append", default=[], metavar="LABEL=FILE")
    parser.add_argument("--scores", action="append", default=[], metavar="LABEL=JSON")
    parser.add_argument(
        "--out", type=Path, default=SOURCE_TREE, help="folder in which the model's folder is created (default: that of the shipped models)"
    )
    arguments = parser.parse_args()
    folder = arguments.out / arguments.name
    card = pack(arguments.run, folder, description(arguments.name))
    task = task_of(folder)
    scores: dict[str, dict[str, Any]] = {}
    for number, item in enumerate(arguments.test):
        label, _, files = item.partition("=")
        scores[label] = evaluate(task, folder, files)
        before = f", before halving {first_score(evaluate(task, arguments.run, files))}" if not number else ""
        print(f"{label}: {first_score(scores[label])}{before}", flush=True)
    for item in arguments.scores:
        label, _, file = item.partition("=")
        scores[label] = json.loads(Path(file).read_text(encoding="utf-8"))
    write_card(folder, dataclasses.replace(card, scores=scores))
    print(f"{sum(f.stat().st_size for f in folder.iterdir()) / 1e6:.1f} MB in {folder}")


if __name__ == "__main__":
    main()
