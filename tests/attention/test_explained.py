"""`explain` names the kernel and the reason for every contract of torch that `attend` keeps, and that kernel then runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

import regard
from regard.kernels import Request, Result, intercept

Q = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(0))
VISIBLE = torch.rand(2, 3, 5, 5, generator=torch.Generator().manual_seed(1)) < 0.7
Call = tuple[tuple[Tensor, Tensor, Tensor], dict[str, Any]]
NO_DENSE_MASK = {"fused": "SDPA needs this mask as a dense tensor"}
NO_SPARSE = {"fused": "SDPA supports only a plain softmax"}
TILES = "tiles in plain torch on cpu: any score, mask, choice and reading in linear memory"


def call(x: Tensor = Q, **options: Any) -> Call:
    return (x, x, x), options


def jagged() -> Tensor:
    return torch.nested.as_nested_tensor([torch.randn(n, 2, 4) for n in (3, 1)], layout=torch.jagged).transpose(1, 2)


def extended() -> Tensor:
    """Keys and values with the learned one and the zero one appended."""
    return torch.cat([Q, torch.randn(2, 3, 1, 4), torch.zeros(2, 3, 1, 4)], 2)


def additive() -> dict[str, Any]:
    mask, bias = regard.from_additive(torch.randn(3, 5, 5).masked_fill(~VISIBLE[0], -torch.inf))
    assert bias is not None
    return {"mask": mask, "bias": bias}


# name: the call, its kernel, a part of the reason, and why faster kernels do not run it
CASES: dict[str, tuple[Callable[[], Call], str, str, dict[str, str]]] = {
    "mask of three axes": (lambda: call(mask=regard.from_sdpa(VISIBLE[0])), "native", "float32 on CPU, spans mask", NO_DENSE_MASK),
    "bias of three axes": (
        lambda: call(bias=torch.randn(3, 5, 5)), "native", "float32 on CPU, no mask",
        {"fused": "SDPA needs the bias as a dense tensor (600 bytes)"},
    ),
    "bias (B, L, S) of inputs without heads": (lambda: call(Q[:, 0], bias=torch.randn(2, 5, 5)), "native", "float32 on CPU", {}),
    "mask (B, 1, 1, S)": (lambda: call(mask=regard.from_sdpa(VISIBLE[:, :1, :1])), "native", "spans mask", NO_DENSE_MASK),
    "mask (B, 1, L, 1)": (lambda: call(mask=regard.from_sdpa(VISIBLE[:, :1, :, :1])), "native", "spans mask", NO_DENSE_MASK),
    "inputs and mask of five axes": (
        lambda: call(Q[:, None].expand(2, 2, 3, 5, 4), mask=regard.from_sdpa(VISIBLE[:, None])), "native", "spans mask", NO_DENSE_MASK,
    ),
    "mask and bias of one additive mask of three axes": (
        lambda: call(**additive()), "native", "float32 on CPU, spans mask", {"fused": "SDPA needs the bias as a dense tensor (600 bytes)"},
    ),
    "causal with a gradient": (lambda: call(Q.clone().requires_grad_(), mask=regard.causal()), "fused", "plain causal softmax", {}),
    "causal with a gradient, float64": (
        lambda: call(Q.double().requires_grad_(), mask=regard.causal()), "fused", "plain causal softmax",
        {"native": "compiled for float32, bfloat16 and float16, not float64"},
    ),
    "causal with a gradient, bfloat16": (lambda: call(Q.bfloat16().requires_grad_(), mask=regard.causal()), "native", "bfloat16", {}),
    "causal with a gradient, float16": (lambda: call(Q.half().requires_grad_(), mask=regard.causal()), "native", "float16", {}),
    "a dropout of 1": (lambda: call(dropout=1.0), "streamed", TILES, {"native": "a dropout of 1 has no compiled kernel"}),
    "learned alpha": (
        lambda: call(choice=regard.Entmax(torch.tensor(1.3, requires_grad=True))), "streamed", TILES,
        {**NO_SPARSE, "native": "Entmax has no compiled kernel"},
    ),
    "top k": (lambda: call(choice=regard.TopKSoftmax(2)), "streamed", TILES, {**NO_SPARSE, "native": "TopKSoftmax has no compiled kernel"}),
    "meta tensor": (
        lambda: call(Q.to("meta"), mask=regard.causal()), "rows", "a meta tensor needs plain torch operations",
        {"fused": "a meta tensor needs plain torch operations"},
    ),
    "extra keys of add_bias_kv and add_zero_attn": (
        lambda: ((Q, extended(), extended()), {"mask": regard.masks.ExtraKeys(regard.causal(), 2)}), "native", "spans mask", NO_DENSE_MASK,
    ),
    "mask of a Hugging Face model": (
        lambda: call(mask=regard.from_hf(torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]]))), "native", "spans mask", NO_DENSE_MASK,
    ),
    "jagged": (lambda: call(jagged(), mask=regard.causal()), "native", "spans mask", NO_DENSE_MASK),
}  # fmt: skip


def kernels_that_run(stack: ExitStack) -> list[str]:
    """The kernels that run from now on until the stack closes."""
    ran: list[str] = []

    def hook(request: Request, run: Callable[[Request], Result]) -> Result:
        result = run(request)
        assert result.selection is not None
        ran.append(result.selection.kernel.name)
        return result

    stack.enter_context(intercept(hook))
    return ran


@pytest.mark.parametrize("name", CASES)
def test_every_call_is_explained_and_runs_on_that_kernel(name: str) -> None:
    build, kernel, reason, rejected = CASES[name]
    tensors, options = build()
    plan = regard.explain(*tensors, **options)
    assert plan.kernel == kernel
    assert reason in plan.reason
    assert rejected.items() <= plan.rejected.items()
    with ExitStack() as stack:
        ran = kernels_that_run(stack)
        regard.attend(*tensors, **options)
    assert ran == [kernel]


TRANSFORMS: dict[str, Callable[[Callable[[Tensor], Tensor]], Any]] = {
    "vmap": lambda f: torch.func.vmap(f)(Q[None]),
    "grad": lambda f: torch.func.grad(lambda x: f(x).sum())(Q),
    "jacrev": lambda f: torch.func.jacrev(f)(Q),
    "jvp": lambda f: torch.func.jvp(f, (Q,), (Q,)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_explained_from_within(name: str) -> None:
    plans = []

    def f(x: Tensor) -> Tensor:
        plans.append(regard.explain(x, Q, Q, mask=regard.causal()))
        return regard.attend(x, Q, Q, mask=regard.causal())

    with ExitStack() as stack:
        ran = kernels_that_run(stack)
        TRANSFORMS[name](f)
    why = "a torch.func transform needs plain torch operations"
    assert [(plan.kernel, plan.reason) for plan in plans] == [("rows", why)]
    assert plans[0].rejected == {"native": why, "fused": why, "streamed": why}
    assert ran == ["rows"]


def test_fake_tensors_and_duals_are_explained() -> None:
    with FakeTensorMode() as mode:
        x = mode.from_tensor(Q)
        plan = regard.explain(x, x, x)
    assert (plan.kernel, plan.reason) == ("rows", "a fake tensor needs plain torch operations")
    with forward_ad.dual_level():
        x = forward_ad.make_dual(Q, Q)
        plan = regard.explain(x, x, x)
    assert (plan.kernel, plan.reason) == ("rows", "forward-mode differentiation needs plain torch operations")


GRAPHS = {
    torch.float32: ("native", "float32 on CPU, spans mask (compiled)"),
    torch.bfloat16: ("native", "bfloat16 on CPU, spans mask (compiled)"),
    torch.float16: ("native", "float16 on CPU, spans mask (compiled)"),
    torch.float64: ("rows", "a graph of torch.compile needs plain torch operations"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", GRAPHS, ids=str)
def test_a_graph_with_a_gradient_is_explained_while_it_is_recorded(dtype: torch.dtype) -> None:
    plans = []

    def f(x: Tensor) -> Tensor:
        plans.append(regard.explain(x, x, x, mask=regard.causal()))
        return regard.attend(x, x, x, mask=regard.causal())

    torch._dynamo.reset()
    compiled = torch.compile(f, backend="eager", fullgraph=True)
    x, double = Q.to(dtype).requires_grad_(), Q.to(dtype).double().requires_grad_()
    expected = regard.attend(double, double, double, mask=regard.causal(), kernel="reference")
    grads = [torch.autograd.grad(out.sum(), y)[0].double() for out, y in ((compiled(x), x), (expected, double))]
    torch.testing.assert_close(*grads, atol=0.1 if dtype.itemsize == 2 else 1e-5, rtol=1e-4)
    (plan,) = plans
    assert (plan.kernel, plan.reason) == GRAPHS[dtype]
    assert plan.rejected["fused"] == "a graph cannot check that no hidden NaN or inf reaches the output of SDPA"
    assert plan.rejected["streamed"] == "a loop over tiles does not fit into a graph"


def test_weighted_kernel_regression_runs_on_the_kernel_explained() -> None:
    from regard.models.kernel_regression import NadarayaWatson

    x, y = torch.linspace(0, 5, 30).double()[:, None], torch.rand(30, 1).double()
    weight = torch.linspace(0.5, 2, 30).double()
    with ExitStack() as stack:
        ran = kernels_that_run(stack)
        NadarayaWatson("learn").fit(x.numpy(), y[:, 0].numpy(), sample_weight=weight.numpy())
    width = torch.ones(1, dtype=torch.float64, requires_grad=True)  # each row is predicted from the others
    plan = regard.explain(x, x, y, score=regard.Gaussian(width), mask=~regard.window(0, 0), bias=weight.log())
    assert (plan.kernel, plan.reason) == ("streamed", TILES)
    assert plan.rejected["native"] == "compiled for float32, bfloat16 and float16, not float64"
    assert set(ran) == {"streamed"}


def test_an_exported_program_is_explained_while_it_is_recorded() -> None:
    plans = []

    class Layer(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            plans.append(regard.explain(x, x, x, mask=regard.causal()))
            return regard.attend(x, x, x, mask=regard.causal())

    program = torch.export.export(Layer(), (Q,))
    torch.testing.assert_close(program.module()(Q), regard.attend(Q, Q, Q, mask=regard.causal()))
    assert plans
    assert {(plan.kernel, plan.reason) for plan in plans} == {("native", "float32 on CPU, spans mask (compiled)")}


def test_a_layer_with_extra_keys_runs_on_the_kernel_explained() -> None:
    torch_layer = torch.nn.MultiheadAttention(12, 3, add_bias_kv=True, add_zero_attn=True, batch_first=True)
    layer = regard.MultiHeadAttention.from_torch(torch_layer)
    x = torch.randn(2, 30, 12)
    hidden = torch.ones(30, 30, dtype=torch.bool).triu(1)
    with ExitStack() as stack, torch.no_grad():
        ran = kernels_that_run(stack)
        output = layer(x, mask=regard.causal())
    torch.testing.assert_close(output, torch_layer(x, x, x, attn_mask=hidden, need_weights=False)[0], atol=1e-5, rtol=1e-4)
    assert ran == ["native"]


@pytest.mark.parametrize(("kernel", "mask"), [("fused", None), ("native", regard.window(2, 0)), ("streamed", regard.causal())])
def test_gradients_of_gradients_run_on_the_kernel_explained(kernel: str, mask: regard.Mask | None) -> None:
    x = Q[:1].clone().requires_grad_()
    options = {"mask": mask} if kernel != "streamed" else {"mask": mask, "choice": regard.TopKSoftmax(2)}
    assert regard.explain(x, x, x, **options).kernel == kernel
    with ExitStack() as stack:
        ran = kernels_that_run(stack)
        (first,) = torch.autograd.grad(regard.attend(x, x, x, **options).square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        (rows,) = torch.autograd.grad(regard.attend(x, x, x, **options), x, torch.ones(3, *x.shape), is_grads_batched=True)
    assert ran == [kernel, kernel]
    double = x.detach().double().requires_grad_()
    expected = regard.attend(double, double, double, kernel="reference", **options)
    (first_expected,) = torch.autograd.grad(expected.square().sum(), double, create_graph=True)
    (second_expected,) = torch.autograd.grad(first_expected.square().sum(), double)
    torch.testing.assert_close(second.double(), second_expected, atol=1e-4, rtol=1e-4)
    (once,) = torch.autograd.grad(regard.attend(double, double, double, kernel="reference", **options).sum(), double)
    torch.testing.assert_close(rows.double(), once.expand(3, *x.shape), atol=1e-5, rtol=1e-4)


def test_jagged_readings_are_refused_by_explain_as_by_observe() -> None:
    x = jagged()
    with pytest.raises(TypeError, match=r"pass query, key and value jagged to regard\.attend"):
        regard.explain(x, x, x, readings=[regard.Entropy()])
