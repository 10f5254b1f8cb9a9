"""How `--help` shows a command: arguments by the names its text uses, and no type for an option that takes no value."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class _PlainHelp:
    """Names arguments in capitals, as the help texts do, and leaves out `<bool>`, which is nothing that can be typed.

    Each paragraph of the text is one line, so that the terminal's width wraps it and not the source's.
    """

    def __init__(self, *args: Any, help: str | None = None, **options: Any) -> None:
        text = help and "\n\n".join(" ".join(part.split()) for part in help.split("\n\n"))
        super().__init__(*args, help=text, **options)

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
