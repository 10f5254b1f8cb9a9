"""Readable text for a tokenizer's tokens: spaces as marks, byte tokens joined to characters, special tokens by name.

Tokenizers encode spaces and bytes in their tokens (``Ġthe``, ``▁the``, ``##ing``, ``<0xE5>``, ``[CLS]``); views show the text itself.
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
class DisplayToken:
    """One token as a view displays it.

    text: the displayed text. mark: "." plain, "_" begins a word (a space before it), "+" continues a word, "*" special token.
    part: (2, 3) for the second of three tokens that together encode one character; text is then that character.
    """

    text: str
    mark: Mark = "."
    part: tuple[int, int] | None = None

    @property
    def label(self) -> str:
        """The text for an axis label: without a space mark, with the part number of a split character, a special token as ‹s›."""
        if self.mark == "*":
            return f"‹{self.text}›"
        if self.part is not None:
            return f"{self.text} {self.part[0]}/{self.part[1]}"
        return self.text or "␣"


def display_tokens(tokens: Sequence[str]) -> list[DisplayToken]:
    """Return one `DisplayToken` for each token of a tokenizer.

    >>> [p.text for p in display_tokens(["<s>", "▁The", "▁FBI", "<0xE5>", "<0x9B>", "<0xBD>"])]
    ['s', 'The', 'FBI', '国', '国', '国']
    >>> display_tokens(["[CLS]", "chas", "##ing"])[2]
    DisplayToken(text='ing', mark='+', part=None)
    >>> [p.label for p in display_tokens(["Ġå", "Ľ", "½"])]
    ['国 1/3', '国 2/3', '国 3/3']
    """
    byte_level = _is_byte_level(tokens)
    displayed: list[DisplayToken] = []
    raw: list[bytes | None] = []  # the bytes of a token that may hold a part of a character, None for any other
    for token in tokens:
        special = _SPECIAL.match(token)
        single = _BYTE.match(token)
        if special is not None:
            displayed.append(DisplayToken(next(name for name in special.groups() if name), "*"))
            raw.append(None)
        elif single is not None:
            displayed.append(DisplayToken(""))
            raw.append(bytes([int(single.group(1), 16)]))
        elif byte_level:
            displayed.append(DisplayToken(""))
            raw.append(bytes(_gpt2_bytes()[c] for c in token))
        else:
            displayed.append(_plain(token))
            raw.append(None)
    start = 0
    while start < len(raw):
        if raw[start] is None:
            start += 1
            continue
        stop = start
        while stop < len(raw) and raw[stop] is not None:
            stop += 1
        displayed[start:stop] = _decode([b or b"" for b in raw[start:stop]])
        start = stop
    return displayed


def _plain(token: str) -> DisplayToken:
    """Return the display of a WordPiece or SentencePiece token."""
    if token.startswith("##") and len(token) > 2:
        return DisplayToken(_visible(token[2:]), "+")
    if token.startswith(("▁", " ")):
        return DisplayToken(_visible(token[1:].replace("▁", " ")), "_")
    return DisplayToken(_visible(token.replace("▁", " ")))


def _decode(chunks: list[bytes]) -> list[DisplayToken]:
    """Decode the bytes of neighbouring tokens; a character split among tokens is displayed on each of its parts."""
    displayed: list[DisplayToken] = []
    start = 0
    while start < len(chunks):
        # Grow the group until it ends where a character ends; a UTF-8 character has at most four bytes.
        for stop in range(start + 1, min(start + 5, len(chunks)) + 1):
            joined = b"".join(chunks[start:stop])
            try:
                text = joined.decode("utf-8")
                break
            except UnicodeDecodeError as error:
                if error.reason != "unexpected end of data":
                    stop, text = start + 1, chunks[start].decode("utf-8", errors="replace")
                    break
        else:
            stop, text = start + 1, chunks[start].decode("utf-8", errors="replace")
        mark: Mark = "_" if text.startswith(" ") else "."
        body = _visible(text[1:] if mark == "_" else text)
        count = stop - start
        displayed += [DisplayToken(body, mark if i == 0 else "+", (i + 1, count) if count > 1 else None) for i in range(count)]
        start = stop
    return displayed


def _visible(text: str) -> str:
    """Replace line ends and tabs by visible marks, other control characters by their code."""
    named = {"\n": "⏎", "\r": "␍", "\t": "⇥"}
    return "".join(named.get(c, c if c.isprintable() or c in " \u3000\u200d" else f"‹{ord(c):02x}›") for c in text)


def _is_byte_level(tokens: Sequence[str]) -> bool:
    """Return whether tokens use GPT-2's byte alphabet: only its characters, and either its space or bytes that are valid UTF-8."""
    ordinary = "".join(t for t in tokens if not _SPECIAL.match(t) and not _BYTE.match(t))
    table = _gpt2_bytes()
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
def _gpt2_bytes() -> dict[str, int]:
    """Return the byte of each character of GPT-2's alphabet: printable Latin-1 is itself, the other bytes follow from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(b): b for b in printable}
    table.update({chr(0x100 + n): b for n, b in enumerate(b for b in range(256) if b not in printable)})
    return table
