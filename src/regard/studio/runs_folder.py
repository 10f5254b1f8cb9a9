"""The folder of training runs that the studio starts and watches: `runs` in the current folder, or REGARD_RUNS.

A request names a run "runs/<folder>", never a path.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_NAME = re.compile(r"runs/([A-Za-z0-9][A-Za-z0-9_.-]{0,80})")


def runs_home() -> Path:
    return Path(os.environ.get("REGARD_RUNS", "runs")).resolve()


def run_path(name: str) -> Path | None:
    """The folder of a run; None if there is none of that name.

    >>> run_path("runs/../../etc"), run_path("/etc")
    (None, None)
    """
    match = _NAME.fullmatch(name)
    folder = runs_home() / match[1] if match else None
    return folder if folder is not None and any((folder / file).is_file() for file in ("run.json", "config.toml")) else None


def run_names(*, with_weights: bool = False) -> list[str]:
    """The names of all runs; `with_weights`: those that can be opened."""
    home = runs_home()
    if not home.is_dir():
        return []
    folders = [folder for folder in sorted(home.iterdir()) if _NAME.fullmatch(f"runs/{folder.name}") and (folder / "run.json").is_file()]
    usable = [folder for folder in folders if not with_weights or any(folder.glob("**/*.safetensors"))]
    return [f"runs/{folder.name}" for folder in usable]
