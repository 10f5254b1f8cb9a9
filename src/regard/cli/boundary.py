"""The one place where what goes wrong becomes a sentence and an exit code.

0 success · 1 it could not be done (a file, memory, the disk) · 2 wrong arguments · 70 an error of regard itself · 128 + n ended by signal n
"""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
import unicodedata
import warnings
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

FAILED, BUG, BROKEN_PIPE = 1, 70, 128 + 13
MAX_LENGTH = 1000  # of a sentence
TRACEBACK = "REGARD_TRACEBACK"  # set in the environment: show the traceback instead
EXPECTED = (ValueError, OSError, ImportError, MemoryError, RecursionError)
ASCII = {
    "–": "-", "—": "-", "−": "-", "→": "->", "←": "<-", "·": "*", "×": "x", "√": "sqrt", "±": "+-", "≤": "<=", "≥": ">=", "≈": "~",
    "∞": "inf", "‖": "||", "∑": "sum", "Σ": "sum", "✓": "ok", "✗": "no", "│": "|", "─": "-", "╭": "+", "╮": "+", "╰": "+", "╯": "+",
    "█": "#", "▓": "#", "▒": "=", "░": ".", "╱": "/", "━": "-", "╸": "-", "╺": "-", "“": '"', "”": '"', "‘": "'", "’": "'", "ß": "ss",
    "Δ": "delta", "α": "alpha", "⟨": "<", "⟩": ">", "•": "*",
}  # fmt: skip


def run(app: Callable[[], Any]) -> NoReturn:
    """Run a typer application and exit with its code; an error is one line on standard error, never a traceback."""
    _prepare_streams()
    out = sys.stdout
    warnings.showwarning = _show_warning
    try:
        app()
        code: Any = 0
    except SystemExit as stop:
        code = stop.code
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        code = FAILED if is_expected(error) else BUG
        _say(f"regard: {sentence(error)}")
    sys.exit(_flushed(out, code))


def is_expected(error: BaseException) -> bool:
    """Whether an error is about what was given or about the machine, not a mistake in regard."""
    return isinstance(error, EXPECTED) or _bytes_wanted(error) is not None


def sentence(error: BaseException) -> str:
    """An error in one line: what was wrong and what to do.

    >>> sentence(FileNotFoundError(2, "No such file or directory", "a.txt")), sentence(KeyError("x"))[:40]
    ('a.txt: No such file or directory', "an error of regard itself (KeyError: 'x'")
    """
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    elif (wanted := _bytes_wanted(error)) is not None:
        text = f"there is not enough memory ({wanted}); try a shorter text, a smaller model or a smaller batch"
    elif isinstance(error, RecursionError):
        text = "the input is nested too deeply"
    else:
        text = str(error) or type(error).__name__
    text = " ".join(text.split())
    text = text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"
    if is_expected(error):
        return text
    return f"an error of regard itself ({type(error).__name__}: {text[:300]}); {TRACEBACK}=1 shows where: please report it (SECURITY.md)"


def _bytes_wanted(error: BaseException) -> str | None:
    """What was asked for when memory ran out; None for other errors. torch has no class for it on a CPU."""
    text = str(error)
    if isinstance(error, MemoryError) or "can't allocate memory" in text or "out of memory" in text:
        return " ".join(text.rpartition("you tried to ")[2].split()).partition(" Error code")[0][:120] or "it ran out"
    return None


def _prepare_streams() -> None:
    """Make closed streams empty ones, and characters that a terminal cannot show ASCII ones."""
    codecs.register_error("regard-ascii", _in_ascii)
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        with contextlib.suppress(AttributeError):  # a stream of a test
            getattr(sys, name).reconfigure(errors="regard-ascii")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(in_ascii, error.object[error.start : error.end])), error.end


def in_ascii(character: str) -> str:
    """A character in ASCII: its transliteration, its letter without marks, or its escape in JSON.

    >>> in_ascii("→"), in_ascii("é"), in_ascii("中"), in_ascii("😀")
    ('->', 'e', '\\\\u4e2d', '\\\\ud83d\\\\ude00')
    """
    plain = ASCII.get(character) or unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    if plain.strip():
        return plain
    if character.isspace():
        return " "
    pairs = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pairs[i : i + 2].hex()}" for i in range(0, len(pairs), 2))


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _say(f"warning: {' '.join(str(message).split())}")


def _say(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # standard error is closed or full
        print(line, file=sys.stderr, flush=True)


def _flushed(out: TextIO, code: Any) -> Any:
    """Write what is still buffered and return the exit code: another one if it could not be written."""
    try:
        out.flush()
        return code
    except ValueError:  # closed by the command
        return code
    except OSError as error:
        with contextlib.suppress(OSError, ValueError), open(os.devnull, "w", encoding="utf-8") as nothing:
            os.dup2(nothing.fileno(), out.fileno())  # the interpreter flushes once more when it ends
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE
        _say(f"regard: standard output: {error.strerror}")
        return code or FAILED
