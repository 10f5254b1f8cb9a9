"""The build backend (PEP 517): scikit-build-core, with a record of why the compiled kernels are missing where they are.

A machine without a working C++ compiler still installs: the build is tried once with cmake, then again without. The compiler's first error
is printed, to the terminal too because pip hides a build's output, and stored in the package's metadata as `native_build.json`,
where `regard doctor` reads it.

REGARD_NO_NATIVE=1       leave the compiled kernels out
REGARD_REQUIRE_NATIVE=1  fail instead of leaving them out
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
import sysconfig
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scikit_build_core import build
from scikit_build_core.build import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,  # without these two pip compiles everything to read the metadata, even in a dry run
    prepare_metadata_for_build_wheel,
)

Settings = dict[str, Any] | None
RECORD = "native_build.json"


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    return _build(build.build_wheel, wheel_directory, config_settings)


def build_editable(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    return _build(build.build_editable, wheel_directory, config_settings)


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return build.get_requires_for_build_wheel(_without_cmake(config_settings) if _enabled("REGARD_NO_NATIVE") else config_settings)


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    return build.get_requires_for_build_editable(_without_cmake(config_settings) if _enabled("REGARD_NO_NATIVE") else config_settings)


def _build(build_with: Callable[[str, Settings], str], folder: str, settings: Settings) -> str:
    """The name of the wheel, written into `folder`."""
    skip, require = _enabled("REGARD_NO_NATIVE"), _enabled("REGARD_REQUIRE_NATIVE")
    if skip and require:
        raise SystemExit("REGARD_NO_NATIVE and REGARD_REQUIRE_NATIVE are both set: unset one of them")
    if skip:
        name = build_with(folder, _without_cmake(settings))
        _add_record(Path(folder) / name, {"status": "skipped", "error": "REGARD_NO_NATIVE was set when regard was installed"})
        return name
    lines: list[str] = []
    _allow_any_compiler()
    _say("regard: compiling the kernels; this takes from one to several minutes …\n")
    try:
        with _copied_output(lines):
            return build_with(folder, settings)
    except (Exception, SystemExit) as failure:
        error = first_error(lines) or f"{type(failure).__name__}: {failure}"
        if require:
            raise SystemExit(f"the compiled kernels of regard could not be built, and REGARD_REQUIRE_NATIVE is set: {error}") from failure
    name = build_with(folder, _without_cmake(settings))
    _add_record(Path(folder) / name, {"status": "failed", "error": error})
    _warn(error)
    return name


def first_error(lines: list[str]) -> str | None:
    """The first error of a compiler, or of cmake, in the output of a build."""
    for line in lines:
        if re.search(r"\b(fatal )?error:", line):
            return line.strip()
    for place, line in enumerate(lines):
        if line.startswith("CMake Error"):
            return " ".join([line.strip(), *_first_sentence(lines[place + 1 :])])
    return next((line.strip() for line in lines if re.search(r"\berror\b|\*\*\*.*(fail|could not)", line, re.IGNORECASE)), None)


def _first_sentence(lines: list[str]) -> list[str]:
    """The parts of cmake's indented text that follows an error, up to the first full stop that ends a paragraph."""
    parts: list[str] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.strip() and not line.startswith(" "):  # the next message
            break
        if line.strip():
            parts.append(line.strip())
        if line.rstrip().endswith(".") and not following.strip():
            break
    return parts


def _allow_any_compiler() -> None:
    """Let cmake look for a compiler where the one that this Python was built with, which scikit-build-core asks for, is missing."""
    command = (sysconfig.get_config_var("CXX") or "").split()
    if command and "CXX" not in os.environ and shutil.which(command[0]) is None:
        os.environ["CXX"] = ""


def _enabled(variable: str) -> bool:
    return os.environ.get(variable, "").strip().lower() not in ("", "0", "false", "no", "off")


def _without_cmake(settings: Settings) -> dict[str, Any]:
    return {**(settings or {}), "wheel.cmake": "false"}


@contextlib.contextmanager
def _copied_output(lines: list[str]) -> Iterator[None]:
    """Collect what this process and its children print, while it is printed as before."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    reading, writing = os.pipe()
    for stream in (1, 2):
        os.dup2(writing, stream)
    os.close(writing)

    def copy() -> None:
        with open(reading, "rb", buffering=0) as pipe:
            rest = b""
            while chunk := pipe.read(65536):
                os.write(saved[0], chunk)
                *whole, rest = (rest + chunk).split(b"\n")
                lines.extend(line.decode(errors="replace") for line in whole)
            if rest:
                lines.append(rest.decode(errors="replace"))

    copier = threading.Thread(target=copy)
    copier.start()
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for stream, copy_of in enumerate(saved, start=1):
            os.dup2(copy_of, stream)
        copier.join()
        for copy_of in saved:
            os.close(copy_of)


def _add_record(wheel: Path, record: dict[str, str]) -> None:
    """Add native_build.json to the wheel's metadata folder, and to its list of files."""
    with zipfile.ZipFile(wheel) as archive:
        files = {entry: archive.read(entry) for entry in archive.infolist()}
    manifest = next(entry for entry in files if entry.filename.endswith(".dist-info/RECORD"))
    path = manifest.filename.replace("RECORD", RECORD)
    content = json.dumps(record, ensure_ascii=False).encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, data in files.items():
            if entry is manifest:
                archive.writestr(path, content)
                data = f"{path},sha256={digest},{len(content)}\n".encode() + data
            archive.writestr(entry, data)


def _warn(error: str) -> None:
    _say(
        f"\nWARNING: regard's compiled kernels could NOT be built, so it runs on slower ones:\n  {error}\n"
        "Install a C++ compiler (g++ 12, clang++ 14 or newer) and reinstall with pip install --force-reinstall --no-deps --no-cache-dir;\n"
        "REGARD_REQUIRE_NATIVE=1 makes this an error, REGARD_NO_NATIVE=1 leaves them out without a warning.\n\n"
    )


def _say(text: str) -> None:
    """Print a message, and show it on the terminal too: pip hides what a build prints."""
    sys.stderr.write(text)
    sys.stderr.flush()
    if not sys.stderr.isatty():
        with contextlib.suppress(OSError), open("/dev/tty", "w", encoding="utf-8") as terminal:
            terminal.write(text)


__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]
