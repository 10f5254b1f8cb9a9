"""Attention as people write it themselves, and what looks like attention and is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class HandWrittenAttention(nn.Module):
    """Self-attention with four heads, in the way that `weights` makes them from scores and `multiply` sums the values."""

    def __init__(self, weights: Callable[[Tensor], Tensor], multiply: Callable[[Tensor, Tensor], Tensor] = torch.matmul) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.weights, self.multiply = weights, multiply

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.project(x).chunk(3, -1))
        p = self.weights(q @ k.transpose(-2, -1) / math.sqrt(8))
        return self.out(self.multiply(p, v).transpose(1, 2).flatten(2))


def causal(scores: Tensor) -> Tensor:
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return F.dropout(scores.masked_fill(hidden, -math.inf).softmax(-1), 0.1, training=False)


def exponentials(scores: Tensor) -> Tensor:
    e = torch.exp(scores - scores.max(-1, keepdim=True).values)
    return e / e.sum(-1, keepdim=True)


def along_columns(scores: Tensor) -> Tensor:
    return scores.transpose(-2, -1).softmax(-2).transpose(-2, -1)


class Fairseq(nn.Module):
    """Time first, heads folded into the batch, torch.bmm."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = 4
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(32, 32) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(0, 1)  # (L, B, 32)
        L, B, _ = x.shape
        q, k, v = (p(x).contiguous().view(L, B * 4, 8).transpose(0, 1) for p in (self.q_proj, self.k_proj, self.v_proj))
        p = F.softmax(torch.bmm(q * 8**-0.5, k.transpose(1, 2)), dim=-1, dtype=torch.float32).type_as(q)
        return torch.bmm(p, v).transpose(0, 1).reshape(L, B, 32)


class BahdanauAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w, self.u, self.v = nn.Linear(32, 16), nn.Linear(32, 16), nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        e = self.v(torch.tanh(self.w(x).unsqueeze(1) + self.u(x).unsqueeze(2))).squeeze(-1)  # (B, L, S)
        return torch.bmm(e.softmax(-1), x)


class AttentionPooling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(32, 1)

    def forward(self, x: Tensor) -> Tensor:
        return (self.score(x).softmax(1) * x).sum(1)


class Router(nn.Module):
    """A mixture of experts: a softmax, and no attention."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(32, 3)
        self.experts = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        outputs = torch.stack([expert(x) for expert in self.experts], -2)
        return (self.router(x).softmax(-1).unsqueeze(-1) * outputs).sum(-2)


class SpatialSoftmax(nn.Module):
    """The mean position of every feature map: a softmax over places, and no attention."""

    def forward(self, x: Tensor) -> Tensor:
        places = torch.linspace(-1, 1, x.shape[1])
        return x.transpose(1, 2).softmax(-1) @ places.view(-1, 1)


def _built(make: Callable[[], nn.Module]) -> Callable[[], tuple[nn.Module, tuple[Any, ...]]]:
    return lambda: (make(), (torch.randn(2, 9, 32),))


def _soft(scores: Tensor) -> Tensor:
    return scores.softmax(-1)


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {
    "as in nanoGPT": _built(lambda: HandWrittenAttention(causal)),
    "as in fairseq": _built(Fairseq),
    "einsum": _built(lambda: HandWrittenAttention(_soft, lambda p, v: torch.einsum("bhij,bhjd->bhid", p, v))),
    "exp over sum": _built(lambda: HandWrittenAttention(exponentials)),
    "exp of log_softmax": _built(lambda: HandWrittenAttention(lambda s: s.log_softmax(-1).exp())),
    "softmax along columns": _built(lambda: HandWrittenAttention(along_columns)),
    "sigmoid": _built(lambda: HandWrittenAttention(torch.sigmoid)),
    "times values, then a sum": _built(lambda: HandWrittenAttention(_soft, lambda p, v: (p.unsqueeze(-1) * v.unsqueeze(-3)).sum(-2))),
    "additive (Bahdanau)": _built(BahdanauAttention),
    "pooling": _built(AttentionPooling),
    "no attention: router": _built(Router),
    "no attention: spatial softmax": _built(SpatialSoftmax),
}
