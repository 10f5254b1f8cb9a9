"""The displayed tokens of the queries and keys of a sighting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .token_display import DisplayToken, display_tokens

if TYPE_CHECKING:
    from ..sighting import Seen, Sighting


class TokenTexts:
    """The texts of one batch item (target and source), and the part of them that the queries and keys of a call are."""

    def __init__(self, sighting: Sighting, batch: int) -> None:
        self._texts: list[list[DisplayToken]] = []
        self._index: dict[str, int] = {}  # of a text in self._texts, by name
        for name, tokens in (("text", sighting.tokens), ("source", sighting.source_tokens)):
            if tokens is not None:
                self._index[name] = len(self._texts)
                self._texts.append(display_tokens(tokens[batch]))

    def location(self, seen: Seen, side: str) -> dict[str, int]:
        """Return the text of a call's queries or keys (side "query" or "key") and the index of their first token in it."""
        positions = seen.query_pos if side == "query" else seen.key_pos
        source = seen.kind == "encoder" or (seen.kind == "cross" and side == "key")
        name = "source" if source else "text"
        if name not in self._index or len(self._texts[self._index[name]]) < positions.stop:
            # The tokens are unknown: show their positions instead.
            name += " numbers"
            index = self._index.setdefault(name, len(self._texts))
            if index == len(self._texts):
                self._texts.append([])
            text = self._texts[index]
            text += [DisplayToken(str(i), "_") for i in range(len(text), positions.stop)]
        return {"text": self._index[name], "start": positions.start}

    def of(self, seen: Seen, side: str) -> list[DisplayToken]:
        """Return the tokens of a call's queries or keys (side "query" or "key")."""
        location, n = self.location(seen, side), len(seen.query_pos if side == "query" else seen.key_pos)
        return self._texts[location["text"]][location["start"] : location["start"] + n]

    def to_json(self) -> list[dict[str, Any]]:
        """Return all texts as plain JSON values."""
        return [tokens_json(tokens) for tokens in self._texts]


def tokens_json(tokens: Sequence[DisplayToken]) -> dict[str, Any]:
    """Return tokens as the plain JSON values that the page reads."""
    return {
        "pieces": [token.text for token in tokens],
        "marks": "".join(token.mark for token in tokens),
        "parts": {str(i): list(token.part) for i, token in enumerate(tokens) if token.part is not None},
    }
