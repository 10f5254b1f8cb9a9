"""The --device option, shared by the commands that run a model."""

from __future__ import annotations

from typing import Annotated

import typer


def check_device(name: str) -> str:
    """Return the name, or raise an error for a device that torch does not know or this machine does not have."""
    if name == "cpu":
        return name  # without importing torch
    import torch

    available = ["cpu", *(kind for kind in ("cuda", "mps") if getattr(torch, kind).is_available())]
    if name.partition(":")[0] not in available:
        raise typer.BadParameter(f"{name!r} is not available; torch finds {', '.join(available)} on this machine")
    return name


Device = Annotated[str, typer.Option("--device", help="cpu, cuda or mps", callback=check_device)]
