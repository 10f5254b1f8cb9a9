"""torch's own scaled_dot_product_attention, where it is exact and linear in memory, and nowhere else.

Kept away from it, because there its paths turn dense or wrong: dropout, a value width other than the key's, a bias or mask that
it would need as an L×S tensor, a last stride other than 1, and non-finite keys or values under a causal mask (one NaN value
row poisons earlier rows of its tile).

Axes: B batch, h heads, L queries, S keys, d width.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from ..choices import Softmax
from ..masks import Mask, causal
from .spec import Result, Spec
from .tiles import finite

_CAUSAL = (causal(), causal(align="start"))


def is_causal(mask: Mask | None, L: int, S: int) -> bool:
    """Whether the mask is exactly the triangle that torch's ``is_causal`` means."""
    return mask is not None and ((mask == _CAUSAL[0] and L == S) or mask == _CAUSAL[1])


class Fused:
    name = "fused"

    def refuses(self, spec: Spec) -> str | None:
        B, h, L, S = spec.sizes
        if type(spec.choice) is not Softmax or spec.sinks is not None:
            return "SDPA knows only a plain softmax"
        if spec.score is not None or spec.cap is not None or spec.key_bias is not None:
            return "the score is not a plain dot product"
        if isinstance(spec.beta, Tensor):
            return "SDPA has no learned temperature"
        if spec.dropout:
            return f"dropout makes SDPA dense ({B * h * L * S * spec.query.element_size():,} bytes)"
        if spec.bias is not None:
            return f"SDPA needs the bias as a dense tensor ({B * h * L * S * spec.query.element_size():,} bytes)"
        if spec.mask is not None and not is_causal(spec.mask, L, S):
            return "SDPA needs this mask as a dense tensor"
        if spec.query.shape[-1] != spec.value.shape[-1]:
            return f"value width {spec.value.shape[-1]} ≠ key width {spec.query.shape[-1]} makes SDPA dense"
        if not (L and S and B and h and spec.query.shape[-1]):
            return "nothing to compute"
        for name, x in (("query", spec.query), ("key", spec.key), ("value", spec.value)):
            if x.stride(-1) != 1:
                return f"the last stride of the {name} is {x.stride(-1)}, and SDPA's CPU kernel misreads that"
        if spec.readings or spec.wants_lse:
            return "SDPA gives neither the lse nor readings"
        if spec.mask is not None and not (finite(spec.key) and finite(spec.value)):
            return "a NaN or inf under the causal mask would leak"
        return None

    def bytes(self, spec: Spec) -> int:
        B, h, L, _ = spec.sizes
        total = B * h * L * (spec.value.shape[-1] * spec.value.element_size() + 4)
        if spec.group > 1:
            total += (spec.key.numel() + spec.value.numel()) * spec.group * spec.key.element_size()
        if spec.needs_grad:
            total += (spec.query.numel() + spec.group * (spec.key.numel() + spec.value.numel())) * spec.query.element_size()
        return total

    def reason(self, spec: Spec) -> str:
        shape = "causal" if spec.mask is not None else "unmasked"
        return f"plain {shape} softmax: torch SDPA is exact and linear in memory here"

    def run(self, spec: Spec) -> Result:
        output = functional.scaled_dot_product_attention(
            spec.query,
            spec.key,
            spec.value,
            is_causal=spec.mask is not None,
            scale=spec.scale * float(spec.beta),
            enable_gqa=spec.group > 1,
        )
        return Result(output)


def plain(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """The commonest call of all, told by a few comparisons: 4-D, one dtype, equal heads and widths, unit last stride, not empty."""
    try:
        (B, h, L, d), shape = query.shape, key.shape
        return (
            shape == value.shape
            and len(shape) == 4
            and shape[0] == B
            and shape[1] == h
            and shape[3] == d
            and query.dtype == key.dtype == value.dtype
            and query.is_floating_point()
            and query.stride(3) == key.stride(3) == value.stride(3) == 1
            and query.device == key.device == value.device
            and L * shape[2] * B * h * d > 0
        )
    except (AttributeError, ValueError):  # not tensors, or not four axes: the general path says what is wrong
        return False
