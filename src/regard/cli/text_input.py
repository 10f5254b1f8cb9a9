"""Read the text a command works on, from its arguments, a file or standard input, and check that it is UTF-8 and not empty."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ..files import MAX_STREAM_BYTES
from ..text.pairs import decode_lines, read_lines


def lines_of(texts: Sequence[str] | None, file: Path | None) -> list[str]:
    """Return the texts of the arguments, else the lines of the file, else those of standard input; at least one must not be blank."""
    if texts:
        lines, name = [check_utf8(text) for text in texts], "the text"
    elif file is not None:
        lines, name = read_lines(file), str(file)
    else:
        lines, name = decode_lines(_read_stdin(), "standard input"), "standard input"
    if not any(line.strip() for line in lines):
        raise ValueError(f"{name} is empty; there is nothing to read: give a text")
    return lines


def text_of(argument: str) -> str:
    """Return the text of an argument; "-" reads all of standard input."""
    text = "\n".join(decode_lines(_read_stdin(), "standard input")) if argument == "-" else check_utf8(argument)
    if not text.strip():
        raise ValueError("the text is empty; give at least one word")
    return text


def check_utf8(text: str) -> str:
    """Return the text, or raise ValueError if its bytes were not UTF-8: Python passes such bytes on as lone surrogates.

    In the locale C it does so for all that is not ASCII.
    """
    with contextlib.suppress(UnicodeError):
        text = os.fsencode(text).decode("utf-8")
    bad = next((c for c in text if "\ud800" <= c <= "\udfff"), None)
    if bad is not None:
        raise ValueError(f"the text is not UTF-8 (byte 0x{ord(bad) & 0xFF:02x} at character {text.index(bad) + 1}); give it as UTF-8")
    return text


def _read_stdin() -> bytes:
    if sys.stdin.isatty():
        sys.stderr.write("reading from the keyboard, one text per line; end with Ctrl-D\n")
    data = sys.stdin.buffer.read(MAX_STREAM_BYTES + 1)
    if len(data) > MAX_STREAM_BYTES:
        raise ValueError(f"standard input has more than {MAX_STREAM_BYTES:,} bytes, the most that is read of it; give a file")
    return data
