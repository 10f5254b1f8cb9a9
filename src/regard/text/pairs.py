"""Pairs of texts (source → target) from the user's own files: TSV, two parallel files, or JSONL."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple


class Pair(NamedTuple):
    """One training example: text in, text out."""

    source: str
    target: str


def read_pairs(
    path: str | Path | Sequence[str | Path], *, columns: tuple[int, int] = (0, 1), keys: tuple[str, str] = ("source", "target")
) -> list[Pair]:
    """Read pairs; the form follows from what is given.

    two paths   parallel files, line by line
    *.jsonl     one object a line, the texts under `keys`
    other       tab-separated, the texts in `columns` (counted from 0); further columns are ignored

    Blank lines are skipped in TSV and JSONL. In parallel files a blank line on one side alone is an error.
    """
    if not isinstance(path, str | Path):
        if len(path) != 2:
            raise ValueError(f"{len(path)} files were given; pairs come from one file, or from two parallel files")
        pairs = list(_parallel(Path(path[0]), Path(path[1])))
        name = f"{path[0]} and {path[1]}"
    else:
        file = Path(path)
        pairs = list(_jsonl(file, keys) if file.suffix == ".jsonl" else _tsv(file, columns))
        name = str(path)
    if not pairs:
        raise ValueError(f"{name}: no pairs in it")
    return pairs


def hold_out(pairs: Sequence[Pair], share: float, most: int = 1000) -> tuple[list[Pair], list[Pair]]:
    """Split pairs into those to train on and `share` of the sentences (`most` at most) to measure on.

    Which ones follows from the sentences themselves, not from their order, and nothing to train on shares a source or a target with them.

    >>> train, held = hold_out([Pair(f"s{i}", f"t{i}") for i in range(100)] + [Pair("s1", "t2")], 0.1)
    >>> len(held), bool({p.source for p in train} & {p.source for p in held})
    (10, False)
    """
    if not 0 < share < 1:
        raise ValueError(f"held_out is {share}; expected a share between 0 and 1, such as 0.02")
    sources = sorted({pair.source for pair in pairs}, key=lambda text: hashlib.sha256(text.encode()).digest())
    chosen = set(sources[: min(most, max(1, round(share * len(sources))))])
    held = list({pair.source: pair for pair in pairs if pair.source in chosen}.values())
    said = {pair.target for pair in pairs if pair.source in chosen}
    train = [pair for pair in pairs if pair.source not in chosen and pair.target not in said]
    if not train:
        raise ValueError(f"holding out {len(held)} of {len(pairs)} pairs leaves none to train on; give more, or `valid`")
    return train, held


def read_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 file, without their ends; an error names the file and line that is not UTF-8."""
    return decode_lines(Path(path).read_bytes(), path)


def decode_lines(data: bytes, name: str | Path) -> list[str]:
    """The lines of UTF-8 data that came from `name`.

    Only line feeds end a line: a stray separator inside a sentence must not shift one of two parallel files.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        place = error.start - data.rfind(b"\n", 0, error.start)
        raise ValueError(
            f"{name}:{line}: byte 0x{data[error.start]:02x} is not UTF-8 (byte {place} of the line); save it as UTF-8"
        ) from error
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _tsv(path: Path, columns: tuple[int, int]) -> Iterator[Pair]:
    need = max(columns) + 1
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) < need:
            raise ValueError(f"{path}:{number}: {len(cells)} tab-separated column(s), but columns {columns} (from 0) are wanted")
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
        if not isinstance(item, dict):
            raise ValueError(f"{path}:{number}: a {type(item).__name__}; expected an object with the keys {keys[0]!r} and {keys[1]!r}")
        for key in keys:
            if not isinstance(item.get(key), str):
                found = ", ".join(map(repr, item)) or "no keys"
                raise ValueError(f"{path}:{number}: no text under {key!r} (found {found}); name the keys with `keys`")
        yield _pair(item[keys[0]].strip(), item[keys[1]].strip(), path, number)


def _pair(source: str, target: str, path: Path, number: int) -> Pair:
    if not source or not target:
        raise ValueError(f"{path}:{number}: the {'target' if source else 'source'} is empty; remove the line or fill it in")
    return Pair(source, target)
