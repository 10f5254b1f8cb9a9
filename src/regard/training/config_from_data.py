"""From a file of data to a config: `regard train TASK DATA` without writing one first."""

from __future__ import annotations

import json
import os
import re
from importlib.resources import files
from pathlib import Path

from ..files import write_text
from ..text.pairs import read_pairs
from ..text.script import script_of
from .config import read_config
from .tasks import TASKS, find_task

STARTS = {"translation": "pairs (TSV or .jsonl)", "lm": "plain text", "reader": "bAbI stories"}  # tasks that need nothing but their data


def manual(task: str) -> str:
    """The task's config with every key explained."""
    find_task(task)
    return (files("regard.training") / "manuals" / f"{task}.toml").read_text(encoding="utf-8")


def config_for(task: str, data: Path, folder: Path) -> Path:
    """The config in `folder` that trains `task` on `data`: the manual with a few settings chosen for the data, unless it is there already.

    It is named after the data, and so is its run: pairs.tsv gives pairs.toml and runs/pairs.
    """
    find_task(task)
    if task not in STARTS:
        raise ValueError(
            f"{task} needs a config, not only data; `regard train {task} --example > {task}.toml` writes one to edit"
            f" ({', '.join(name for name in TASKS if name in STARTS)} start from a file of data)"
        )
    path = folder / f"{data.stem}.toml"
    if path.exists():
        config = read_config(path, find_task(task).Config)
        if (path.resolve().parent / config.files()[0]).resolve() != data.resolve():
            raise ValueError(f"{path} is there, and trains on {config.files()[0]}, not {data}; give it, rename it, or rename the data")
        return path
    text = manual(task)
    if task == "translation":
        text = _for_pairs(text, data)
    text = _set(text, "out", f"runs/{data.stem}")
    text = _set(text, "train", os.path.relpath(data.resolve(), folder.resolve()).replace(os.sep, "/"))
    write_text(path, text)
    return path


def _for_pairs(text: str, data: Path) -> str:
    pairs = read_pairs(data)
    text = re.sub(r"^valid = ", "# valid = ", text, flags=re.M)
    for side, texts in (("source", [p.source for p in pairs]), ("target", [p.target for p in pairs])):
        if script_of(" ".join(texts[:1000])) == "CJK":
            text = _set(text, "kind", "char", after=f"\n[{side}]")
            text = _set(text, "tokenize", "zh") if side == "target" else text
    # About a minute's work at least; fewer passes through large files.
    return _set(text, "steps", min(20000, max(1500, len(pairs) // 5)))


def _set(text: str, key: str, value: str | int, after: str = "") -> str:
    """The text with the key's first value (behind `after`) replaced, its comment staying in its column where there is room."""

    def line(match: re.Match[str]) -> str:
        said = f"{key} = {json.dumps(value, ensure_ascii=False)}"
        return f"{said:<29} {match[1]}" if match[1] else said

    head, mark, rest = text.partition(after) if after else ("", "", text)
    return head + mark + re.sub(rf'^{key} = (?:"[^"]*"|\S+)[ ]*(#.*)?$', line, rest, count=1, flags=re.M)
