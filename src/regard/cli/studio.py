"""`regard studio`: start the local web page."""

from __future__ import annotations

import os
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from .boundary import wrong_arguments
from .options import within


def studio(
    port: Annotated[
        int | None, typer.Option("--port", help="from 1 to 65535 (default: 8500, or the next free one)", callback=within(1, 65535))
    ] = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="open the page in the browser")] = True,
    model: Annotated[
        list[Path] | None,
        typer.Option(
            "--model", "-m", metavar="<path>", help="also open this run's folder, Hugging Face folder or .gguf file; may be repeated"
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", help="watch this run of `regard train translation` on the page Train, while it trains or afterwards"),
    ] = None,
) -> None:
    """Open a local web page to translate, inspect models, compute attention step by step, generate text, train, fit curves and count costs.

    It is reachable from this machine only and needs no network. Over SSH it
    prints the command that makes it reachable from your own machine.
    """
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise ImportError("the studio needs fastapi and uvicorn: pip install 'regard[studio]'")
    from ..studio.serving import serve

    page = ""
    if run is not None:
        folder = run.resolve()
        if not (folder / "run.json").is_file():
            raise typer.BadParameter(f"{run} is not a run (it has no run.json); give the `out` folder of a training", param_hint="--run")
        os.environ["REGARD_RUNS"], page = str(folder.parent), f"#train?run=runs/{folder.name}"
    with wrong_arguments():
        serve(model or (), port=port, open_page=open_page, report=partial(print, flush=True), page=page)
