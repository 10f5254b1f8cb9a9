"""The one place where what goes wrong becomes a sentence and an exit code.

0    done
1    it could not be done: a file cannot be read or written, is damaged or in use; memory, the disk or a package is missing; no result
2    what was given is wrong: an argument, or a file whose content is not what the command reads
70   an error of regard itself
128 + n   ended by signal n; 141: the reader of a pipe has gone
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TextIO

from ..files import DamagedFile

FAILED, USAGE, BUG, INTERRUPTED, BROKEN_PIPE = 1, 2, 70, 128 + 2, 128 + 13
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
        code = _signal_behind(stop) or stop.code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        code = exit_code(error)
        _say(f"regard: {sentence(error)}")
    sys.exit(_flushed(out, code))


@contextlib.contextmanager
def wrong_arguments(hint: str | None = None) -> Iterator[None]:
    """Make an error about what was given one of the command's arguments (`hint`), shown with its usage; others pass."""
    import typer

    try:
        yield
    except ValueError as error:
        if exit_code(error) != USAGE:
            raise
        raise typer.BadParameter(sentence(error), param_hint=hint) from error


def exit_code(error: BaseException) -> int:
    """The exit code of an error.

    >>> exit_code(ValueError("layers is 0")), exit_code(FileNotFoundError(2, "No such file")), exit_code(KeyError("x"))
    (2, 1, 70)
    """
    if isinstance(error, ValueError) and not isinstance(error, DamagedFile):
        return USAGE
    return FAILED if is_expected(error) else BUG


def _signal_behind(stop: SystemExit) -> int | None:
    """The exit code if typer or rich stopped because of a signal or because the reader of a pipe has gone; both then exit with 1."""
    reason: BaseException | None = stop
    while reason is not None:
        if isinstance(reason, BrokenPipeError):
            return BROKEN_PIPE
        if isinstance(reason, KeyboardInterrupt):
            return INTERRUPTED
        reason = reason.__cause__ or reason.__context__
    return None


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
        elif name == "stderr":
            with contextlib.suppress(AttributeError, OSError, ValueError):  # a stream of a test has no descriptor
                forgiving = io.BufferedWriter(_Forgiving(sys.stderr.fileno(), "w", closefd=False))
                sys.stderr = io.TextIOWrapper(forgiving, encoding=sys.stderr.encoding, line_buffering=True)
        with contextlib.suppress(AttributeError):  # a stream of a test
            getattr(sys, name).reconfigure(errors="regard-ascii")


class _Forgiving(io.FileIO):
    """Standard error that forgets what cannot be written: the exit code must still say what went wrong."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            return len(data)


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
