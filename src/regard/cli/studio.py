"""`regard studio`: the page, served to this machine alone."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer


def studio(
    port: Annotated[int | None, typer.Option("--port", help="the port; none: 8500, or the next free one", min=1, max=65535)] = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="open the page in the browser")] = True,
    model: Annotated[
        list[Path] | None, typer.Option("--model", "-m", help="a run's or a transformers model's folder, or a .gguf file")
    ] = None,
) -> None:
    """Translate, look into models, go through attention step by step, fit, and count costs: on a page on this machine."""
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise typer.BadParameter("the studio needs fastapi and uvicorn: pip install 'regard[studio]'")
    from ..studio.serving import serve

    try:
        serve(model or (), port=port, open_page=open_page, say=typer.echo)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
