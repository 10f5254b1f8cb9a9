"""torch's own OpInfo samples of attention, as installed with torch: outputs and gradients of regard against torch's.

Prints one JSON line a sample: {"test": name, "outcome": "passed" | "failed", "message": …}. In bfloat16, where torch itself is far from
the exact numbers of these samples (scores around 70), regard may be twice as far from torch's float64 result, as torch's own tests allow.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeGuard

import adapters
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import regard

TOLERANCE = {torch.float64: 1e-8, torch.float32: 2e-4, torch.bfloat16: 8e-3}
Results = Callable[[], list[Tensor]]


class Case(NamedTuple):
    name: str
    theirs: Results
    ours: Results
    dtype: torch.dtype
    exact: Results | None = None  # torch's, in float64


def sdpa_cases(dtypes: list[torch.dtype]) -> Iterator[Case]:
    from torch.testing._internal.common_methods_invocations import op_db

    (op,) = (o for o in op_db if o.name == "nn.functional.scaled_dot_product_attention")
    for dtype in dtypes:
        for i, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=True)):
            double = sample.transform(lambda x: x.detach().double().requires_grad_(x.requires_grad) if _is_float(x) else x)
            shape = "×".join(map(str, sample.input.shape))
            options = {name: x if not isinstance(x, Tensor) else tuple(x.shape) for name, x in sample.kwargs.items()}
            name = f"sdpa[{i}-{str(dtype)[6:]}-{shape}-{options}]"

            def run(function: Callable[..., Tensor], sample: Any) -> list[Tensor]:
                out = function(sample.input, *sample.args, **sample.kwargs)
                learned = [x for x in (sample.input, *sample.args, *sample.kwargs.values()) if isinstance(x, Tensor) and x.requires_grad]
                return [out, *torch.autograd.grad(out.to(torch.promote_types(out.dtype, torch.float32)).sin().sum(), learned)]

            theirs, ours = (partial(run, f, sample) for f in (scaled_dot_product_attention, adapters.sdpa))
            exact = None
            if dtype == torch.bfloat16 and not sample.kwargs.get("dropout_p"):
                exact = partial(run, scaled_dot_product_attention, double)
            yield Case(name, theirs, ours, dtype, exact)


def _is_float(x: object) -> TypeGuard[Tensor]:
    return isinstance(x, Tensor) and x.is_floating_point()


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
    """Raise an AssertionError where regard's output or gradients are further from torch's than the dtype explains."""
    tolerance = TOLERANCE[case.dtype]
    if case.exact is None:
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
        return
    exact = case.exact()
    scale = 1 + max(
        float(x.abs().max()) for x in exact if x.numel()
    )  # gradients are made from the rounded output, as in torch's flash kernel
    for mine, other, true in zip(got, want, exact, strict=True):
        if true.numel():
            error, peer = (float((x.double() - true).abs().max()) for x in (mine, other))
            assert error <= 2 * peer + tolerance * scale, f"error {error:.3g} against float64, torch's own {peer:.3g}"


if __name__ == "__main__":
    main("--quick" in sys.argv)
