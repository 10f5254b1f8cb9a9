"""One block against one block, through the library's own kernels: partial output and lse, and its gradients when all is known.

Axes: B batch, h heads, l queries and s keys of the block, dv value width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..kernels import KERNELS, native_ops, native_pairs
from ..kernels.backward import BETA, BIAS, KEY, KEY_BIAS, PARAMETERS, QUERY, SINKS, VALUE, Backward
from ..kernels.native import Native
from ..kernels.spec import Spec
from ..scores import Additive

_NATIVE = Native()


@torch.no_grad()
def forward(spec: Spec) -> tuple[Tensor, Tensor]:
    """softmax over this block's keys alone: output (B, h, l, dv) and lse (B, h, l)."""
    kernel = KERNELS["native" if _NATIVE.refuses(spec) is None else "streamed"]
    found = kernel.run(spec)
    assert found.lse is not None
    return found.output, found.lse


@torch.no_grad()
def backward(
    spec: Spec, needs: Sequence[bool], output: Tensor, lse: Tensor, d_out: Tensor | None, d_lse: Tensor | None
) -> dict[int, Tensor]:
    """Gradients of this block's inputs, by their place among the kernels' inputs (`kernels.backward`).

    output and lse are those of the whole row: a weight is exp(z − lse) whichever block its key is in.
    """
    wanted = [place for place, need in enumerate(needs) if need and place != SINKS]
    if _NATIVE.refuses(spec) is not None or BIAS in wanted or BETA in wanted:
        bias = spec.bias if isinstance(spec.bias, Tensor) else None
        beta = spec.beta if isinstance(spec.beta, Tensor) else None
        inputs: list[Tensor | None] = [spec.query, spec.key, spec.value, spec.key_bias, bias, beta, None, *spec.parameters()]
        asked = tuple(need and place != SINKS for place, need in enumerate(needs))
        found = Backward(spec, inputs, asked).run(output, lse, lse.new_empty(0), d_out, d_lse, None)
        return {place: grad for place in wanted if (grad := found[place]) is not None}
    if d_out is None:
        d_out = torch.zeros((), dtype=output.dtype, device=output.device).expand_as(output)
    spans = None if spec.mask is None else _NATIVE._spans(spec)
    given = (d_out, d_lse, spec.query, spec.key, spec.value)
    if spec.score is None:
        numbers = (spec.scale, spec.cap or 0.0, float(spec.beta), spec.dropout, spec.seed)
        dq, dk, dv, d_key_bias, _ = native_ops.backward(*given, spec.key_bias, None, spans, output, lse, *numbers)
        made = {QUERY: dq, KEY: dk, VALUE: dv, KEY_BIAS: d_key_bias}
    else:
        vector = spec.score.v if isinstance(spec.score, Additive) else None
        dq, dk, dv, d_vector, _ = native_pairs.backward(*given, vector, None, spans, output, lse, float(spec.beta))
        made = {QUERY: dq, KEY: dk, VALUE: dv}
        if vector is not None:
            place = next(i for i, parameter in enumerate(spec.parameters()) if parameter is vector)
            made[PARAMETERS + place] = d_vector
    return {place: grad for place, grad in made.items() if place in wanted}


__all__ = ["backward", "forward"]
