"""What several commands share: how `--help` shows them, the option for the device, and limits of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

LARGEST = 10**9  # of counts that have no other limit
LARGEST_BEAM = 1000
LARGEST_SEED = 2**63 - 1


def check_device(name: str) -> str:
    """Return the name, or raise an error for a device that torch does not know or this machine does not have."""
    if name == "cpu":
        return name  # without importing torch
    import torch

    available = ["cpu", *(kind for kind in ("cuda", "mps") if getattr(torch, kind).is_available())]
    if name.partition(":")[0] not in available:
        raise typer.BadParameter(f"{name!r} is not available; torch finds {', '.join(available)} on this machine")
    try:
        torch.empty(0, device=name)
    except (RuntimeError, ValueError, AssertionError) as error:
        raise typer.BadParameter(f"{name!r} is not a device of this machine ({error})") from error
    return name


def check_finite(value: float | None) -> float | None:
    """Return a number, or raise an error if it is infinite or not a number, for which no comparison holds."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number")
    return value


def within(least: float, most: float) -> Callable[[Any], Any]:
    """Return the callback of a number option that must be between two numbers. Unlike typer's `min` and `max` it is not shown by `--help`,
    where most upper limits only say that a count has one; a limit that a user should know is named in the option's help.

    >>> within(1, 10)(5)
    5
    """

    def check(value: Any) -> Any:
        if check_finite(value) is not None and not least <= value <= most:
            limit = f"small; give {least:,} or more" if value < least else f"large; give {most:,} or less"
            raise typer.BadParameter(f"{value} is too {limit}")
        return value

    return check


Device = Annotated[str, typer.Option("--device", help="cpu, cuda or mps", callback=check_device)]


class _PlainHelp:
    """Names arguments in capitals, as the help texts do, and leaves out `<bool>`, which is nothing that can be typed.

    Each paragraph of the text is one line, so that the terminal's width wraps it and not the source's.
    """

    def __init__(self, *args: Any, help: str | None = None, **options: Any) -> None:
        text = help and "\n\n".join(" ".join(part.split()) for part in help.split("\n\n"))
        super().__init__(*args, help=text, **options)  # type: ignore[call-arg]

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if param.metavar is None and param.param_type_name == "argument":
                param.metavar = param.name.upper()
            elif param.metavar is None and param.is_flag:
                param.metavar = ""
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line; typer puts a required argument in braces, which elsewhere enclose a choice."""
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [piece.replace("{", "").replace("}", "") for piece in pieces]


class Command(_PlainHelp, TyperCommand):
    """A command."""


class Group(_PlainHelp, TyperGroup):
    """A command with subcommands."""
