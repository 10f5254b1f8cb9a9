"""Look inside any model: watch its attention, change it, label its heads, draw what was seen. transformers is not imported here."""

from __future__ import annotations

from .change import change
from .hugging_face import register
from .labels import Labels, label_heads
from .proof import Proof
from .sighting import Head, Kept, Missed, Seen, Sighting
from .watch import default_readings, watch

__all__ = [
    "Head",
    "Kept",
    "Labels",
    "Missed",
    "Proof",
    "Seen",
    "Sighting",
    "change",
    "default_readings",
    "label_heads",
    "register",
    "watch",
]
