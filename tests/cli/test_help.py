"""What `--help` shows of every command, and what a number outside an option's limits is told."""

import pytest
from command_line import regard, without_box
from typer.main import get_command

from regard.cli import build


def commands(command=None, *words):
    """The words of every command and subcommand."""
    command = command or get_command(build())
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, *words, name)


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_help_shows_no_types_that_cannot_be_typed(words):
    shown = regard(*words, "--help")
    assert shown.exit_code == 0
    assert regard(*words, "-h").output == shown.output
    for silly in ("<=", "range", "<bool>", "{", "9223372036854775807", "1000000000"):
        assert silly not in shown.output
    usage = next(line for line in shown.output.splitlines() if "Usage:" in line)
    assert usage == usage.upper().replace("USAGE: REGARD", "Usage: regard").replace(" ".join(words).upper(), " ".join(words))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["generate", "a", "--max-new", "0"], "'--max-new': 0 is too small; give 1 or more"),
        (["generate", "a", "--max-new", 10**10], "'--max-new': 10000000000 is too large; give 1,000,000,000 or less"),
        (["generate", "a", "--seed", "-1"], "'--seed': -1 is too small; give 0 or more"),
        (["generate", "a", "--seed", 2**63], "is too large; give 9,223,372,036,854,775,807 or less"),
        (["generate", "a", "--temperature", "nan"], "'--temperature': nan is not a finite number"),
        (["translate", "我", "--temperature", "-0.1"], "'--temperature': -0.1 is too small; give 0 or more"),
        (["studio", "--port", "65536"], "'--port': 65536 is too large; give 65,535 or less"),
        (["plan", "gpt3", "--batch", "0"], "'--batch': 0 is too small; give 1 or more"),
    ],
)
def test_a_number_outside_its_limits_is_refused(words, message):
    result = regard(*words)
    assert result.exit_code == 2
    assert message in without_box(result.output)


def test_a_paragraph_of_help_is_wrapped_by_the_terminal():
    line = next(line for line in regard("models", "add", "--help").output.splitlines() if "minilm is a BERT model" in line)
    assert "never pickles" in line
