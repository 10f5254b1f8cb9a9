"""torch's own OpInfo samples of attention, as installed with torch: outputs and gradients of regard against torch's.

Prints one JSON line a sample: {"test": name, "outcome": "passed" | "failed", "message": …}. In bfloat16 the results are compared with
float64, not with torch's: the numbers of these samples are large (scores around 70), and where torch runs its unfused formula its rounding
errors are other than those of a fused kernel, which makes gradients from the rounded output.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import adapters
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import regard

TOLERANCE = {torch.float64: 1e-8, torch.float32: 2e-4, torch.bfloat16: 8e-3}
Results = Callable[[], list[Tensor]]
Expected = Callable[[Tensor], list[tuple[Tensor, Tensor]]]  # for an output: every result, and the sum of its terms' absolute values


class Case(NamedTuple):
    name: str
    theirs: Results
    ours: Results
    dtype: torch.dtype
    exact: Expected | None = None  # in float64, for bfloat16


def sdpa_cases(dtypes: list[torch.dtype]) -> Iterator[Case]:
    from torch.testing._internal.common_methods_invocations import op_db

    (op,) = (o for o in op_db if o.name == "nn.functional.scaled_dot_product_attention")
    for dtype in dtypes:
        for i, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=True)):
            shape = "×".join(map(str, sample.input.shape))
            options = {name: x if not isinstance(x, Tensor) else tuple(x.shape) for name, x in sample.kwargs.items()}
            name = f"sdpa[{i}-{str(dtype)[6:]}-{shape}-{options}]"

            def run(function: Callable[..., Tensor], sample: Any) -> list[Tensor]:
                out = function(sample.input, *sample.args, **sample.kwargs)
                learned = [x for x in (sample.input, *sample.args, *sample.kwargs.values()) if isinstance(x, Tensor) and x.requires_grad]
                return [out, *torch.autograd.grad(out.to(torch.promote_types(out.dtype, torch.float32)).sin().sum(), learned)]

            theirs, ours = (partial(run, f, sample) for f in (scaled_dot_product_attention, adapters.sdpa))
            exact = partial(in_float64, sample) if dtype == torch.bfloat16 and not sample.kwargs.get("dropout_p") else None
            yield Case(name, theirs, ours, dtype, exact)


def in_float64(sample: Any, output: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The output of an SDPA sample, and the gradients of Σ sin(output) as every fused kernel forms them, in float64.

    A fused kernel keeps its output, not its weights, for the backward pass, and forms Σ dO∘O from the rounded output; therefore from the
    given one here.
    """
    query, key, value = (x.detach().double() for x in (sample.input, *sample.args))
    bias, scale = sample.kwargs.get("attn_mask"), query.shape[-1] ** -0.5
    z = query @ key.mT * scale
    if bias is not None:
        assert bias.is_floating_point()
        z = z + bias.detach().double()
    if sample.kwargs.get("is_causal"):
        z = z.masked_fill(torch.ones_like(z, dtype=torch.bool).triu(1), -math.inf)
    p, rounded = z.softmax(-1), output.detach()
    grad = rounded.float().cos().to(rounded.dtype).double()
    dz = p * (grad @ value.mT - (grad * rounded.double()).sum(-1, keepdim=True))
    gradients = [
        (dz @ key * scale, dz.abs() @ key.abs() * scale),
        (dz.mT @ query * scale, dz.abs().mT @ query.abs() * scale),
        (p.mT @ grad, p.mT @ grad.abs()),
        (dz, dz.abs()),
    ]
    inputs = (sample.input, *sample.args, *([] if bias is None else [bias]))
    summed = [(g.sum_to_size(x.shape), size.sum_to_size(x.shape)) for (g, size), x in zip(gradients, inputs, strict=False)]
    return [(p @ value, p @ value.abs()), *summed]


def multi_head_cases(dtypes: list[torch.dtype]) -> Iterator[Case]:
    """The samples of multi_head_attention_forward as modules: torch makes them from the module's arguments."""
    from torch.testing._internal.common_modules import module_db

    (info,) = (m for m in module_db if m.module_cls is torch.nn.MultiheadAttention)
    for dtype in dtypes:
        for training, requires_grad in ((False, False), (True, True)):
            inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=requires_grad, training=training)
            for i, sample in enumerate(inputs):
                build, call = sample.constructor_input, sample.forward_input
                options = {k: v for k, v in call.kwargs.items() if k not in ("need_weights", "average_attn_weights")}
                torch.manual_seed(0)
                layer = torch.nn.MultiheadAttention(*build.args, **build.kwargs, dtype=dtype).eval()

                def theirs(layer: Any = layer, call: Any = call) -> list[Tensor]:
                    return [layer(*call.args, **call.kwargs)[0]]

                def ours(layer: Any = layer, call: Any = call, options: Any = options) -> list[Tensor]:
                    return [adapters.multi_head(layer, *call.args, **options)]

                described = {k: v if not isinstance(v, Tensor) else tuple(v.shape) for k, v in {**build.kwargs, **options}.items()}
                yield Case(f"multi_head[{i}-{str(dtype)[6:]}-{training}-{described}]", theirs, ours, dtype)


def flex_cases(dtypes: list[torch.dtype]) -> Iterator[Case]:
    """flex_attention's block masks and score modifications with a counterpart here."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    masks = {
        "none": (None, None),
        "causal": (lambda b, h, q, k: q >= k, regard.causal(align="start")),
        "window": (lambda b, h, q, k: (q >= k) & (q - k <= 16), regard.causal(align="start") & regard.window(16, 0, align="start")),
        "documents": (lambda b, h, q, k: q // 48 == k // 48, regard.documents(torch.arange(128) // 48)),
        "prefix": (lambda b, h, q, k: (q >= k) | (k < 7), regard.causal(align="start") | regard.prefix(7)),
    }
    slopes = regard.Alibi(4).slopes
    scores = {
        "plain": (None, {}),
        "alibi": (lambda s, b, h, q, k: s - slopes[h].to(s.dtype) * (q - k).abs(), {"bias": regard.Alibi(4)}),
        "soft cap": (lambda s, b, h, q, k: 5 * torch.tanh(s / 5), {"score": regard.ScaledDot(cap=5.0)}),
    }
    for dtype, (mask_name, (rule, mask)), (score_name, (change, options)), group in itertools.product(
        dtypes, masks.items(), scores.items(), (1, 2)
    ):
        torch.manual_seed(0)
        q = torch.randn(2, 4, 128, 16, dtype=dtype, requires_grad=True)
        k, v = (torch.randn(2, 4 // group, 128, 16, dtype=dtype, requires_grad=True) for _ in range(2))
        block = None if rule is None else create_block_mask(rule, None, None, 128, 128, device="cpu")

        def theirs(q: Any = q, k: Any = k, v: Any = v, block: Any = block, change: Any = change, group: int = group) -> list[Tensor]:
            return [flex_attention(q.detach(), k.detach(), v.detach(), score_mod=change, block_mask=block, enable_gqa=group > 1)]

        def ours(q: Any = q, k: Any = k, v: Any = v, mask: Any = mask, options: Any = options) -> list[Tensor]:
            return [regard.attend(q, k, v, mask=mask, **options).detach()]

        yield Case(f"flex[{mask_name}-{score_name}-heads 4:{4 // group}-{str(dtype)[6:]}]", theirs, ours, dtype)


def main(quick: bool) -> None:
    dtypes = [torch.float32] if quick else [torch.float32, torch.float64, torch.bfloat16]
    cases = itertools.chain(sdpa_cases(dtypes), multi_head_cases(dtypes[:2]), flex_cases(dtypes[:2]))
    for case in cases:
        outcome, peer, message = "passed", "passed", ""
        try:
            want = case.theirs()
        except Exception as error:
            outcome, peer, message = "skipped", "failed", repr(error)
        else:
            try:
                compare(case, case.ours(), want)
            except Exception as error:
                outcome, message = "failed", repr(error)
        print(json.dumps({"test": case.name, "peer": peer, "outcome": outcome, "message": message[:300]}))


def compare(case: Case, got: list[Tensor], want: list[Tensor]) -> None:
    """Raise an AssertionError where regard's output or gradients are further from torch's than the dtype explains.

    In bfloat16 a number is rounded at most four times by 2⁻⁸, half an eps: weights before a product, the result, and the two again where
    an input was broadcast and its gradient is a sum. The terms of a sum may cancel, so the errors are relative to their absolute values.
    """
    if case.exact is None:
        torch.testing.assert_close(got, want, rtol=TOLERANCE[case.dtype], atol=TOLERANCE[case.dtype], equal_nan=True)
        return
    for mine, (true, size) in zip(got, case.exact(got[0]), strict=True):
        error = (mine.double() - true).abs() / size.clamp(min=1e-30)
        assert not error.numel() or float(error.max()) <= 2 * torch.finfo(case.dtype).eps, f"error {float(error.max()):.3g} against float64"


if __name__ == "__main__":
    main("--quick" in sys.argv)
