"""Files that are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_whole(path: str | Path, write: Callable[[Path], Any]) -> Path:
    """Let `write` fill a draft beside `path`, then give it the name: a reader finds the old file or the new one, never a part.

    The draft is on the disk before it takes the name, and the name is on the disk before this returns.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
    try:
        write(draft)
        draft.chmod(0o644)  # safetensors makes private files; what is written may be shared
        _to_disk(draft)
        draft.replace(target)
        _to_disk(target.parent)
    finally:
        draft.unlink(missing_ok=True)
    return target


def write_text(path: str | Path, text: str) -> Path:
    """Write a text as UTF-8, whole or not at all."""
    return write_whole(path, lambda draft: draft.write_text(text, encoding="utf-8"))


def _to_disk(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return  # a folder cannot be opened there
    descriptor = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
