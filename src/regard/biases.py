"""Biases added to the scores by position, computed tile by tile and never as an L × S tensor.

Axes: h heads, L queries, S keys.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn


class Bias(nn.Module):
    """Base class of biases. Parameters are trained like any module's; their gradient is summed over tiles.

    A new bias is a subclass with ``tile``; if its values depend on key − query alone, ``diagonals`` lets the compiled kernels read it.

    >>> from regard.biases import Bias, offsets
    >>> class Near(Bias):
    ...     def tile(self, rows, cols, L, S, *, device=None, dtype=None):
    ...         return -offsets(rows, cols, L, S, device=device).abs().to(dtype or torch.float32)[None, None]
    >>> Near().tile(range(2), range(2), 2, 2)[0, 0]
    tensor([[-0., -1.],
            [-1., -0.]])
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "tile" in vars(cls) and "diagonals" not in vars(cls):
            cls.diagonals = Bias.diagonals  # type: ignore[method-assign]  # those of its base class belong to another tile

    def tile(
        self, rows: range, cols: range, L: int, S: int, *, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Values for queries ``rows`` and keys ``cols`` of the whole L×S pattern, broadcastable to (B, h, l, s).

        device, dtype: of the tensor to return.
        """
        raise NotImplementedError

    def diagonals(self, L: int, S: int, *, device: torch.device | None = None, dtype: torch.dtype | None = None) -> Tensor | None:
        """The values of a bias that depends on key − query alone, (h|1, L + S − 1): entry n belongs to key − query = n − S + 1, with the
        last query at the position of the last key. None: it depends on more than that.

        device, dtype: of the tensor to return.
        """
        return None

    def check(self, heads: int) -> None:
        """Raise ValueError for a number of heads this bias was not made for."""

    def part(self, rows: range, cols: range, L: int, S: int) -> Bias:
        """The rectangle rows × cols of the L × S bias as a bias of its own."""
        return BiasPart(self, rows, cols, L, S)


class BiasPart(Bias):
    """A rectangle of a bias, computed by the whole bias."""

    def __init__(self, whole: Bias, rows: range, cols: range, L: int, S: int) -> None:
        super().__init__()
        self.whole, self.rows, self.cols, self.length, self.keys = whole, rows, cols, L, S

    def tile(
        self, rows: range, cols: range, L: int, S: int, *, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        whole_rows = range(rows.start + self.rows.start, rows.stop + self.rows.start)
        whole_cols = range(cols.start + self.cols.start, cols.stop + self.cols.start)
        return self.whole.tile(whole_rows, whole_cols, self.length, self.keys, device=device, dtype=dtype)

    def diagonals(self, L: int, S: int, *, device: torch.device | None = None, dtype: torch.dtype | None = None) -> Tensor | None:
        values = self.whole.diagonals(self.length, self.keys, device=device, dtype=dtype)
        first = self.cols.start - self.rows.start + self.length - L
        return None if values is None else values[:, first : first + L + S - 1]

    def check(self, heads: int) -> None:
        self.whole.check(heads)


def offsets(rows: range, cols: range, L: int, S: int, *, device: torch.device | None = None) -> Tensor:
    """Return the signed distance key − query (l, s), with the last query at the position of the last key.

    rows, cols: the positions of the queries and keys of a tile.
    L, S: how many queries and keys there are in all.
    device: of the tensor to return.

    >>> offsets(range(2), range(3), 2, 3)
    tensor([[-1,  0,  1],
            [-2, -1,  0]])
    """
    i = torch.arange(rows.start, rows.stop, device=device) + (S - L)
    return torch.arange(cols.start, cols.stop, device=device) - i.unsqueeze(-1)


def diagonal_offsets(L: int, S: int, *, device: torch.device | None = None) -> Tensor:
    """The signed distance key − query of each of the L + S − 1 diagonals, ascending.

    >>> diagonal_offsets(2, 3)
    tensor([-2, -1,  0,  1])
    """
    return torch.arange(1 - S, L, device=device)


class Diagonals(Bias):
    """A bias given by its diagonals, (h|1, L + S − 1), as `Bias.diagonals` returns them; for one pair of sizes (L, S).

    >>> Diagonals(torch.arange(4.0)[None]).tile(range(2), range(3), 2, 3)[0, 0]
    tensor([[1., 2., 3.],
            [0., 1., 2.]])
    """

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.__dict__["values"] = values  # not a parameter of this module: whoever made it keeps it

    values: Tensor

    def tile(
        self, rows: range, cols: range, L: int, S: int, *, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        index = offsets(rows, cols, L, S, device=device) + (S - 1)  # (l, s)
        return self.values.to(device=device, dtype=dtype)[:, index].unsqueeze(0)  # (1, h, l, s)

    def diagonals(self, L: int, S: int, *, device: torch.device | None = None, dtype: torch.dtype | None = None) -> Tensor:
        return self.values.to(device=device, dtype=dtype)

    def check(self, heads: int) -> None:
        _check_heads(self, self.values.shape[0], heads)


class Alibi(Bias):
    """ALiBi: ``−slope · |key − query|`` with one fixed slope per head (Press et al. 2022, section 3).

    heads: number of heads; the slopes are 2^(−8/heads), 2^(−16/heads), ….

    >>> Alibi(8).tile(range(2), range(2), 2, 2)[0, 0]
    tensor([[-0.0000, -0.5000],
            [-0.5000, -0.0000]])
    """

    slopes: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        # The paper's rule: slopes of the next smaller power of two, then every other slope of the next larger.
        power = 2 ** int(math.log2(heads)) if heads else 0
        slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
        slopes += [2 ** (-4 * (i + 1) / power) for i in range(0, 2 * (heads - power), 2)]
        self.register_buffer("slopes", torch.tensor(slopes))

    def tile(
        self, rows: range, cols: range, L: int, S: int, *, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        slopes = self.slopes.to(device=device, dtype=dtype)
        return -slopes.view(1, -1, 1, 1) * offsets(rows, cols, L, S, device=device).abs()  # (1, h, l, s)

    def diagonals(self, L: int, S: int, *, device: torch.device | None = None, dtype: torch.dtype | None = None) -> Tensor:
        return -self.slopes.to(device=device, dtype=dtype).unsqueeze(-1) * diagonal_offsets(L, S, device=device).abs()

    def check(self, heads: int) -> None:
        _check_heads(self, self.slopes.numel(), heads)


class RelativeBias(Bias):
    """T5's relative position bias: one learned number per head and bucket; near distances singly, far ones in logarithmic buckets.

    Raffel et al. 2020 (T5), section 2.1. ``table`` is (buckets, heads).

    heads: number of heads.
    buckets: rows of the table.
    max_distance: all distances from here on share the last bucket.
    both_directions: half of the buckets for keys after the query (encoders); False: those share the bucket of distance 0 (decoders).

    Raises ValueError for too few buckets or too short a distance.

    >>> RelativeBias(heads=4).tile(range(5), range(7), 5, 7).shape
    torch.Size([1, 4, 5, 7])
    """

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, *, both_directions: bool = True) -> None:
        super().__init__()
        if buckets < 4 or max_distance <= buckets // 2:
            raise ValueError(f"buckets={buckets}, max_distance={max_distance}; expected buckets ≥ 4 and max_distance > buckets // 2")
        self.buckets, self.max_distance, self.both_directions = buckets, max_distance, both_directions
        self.table = nn.Parameter(torch.zeros(buckets, heads))

    def bucket(self, offset: Tensor) -> Tensor:
        """The bucket of each signed offset key − query."""
        count = self.buckets
        base = torch.zeros_like(offset)
        if self.both_directions:
            count //= 2
            base = (offset > 0).to(offset.dtype) * count
            distance = offset.abs()
        else:
            distance = (-offset).clamp(min=0)
        exact = count // 2
        log = torch.log(distance.clamp(min=1).to(torch.float32) / exact) / math.log(self.max_distance / exact) * (count - exact)
        far = (exact + log.to(offset.dtype)).clamp(max=count - 1)
        return base + torch.where(distance < exact, distance, far)

    def tile(
        self, rows: range, cols: range, L: int, S: int, *, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        # A tile has only l + s − 1 different offsets: compute those, then index them along the diagonals.
        first = cols.start - (rows.stop - 1 + S - L)
        diagonals = torch.arange(first, first + max(0, len(rows) + len(cols) - 1), device=device)
        values = self.table.to(device=device, dtype=dtype)[self.bucket(diagonals)]  # (l + s − 1, h)
        index = offsets(rows, cols, L, S, device=device) - first  # (l, s)
        return values[index].permute(2, 0, 1).unsqueeze(0)  # (1, h, l, s)

    def diagonals(self, L: int, S: int, *, device: torch.device | None = None, dtype: torch.dtype | None = None) -> Tensor:
        buckets = self.bucket(diagonal_offsets(L, S, device=device))
        return nn.functional.embedding(buckets, self.table.to(device=device, dtype=dtype)).mT

    def check(self, heads: int) -> None:
        _check_heads(self, self.table.shape[1], heads)


def _check_heads(bias: Bias, made_for: int, heads: int) -> None:
    if made_for not in (1, heads):
        raise ValueError(f"{type(bias).__name__} was made for {made_for} heads but the query has {heads}; make it with heads={heads}")
