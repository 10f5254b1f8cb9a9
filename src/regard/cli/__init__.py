"""The `regard` command, one file a command. A command imports what it needs when it runs, so that `--help` is quick."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# A command is a file with a function of its name; a group is a file with a typer app and has subcommands.
COMMANDS = (
    "demo",
    "look",
    "translate",
    "generate",
    "read",
    "answer",
    "summarise",
    "fill",
    "classify",
    "train",
    "evaluate",
    "probe",
    "fit",
    "studio",
    "doctor",
)
GROUPS = ("plan", "models")
PASS_THROUGH = {"demo"}  # passes the options it does not define on to the demonstration


def build() -> Any:
    """Return the typer application with every command of this package."""
    import typer

    app = typer.Typer(
        name="regard",
        help="The attention mechanism: compute it, train with it, inspect it in any model, and count what it costs.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    for name in COMMANDS:
        function = getattr(import_module(f"{__name__}.{name}"), name)
        settings = {"allow_extra_args": True, "ignore_unknown_options": True} if name in PASS_THROUGH else None
        app.command(name, context_settings=settings)(function)
    for name in GROUPS:
        app.add_typer(import_module(f"{__name__}.{name}").app, name=name)

    def show_version(requested: bool) -> None:
        if requested:
            from regard import __version__

            print(f"regard {__version__}")
            raise typer.Exit

    @app.callback()
    def root(
        version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True, callback=show_version),
    ) -> None:
        """Hold the options of `regard` itself; --version is handled by its callback."""

    return app


def main() -> None:
    """Run the command line: the entry point of the `regard` script and of `python -m regard`."""
    from .boundary import run

    run(build())
