"""What recorded attention is compared with: the weights of eager attention, and readings computed from them by definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.sight import Seen


@dataclass
class Eager:
    """One attention: weights (B, h, L, S) and values (B, k, S, dv)."""

    weights: Tensor
    value: Tensor


@contextmanager
def eager(model: Any) -> Iterator[list[Eager]]:
    """Run a transformers model with its eager attention inside the block; yields the list of its attentions."""
    from transformers import AttentionInterface

    original = AttentionInterface.get_interface
    attentions: list[Eager] = []

    def get_interface(self: Any, name: str, default: Callable[..., Any]) -> Callable[..., Any]:
        assert name == "eager", name

        def recorded(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **kwargs: Any) -> Any:
            output, weights = default(module, query, key, value, mask, **kwargs)
            p = weights.detach().double()
            if mask is not None:  # eager attention makes rows without visible keys uniform; ours are zero
                p = p.masked_fill((mask <= -1e30).all(-1, keepdim=True), 0)
            attentions.append(Eager(p, value.detach().double()))
            return output, weights

        return recorded

    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    AttentionInterface.get_interface = get_interface
    try:
        yield attentions
    finally:
        AttentionInterface.get_interface = original
        model.set_attn_implementation(before)


@contextmanager
def torch_weights() -> Iterator[list[Eager]]:
    """The same for nn.MultiheadAttention, whose weights are computed here from its calls of SDPA."""
    original = F.scaled_dot_product_attention
    attentions: list[Eager] = []

    def recorded(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0, is_causal: bool = False) -> Tensor:
        s = q.double() @ k.double().mT / math.sqrt(q.shape[-1])
        if is_causal:
            s = s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool).tril(), -math.inf)
        p = (s if mask is None else s + mask).softmax(-1)
        attentions.append(Eager(p.detach(), v.detach().double()))
        return original(q, k, v, mask, dropout, is_causal)

    F.scaled_dot_product_attention = recorded
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield attentions
    finally:
        F.scaled_dot_product_attention = original
        torch.backends.mha.set_fastpath_enabled(True)


def check(seen: Seen, expected: Eager, *, bound: float = 1e-5) -> None:
    """Compare every default reading and the recomputed weights with the eager weights."""
    S = len(seen.key_pos)
    p, value = expected.weights[..., :S], expected.value[:, :, :S]
    assert float(expected.weights[..., S:].sum()) == 0  # the part of a static cache that is not filled yet
    B, h, L, _ = p.shape
    r = seen.readings

    def close(a: Tensor, b: Tensor, name: str) -> None:
        assert a.shape == b.shape, (name, a.shape, b.shape)
        assert float((a.double() - b).abs().max()) <= bound * max(1.0, float(b.abs().max())), (name, seen)

    close(r["entropy"], -torch.special.xlogy(p, p).sum(-1), "entropy")
    close(r["received"], p.sum(-2), "received")
    close(r["sink"], p[..., 0], "sink")
    k = min(4, S)
    heaviest = p.sort(-1, descending=True).values[..., :k]
    close(r["top"].weights[..., :k], heaviest, "top weights")
    keys = r["top"].keys[..., :k].clamp(min=0)
    close(p.gather(-1, keys) * (r["top"].keys[..., :k] >= 0), heaviest, "top keys")
    offset = torch.arange(S) - (torch.arange(L)[:, None] + S - L)
    rows = (p.sum(-1) > 0).sum(-1).clamp(min=1)
    for i, (a, b) in enumerate(r["distance"].offsets):
        close(r["distance"].mass[..., i], (p * ((offset >= a) & (offset <= b))).sum((-1, -2)) / rows, f"distance {a}…{b}")
    norms = value.norm(dim=-1).repeat_interleave(h // value.shape[1], 1)
    close(r["value_norm"].by_query, (p * norms.unsqueeze(-2)).sum(-1), "value_norm by query")
    close(r["value_norm"].by_key, p.sum(-2) * norms, "value_norm by key")
    R, C = min(64, L), min(64, S)
    columns = torch.nn.functional.one_hot(torch.arange(S) * C // S, C).double()
    blocks = torch.nn.functional.one_hot(torch.arange(L) * R // L, R).double()
    close(r["pooled"], (blocks.mT @ p @ columns) / blocks.sum(0).unsqueeze(-1), "pooled")
    if seen.kept is not None and seen.kept.lse is not None:
        lse = seen.kept.lse
        real = p.sum(-1) > 0
        close(r["max_logit"][real], (lse.double() + p.amax(-1).log())[real], "max_logit")
        close(seen.head(h - 1).tile(batch=B - 1), p[B - 1, h - 1], "tile")
    assert seen.proof.holds
    assert seen.proof.row_sum_error < 1e-5
    assert seen.proof.output_error < 1e-5 * max(1.0, float(value.abs().max()))
    assert seen.proof.rows_checked == min(L, 128)
