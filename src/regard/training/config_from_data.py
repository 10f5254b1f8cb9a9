"""Write a config for a data file, for `regard train TASK DATA`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from pathlib import Path

from ..files import write_text
from .config import read_config
from .tasks import TASKS, find_task


def config_for(task: str, data: Path, folder: Path, models: Collection[str] = ()) -> Path:
    """Return the path of the config in `folder` that trains `task` on `data`; write it if it does not exist.

    It is the task's manual with a few settings chosen for the data. Config and run are named after the data: pairs.tsv gives pairs.toml
    and runs/pairs. `models` are the names of models a training can start from.
    """
    entry = find_task(task)
    if not entry.data:
        raise ValueError(
            f"{task} needs a config, not only data; write one with `regard train {task} --example > {task}.toml` and edit it"
            f" ({', '.join(name for name in TASKS if find_task(name).data)} start from a file of data)"
        )
    path = folder / f"{data.stem}.toml"
    if path.exists():
        config = read_config(path, entry.config)
        if (path.resolve().parent / config.files()[0]).resolve() != data.resolve():
            raise ValueError(
                f"{path} exists and trains on {config.files()[0]}, not {data}; train with that config, rename it, or rename the data"
            )
        return path
    text = entry.adapt(entry.manual, data, models)
    text = set_key(text, "out", f"runs/{data.stem}")
    text = set_key(text, "train", os.path.relpath(data.resolve(), folder.resolve()).replace(os.sep, "/"))
    write_text(path, text)
    return path


def set_key(text: str, key: str, value: str | int, after: str = "") -> str:
    """Return TOML with the first value of a key (after the text `after`) replaced; its comment keeps its column if possible."""

    def new_line(match: re.Match[str]) -> str:
        pair = f"{key} = {json.dumps(value, ensure_ascii=False)}"
        return f"{pair:<29} {match[1]}" if match[1] else pair

    head, mark, tail = text.partition(after) if after else ("", "", text)
    return head + mark + re.sub(rf'^{key} = (?:"[^"]*"|\S+)[ ]*(#.*)?$', new_line, tail, count=1, flags=re.M)
