"""What each room shows before anything was asked: real results, made by the models at hand when the server starts."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from .jobs import Jobs
from .library import Library
from .refusal import Refusal

SENTENCES = {"zh": "我爱中国。", "de": "Was möchtest du heute Abend essen?", "": "a b c d"}
WORDS = "ROMEO:\nBut, soft! what light through yonder window breaks?"
PLAIN = "The animal didn't cross the street because it was too tired."
MOLE = {
    "word": "mole",
    "sentences": ["American shrew mole", "one mole of carbon dioxide", "take a biopsy of the mole"],
}


class First:
    """The first results of the rooms that need a model; the page waits for them if it comes too early."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.ready: dict[str, dict[str, Any]] = {}
        self._done = {room: asyncio.Event() for room in ("translate", "look")}

    async def make(self, jobs: Jobs) -> None:
        """One room after the other; a model that fails leaves its room with the reason instead of a result."""
        for room, wanted in (("translate", self.translation()), ("look", self.sighting())):
            made: dict[str, Any] = {"asked": wanted and wanted[1], "answer": None, "refused": None}
            if wanted is not None:
                try:
                    made["answer"] = json.loads(await jobs.run(*wanted, seconds=300, name=f"first-{room}"))
                except Refusal as refusal:
                    made["refused"] = refusal.plain()
            self.ready[room] = made
            self._done[room].set()

    async def of(self, room: str) -> dict[str, Any]:
        await self._done[room].wait()
        return self.ready[room]

    def translation(self) -> tuple[str, dict[str, Any]] | None:
        """Translators of one language, the best first, and one without attention where there is one."""
        known = [model for model in self.library.models.values() if model.kind == "translator"]
        if not known:
            return None
        language = next((code for code in ("zh", "de", "") if any(m.source == code and m.attention for m in known)), known[0].source)
        able = sorted((m for m in known if m.source == language), key=lambda m: (-m.bleu, "bahdanau" not in m.about))
        attending = [m.name for m in able if m.attention][:2]
        fixed = [m.name for m in able if not m.attention][:1]
        return "translate", {"models": attending + fixed or [able[0].name], "text": SENTENCES[language], "width": 4, "hard": False}

    def sighting(self) -> tuple[str, dict[str, Any]] | None:
        """A text read by a shipped language model, or by whatever reads texts here."""
        texts = self.library.names("text")
        if not texts:
            return None
        name = next((n for n in texts if "shakespeare" in n), texts[0])
        return "look", {"model": name, "text": PLAIN if name == "minilm" else WORDS, "changes": []}
