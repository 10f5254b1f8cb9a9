"""Batches of similar lengths under a limit of tokens, in an order that depends only on (seed, epoch)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .vocabulary import PAD


def order_of(seed: int, epoch: int, *more: int) -> np.random.Generator:
    """Return the random generator of an epoch: the same for the same numbers, on every machine and in every process."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch, *more])))


def bucketed(lengths: Sequence[int], *, tokens: int, seed: int, epoch: int, limit: int | None = None) -> list[list[int]]:
    """Return batches of item indices with count × longest ≤ `tokens` (a single longer item is a batch of its own).

    Items are shuffled, sorted by length (equal lengths keep their shuffled order) and split; then the batches are shuffled.

    lengths: of the items, in tokens.
    tokens: the largest size of a batch, padding included.
    seed, epoch: together they decide the shuffling.
    limit: the largest number of items in a batch; None: any.

    Raises ValueError for `tokens` below 1.

    >>> sorted(len(b) for b in bucketed([2, 2, 2, 9], tokens=6, seed=0, epoch=0))
    [1, 3]
    """
    if tokens < 1:
        raise ValueError(f"tokens is {tokens}; expected 1 or more")
    random = order_of(seed, epoch)
    shuffled = random.permutation(len(lengths))
    sizes = np.asarray(lengths, dtype=np.int64)
    by_length = shuffled[np.argsort(sizes[shuffled], kind="stable")]
    batches: list[list[int]] = []
    batch: list[int] = []
    for item in by_length.tolist():
        full = limit is not None and len(batch) >= limit
        if batch and (full or (len(batch) + 1) * int(sizes[item]) > tokens):  # ascending: the newest is the longest
            batches.append(batch)
            batch = []
        batch.append(item)
    if batch:
        batches.append(batch)
    return [batches[i] for i in random.permutation(len(batches)).tolist()]


def padded(rows: Sequence[Sequence[int]], *, fill: int = PAD) -> tuple[Tensor, Tensor]:
    """Return rows of ids as one tensor (B, longest), padded with `fill`, and their lengths (B,).

    rows: lists of ids.
    fill: the id of the padding.

    >>> padded([[5, 6, 7], [8]])
    (tensor([[5, 6, 7],
            [8, 0, 0]]), tensor([3, 1]))
    """
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    longest = max((len(row) for row in rows), default=0)
    grid = torch.full((len(rows), longest), fill, dtype=torch.int64)
    for i, row in enumerate(rows):
        grid[i, : len(row)] = torch.tensor(row, dtype=torch.int64)
    return grid, lengths
