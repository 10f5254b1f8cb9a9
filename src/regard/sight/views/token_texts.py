"""The tokens that the queries and keys of a sighting stand for, as pieces a reader can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .token_display import Piece, read_pieces

if TYPE_CHECKING:
    from ..sighting import Seen, Sighting


class TokenTexts:
    """The texts of one batch item (target and source), and which part of them the queries and keys of a call are."""

    def __init__(self, sighting: Sighting, batch: int) -> None:
        self._texts: list[list[Piece]] = []
        self._known: dict[str, int] = {}
        for name, tokens in (("text", sighting.tokens), ("source", sighting.source_tokens)):
            if tokens is not None:
                self._known[name] = len(self._texts)
                self._texts.append(read_pieces(tokens[batch]))

    def place(self, seen: Seen, side: str) -> dict[str, int]:
        """Where the queries or keys of a call stand: which text, and from which of its tokens on."""
        where = seen.query_pos if side == "query" else seen.key_pos
        source = seen.kind == "encoder" or (seen.kind == "cross" and side == "key")
        name = "source" if source else "text"
        if name not in self._known or len(self._texts[self._known[name]]) < where.stop:
            # The words are not known: their numbers stand for them.
            name += " numbers"
            number = self._known.setdefault(name, len(self._texts))
            if number == len(self._texts):
                self._texts.append([])
            known = self._texts[number]
            known += [Piece(str(i), "_") for i in range(len(known), where.stop)]
        return {"text": self._known[name], "start": where.start}

    def of(self, seen: Seen, side: str) -> list[Piece]:
        """The pieces themselves, one a query or key."""
        place, n = self.place(seen, side), len(seen.query_pos if side == "query" else seen.key_pos)
        return self._texts[place["text"]][place["start"] : place["start"] + n]

    def plain(self) -> list[dict[str, Any]]:
        return [pieces_json(pieces) for pieces in self._texts]


def pieces_json(pieces: Sequence[Piece]) -> dict[str, Any]:
    """Pieces as the page reads them."""
    return {
        "pieces": [piece.text for piece in pieces],
        "marks": "".join(piece.mark for piece in pieces),
        "parts": {str(i): list(piece.part) for i, piece in enumerate(pieces) if piece.part is not None},
    }
