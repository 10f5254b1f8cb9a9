"""The heaviest keys of each row, and the weights times the norms of the values.

Axes: B batch, h heads, L queries, S keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor

from .reading import CompiledPass, Reading, Shape

MAX_COMPILED_TOP = 256  # the compiled pass inserts into a sorted list, which is slow beyond this length


class Top(NamedTuple):
    """The k heaviest keys of each row, heaviest first; weight 0 and key −1 where a row has fewer.

    weights: (B, h, L, k).
    keys: (B, h, L, k) int64.

    >>> from regard import causal, observe
    >>> q = torch.zeros(1, 1, 2, 8)
    >>> observe(q, q, q, mask=causal(), readings=[TopK(2)]).readings["top"].keys[0, 0]
    tensor([[ 0, -1],
            [ 0,  1]])
    """

    weights: Tensor
    keys: Tensor


class TopK(Reading):
    """The k heaviest keys of each row and their weights: a :class:`Top`.

    k: how many.

    Raises ValueError for a k below 1.

    >>> from regard import observe
    >>> q = torch.zeros(1, 1, 4, 8)
    >>> observe(q, q, q, readings=[TopK(2)]).readings["top"].weights.shape
    torch.Size([1, 1, 4, 2])
    """

    name = "top"

    def __init__(self, k: int) -> None:
        if k < 1:
            raise ValueError(f"k is {k}; TopK needs at least one key")
        self.k = k

    def start(self, shape: Shape) -> Top:
        return Top(shape.zeros(shape.L, self.k), torch.full((shape.B, shape.h, shape.L, self.k), -1, device=shape.device))

    def add(self, state: Top, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        block = slice(rows.start, rows.stop)
        best, index = p.topk(min(self.k, len(cols)), -1)
        self._keep(
            state,
            block,
            torch.cat([state.weights[:, :, block], best], -1),
            torch.cat([state.keys[:, :, block], index + cols.start], -1),
        )

    def _keep(self, state: Top, block: slice, weights: Tensor, keys: Tensor) -> None:
        """Store the k heaviest of these candidates for a block of rows."""
        weights, order = weights.topk(self.k, -1)
        state.weights[:, :, block] = weights
        state.keys[:, :, block] = keys.gather(-1, order).masked_fill(weights == 0, -1)

    def compiled(self, run: CompiledPass) -> Callable[[], Top] | None:
        if run.outputs.top or self.k > MAX_COMPILED_TOP:
            return None
        weights, keys = run.per_row(self.k), run.per_row(self.k, dtype=torch.int64)
        run.outputs.top_weights, run.outputs.top_keys, run.outputs.top = run.address(weights), run.address(keys), self.k
        return lambda: Top(weights, keys)

    def merge(self, a: Top, b: Top) -> Top:
        merged = Top(a.weights.clone(), a.keys.clone())
        self._keep(merged, slice(None), torch.cat([a.weights, b.weights], -1), torch.cat([a.keys, b.keys], -1))
        return merged


class NormWeighted(NamedTuple):
    """‖p·v‖ summed along each axis of the pattern: what `ValueNorm` gives.

    by_query: (B, h, L): Σ_n ‖p v_n‖ of each query.
    by_key: (B, h, S): Σ over queries of ‖p v_n‖ of each key.

    >>> from regard import observe
    >>> q, v = torch.zeros(1, 1, 2, 8), torch.tensor([[[[3.0], [1.0]]]])
    >>> observe(q, q, v, readings=[ValueNorm()]).readings["value_norm"].by_key[0, 0]
    tensor([3., 1.])
    """

    by_query: Tensor
    by_key: Tensor


@dataclass(frozen=True, eq=False)
class WeightedTotals:
    """The running sums of `ValueNorm`."""

    by_query: Tensor
    by_key: Tensor
    inputs: SimpleNamespace


class ValueNorm(Reading):
    """Norm-weighted attention ``‖p·v‖ = p‖v‖``: a large weight on a tiny value contributes little (Kobayashi et al. 2020, section 3).

    >>> from regard import observe
    >>> q = torch.zeros(1, 1, 4, 8)
    >>> observe(q, q, q, readings=[ValueNorm()]).readings["value_norm"].by_query.shape
    torch.Size([1, 1, 4])
    """

    name = "value_norm"
    needs_value_norms = True

    def start(self, shape: Shape) -> WeightedTotals:
        assert shape.value_norms is not None
        return WeightedTotals(shape.zeros(shape.L), shape.zeros(shape.S), SimpleNamespace(norms=shape.value_norms))

    def add(self, state: WeightedTotals, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        norms = state.inputs.norms[:, :, cols.start : cols.stop]
        mass = p.sum(-2)
        state.by_key[:, :, cols.start : cols.stop] += torch.where(mass > 0, mass * norms, 0)
        weighted = p @ torch.where(norms.isfinite(), norms, 0).unsqueeze(-1)
        state.by_query[:, :, rows.start : rows.stop] += weighted.squeeze(-1)

    def merge(self, a: WeightedTotals, b: WeightedTotals) -> WeightedTotals:
        return replace(a, by_query=a.by_query + b.by_query, by_key=a.by_key + b.by_key)

    def finish(self, state: WeightedTotals) -> NormWeighted:
        return NormWeighted(state.by_query, state.by_key)

    def compiled(self, run: CompiledPass) -> Callable[[], NormWeighted] | None:
        norms = run.shape.value_norms
        assert norms is not None
        if run.outputs.by_query:
            return None
        by_query, received = run.per_row(), run.received()
        clean = torch.where(norms.isfinite(), norms, 0).contiguous()
        run.outputs.norms, run.outputs.by_query = run.address(clean), run.address(by_query)

        def result() -> NormWeighted:
            mass = received.sum(0).to(norms.dtype)
            return NormWeighted(by_query, torch.where(mass > 0, mass * norms, 0))

        return result
