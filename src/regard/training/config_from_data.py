"""Write the config for a file of data: `regard train TASK DATA` without a config of one's own."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from ..files import write_text
from .config import read_config
from .tasks import TASKS, find_task


def config_for(task: str, data: Path, folder: Path) -> Path:
    """The config in `folder` that trains `task` on `data`: the manual with a few settings chosen for the data, unless it is there already.

    It is named after the data, and so is its run: pairs.tsv gives pairs.toml and runs/pairs.
    """
    chosen = find_task(task)
    if not chosen.data:
        raise ValueError(
            f"{task} needs a config, not only data; `regard train {task} --example > {task}.toml` writes one to edit"
            f" ({', '.join(name for name in TASKS if find_task(name).data)} start from a file of data)"
        )
    path = folder / f"{data.stem}.toml"
    if path.exists():
        config = read_config(path, chosen.config)
        if (path.resolve().parent / config.files()[0]).resolve() != data.resolve():
            raise ValueError(f"{path} is there, and trains on {config.files()[0]}, not {data}; give it, rename it, or rename the data")
        return path
    text = chosen.adapt(chosen.manual, data)
    text = set_key(text, "out", f"runs/{data.stem}")
    text = set_key(text, "train", os.path.relpath(data.resolve(), folder.resolve()).replace(os.sep, "/"))
    write_text(path, text)
    return path


def set_key(text: str, key: str, value: str | int, after: str = "") -> str:
    """TOML with the key's first value (behind `after`) replaced, its comment staying in its column where there is room."""

    def line(match: re.Match[str]) -> str:
        pair = f"{key} = {json.dumps(value, ensure_ascii=False)}"
        return f"{pair:<29} {match[1]}" if match[1] else pair

    head, mark, rest = text.partition(after) if after else ("", "", text)
    return head + mark + re.sub(rf'^{key} = (?:"[^"]*"|\S+)[ ]*(#.*)?$', line, rest, count=1, flags=re.M)
