"""`regard demo`: a demonstration of one property of attention, computed and drawn in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from .boundary import wrong_arguments


def demo(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="the demonstration; `regard demo list` lists them")] = "fluffy",
) -> None:
    """Compute and draw one property of attention in the terminal, such as why scores are divided by √d.

    After the name: --json prints the numbers, --save FILE saves a figure,
    --plain, --colour and --light choose the colours.
    """
    from regard.demos import DEMOS, run_demo

    if name == "list":
        width = max(map(len, DEMOS))
        for demo_name, summary in DEMOS.items():
            print(f"{demo_name:{width}}  {summary}")
        return
    with wrong_arguments():
        run_demo(name, context.args)
