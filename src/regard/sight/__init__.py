"""Inspect the attention of any model: watch it, change it, label its heads, draw it. transformers is not imported here."""

from __future__ import annotations

from .capture.transformers_calls import register
from .change import change
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
