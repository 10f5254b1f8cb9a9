"""Which positions of a sequence each rank holds; `shard` and `unshard`.

Axes: N positions of the whole sequence, n of this rank's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.distributed as dist
from torch import Tensor

Kind = Literal["zigzag", "straight"]


def place_in(group: dist.ProcessGroup | None) -> tuple[int, int]:
    """(rank, number of ranks) in a group; (0, 1) where torch.distributed is not initialised."""
    if group is None and not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    rank = dist.get_rank(group)
    if rank < 0:
        raise ValueError("this process is not a member of the group; call only on the group's own ranks")
    return rank, dist.get_world_size(group)


@dataclass(frozen=True)
class Layout:
    """How N positions are divided among P ranks.

    "straight": rank r holds the r-th of P pieces. "zigzag": the sequence is cut into 2P pieces and rank r holds the r-th from the
    front and the r-th from the back, so that under a causal mask every rank has the same work.

    length: N.
    ranks: P.
    kind: "straight" or "zigzag".

    Raises ValueError for another kind.

    >>> [Layout(8, 2).pieces(rank) for rank in (0, 1)]
    [(range(0, 2), range(6, 8)), (range(2, 4), range(4, 6))]
    >>> Layout(8, 2, "straight").pieces(1)
    (range(4, 8),)
    """

    length: int
    ranks: int
    kind: Kind = "zigzag"

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"layout is {self.kind!r}; expected one of {', '.join(map(repr, get_args(Kind)))}")

    def pieces(self, rank: int) -> tuple[range, ...]:
        """The runs of positions a rank holds, in the order of its tensors."""
        if self.kind == "straight" or self.ranks == 1:
            return (self._piece(rank, self.ranks),)
        return self._piece(rank, 2 * self.ranks), self._piece(2 * self.ranks - 1 - rank, 2 * self.ranks)

    def _piece(self, number: int, of: int) -> range:
        return range(number * self.length // of, (number + 1) * self.length // of)

    def size(self, rank: int) -> int:
        """How many positions a rank holds."""
        return sum(map(len, self.pieces(rank)))

    def part(self, x: Tensor, dim: int, rank: int) -> Tensor:
        """A rank's part of the whole tensor x along the axis `dim`."""
        if x.shape[dim] != self.length:
            raise ValueError(f"axis {dim} of {tuple(x.shape)} does not have the {self.length} positions of this layout")
        pieces = [x.narrow(dim, piece.start, len(piece)) for piece in self.pieces(rank)]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim)


def shard(x: Tensor, dim: int = -2, *, group: dist.ProcessGroup | None = None, layout: Kind = "zigzag") -> Tensor:
    """Return this rank's part of a tensor that every rank has in full: (…, N, …) to (…, n, …). Differentiable.

    x: the whole tensor, the same on every rank.
    dim: the axis of the positions.
    group: the ranks; None: all.
    layout: how positions are divided, as in :class:`Layout`.

    Without torch.distributed there is one rank:

    >>> shard(torch.arange(4), 0)
    tensor([0, 1, 2, 3])
    """
    rank, ranks = place_in(group)
    return Layout(x.shape[dim], ranks, layout).part(x, dim, rank)


@torch.no_grad()
def unshard(x: Tensor, dim: int = -2, *, group: dist.ProcessGroup | None = None, layout: Kind = "zigzag") -> Tensor:
    """Return the whole tensor, in order, from every rank's part: (…, n, …) to (…, N, …). Detached: not differentiable.

    x: this rank's part.
    dim, group, layout: as in :func:`shard`.

    Raises ValueError for parts that do not form a whole.

    >>> unshard(torch.arange(4), 0)
    tensor([0, 1, 2, 3])
    """
    rank, ranks = place_in(group)
    if ranks == 1:
        return x.detach()
    dim = dim % x.dim()
    size = torch.tensor([x.shape[dim]], device=x.device)
    sizes = [torch.empty_like(size) for _ in range(ranks)]
    dist.all_gather(sizes, size, group=group)
    counts = [int(count) for count in sizes]
    whole = Layout(sum(counts), ranks, layout)
    for other, count in enumerate(counts):
        if count != whole.size(other):
            raise ValueError(
                f"rank {other} holds {count} positions, but a {layout} layout of {whole.length} over {ranks} ranks gives it "
                f"{whole.size(other)}; shard with the same layout"
            )
    # Collectives need equal shapes: pad to the longest, cut afterwards.
    padded = x.new_zeros((*x.shape[:dim], max(counts), *x.shape[dim + 1 :]))
    padded.narrow(dim, 0, counts[rank]).copy_(x)
    parts = [torch.empty_like(padded) for _ in range(ranks)]
    dist.all_gather(parts, padded, group=group)
    result = x.new_empty((*x.shape[:dim], whole.length, *x.shape[dim + 1 :]))
    for other, part in enumerate(parts):
        start = 0
        for piece in whole.pieces(other):
            result.narrow(dim, piece.start, len(piece)).copy_(part.narrow(dim, start, len(piece)))
            start += len(piece)
    return result


__all__ = ["Kind", "Layout", "place_in", "shard", "unshard"]
