"""The manuals of the tasks: they load, and every key there is is in them."""

import dataclasses
import re
import typing
from pathlib import Path

import pytest

import regard.training
from regard.training.config import read_config
from regard.training.tasks import TASKS, find_task

FOLDER = Path(regard.training.__file__).parent / "manuals"
OURS = ["translation", "lm", "mlm", "classify", "article"]


def keys_of(form: type) -> set[str]:
    """Every key of a config's tables, whichever kind of model is chosen."""
    keys = set()
    hints = typing.get_type_hints(form)
    for field in dataclasses.fields(form):
        forms = [t for t in (hints[field.name], *typing.get_args(hints[field.name])) if dataclasses.is_dataclass(t)]
        keys.add(field.name)
        for inner in forms:
            keys |= keys_of(inner)
    return keys


@pytest.mark.parametrize("task", OURS)
def test_the_manual_loads(task):
    config = read_config(FOLDER / f"{task}.toml", find_task(task).config)
    assert config.out == f"runs/{task}"


@pytest.mark.parametrize("task", OURS)
def test_the_manual_has_every_key(task):
    text = (FOLDER / f"{task}.toml").read_text()
    shown = set(re.findall(r"^(?:# )?(\w+) = ", text, re.M)) | {part for table in re.findall(r"\[(\w+)\]", text) for part in [table]}
    other = (FOLDER / "translation.toml").read_text() + ((FOLDER / "mlm.toml").read_text() if task == "classify" else "")
    shown |= set(re.findall(r"^(?:# )?(\w+) = ", other, re.M)) if task != "translation" else set()
    assert keys_of(find_task(task).config) - shown == set()


@pytest.mark.parametrize("task", OURS)
def test_keys_without_a_comment_show_their_default(task):
    form = find_task(task).config
    config = read_config(FOLDER / f"{task}.toml", form)
    lines = (FOLDER / f"{task}.toml").read_text().splitlines()
    table, wrong = "", []
    for line in lines:
        if match := re.match(r"\[(\w+)\]", line):
            table = match[1]
        elif (match := re.match(r"(\w+) = ", line)) and "default" not in line and table and table != "training":
            part = getattr(config, table)
            default = next(f.default for f in dataclasses.fields(part) if f.name == match[1])
            if getattr(part, match[1]) != default:
                wrong.append((table, match[1]))
    assert wrong == []


def test_every_task_can_be_found():
    for name in TASKS:
        assert dataclasses.is_dataclass(find_task(name).config)
    with pytest.raises(ValueError, match="did you mean 'translation'"):
        find_task("translate")
