"""Common layouts of block-sparse attention, for ``block_sparse(layout, block)``: exact attention on the visible blocks.

A layout is bool (n, n) over blocks of tokens, queries in rows, keys in columns; hidden blocks are never computed. Use it as
``layer(x, mask=block_sparse(layout, 64))``; ``& causal()`` cuts the diagonal blocks.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["bigbird_layout", "fixed_layout", "local_layout", "strided_layout"]


def local_layout(n: int, left: int = 1, right: int = 1) -> Tensor:
    """Local layout: a block sees `left` blocks before and `right` blocks after itself.

    n: blocks of a side.
    left, right: how many blocks on either side.

    Returns the layout, bool (n, n), for :func:`regard.block_sparse`.

    >>> local_layout(3, left=1, right=0).int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """
    _check(n=n, left=left, right=right)
    offset = _offset(n)
    return (offset >= -left) & (offset <= right)


def strided_layout(n: int, stride: int) -> Tensor:
    """Strided layout: the last `stride` blocks, and every stride-th block before them. Child et al. 2019, section 4.3.

    n: blocks of a side.
    stride: how far back the near blocks go, and the distance of the far ones.

    Returns the layout, bool (n, n), for :func:`regard.block_sparse`.

    >>> strided_layout(5, 2).int().tolist()
    [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [1, 0, 1, 1, 1]]
    """
    _check(n=n)
    _check_positive(stride=stride)
    offset = _offset(n)
    return (offset <= 0) & ((offset > -stride) | (offset % stride == 0))


def fixed_layout(n: int, stride: int, summary: int = 1) -> Tensor:
    """Fixed layout: a block's own segment of `stride` blocks, and the last `summary` blocks of every earlier segment.

    Child et al. 2019, section 4.3.

    n: blocks of a side.
    stride: blocks of a segment.
    summary: blocks at the end of a segment that all later ones see.

    Returns the layout, bool (n, n), for :func:`regard.block_sparse`.

    >>> fixed_layout(4, 2).int().tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]]
    """
    _check(n=n)
    _check_positive(stride=stride, summary=summary)
    block = torch.arange(n)
    same_segment = block.unsqueeze(-1) // stride == block // stride
    return (_offset(n) <= 0) & (same_segment | (block % stride >= stride - summary))


def bigbird_layout(n: int, *, near: int = 1, everywhere: int = 1, random: int = 1, seed: int = 0) -> Tensor:
    """BigBird layout: `near` blocks on each side, `everywhere` global blocks at the start, `random` more per row.

    Zaheer et al. 2020, section 2.

    n: blocks of a side.
    near, everywhere, random: how many blocks of each kind.
    seed: of the random blocks.

    Returns the layout, bool (n, n), for :func:`regard.block_sparse`.

    >>> bigbird_layout(8, random=2).sum(1).tolist()
    [8, 5, 6, 6, 6, 6, 6, 5]
    """
    _check(n=n, near=near, everywhere=everywhere, random=random)
    layout = local_layout(n, near, near)
    layout[:everywhere] = True
    layout[:, :everywhere] = True
    order = torch.rand(n, n, generator=torch.Generator().manual_seed(seed)).masked_fill(layout, 2.0)  # visible blocks are drawn last
    return layout.scatter(1, order.argsort(1)[:, :random], True)


def _offset(n: int) -> Tensor:
    block = torch.arange(n)
    return block - block.unsqueeze(-1)  # column − row


def _check(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 0:
            raise ValueError(f"{name} is {size}; expected a number of blocks ≥ 0")


def _check_positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} is {size}; expected at least 1")
