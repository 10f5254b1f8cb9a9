"""The backward pass of `streamed`: each tile is recomputed from the row's threshold, and its gradients are accumulated.

dS = g ∘ (dP − mean) with g the choice's slope and mean = Σ g·dP / Σ g; for softmax g = P and the mean is dO·O − dlse.

Axes: B batch, h heads, k key heads, l rows and s columns of a tile, L queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..biases import Bias
from ..choices import Row, Sample, Softmax
from .axes import tile_slice
from .dropout import keep, scale
from .request import Input, Request
from .tiles import Tile, Tiles, finite, repeat_heads


class Backward:
    """One backward pass over row blocks.

    needs: which of the inputs need a gradient; d_entropy (B, h, L): of each row's −Σ p·ln p (for a softmax, d_lse must hold the part of
    its gradient that is the same along a row).
    """

    def __init__(self, request: Request, inputs: list[Tensor | None], needs: tuple[bool, ...], d_entropy: Tensor | None = None) -> None:
        self.request, self.d_entropy = request, d_entropy
        self.tiles = Tiles(request)
        self.soft = request.choice.distribution()
        self.inputs, self.needs = inputs, needs
        dtype = self.tiles.dtype
        self.grads: list[Tensor | None] = [
            torch.zeros_like(x, dtype=dtype, memory_format=torch.contiguous_format) if x is not None and need else None
            for x, need in zip(inputs, needs, strict=True)
        ]
        masked = request.mask is not None
        # 0 · NaN is NaN in the products below: set hidden NaN and inf to 0 (rows that see them are NaN through dO·O already).
        self.query, self.key, self.value = (
            x if not masked or finite(x) else x.nan_to_num(0, 0, 0) for x in (request.query, request.key, request.value)
        )

    def run(
        self, output: Tensor, lse: Tensor, index: Tensor, d_out: Tensor | None, d_lse: Tensor | None, d_picked: Tensor | None
    ) -> list[Tensor | None]:
        request, dtype = self.request, self.tiles.dtype
        softmax = isinstance(request.choice, Softmax | Sample)
        soft = d_out is not None and output.numel() > 0
        for rows in self.tiles.row_blocks():
            block = slice(rows.start, rows.stop)
            do = d_out[:, :, block].to(dtype) if soft and d_out is not None else None
            row = Row(lse[:, :, block], torch.ones_like(lse[:, :, block])) if softmax else self.tiles.fit(rows)
            if softmax:
                mean = row.threshold.new_zeros(row.threshold.shape)
                if do is not None:
                    mean = (do * output[:, :, block].to(dtype)).sum(-1)
                if d_lse is not None:
                    mean = mean - d_lse[:, :, block]
                self._sinks(row, mean)
            else:
                mean = self._mean(rows, row, do)
                self._learned(rows, row, mean, do)
            picked = None if d_picked is None else (index[:, :, block], d_picked[:, :, block].to(dtype))
            for tile in self.tiles.row(rows):
                self._tile(tile, row, mean, do, picked)
        return [None if g is None or x is None else g.to(x.dtype) for g, x in zip(self.grads, self.inputs, strict=True)]

    def _weight_gradient(self, tile: Tile, do: Tensor, p: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """dP, the gradient of the weights, and the weights after dropout."""
        request = self.request
        value = repeat_heads(self.value[:, :, tile.cols.start : tile.cols.stop].to(do.dtype), request.group)
        dp = do @ value.mT
        if not request.dropout:
            return dp, p
        kept = keep(request.seed, request.dropout, *request.sizes[:2], tile.rows, tile.cols, do.device).to(do.dtype) * scale(
            request.dropout
        )
        return dp * kept, None if p is None else p * kept

    def _with_entropy(self, dp: Tensor, p: Tensor, rows: range) -> Tensor:
        """dP with the gradient of the rows' entropies."""
        if self.d_entropy is None:
            return dp
        d_entropy = self.d_entropy[:, :, rows.start : rows.stop].unsqueeze(-1).to(dp.dtype)
        return dp - d_entropy * torch.where(p > 0, p.where(p > 0, 1).log() + 1, 0)

    def _mean(self, rows: range, row: Row, do: Tensor | None) -> Tensor:
        """Σ g·dP / Σ g of a sparse choice: one more pass over the row's tiles."""
        total = torch.zeros_like(row.threshold)
        if do is not None:
            for tile in self.tiles.row(rows):
                p = self.soft.weights(tile.z, row)
                dp = self._with_entropy(self._weight_gradient(tile, do, None)[0], p, rows)
                g = self.soft.slope(p)
                total += torch.where(g > 0, g * dp, 0.0).sum(-1)
        return torch.where(row.mass > 0, total / row.mass.clamp(min=torch.finfo(total.dtype).tiny), 0.0)

    def _learned(self, rows: range, row: Row, mean: Tensor, do: Tensor | None) -> None:
        """The gradient of the choice's learned tensor, Σ dP·a − mean · Σ a with a its drift: one more pass."""
        grad = self.grads[Input.CHOICE]
        if grad is None or do is None:
            return
        for tile in self.tiles.row(rows):
            p = self.soft.weights(tile.z, row)
            dp = self._with_entropy(self._weight_gradient(tile, do, None)[0], p, rows)
            part = torch.where(p > 0, self.soft.drift(p) * (dp - mean.unsqueeze(-1)), 0.0)
            grad += part.sum() if grad.numel() == 1 else part.sum((0, 2, 3))

    def _sinks(self, row: Row, mean: Tensor) -> None:
        grad = self.grads[Input.SINKS]
        if grad is not None and self.request.sinks is not None:
            weight = (self.request.sinks.to(mean.dtype).view(1, -1, 1) - row.threshold).exp()
            grad -= (weight * mean).sum((0, 2))

    def _tile(self, tile: Tile, row: Row, mean: Tensor, do: Tensor | None, picked: tuple[Tensor, Tensor] | None) -> None:
        p = self.soft.weights(tile.z, row)
        if do is None:
            dp, kept = torch.zeros_like(p), None
        else:
            dp, kept = self._weight_gradient(tile, do, p)
            if (grad := self.grads[Input.VALUE]) is not None and kept is not None:
                self._add(grad, tile.cols, kept.mT @ do)
        dp = self._with_entropy(dp, p, tile.rows)
        dz = self.soft.slope(p) * (dp - mean.unsqueeze(-1))
        if picked is not None:
            index, d_picked = picked
            is_picked = torch.arange(tile.cols.start, tile.cols.stop, device=index.device) == index.unsqueeze(-1)
            dz = dz + is_picked * d_picked.unsqueeze(-1)
        if tile.visible is not None:
            dz = dz.masked_fill(~tile.visible, 0)
        beta = self.tiles.beta
        if (grad := self.grads[Input.BETA]) is not None and isinstance(beta, Tensor):
            s = tile.z / beta
            d_beta = dz * (s if tile.visible is None else s.masked_fill(~tile.visible, 0))
            grad += d_beta.sum((0, 2, 3)) if grad.dim() else d_beta.sum()
        self._scores(tile, dz * beta)

    def _scores(self, tile: Tile, ds: Tensor) -> None:
        """Add the gradients of query, key, biases and the score's parameters, given that of the raw scores."""
        request, grads = self.request, self.grads
        rows, cols = tile.rows, tile.cols
        self._bias(tile, ds)
        if request.score is not None:
            self._score_module(tile, ds)
            return
        if request.cap is not None:
            s = self.tiles.dots(self._block(self.query, rows), repeat_heads(self._block(self.key, cols), request.group), cols)
            ds = ds * (1 - (s / request.cap).square())
        if (grad := grads[Input.KEY_BIAS]) is not None:
            self._add(grad, cols, ds.sum(-2))
        ds = ds * request.scale
        if (grad := grads[Input.QUERY]) is not None:
            grad[:, :, rows.start : rows.stop] += ds @ repeat_heads(self._block(self.key, cols), request.group)
        if (grad := grads[Input.KEY]) is not None:
            self._add(grad, cols, ds.mT @ self._block(self.query, rows))

    def _score_module(self, tile: Tile, ds: Tensor) -> None:
        """As `_scores`, for a score that is not a dot product: autograd differentiates this one tile."""
        request, grads = self.request, self.grads
        assert request.score is not None
        parameters = list(request.score.parameters())
        with torch.enable_grad():
            q = self._block(self.query, tile.rows).detach().requires_grad_()
            k = repeat_heads(self._block(self.key, tile.cols), request.group).detach().requires_grad_()
            s = request.score.tile(q, k)
        learned = [p for p in parameters if p.requires_grad]
        dq, dk, *parameter_grads = torch.autograd.grad(s, [q, k, *learned], ds, allow_unused=True)
        if (grad := grads[Input.QUERY]) is not None and dq is not None:
            grad[:, :, tile.rows.start : tile.rows.stop] += dq
        if (grad := grads[Input.KEY]) is not None and dk is not None:
            self._add(grad, tile.cols, dk)
        self._parameters(parameters, 0, learned, parameter_grads)

    def _bias(self, tile: Tile, ds: Tensor) -> None:
        request = self.request
        if (grad := self.grads[Input.BIAS]) is not None:
            part = tile_slice(grad, tile.rows, tile.cols)
            part += ds.sum_to_size(part.shape)
        if not isinstance(request.bias, Bias):
            return
        parameters = list(request.bias.parameters())
        learned = [p for p in parameters if p.requires_grad]
        if not learned:
            return
        with torch.enable_grad():
            bias = self.tiles.bias(tile.rows, tile.cols)
        assert bias is not None
        parameter_grads = torch.autograd.grad(bias, learned, ds.sum_to_size(bias.shape), allow_unused=True)
        self._parameters(parameters, 0 if request.score is None else len(list(request.score.parameters())), learned, parameter_grads)

    def _parameters(
        self, parameters: list[torch.nn.Parameter], offset: int, learned: list[torch.nn.Parameter], grads: Sequence[Tensor | None]
    ) -> None:
        indices = {id(p): Input.PARAMETERS + offset + i for i, p in enumerate(parameters)}
        for parameter, grad in zip(learned, grads, strict=True):
            total = self.grads[indices[id(parameter)]]
            if total is not None and grad is not None:
                total += grad

    def _block(self, x: Tensor, span: range) -> Tensor:
        return x[:, :, span.start : span.stop].to(self.tiles.dtype)

    def _add(self, total: Tensor, cols: range, part: Tensor) -> None:
        """Add (B, h, s, …) onto the key heads (B, k, s, …) it belongs to."""
        if self.request.group > 1:
            part = part.unflatten(1, (-1, self.request.group)).sum(2)
        total[:, :, cols.start : cols.stop] += part
