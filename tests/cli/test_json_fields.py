"""docs/json.md names every field that a command prints with --json, and no other."""

import json
import re
from pathlib import Path

import pytest
from command_line import regard

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
QUANTITY = {"value", "formula", "numbers"}


def documented(title: str) -> list[tuple[str, ...]]:
    """The fields of one section, each as a path of names."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    fields = re.findall(r"^\| `([^`]+)` \|", section, flags=re.MULTILINE)
    return [tuple(part for part in re.split(r"\.|(?=\[\])", field) if part) for field in fields]


def printed(value: object, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The path of every value that is not an object or a list of objects; a quantity counts as one value."""
    if isinstance(value, dict) and set(value) != QUANTITY:
        return {result for name, item in value.items() for result in printed(item, (*path, name))}
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        return {result for item in value for result in printed(item, (*path, "[]"))}
    return {path}


def matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether a path has a documented form: * is one name, ** any number of them; a trailing * may be absent (one number for all)."""
    if pattern[-1:] == ("**",):
        return len(path) >= len(pattern) - 1 and matches(pattern[:-1], path[: len(pattern) - 1])
    if pattern[-1:] == ("*",) and len(path) == len(pattern) - 1:
        pattern = pattern[:-1]
    return len(pattern) == len(path) and all(p in ("*", name) for p, name in zip(pattern, path, strict=True))


def check(title: str, *words: object) -> None:
    result = regard(*words)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines() if words[0] in ("translate", "read", "generate") else [result.stdout]
    paths = {path for line in lines for path in printed(json.loads(line))}
    fields = documented(title)
    assert {path for path in paths if not any(matches(field, path) for field in fields)} == set(), "printed, but not documented"
    assert {field for field in fields if not any(matches(field, path) for path in paths)} == set(), "documented, but not printed"


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("a b c\tc b a\nb a\ta b\n")
    return path


def test_translate(reversal_run):
    check("regard translate TEXT… --json", "translate", "a b c", "-m", reversal_run, "--n-best", 2, "--json")


def test_generate():
    check("regard generate PROMPT --json", "generate", "a", "--max-new", 2, "--json")
    check("regard generate PROMPT --prefixes --json", "generate", "abc", "--prefixes", "--json")


def test_read(tmp_path):
    story = tmp_path / "story.txt"
    story.write_text("Mary went to the kitchen. John went to the garden.")
    check("regard read ARTICLE --ask QUESTION --json", "read", story, "--ask", "Where is Mary?", "--soft", "--json")
    check("regard read STORY --ask QUESTION --model reader --json", "read", story, "--ask", "Where is Mary?", "-m", "reader", "--json")


def test_evaluate(reversal_run, pairs, tmp_path):
    check("regard evaluate translation RUN --test FILE --json", "evaluate", "translation", reversal_run, "--test", pairs, "--json")
    (tmp_path / "text.txt").write_text("To be or not to be.\n" * 10)
    check("regard evaluate lm RUN --test FILE --json", "evaluate", "lm", "shakespeare", "--test", tmp_path / "text.txt", "--json")


def test_fit(tmp_path):
    rows = "".join(f"{i},{i * i % 7},{i % 5}\n" for i in range(40))
    (tmp_path / "data.csv").write_text("a,b,y\n" + rows)
    for words in ((), ("--one-width",)):
        check("regard fit DATA --target COLUMN --json", "fit", tmp_path / "data.csv", "-t", "y", *words, "--json")


def test_models():
    check("regard models --json", "models", "--json")


def test_plan():
    options = ("--peak-tflops", 1, "--bandwidth", 10, "--ranks", 2, "--link", 1)
    check("regard plan NAME --json", "plan", "gpt2", *options, "--json")
    check("regard plan compare FIRST SECOND --json", "plan", "compare", "gpt2", "bert-base", "--json")
    check("regard plan list --json", "plan", "list", "--json")


def test_doctor():
    check("regard doctor --json", "doctor", "--json")
