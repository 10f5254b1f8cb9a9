"""`regard demo`: the statements of the mechanism, each drawing itself."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Which demonstration; `regard demo list` names them all.")] = "fluffy",
) -> None:
    """Show a statement of the attention mechanism, computed and drawn: a hand-built head unless you name another."""
    from regard.demos import DEMOS, play

    if name == "list":
        width = max(map(len, DEMOS))
        for key, line in DEMOS.items():
            print(f"{key:{width}}  {line}")
        return
    try:
        play(name, context.args)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
