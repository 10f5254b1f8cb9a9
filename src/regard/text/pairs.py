"""Read pairs of texts (source, target) from TSV, from two parallel files, or from JSONL."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..files import read_bytes


class Pair(NamedTuple):
    """One training example: a source text and its target text.

    source, target: the two texts.

    >>> Pair("我爱中国", "I love China.").target
    'I love China.'
    """

    source: str
    target: str


def read_pairs(
    path: str | Path | Sequence[str | Path], *, columns: tuple[int, int] = (0, 1), keys: tuple[str, str] = ("source", "target")
) -> list[Pair]:
    """Read pairs of texts; the format depends on `path`.

    two paths   parallel files, line by line
    *.jsonl     one JSON object per line, the texts under `keys`
    other       tab-separated, the texts in `columns` (counted from 0); further columns are ignored

    Blank lines are skipped in TSV and JSONL. In parallel files a blank line on one side alone is an error.

    path: a file or two parallel files.
    columns: of a tab-separated file, the source and the target.
    keys: of a JSONL file, the source and the target.

    Returns the pairs. Raises ValueError for a file without pairs or a line that is not one, with its number.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
    ...     _ = file.write("Guten Tag\\tGood day\\n"); file.flush()
    ...     read_pairs(file.name)
    [Pair(source='Guten Tag', target='Good day')]
    """
    if not isinstance(path, str | Path):
        if len(path) != 2:
            raise ValueError(f"{len(path)} files were given; expected one file, or two parallel files")
        pairs = list(_parallel(Path(path[0]), Path(path[1])))
        name = f"{path[0]} and {path[1]}"
    else:
        file = Path(path)
        pairs = list(_jsonl(file, keys) if file.suffix == ".jsonl" else _tsv(file, columns))
        name = str(path)
    if not pairs:
        raise ValueError(f"{name}: it has no pairs; expected one per line")
    return pairs


def hold_out(pairs: Sequence[Pair], share: float, most: int = 1000) -> tuple[list[Pair], list[Pair]]:
    """Split pairs into a training set and a held-out set of a `share` of the sources, at most `most` of them.

    The choice is by a hash of the source, so it does not depend on the order. No training pair has a source or target of the held-out set.

    >>> train, test = hold_out([Pair(f"s{i}", f"t{i}") for i in range(100)] + [Pair("s1", "t2")], 0.1)
    >>> len(test), bool({p.source for p in train} & {p.source for p in test})
    (10, False)
    """
    if not 0 < share < 1:
        raise ValueError(f"held_out is {share}; expected a share between 0 and 1, such as 0.02")
    sources = sorted({pair.source for pair in pairs}, key=lambda text: hashlib.sha256(text.encode()).digest())
    test_sources = set(sources[: min(most, max(1, round(share * len(sources))))])
    test = list({pair.source: pair for pair in pairs if pair.source in test_sources}.values())
    test_targets = {pair.target for pair in pairs if pair.source in test_sources}
    train = [pair for pair in pairs if pair.source not in test_sources and pair.target not in test_targets]
    if not train:
        raise ValueError(f"holding out {len(test)} of {len(pairs)} pairs leaves none to train on; give more pairs, or a file `valid`")
    return train, test


def read_lines(path: str | Path) -> list[str]:
    """Return the lines of a UTF-8 file, without line ends; an error names the file and line that is not UTF-8.

    path: the file.

    Raises ValueError for text that is not UTF-8, OSError for a file that cannot be read.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    ...     _ = file.write("one\\ntwo\\n"); file.flush()
    ...     read_lines(file.name)
    ['one', 'two']
    """
    return decode_lines(read_bytes(path), path)


def decode_lines(data: bytes, name: str | Path) -> list[str]:
    """Return the lines of UTF-8 data; `name` is the file, for errors.

    Only line feeds end a line, because another separator inside a sentence would shift one of two parallel files.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise ValueError(
            f"{name}:{line}: byte 0x{data[error.start]:02x} is not UTF-8 (byte {column} of the line); save it as UTF-8"
        ) from error
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _tsv(path: Path, columns: tuple[int, int]) -> Iterator[Pair]:
    minimum = max(columns) + 1
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) < minimum:
            raise ValueError(f"{path}:{number}: {len(cells)} tab-separated column(s); expected columns {columns} (counted from 0)")
        source, target = (cells[c].strip() for c in columns)
        yield _pair(source, target, path, number)


def _parallel(source_path: Path, target_path: Path) -> Iterator[Pair]:
    sources, targets = read_lines(source_path), read_lines(target_path)
    if len(sources) != len(targets):
        raise ValueError(
            f"{source_path} has {len(sources)} lines but {target_path} has {len(targets)}; parallel files need the same number"
        )
    for number, (source, target) in enumerate(zip(sources, targets, strict=True), 1):
        if source.strip() or target.strip():
            yield _pair(source.strip(), target.strip(), source_path if not source.strip() else target_path, number)


def _jsonl(path: Path, keys: tuple[str, str]) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}:{number}: not JSON ({error.msg}, column {error.colno})") from error
        except (RecursionError, ValueError) as error:
            raise ValueError(f"{path}:{number}: not JSON (nested too deeply, or a number of too many digits)") from error
        if not isinstance(item, dict):
            raise ValueError(f"{path}:{number}: a {type(item).__name__}; expected an object with the keys {keys[0]!r} and {keys[1]!r}")
        for key in keys:
            if not isinstance(item.get(key), str):
                present = ", ".join(map(repr, item)) or "none"
                raise ValueError(f"{path}:{number}: no text under {key!r} (keys: {present}); set the right ones with `keys`")
        yield _pair(item[keys[0]].strip(), item[keys[1]].strip(), path, number)


def _pair(source: str, target: str, path: Path, number: int) -> Pair:
    if not source or not target:
        raise ValueError(f"{path}:{number}: the {'target' if source else 'source'} is empty; remove the line or fill it in")
    return Pair(source, target)
