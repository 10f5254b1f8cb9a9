"""The log of a run: one JSON record a line, each with a checksum, as TensorBoard's event files have them."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from ...files import parse_line, read_bytes, record_line, write_atomic

__all__ = ["Log", "read_log"]


def read_log(path: str | Path) -> list[dict[str, Any]]:
    """Return the records of a log that are whole, without their checksums; a damaged one is left out, with a warning that says which.

    The last one may still be being written: then it is left out without a warning.
    """
    records = []
    for number, line in enumerate(read_bytes(path).splitlines(keepends=True), 1):
        record = parse_line(line)
        if record is None and not line.endswith(b"\n"):
            break
        if record is None:
            warnings.warn(f"{path}:{number}: this record is damaged and was left out", stacklevel=2)
        else:
            records.append(record)
    return records


class Log:
    """The log of a run that is being trained."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: dict[str, Any]) -> None:
        """Add a record."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(record_line(record))
        except OSError as error:
            raise type(error)(error.errno, f"{error.strerror}; the record was not written", str(self.path)) from error

    def flush(self) -> int:
        """Write what was added to the disk; return the length of the log in bytes, 0 if it was deleted."""
        if not self.path.exists():
            return 0
        with self.path.open("rb") as file:
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size

    def resume(self, length: int) -> None:
        """Go on after `length` bytes: cut what a later step added. A log that was deleted is begun again, and damaged records are left out.

        What is left out stays in log.jsonl.damaged.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            if length:
                warnings.warn(f"{self.path} was deleted; it is begun again", stacklevel=2)
            self.path.touch()
            return
        with self.path.open("rb") as file:
            kept = file.read(length)
        lines = kept.splitlines(keepends=True)
        whole = [line for line in lines if parse_line(line) is not None]
        if len(kept) == length and len(whole) == len(lines):
            with self.path.open("ab") as file:
                file.truncate(length)
            return
        aside = self.path.with_name(f"{self.path.name}.damaged")
        content = self.path.read_bytes()
        write_atomic(aside, lambda draft: draft.write_bytes(content))
        write_atomic(self.path, lambda draft: draft.write_bytes(b"".join(whole)))
        warnings.warn(f"{self.path} is damaged: {len(whole)} of its records are whole and stay; it was kept as {aside.name}", stacklevel=2)
