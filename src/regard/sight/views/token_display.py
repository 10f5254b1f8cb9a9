"""Tokens as people read them: spaces as a mark, byte pieces joined, special tokens by name.

Tokenisers write their pieces for machines (``Ġthe``, ``▁the``, ``##ing``, ``<0xE5>``, ``[CLS]``); pictures show what they stand for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

Mark = Literal[".", "_", "+", "*"]

_SPECIAL = re.compile(
    r"^(?:<\|(?P<bars>[^<>|]+)\|>|\[(?P<square>[A-Z][A-Z0-9_]*)\]"
    r"|<(?P<angle>(?i:/?s|pad|unk|mask|cls|sep|bos|eos|eot|extra_id_\d+|unused\d+|start_of_turn|end_of_turn))>)$"
)
_BYTE = re.compile(r"^<0x([0-9A-Fa-f]{2})>$")


@dataclass(frozen=True)
class Piece:
    """One token as shown.

    text: what a reader sees. mark: "." plain, "_" begins a word (a space before it), "+" goes on a word, "*" special.
    part: (2, 3) for the second of three pieces that make one character only together; text is then the whole character.
    """

    text: str
    mark: Mark = "."
    part: tuple[int, int] | None = None

    @property
    def label(self) -> str:
        """The piece on an axis, on its own: no space mark, but told apart from its neighbours."""
        if self.part is not None:
            return f"{self.text} {self.part[0]}/{self.part[1]}"
        return self.text or "␣"


def read_pieces(tokens: Sequence[str]) -> list[Piece]:
    """What a tokeniser's pieces look like to a reader, one for one.

    >>> [p.text for p in read_pieces(["<s>", "▁The", "▁FBI", "<0xE5>", "<0x9B>", "<0xBD>"])]
    ['s', 'The', 'FBI', '国', '国', '国']
    >>> read_pieces(["[CLS]", "chas", "##ing"])[2]
    Piece(text='ing', mark='+', part=None)
    >>> [p.label for p in read_pieces(["Ġå", "Ľ", "½"])]
    ['国 1/3', '国 2/3', '国 3/3']
    """
    byte_level = _is_byte_level(tokens)
    shown: list[Piece] = []
    raw: list[bytes | None] = []  # the bytes of a piece that may hold a part of a character
    for token in tokens:
        special = _SPECIAL.match(token)
        single = _BYTE.match(token)
        if special is not None:
            shown.append(Piece(next(name for name in special.groups() if name), "*"))
            raw.append(None)
        elif single is not None:
            shown.append(Piece(""))
            raw.append(bytes([int(single.group(1), 16)]))
        elif byte_level:
            shown.append(Piece(""))
            raw.append(bytes(_unmap()[c] for c in token))
        else:
            shown.append(_plain(token))
            raw.append(None)
    start = 0
    while start < len(raw):
        if raw[start] is None:
            start += 1
            continue
        stop = start
        while stop < len(raw) and raw[stop] is not None:
            stop += 1
        shown[start:stop] = _decoded([b or b"" for b in raw[start:stop]])
        start = stop
    return shown


def _plain(token: str) -> Piece:
    if token.startswith("##") and len(token) > 2:
        return Piece(_visible(token[2:]), "+")
    if token.startswith(("▁", " ")):
        return Piece(_visible(token[1:].replace("▁", " ")), "_")
    return Piece(_visible(token.replace("▁", " ")))


def _decoded(chunks: list[bytes]) -> list[Piece]:
    """Bytes of neighbouring pieces as text; a character split among pieces is shown whole on each of its parts."""
    pieces: list[Piece] = []
    at = 0
    while at < len(chunks):
        # Grow the group until it ends where a character ends; three more pieces are enough for any character.
        for stop in range(at + 1, min(at + 5, len(chunks)) + 1):
            joined = b"".join(chunks[at:stop])
            try:
                text = joined.decode("utf-8")
                break
            except UnicodeDecodeError as error:
                if error.reason != "unexpected end of data":
                    stop, text = at + 1, chunks[at].decode("utf-8", errors="replace")
                    break
        else:
            stop, text = at + 1, chunks[at].decode("utf-8", errors="replace")
        mark: Mark = "_" if text.startswith(" ") else "."
        body = _visible(text[1:] if mark == "_" else text)
        count = stop - at
        pieces += [Piece(body, mark if i == 0 else "+", (i + 1, count) if count > 1 else None) for i in range(count)]
        at = stop
    return pieces


def _visible(text: str) -> str:
    """Line ends and tabs as marks; other control characters as their code."""
    named = {"\n": "⏎", "\r": "␍", "\t": "⇥"}
    return "".join(named.get(c, c if c.isprintable() or c in " \u3000\u200d" else f"‹{ord(c):02x}›") for c in text)


def _is_byte_level(tokens: Sequence[str]) -> bool:
    """Whether pieces are written in GPT-2's alphabet of bytes: only its letters, and either its space or bytes that make good text."""
    ordinary = "".join(t for t in tokens if not _SPECIAL.match(t) and not _BYTE.match(t))
    table = _unmap()
    if not all(c in table for c in ordinary):
        return False
    if "Ġ" in ordinary or "Ċ" in ordinary:
        return True
    if not any(ord(c) >= 0x100 for c in ordinary):
        return False
    try:
        bytes(table[c] for c in ordinary).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


@cache
def _unmap() -> dict[str, int]:
    """GPT-2's alphabet back to bytes: printable Latin-1 stands for itself, the rest follow from U+0100."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(b): b for b in kept}
    table.update({chr(0x100 + n): b for n, b in enumerate(b for b in range(256) if b not in kept)})
    return table
