"""A model of the library on a sharded sequence: its positions counted in the whole, its attention a ring.

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
    """Within this, `model` takes this rank's part of a sequence of `length` tokens (`shard(ids, 1)`) and gives that part's output.

    Self-attention, learned, sinusoidal and rotary positions are all it changes; weights are untouched, and gradients are this rank's
    share of them. Masks, and the lengths a `Bert` is given, are those of the whole sequence.

    >>> from regard.models import Gpt, GptConfig
    >>> model = Gpt(GptConfig(vocabulary=50, d_model=32, heads=2, layers=2, context=16))
    >>> with sharded(model, 6):  # without torch.distributed: a ring of one
    ...     model(torch.tensor([[1, 2, 3, 4, 5, 6]])).shape
    torch.Size([1, 6, 50])
    """
    rank, ranks = place_in(ring.get("group"))
    where = _Where(Layout(length, ranks, ring.get("layout", RING_DEFAULTS["layout"])).pieces(rank), ring)
    undo: list[Callable[[], None]] = []
    try:
        for module in model.modules():
            found = next((made for plain, made in _RINGED.items() if type(module) is plain), None)
            if found is None:
                continue
            undo.append(_swap(module, "__class__", found))
            undo.append(_swap(module, "where", where))
            if isinstance(module, MultiHeadAttention) and module.rotary is not None:
                undo.append(_swap(module, "rotary", _Turned.of(module.rotary, where)))
        yield
    finally:
        for back in reversed(undo):
            back()


@dataclass(frozen=True, eq=False)
class _Where:
    """The positions this rank's rows stand at, and how its ring is run."""

    pieces: tuple[range, ...]
    ring: RingOptions

    def place(self, x: Tensor, at: Callable[[Tensor, int], Tensor]) -> Tensor:
        """at(part, start) for each run of positions of x (…, n, d)."""
        sizes = [len(piece) for piece in self.pieces]
        if x.shape[-2] != sum(sizes):
            raise ValueError(f"there are {x.shape[-2]} tokens but this rank holds {sum(sizes)} of the sequence; pass shard(ids, 1)")
        parts = zip(torch.split(x, sizes, -2), self.pieces, strict=True)
        return torch.cat([at(part, piece.start) for part, piece in parts if len(piece)] or [x], -2)


def _swap(module: nn.Module, name: str, value: Any) -> Callable[[], None]:
    """Set an attribute of a module; what sets it back."""
    if name not in module.__dict__ and name != "__class__":
        object.__setattr__(module, name, value)
        return lambda: object.__delattr__(module, name)
    before = getattr(module, name)
    object.__setattr__(module, name, value)
    return lambda: object.__setattr__(module, name, before)


class RingAttention(MultiHeadAttention):
    """Self-attention whose keys lie on several ranks."""

    where: _Where

    def project_heads(
        self, x: Tensor, memory: Tensor | tuple[Tensor, Tensor] | Projected | None, cache: LayerCache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        if memory is not None or cache is not None:
            raise ValueError("a sharded sequence attends to itself only: leave out the memory and the cache, or run the model whole")
        return super().project_heads(x, None, None)

    def attend_heads(self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions) -> Tensor:
        return attend(query, key, value, **options, **self.where.ring)

    def observe_heads(self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions, readings: Sequence[Reading]) -> Attended:
        return observe(query, key, value, readings=readings, **options, **self.where.ring)


class RingLearned(Learned):
    where: _Where

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return self.where.place(x, super().forward)


class RingSinusoidal(Sinusoidal):
    where: _Where

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return self.where.place(x, super().forward)


@dataclass(frozen=True)
class _Turned(Rotary):
    """Rotary positions that turn each row by where it stands in the whole sequence."""

    where: _Where | None = None

    @staticmethod
    def of(rotary: Rotary, where: _Where) -> _Turned:
        return _Turned(**{field.name: getattr(rotary, field.name) for field in fields(rotary)}, where=where)

    def turn(self, x: Tensor, start: int = 0) -> Tensor:
        assert self.where is not None
        plain = Rotary(**{field.name: getattr(self, field.name) for field in fields(Rotary)})
        return self.where.place(x, plain.turn)


_RINGED: dict[type[nn.Module], type[nn.Module]] = {
    MultiHeadAttention: RingAttention,
    Learned: RingLearned,
    Sinusoidal: RingSinusoidal,
}

__all__ = ["RingAttention", "sharded"]
