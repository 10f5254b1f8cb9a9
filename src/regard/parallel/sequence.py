"""Run a model of the library on a sharded sequence: global positions, and ring attention.

Axes: B batch, N tokens of the whole sequence, n of this rank's, D model width.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from ..attention import Attended
from ..kernels.request import AttentionOptions
from ..layers.cache import LayerCache
from ..layers.multihead import MultiHeadAttention, Projected
from ..layers.positions import Learned, Rotary, Sinusoidal
from ..readings import Reading
from .attention import RING_DEFAULTS, RingOptions, attend, observe
from .layout import Layout, place_in


@contextlib.contextmanager
def sharded(model: nn.Module, length: int, **ring: Unpack[RingOptions]) -> Iterator[None]:
    """Context manager: within the block, `model` maps this rank's part of a sequence of `length` tokens (`shard(ids, 1)`) to its output.

    Changes only self-attention and learned, sinusoidal and rotary positions. Weights are untouched; gradients are this rank's share.
    Masks, and the lengths passed to a `Bert`, are those of the whole sequence.

    >>> from regard.models import Gpt, GptConfig
    >>> model = Gpt(GptConfig(vocabulary=50, d_model=32, heads=2, layers=2, context=16))
    >>> with sharded(model, 6):  # without torch.distributed: a ring of one
    ...     model(torch.tensor([[1, 2, 3, 4, 5, 6]])).shape
    torch.Size([1, 6, 50])
    """
    rank, ranks = place_in(ring.get("group"))
    positions = _Positions(Layout(length, ranks, ring.get("layout", RING_DEFAULTS["layout"])).pieces(rank), ring)
    undo: list[Callable[[], None]] = []
    try:
        for module in model.modules():
            ring_class = _RING_CLASSES.get(type(module))
            if ring_class is None:
                continue
            undo.append(_swap(module, "__class__", ring_class))
            undo.append(_swap(module, "positions", positions))
            if isinstance(module, MultiHeadAttention) and module.rotary is not None:
                undo.append(_swap(module, "rotary", _RingRotary.of(module.rotary, positions)))
        yield
    finally:
        for restore in reversed(undo):
            restore()


@dataclass(frozen=True, eq=False)
class _Positions:
    """The positions of this rank's rows in the whole sequence, and the options of the ring."""

    pieces: tuple[range, ...]
    ring: RingOptions

    def encode(self, x: Tensor, encode: Callable[[Tensor, int], Tensor]) -> Tensor:
        """encode(part, start) for each run of consecutive positions of x (…, n, d)."""
        sizes = [len(piece) for piece in self.pieces]
        if x.shape[-2] != sum(sizes):
            raise ValueError(f"the input has {x.shape[-2]} tokens but this rank holds {sum(sizes)} of the sequence; pass shard(ids, 1)")
        parts = zip(torch.split(x, sizes, -2), self.pieces, strict=True)
        return torch.cat([encode(part, piece.start) for part, piece in parts if len(piece)] or [x], -2)


def _swap(module: nn.Module, name: str, value: Any) -> Callable[[], None]:
    """Set an attribute of a module; return a function that restores it."""
    if name not in module.__dict__ and name != "__class__":
        object.__setattr__(module, name, value)
        return lambda: object.__delattr__(module, name)
    before = getattr(module, name)
    object.__setattr__(module, name, value)
    return lambda: object.__setattr__(module, name, before)


class RingAttention(MultiHeadAttention):
    """Self-attention over keys on several ranks."""

    positions: _Positions

    def project_heads(
        self, x: Tensor, memory: Tensor | tuple[Tensor, Tensor] | Projected | None, cache: LayerCache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        if memory is not None or cache is not None:
            raise ValueError("a sharded sequence supports self-attention only; leave out memory and cache, or run the model unsharded")
        return super().project_heads(x, None, None)

    def attend_heads(self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions) -> Tensor:
        return attend(query, key, value, **options, **self.positions.ring)

    def observe_heads(self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions, readings: Sequence[Reading]) -> Attended:
        return observe(query, key, value, readings=readings, **options, **self.positions.ring)


class RingLearned(Learned):
    """Learned positions counted in the whole sequence."""

    positions: _Positions

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return self.positions.encode(x, super().forward)


class RingSinusoidal(Sinusoidal):
    """Sinusoidal positions counted in the whole sequence."""

    positions: _Positions

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return self.positions.encode(x, super().forward)


@dataclass(frozen=True)
class _RingRotary(Rotary):
    """Rotary positions counted in the whole sequence."""

    positions: _Positions | None = None

    @staticmethod
    def of(rotary: Rotary, positions: _Positions) -> _RingRotary:
        return _RingRotary(**{field.name: getattr(rotary, field.name) for field in fields(rotary)}, positions=positions)

    def turn(self, x: Tensor, start: int = 0) -> Tensor:
        assert self.positions is not None
        plain = Rotary(**{field.name: getattr(self, field.name) for field in fields(Rotary)})
        return self.positions.encode(x, plain.turn)


_RING_CLASSES: dict[type[nn.Module], type[nn.Module]] = {
    MultiHeadAttention: RingAttention,
    Learned: RingLearned,
    Sinusoidal: RingSinusoidal,
}

__all__ = ["RingAttention", "sharded"]
