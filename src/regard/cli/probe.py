"""`regard probe MODEL FILE`: what each layer of an encoder holds, by a linear classifier on its vectors."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .boundary import wrong_arguments
from .options import LARGEST, LARGEST_SEED, Device, within

if TYPE_CHECKING:
    from ..text.pairs import Pair


def probe(
    model: Annotated[str, typer.Argument(help="a run of `regard train classify` or `mlm`, a BERT folder, or a name from `regard models`")],
    file: Annotated[Path, typer.Argument(help="texts and labels, separated by tabs (or .jsonl)", exists=True, dir_okay=False)],
    against: Annotated[
        list[str] | None, typer.Option("--against", metavar="<str>", help="another encoder to compare with; may be repeated")
    ] = None,
    columns: Annotated[
        tuple[int, int] | None,
        typer.Option("--columns", metavar="<int> <int>", help="columns of the text and of the label, counted from 0 (default: by content)"),
    ] = None,
    texts: Annotated[int, typer.Option("--texts", help="use at most this many texts, 20 or more", callback=within(20, LARGEST))] = 4000,
    figure: Annotated[Path | None, typer.Option("--figure", help="draw accuracy by layer: .svg, .png or .pdf")] = None,
    seed: Annotated[int, typer.Option("--seed", help="seed of the untrained encoder", callback=within(0, LARGEST_SEED))] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object instead of a table")] = False,
    device: Device = "cpu",
) -> None:
    """Train a logistic regression on the mean vector of every layer and print its accuracy on a quarter of the texts.

    An untrained encoder of the same shape is always compared, because even random layers keep much of the words; of a classifier, the
    encoder it was trained from is compared too, if it is still there.
    """
    from ..sight import probe as probing
    from ..zoo import locate

    with wrong_arguments():
        if figure:
            from ..plotting import figure_file

            figure_file(figure)
        train, test = split(read_labelled(file, columns), texts)
        paths = {name: locate(name) for name in (model, *(against or ()))}
        if (start := start_of(paths[model])) is not None and start not in paths:
            paths[start] = locate(start)
        probes = [_probe(name, path, train, test, device) for name, path in paths.items()]
        bert, text, context = _encoder(paths[model], device)
        probes.append(probing.probe("untrained", probing.untrained(bert, seed=seed), text, train, test, context=context))
        counts = Counter(pair.target for pair in test)
        majority = 100.0 * counts.most_common(1)[0][1] / len(test)
        if figure:
            probing.draw(probes, figure, majority=majority)
    if as_json:
        result = {"train": len(train), "test": len(test), "majority": majority, "layers": {p.name: p.accuracy for p in probes}}
        sys.stdout.write(json.dumps(result, ensure_ascii=False) + "\n")
        return
    sys.stdout.write(f"{len(train):,} training and {len(test):,} test texts; the most frequent label is right in {majority:.1f} %\n")
    sys.stdout.write(probing.table(probes) + "\n")


def read_labelled(file: Path, columns: tuple[int, int] | None) -> list[Pair]:
    """Read texts (source) and labels (target)."""
    from ..text.pairs import read_pairs
    from ..training.tasks.classify import text_and_label_columns

    if file.suffix == ".jsonl":
        return read_pairs(file, keys=("text", "label"))
    return read_pairs(file, columns=text_and_label_columns(file) if columns is None else columns)


def split(pairs: list[Pair], most: int) -> tuple[list[Pair], list[Pair]]:
    """Split texts into three quarters for training and one for the test, by a hash of the text; the order of the file does not matter."""
    from ..training.tasks.classify import shuffled

    chosen = shuffled(list({pair.source: pair for pair in pairs}.values()))[:most]
    cut = len(chosen) * 3 // 4
    train, test = chosen[:cut], chosen[cut:]
    if len({pair.target for pair in train}) < 2 or not test:
        raise ValueError(f"{len(chosen)} texts are too few, or have one label only; give at least 20 texts with two labels")
    return train, test


def start_of(path: Path) -> str | None:
    """Return the model a classifier was trained from, if it is still there."""
    from ..files import read_json
    from ..zoo import find

    file = path / "run.json"
    start = read_json(file).get("config", {}).get("start") if file.is_file() else None
    if not isinstance(start, str):
        return None
    try:
        find(start)
    except ValueError:
        return None
    return start


def _encoder(path: Path, device: str) -> tuple[Any, Any, int]:
    from ..training.tasks.classify import load_encoder

    bert, text = load_encoder(path)
    return bert.to(device), text, bert.config.context


def _probe(name: str, path: Path, train: list[Pair], test: list[Pair], device: str) -> Any:
    from ..sight.probe import probe as run

    bert, text, context = _encoder(path, device)
    return run(Path(name).name, bert, text, train, test, context=context)
