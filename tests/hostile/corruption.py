"""Ways to damage a file, chosen at random by a seed: bits, pieces, numbers, values of JSON, cells of tables."""

from __future__ import annotations

import json
from random import Random
from typing import Any

NUMBERS = [2**64 - 1, 2**63 - 1, 2**63, 2**32 - 1, 2**31, 2**40, 10**9, 0, 255]
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 7, 10**9, 10**18, 10**30, -(10**18), 0.5, 1e308, float("nan"), float("inf"), "", "x", "9", "\0",
    "../../etc/passwd", "a" * 5000, [], {}, [[]], [1, 2, 3], {"a": 1}, [[[[[1]]]]], ["x"] * 1000, "中", "\ud800",
]  # fmt: skip
CELLS = ["", "x", "nan", "inf", "-1", "1e400", "9" * 5000, "\0", '"', '"""', "\t", ",", "中", "\r", "\u2028", "1_000", "=1+1", "١"]


def bytes_changed(data: bytes, dice: Random) -> bytes:
    """The data with one to three changes."""
    changed = bytearray(data)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(changed) + 1) if dice.random() < 0.5 else min(dice.randrange(200), len(changed))  # often in the header
        piece = dice.randrange(1, 40)
        kind = dice.randrange(8)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << dice.randrange(8)
        elif kind == 1:
            changed[at : at + 8] = dice.choice(NUMBERS).to_bytes(8, "little")
        elif kind == 2:
            changed[at : at + 4] = (dice.choice(NUMBERS) & 0xFFFFFFFF).to_bytes(4, "little")
        elif kind == 3:
            del changed[at:]
        elif kind == 4:
            del changed[at : at + piece]
        elif kind == 5:
            changed[at:at] = dice.randbytes(piece)
        elif kind == 6:
            changed[at:at] = changed[at : at + piece]
        else:
            changed[at : at + piece] = bytes(len(changed[at : at + piece]))
    return bytes(changed)


def json_changed(text: str, dice: Random) -> bytes:
    """The JSON with a value replaced, removed or renamed somewhere; now and then with its bytes changed."""
    if dice.random() < 0.2:
        return bytes_changed(text.encode(), dice)
    if dice.random() < 0.03:
        return b"[" * 10**5
    data = json.loads(text)
    for _ in range(dice.randint(1, 2)):
        parent, key = dice.choice(_places(data))
        kind = dice.random()
        if kind < 0.75:
            parent[key] = dice.choice(VALUES)
        elif kind < 0.9 or isinstance(parent, list):
            del parent[key]
        else:
            parent[f"{key}x"] = parent.pop(key)
        if not _places(data):
            break
    return json.dumps(data, ensure_ascii=True).encode()


def _places(data: Any) -> list[tuple[Any, Any]]:
    keys = list(data) if isinstance(data, dict) else list(range(len(data))) if isinstance(data, list) else []
    return [(data, key) for key in keys] + [place for key in keys for place in _places(data[key])]


def text_changed(text: str, dice: Random, *, separator: str = "") -> bytes:
    """The lines with values, cells or whole lines changed; now and then with its bytes changed."""
    if dice.random() < 0.25:
        return bytes_changed(text.encode(), dice)
    lines = text.split("\n")
    for _ in range(dice.randint(1, 3)):
        i = dice.randrange(len(lines))
        cells = lines[i].split(separator) if separator else lines[i].partition("=")[::2]
        kind = dice.randrange(5)
        if kind == 0:
            lines[i] = (separator or "=").join([*cells[:-1], dice.choice(CELLS)])
        elif kind == 1:
            lines[i] = dice.choice(lines)
        elif kind == 2:
            lines[i] = lines[i][: dice.randrange(len(lines[i]) + 1)]
        elif kind == 3:
            value = json.dumps(dice.choice(VALUES), ensure_ascii=False)
            lines[i] = (separator or "= ").join([*cells[:-1], value])
        else:
            lines[i] += dice.choice(["[", "]", "{", '"', "[" * 5000, "a = " + "[" * 5000, "\t\t\t", ",,,,"])
    return "\n".join(lines).encode("utf-8", "surrogatepass")
