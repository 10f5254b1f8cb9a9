"""Attention as layers: multi-head, key-value, pooling, positions, caches, and the long-context variants."""

from .adaptive_span import AdaptiveSpanAttention
from .blocksparse import bigbird_layout, fixed_layout, local_layout, strided_layout
from .cache import Cache, LayerCache
from .hard import HardAttention, MovingBaseline
from .hashing import LshAttention, hashed_attend
from .keyvalue import KeyValueAttention
from .linformer import LinformerAttention
from .longformer import LongformerAttention
from .multihead import MultiHeadAttention, ParameterTable, Projected
from .pooling import AttentionPooling, GatedPooling, MaxPooling, WinnerTakeAll
from .positions import Learned, Rotary, Sinusoidal

__all__ = [
    "AdaptiveSpanAttention",
    "AttentionPooling",
    "Cache",
    "GatedPooling",
    "HardAttention",
    "KeyValueAttention",
    "LayerCache",
    "Learned",
    "LinformerAttention",
    "LongformerAttention",
    "LshAttention",
    "MaxPooling",
    "MovingBaseline",
    "MultiHeadAttention",
    "ParameterTable",
    "Projected",
    "Rotary",
    "Sinusoidal",
    "WinnerTakeAll",
    "bigbird_layout",
    "fixed_layout",
    "hashed_attend",
    "local_layout",
    "strided_layout",
]
