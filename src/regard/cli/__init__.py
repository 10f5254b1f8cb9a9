"""The `regard` command. Each group of commands lives in its own file and imports what it needs when it runs."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

COMMANDS = ("demo", "look", "translate", "generate", "read", "train", "evaluate", "fit", "studio", "doctor")  # a function a file
GROUPS = ("plan", "models")  # each file holds a typer app
PASS_THROUGH = {"demo"}  # their own options follow the name


def build() -> Any:
    """The typer application, put together from the files beside this one."""
    import typer

    app = typer.Typer(
        name="regard",
        help="The attention mechanism as real software: compute it, train with it, see it, know what it costs.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    for name in COMMANDS:
        if find_spec(f"{__name__}.{name}"):
            function = getattr(import_module(f"{__name__}.{name}"), name)
            settings = {"allow_extra_args": True, "ignore_unknown_options": True} if name in PASS_THROUGH else None
            app.command(name, context_settings=settings)(function)
    for name in GROUPS:
        if find_spec(f"{__name__}.{name}"):
            app.add_typer(import_module(f"{__name__}.{name}").app, name=name)

    def show_version(wanted: bool) -> None:
        if wanted:
            from regard import __version__

            print(f"regard {__version__}")
            raise typer.Exit

    @app.callback()
    def root(
        version: bool = typer.Option(False, "--version", help="Print the version and leave.", is_eager=True, callback=show_version),
    ) -> None:
        """The callback above has done it all."""

    return app


def main() -> None:
    if find_spec("typer") is None or find_spec("rich") is None:
        sys.exit("the regard command needs typer and rich: pip install 'regard[cli]'")
    build()()
