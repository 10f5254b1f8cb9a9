"""Run the `regard` command inside the test process."""

from click.testing import Result
from typer.testing import CliRunner

from regard.cli import build


def regard(*words: object, **options) -> Result:
    """The result of `regard WORDS…`: exit_code, stdout, stderr, output."""
    return CliRunner().invoke(build(), [str(word) for word in words], env={"COLUMNS": "400", "NO_COLOR": "1"}, **options)


def without_box(text: str) -> str:
    """The text of an error, without the box and the line breaks it is printed with."""
    return " ".join(text.replace("│", " ").split())
