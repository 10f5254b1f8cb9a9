"""Atomic writes: after a crash a file holds its old content or its new content, never a part."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_atomic(path: str | Path, write: Callable[[Path], Any]) -> Path:
    """Write a file atomically: `write` fills a draft beside `path`, which then replaces it.

    Draft and folder are flushed to disk, so the new file survives a crash once this returns.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
    try:
        write(draft)
        draft.chmod(0o644)  # safetensors creates files that only their owner can read
        _to_disk(draft)
        draft.replace(target)
        _to_disk(target.parent)
    finally:
        draft.unlink(missing_ok=True)
    return target


def write_text(path: str | Path, text: str) -> Path:
    """Write a text as UTF-8, atomically."""
    return write_atomic(path, lambda draft: draft.write_text(text, encoding="utf-8"))


def _to_disk(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a folder
    descriptor = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
