"""The `regard` command, one file a command. A command imports what it needs when it runs, so that `--help` is quick."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# A command is a file with a function of its name; a group is a file with a typer app and has subcommands. By heading of `regard --help`.
HEADINGS = {
    "Begin": ("studio", "demo", "doctor"),
    "Use a model": ("translate", "read", "generate", "answer", "summarise", "fill", "classify", "models"),
    "Look inside": ("look", "probe"),
    "Train and measure": ("train", "evaluate", "fit"),
    "Count the cost": ("plan",),
}
GROUPS = ("plan", "models")
COMMANDS = tuple(name for names in HEADINGS.values() for name in names if name not in GROUPS)
PASS_THROUGH = {"demo"}  # passes the options it does not define on to the demonstration


def build() -> Any:
    """Return the typer application with every command of this package."""
    import typer

    from .options import Command, Group

    app = typer.Typer(
        name="regard",
        cls=Group,
        help="The attention mechanism: compute it, train with it, inspect it in any model, and count what it costs.\n\n"
        'To begin: `regard translate 我爱中国`, `regard look shakespeare --text "To be, or not"`, `regard studio`.',
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    for heading, names in HEADINGS.items():
        for name in names:
            module = import_module(f"{__name__}.{name}")
            if name in GROUPS:
                app.add_typer(module.app, name=name, rich_help_panel=heading)
                continue
            function = getattr(module, name)
            settings = {"allow_extra_args": True, "ignore_unknown_options": True} if name in PASS_THROUGH else None
            app.command(name, cls=Command, context_settings=settings, rich_help_panel=heading)(function)

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
