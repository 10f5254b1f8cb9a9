r"""Turn a finished run into a shipped model with its card.

    python recipes/package.py zh-en-transformer runs/zh-en-transformer \
        --test "held out=data/zh-en/test.tsv" --test "3AM=data/zh-en/3am-test.tsv"

What the card tells (data, licence, limits) stands in recipes/cards.toml under the model's name. What it reports is measured here: every
--test LABEL=FILE (or FILE,FILE for two parallel files) is evaluated with the packed half-precision weights; the first one also with the
run's own weights, printed beside. The first is the card's headline, and of two translators of a language `regard translate` takes the one
whose first BLEU is higher, so let it be the same test set for both. --scores LABEL=evaluation.json takes what `regard evaluate --json`
already said of the packed weights.
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
from regard.zoo.catalog import SHIPPED, task_of
from regard.zoo.packing import pack, write_card

CARDS = Path(__file__).with_name("cards.toml")


def told(name: str) -> dict[str, Any]:
    """What cards.toml says of a model."""
    cards = tomllib.loads(CARDS.read_text(encoding="utf-8"))
    if name not in cards:
        sys.exit(f"{CARDS.name} has no table [{name}]; it has {', '.join(key for key in cards if key != 'data')}")
    about = cards[name]
    about["command"] = [f"python recipes/remake.py {name} --data DATA   # does all that follows", *about["command"]]
    about["data"] = tuple(Data(**cards["data"][key]) for key in about.get("data", ()))
    return {key: tuple(value) if isinstance(value, list) else value for key, value in about.items()}


def evaluate(task: str, folder: Path, files: str) -> dict[str, Any]:
    tests = [part for file in files.split(",") for part in ("--test", file)]
    command = [sys.executable, "-m", "regard", "evaluate", task, str(folder), *tests, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("run", type=Path)
    parser.add_argument("--test", action="append", default=[], metavar="LABEL=FILE")
    parser.add_argument("--scores", action="append", default=[], metavar="LABEL=JSON")
    parser.add_argument("--out", type=Path, default=SHIPPED, help="the folder the model's folder is put into (default: the package's)")
    given = parser.parse_args()
    folder = given.out / given.name
    card = pack(given.run, folder, told(given.name))
    task = task_of(folder)
    scores: dict[str, dict[str, Any]] = {}
    for number, item in enumerate(given.test):
        label, _, files = item.partition("=")
        scores[label] = evaluate(task, folder, files)
        beside = f", before halving {first_score(evaluate(task, given.run, files))}" if not number else ""
        print(f"{label}: {first_score(scores[label])}{beside}", flush=True)
    for item in given.scores:
        label, _, file = item.partition("=")
        scores[label] = json.loads(Path(file).read_text(encoding="utf-8"))
    write_card(folder, dataclasses.replace(card, scores=scores))
    print(f"{sum(f.stat().st_size for f in folder.iterdir()) / 1e6:.1f} MB in {folder}")


if __name__ == "__main__":
    main()
