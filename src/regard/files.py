"""Files: read with a limit, written whole or not at all, checked when they are read again, and a folder that one process holds.

After a crash a file holds its old content or its new content, never a part.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import socket
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MAX_JSON_BYTES = 64_000_000  # the largest JSON files, tokenizers of large vocabularies, have about 30 MB
MAX_TEXT_BYTES = 1_000_000_000
MAX_STREAM_BYTES = 100_000_000  # of what has no size of its own: a pipe or a device
_SHA256, _CRC = "sha256", "crc32"  # the keys of the checksums in records


class DamagedFile(ValueError):
    """A file whose content is not what was written."""


class FolderInUse(OSError):
    """A folder that another process holds."""


def write_atomic(path: str | Path, write: Callable[[Path], Any]) -> Path:
    """Write a file atomically: `write` fills a draft beside `path`, which then replaces it.

    Draft and folder are flushed to disk, so the new file survives a crash once this returns. Whatever goes wrong on the way (the disk is
    full, the folder read-only) is an OSError that names the file, and leaves the old one.
    """
    target = Path(path)
    draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write(draft)
        draft.chmod(0o644)  # safetensors creates files that only their owner can read
        _to_disk(draft)
        draft.replace(target)
        _to_disk(target.parent)
    except OSError as error:
        raise type(error)(error.errno, f"{error.strerror or error}; the file was not written", str(target)) from error
    except Exception as error:
        if type(error).__name__ != "SafetensorError":  # the safetensors library's only error, also for a full disk
            raise
        raise OSError(errno.EIO, f"{error}; the file was not written", str(target)) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
    return target


def write_text(path: str | Path, text: str) -> Path:
    """Write a text as UTF-8, atomically."""
    return write_atomic(path, lambda draft: draft.write_text(text, encoding="utf-8"))


def read_bytes(path: str | Path, most: int = MAX_TEXT_BYTES) -> bytes:
    """Return the content of a file; more than `most` bytes (of a pipe or a device: MAX_STREAM_BYTES) are a ValueError, and not read."""
    path = Path(path)
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        regular = bool(status.st_mode & 0o100000)
        most = most if regular else min(most, MAX_STREAM_BYTES)
        data = file.read(most + 1) if status.st_size <= most else b""
    if status.st_size > most or len(data) > most:
        raise ValueError(f"{path} has more than {most:,} bytes, the most that is read of such a file")
    return data


def read_text(path: str | Path, most: int = MAX_TEXT_BYTES) -> str:
    """Return the text of a UTF-8 file; anything else is a ValueError that names the file."""
    try:
        return read_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text in UTF-8: {error}") from error


def read_texts(path: str | Path, most: int = MAX_JSON_BYTES) -> list[str]:
    """Return the JSON list of texts in a file; anything else is a ValueError that names the file."""
    texts = _parsed(read_text(path, most), path)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{path} is not a JSON list of texts")
    return texts


def read_json(path: str | Path, most: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """Return the JSON object in a file; anything else is a ValueError that names the file."""
    return as_object(read_bytes(path, most), path)


def as_object(data: bytes | str, origin: str | Path) -> dict[str, Any]:
    """Return the JSON object in a text; anything else, or one nested too deeply, is a ValueError that names the origin.

    >>> as_object('{"layers": 2}', "config.json"), as_object("[" * 10**5, "config.json")
    Traceback (most recent call last):
        ...
    ValueError: config.json is not JSON: it is nested too deeply
    """
    content = _parsed(data, origin)
    if not isinstance(content, dict):
        raise ValueError(f"{origin} holds a {type(content).__name__}; expected a JSON object")
    return content


def _parsed(data: bytes | str, origin: str | Path) -> Any:
    try:
        return json.loads(data if isinstance(data, str) else data.decode("utf-8"))
    except RecursionError:
        raise ValueError(f"{origin} is not JSON: it is nested too deeply") from None
    except ValueError as error:  # not UTF-8, or not JSON
        raise ValueError(f"{origin} is not JSON: {error}") from error


def write_record(path: str | Path, record: dict[str, Any]) -> Path:
    """Write a JSON object with its own checksum, atomically; `read_record` verifies it."""
    content = {key: value for key, value in record.items() if key != _SHA256}
    return write_text(path, json.dumps({**content, _SHA256: digest(content)}, indent=1, ensure_ascii=False) + "\n")


def read_record(path: str | Path, keys: frozenset[str]) -> dict[str, Any]:
    """Return a JSON object with (at most) these keys that `write_record` wrote. One without a checksum is of an older version."""
    record = read_json(path)
    given = record.pop(_SHA256, None)
    unknown = sorted(record.keys() - keys)
    if unknown or (given is not None and given != digest(record)):
        reason = f"unknown key {unknown[0]!r}" if unknown else "its checksum does not fit its content"
        raise DamagedFile(f"{path} is damaged ({reason}); restore it from a copy")
    return record


def digest(content: dict[str, Any]) -> str:
    """Return the checksum of a JSON object."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def record_line(record: dict[str, Any]) -> str:
    """Return a record as a line of a log: JSON that ends with the checksum of all before it.

    >>> record_line({"step": 3})
    '{"step": 3, "crc32": "d3a4e216"}\\n'
    """
    start = json.dumps(record, ensure_ascii=False)[:-1]
    return f'{start}, "{_CRC}": "{zlib.crc32(start.encode()):08x}"}}\n'


def parse_line(line: bytes) -> dict[str, Any] | None:
    """Return the record of a line of a log, without its checksum; None if the line is damaged or was not written to its end."""
    try:
        record = as_object(line, "the line")
    except ValueError:
        return None
    checksum = record.pop(_CRC, None)
    start = line.rstrip(b"\n").rpartition(f', "{_CRC}"'.encode())[0]
    return record if line.endswith(b"\n") and checksum in (None, f"{zlib.crc32(start):08x}") else None


@contextlib.contextmanager
def hold_folder(folder: str | Path) -> Iterator[None]:
    """Hold a folder: another process (or thread) that tries to gets FolderInUse, which says who holds it.

    The system releases the lock when the process ends, however it ends; what a killed one leaves of run.lock is taken over.
    """
    file = Path(folder) / "run.lock"
    descriptor = _locked(file)
    try:
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        with contextlib.suppress(OSError):  # the disk is full: it is held all the same
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}, since {started}".encode())
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows cannot remove an open file
            file.unlink()
        os.close(descriptor)


def _locked(file: Path) -> int:
    """Return the descriptor of a file that this process has locked."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        if not _lock(descriptor):
            holder = os.read(descriptor, 200).decode("utf-8", "replace").strip() or "another process"
            os.close(descriptor)
            raise FolderInUse(f"{file.parent} is in use by {holder}; wait until it ends, or choose another `out`")
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), os.stat(file)):
                return descriptor
        os.close(descriptor)  # the holder before removed the file just now: lock the new one


def _lock(descriptor: int) -> bool:
    """Lock an open file; False if another holds it. A file system that has no locks counts as locked."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # a byte far behind the text, which others must be able to read
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
    return True


def _to_disk(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a folder
    descriptor = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
