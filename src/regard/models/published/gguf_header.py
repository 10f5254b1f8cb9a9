"""Check the header of a GGUF file before it is read: the gguf package believes every count it finds.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["open_gguf"]

MAX_SETTINGS, MAX_TENSORS = 10_000, 200_000
MAX_ELEMENTS = 2_000_000  # of all arrays together; the largest vocabularies have about 1.3 million tokens, scores and merges
MAX_NESTING, MAX_DIMENSIONS = 4, 8
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a scalar, by its type
_STRING, _ARRAY = 8, 9


def open_gguf(path: Path) -> Any:
    """Return the gguf package's reader of a file; a file that is damaged or not GGUF is a ValueError."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    try:
        import gguf
    except ImportError as error:
        raise ImportError('reading GGUF files needs the gguf package: pip install "regard[weights]"') from error
    try:
        with path.open("rb") as file:
            _Header(file).check()
        return gguf.GGUFReader(str(path))
    except (ValueError, LookupError, TypeError, ArithmeticError) as error:
        raise ValueError(f"{path} is not a GGUF file or is incomplete ({error}); download it again") from error


class _Header:
    def __init__(self, file: BinaryIO) -> None:
        self.file, self.size = file, os.fstat(file.fileno()).st_size
        self.order, self.elements = "<", 0

    def check(self) -> None:
        """Raise ValueError for a count that is above its limit, or for more than the file holds."""
        if self._bytes(4) != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        version = self._number("I")
        if version & 0xFFFF == 0:  # written on a machine of the other byte order
            self.order = ">"
        tensors, settings = self._number("Q"), self._number("Q")
        if settings > MAX_SETTINGS or tensors > MAX_TENSORS:
            limits = f"at most {MAX_SETTINGS:,} settings and {MAX_TENSORS:,} tensors are read"
            raise ValueError(f"it has {settings:,} settings and {tensors:,} tensors; {limits}")
        for _ in range(settings):
            self._skip(self._number("Q"))
            self._value(self._number("I"))
        for _ in range(tensors):
            self._tensor()

    def _value(self, kind: int, depth: int = 0) -> None:
        if kind in _SIZES:
            self._skip(_SIZES[kind])
        elif kind == _STRING:
            self._skip(self._number("Q"))
        elif kind == _ARRAY and depth < MAX_NESTING:
            inner, count = self._number("I"), self._number("Q")
            self.elements += count
            if self.elements > MAX_ELEMENTS:
                raise ValueError(f"its arrays have {self.elements:,} elements; at most {MAX_ELEMENTS:,} are read")
            if inner in _SIZES:
                self._skip(count * _SIZES[inner])
            else:
                for _ in range(count):
                    self._value(inner, depth + 1)
        else:
            raise ValueError(f"arrays are nested more than {MAX_NESTING} deep" if kind == _ARRAY else f"type {kind} is unknown")

    def _tensor(self) -> None:
        self._skip(self._number("Q"))
        dimensions, count = self._number("I"), 1
        if dimensions > MAX_DIMENSIONS:
            raise ValueError(f"a tensor has {dimensions:,} dimensions; at most {MAX_DIMENSIONS} are read")
        for _ in range(dimensions):
            count *= self._number("Q")
        if count > 8 * self.size:  # no type has less than a bit a number
            raise ValueError(f"a tensor has {count:,} numbers, more than the file can hold")
        self._skip(12)  # type and offset

    def _number(self, code: str) -> int:
        return int(struct.unpack(self.order + code, self._bytes(struct.calcsize(code)))[0])

    def _bytes(self, count: int) -> bytes:
        data = self.file.read(count)
        if len(data) < count:
            raise ValueError("it ends within its header")
        return data

    def _skip(self, count: int) -> None:
        if self.file.tell() + count > self.size:
            raise ValueError("it ends within its header")
        self.file.seek(count, os.SEEK_CUR)
