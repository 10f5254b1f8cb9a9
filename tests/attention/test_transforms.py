"""What torch offers around a function, around `attend`: torch.func, forward mode, double backward, graphs, fake and jagged tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard.kernels.tiles import Tiles

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
MASKS = {
    "none": None,
    "causal": regard.causal(),
    "window": regard.causal() & regard.window(3, 0),
    "dense": regard.dense(torch.rand(6, 6, generator=torch.Generator().manual_seed(0)) < 0.6) | regard.prefix(1),
}
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def inputs(dtype: torch.dtype = torch.float64, *lead: int) -> list[Tensor]:
    g = torch.Generator().manual_seed(1)
    return [torch.randn(*(lead or (2, 2)), 6, 4, generator=g, dtype=torch.float64).to(dtype) for _ in range(3)]


def ours(mask: regard.Mask | None, **options: Any) -> Attend:
    return lambda q, k, v: regard.attend(q, k, v, mask=mask, **options)


def dense(mask: regard.Mask | None) -> Attend:
    """softmax(q·kᵀ/√d)·v, in plain operations that all transforms know."""
    visible = None if mask is None else mask.dense(6, 6)

    def formula(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        z = q @ k.mT / 2
        return (z if visible is None else z.masked_fill(~visible, -torch.inf)).softmax(-1) @ v

    return formula


def same(got: Any, want: Any, dtype: torch.dtype) -> None:
    tolerance = {torch.float64: 1e-9, torch.float32: 1e-5}.get(dtype, 3e-2)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", MASKS)
def test_torch_func(name: str, dtype: torch.dtype) -> None:
    mask, qkv = MASKS[name], inputs(dtype)
    f, g = ours(mask), dense(mask)
    stacked = [torch.stack([x, 2 * x, x - 1]) for x in qkv]
    same(torch.func.vmap(f)(*stacked), torch.func.vmap(g)(*stacked), dtype)
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        same(transform(f, (0, 1, 2))(*qkv), transform(g, (0, 1, 2))(*qkv), dtype)

    def loss(attention: Attend) -> Callable[..., Tensor]:
        return lambda *x: attention(*x).sin().sum()

    same(torch.func.grad(loss(f), (0, 1, 2))(*qkv), torch.func.grad(loss(g), (0, 1, 2))(*qkv), dtype)
    same(torch.func.hessian(loss(f))(*qkv), torch.func.hessian(loss(g))(*qkv), dtype)
    same(torch.func.jvp(f, tuple(qkv), tuple(qkv))[1], torch.func.jvp(g, tuple(qkv), tuple(qkv))[1], dtype)


def test_vmap_over_masks_given_as_tensors() -> None:
    q, k, v = inputs()
    visible = torch.rand(3, 6, 6) < 0.5
    visible[..., 0] = True
    bias = torch.randn(3, 6, 6, dtype=torch.float64)
    got = torch.func.vmap(lambda m, b: regard.attend(q, k, v, mask=regard.dense(m), bias=b))(visible, bias)
    for i in range(3):
        same(got[i], regard.attend(q, k, v, mask=regard.dense(visible[i]), bias=bias[i]), torch.float64)


@pytest.mark.parametrize("name", MASKS)
def test_forward_mode(name: str) -> None:
    mask, qkv = MASKS[name], inputs()
    with torch.autograd.forward_ad.dual_level():
        duals = [torch.autograd.forward_ad.make_dual(x, x.flip(0)) for x in qkv]
        tangents = [torch.autograd.forward_ad.unpack_dual(f(*duals)).tangent for f in (ours(mask), dense(mask))]
        plan = regard.explain(*duals, mask=mask)
    same(*tangents, torch.float64)
    assert plan.kernel == "rows"
    assert plan.rejected["native"] == plan.rejected["streamed"] == "forward-mode differentiation needs plain torch operations"


def test_hidden_nan_stays_hidden_where_no_number_can_be_read() -> None:
    q, k, v = inputs()
    dirty_k, dirty_v = k.clone(), v.clone()
    dirty_k[:, :, 4], dirty_v[:, :, 5] = torch.nan, torch.inf
    f = ours(regard.causal())
    got = torch.func.vmap(f)(*(x[None] for x in (q, dirty_k, dirty_v)))[0]
    same(got[:, :, :4], f(q, k, v)[:, :, :4], torch.float64)
    assert bool(got[:, :, 4:].isnan().all())


@pytest.mark.parametrize("kernel", ["auto", "native", "streamed", "reference"])
@pytest.mark.parametrize("name", MASKS)
def test_many_gradients_at_once(name: str, kernel: str) -> None:
    mask, qkv = MASKS[name], [x.requires_grad_() for x in inputs(torch.float32)]
    directions = torch.randn(5, 2, 2, 6, 4)
    out = ours(mask, kernel=kernel)(*qkv)
    got = torch.autograd.grad(out, qkv, directions, is_grads_batched=True, retain_graph=True)
    for i, direction in enumerate(directions):
        same([g[i] for g in got], list(torch.autograd.grad(out, qkv, direction, retain_graph=True)), torch.float32)


OPTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "softmax": dict,
    "dropout": lambda: {"dropout": 0.3},
    "bias": lambda: {"bias": torch.randn(2, 1, 6, requires_grad=True, dtype=torch.float64)},
    "relative": lambda: {"bias": regard.RelativeBias(2).double()},
    "additive": lambda: {"score": regard.Additive(4, 4, 5).double()},
    "gaussian": lambda: {"score": regard.Gaussian(0.7, learn=True).double()},
    "capped": lambda: {"score": regard.ScaledDot(cap=2.0)},
    "temperature and sinks": lambda: {
        "choice": regard.Softmax(*(torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (1.3, [0.0, 0.5])))
    },
    "entmax15": lambda: {"choice": regard.Entmax15()},
}


@pytest.mark.parametrize("mask", [None, regard.causal()], ids=["none", "causal"])
@pytest.mark.parametrize("name", OPTIONS)
def test_double_backward(name: str, mask: regard.Mask | None) -> None:
    qkv = [x.requires_grad_() for x in inputs()]
    options = OPTIONS[name]()
    extra = [x for o in options.values() if isinstance(o, torch.nn.Module) for x in o.parameters()]
    extra += [x for o in options.values() if isinstance(o, Tensor) for x in [o]]
    results = []
    for kernel in ("auto", "reference"):
        out = regard.attend(*qkv, mask=mask, kernel=kernel, generator=torch.Generator().manual_seed(3), **options)
        first = torch.autograd.grad(out.sin().sum(), [*qkv, *extra], create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), [*qkv, *extra], allow_unused=True)
        results.append([*first, *second])
    same(*results, torch.float64)


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that is made."""

    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for x in torch.utils._pytree.tree_leaves(out):
            self.numel = max(self.numel, x.numel() if isinstance(x, Tensor) else 0)
        return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_double_backward_builds_no_square_tensor(dtype: torch.dtype) -> None:
    N = 1200
    q = torch.randn(1, 1, N, 4, dtype=dtype, requires_grad=True)
    with Largest() as seen:
        out = regard.attend(q, q, q, mask=regard.causal())
        (grad,) = torch.autograd.grad(out.sin().sum(), q, create_graph=True)
        grad.square().sum().backward()
    assert q.grad is not None
    assert 0 < seen.numel < N * N / 4


@pytest.mark.parametrize("choice", [lambda alpha: regard.Entmax(alpha), lambda alpha: regard.TopKSoftmax(3)], ids=["entmax", "top k"])
def test_sparse_choices_and_their_gradients_build_no_square_tensor(
    choice: Callable[[Tensor], regard.Choice], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tiles.__init__, "__defaults__", (1 << 13,))  # entries of a tile
    N = 300
    q, alpha = torch.randn(1, 1, N, 4, requires_grad=True), torch.tensor(1.3, requires_grad=True)
    with Largest() as seen:
        regard.attend(q, q, q, choice=choice(alpha)).sin().sum().backward()
    assert q.grad is not None
    assert 0 < seen.numel < N * N / 4
    small, large = (regard.explain(*[torch.randn(1, 1, n, 4, requires_grad=True)] * 3, choice=choice(alpha)).bytes for n in (2048, 4096))
    assert large < 2.1 * small


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_graph_with_gradients_in_every_dtype(dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    q = inputs(dtype)[0].requires_grad_()
    f = ours(regard.causal())
    compiled = torch.compile(lambda x: f(x, x, x), fullgraph=True, backend="aot_eager")
    same(compiled(q), f(q, q, q), dtype)
    same(torch.autograd.grad(compiled(q).sum(), q), torch.autograd.grad(f(q, q, q).sum(), q), dtype)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MASKS)
def test_export(name: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, q: Tensor) -> Tensor:
            return regard.attend(q, q, q, mask=MASKS[name])

    q = inputs(torch.float32)[0]
    exported = torch.export.export(Model(), (q,))
    same(exported.module()(q), Model()(q), torch.float32)
    targets = {str(node.target) for node in exported.graph.nodes}
    assert targets & {"regard.dot_attention.default", "aten.scaled_dot_product_attention.default"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["none", "causal", "window"])
def test_meta_and_fake_tensors_have_the_shape_and_the_gradients(name: str, dtype: torch.dtype) -> None:
    f = ours(MASKS[name])
    real = inputs(dtype)
    f(*real)  # what a mask remembers of a real call must not reach a fake one

    def check(tensors: list[Tensor]) -> None:
        out = f(*tensors)
        assert (out.shape, out.dtype, out.device) == (tensors[0].shape, dtype, tensors[0].device)
        grads = torch.autograd.grad(out.sum(), tensors)
        assert [g.shape for g in grads] == [x.shape for x in tensors]

    check([x.to("meta").requires_grad_() for x in real])
    with FakeTensorMode() as mode:
        check([mode.from_tensor(x).requires_grad_() for x in real])


@pytest.mark.parametrize("mask", [None, regard.causal(), regard.causal() & regard.window(2, 0)], ids=repr)
def test_jagged_tensors(mask: regard.Mask | None) -> None:
    lengths = [3, 1, 5]
    parts = [[torch.randn(n, 2, 4, requires_grad=True) for n in lengths] for _ in range(3)]  # (length, h, d)
    q, k, v = (torch.nested.as_nested_tensor(x, layout=torch.jagged).transpose(1, 2) for x in parts)
    out = regard.attend(q, k, v, mask=mask)
    assert out.layout == torch.jagged
    want = [regard.attend(*(x[i].transpose(0, 1)[None] for x in parts), mask=mask)[0] for i in range(3)]
    for got, one in zip(out.unbind(), want, strict=True):
        same(got, one, torch.float32)
    leaves = [x for part in parts for x in part]
    same(
        torch.autograd.grad(out.values().sin().sum(), leaves),
        torch.autograd.grad(sum(x.sin().sum() for x in want), leaves),
        torch.float32,
    )


def test_jagged_tensors_that_cannot_run_say_why() -> None:
    q = torch.nested.as_nested_tensor([torch.randn(n, 2, 4) for n in (3, 1)], layout=torch.jagged).transpose(1, 2)
    with pytest.raises(ValueError, match="cannot be read in packed sequences"):
        regard.attend(q, q, q, mask=regard.padding([1, 2]))
    with pytest.raises(ValueError, match="pass all three jagged or none"):
        regard.attend(q, torch.randn(2, 2, 3, 4), torch.randn(2, 2, 3, 4))
    with pytest.raises(ValueError, match="a bias by position has no meaning"):
        regard.attend(q, q, q, bias=torch.zeros(3, 3))
    with pytest.raises(TypeError, match=r"pass query, key and value jagged to regard.attend"):
        regard.observe(q, q, q)


@pytest.mark.parametrize("kernel", ["auto", "streamed", "reference"])
def test_a_dropout_of_one_drops_everything(kernel: str) -> None:
    q, k, v = (x.requires_grad_() for x in inputs(torch.float32))
    out = regard.attend(q, k, v, dropout=1.0, mask=regard.causal(), kernel=kernel)
    assert not bool(out.any())
    assert all(not bool(g.any()) for g in torch.autograd.grad(out.sum(), (q, k, v)))
    assert "a dropout of 1" in regard.explain(q, k, v, dropout=1.0).rejected["native"]


def test_readings_under_a_transform_are_refused_with_the_reason() -> None:
    q, k, v = inputs()
    with pytest.raises(ValueError, match="rows: readings are summed in place"):
        torch.func.vmap(lambda x: regard.observe(x, k, v, readings=[regard.Entropy()]).output)(q[None])


def test_double_backward_after_a_gradient_that_kept_the_graph() -> None:
    q, k, v = (x.requires_grad_() for x in inputs())
    out = regard.attend(q, k, v)
    assert regard.explain(q, k, v).kernel == "fused"
    torch.autograd.grad(out.sum(), q, retain_graph=True)
    results = []
    for output in (out, out, dense(None)(q, k, v)):
        (grad,) = torch.autograd.grad(output.sin().sum(), q, create_graph=True)
        results.append([grad, *torch.autograd.grad(grad.square().sum(), (q, k, v), retain_graph=True)])
    same(results[0], results[2], torch.float64)
    same(results[1], results[2], torch.float64)


def test_the_callers_own_hooks_see_every_gradient_of_a_small_call() -> None:
    q, k, v = (x.requires_grad_() for x in inputs())
    grads: list[Tensor] = []
    first, second = regard.attend(q, k, v), regard.attend(q, k, v)
    first.register_hook(lambda grad: grads.append(grad) or 2 * grad)
    (doubled,) = torch.autograd.grad(first.sin().sum(), q, create_graph=True)
    (plain,) = torch.autograd.grad(second.sin().sum(), q, create_graph=True)
    assert len(grads) == 1  # a hook of one output is no hook of another
    torch.testing.assert_close(doubled, 2 * plain)


@pytest.mark.filterwarnings("ignore")
def test_what_a_transform_made_is_not_kept_for_a_graph() -> None:
    """The tile of a mask is cached; one that was made inside torch.func would not be a tensor outside of it."""
    q = torch.randn(1, 1, 11, 4, dtype=torch.float64)  # a size no other test has

    def loss(q: Tensor) -> Tensor:
        return regard.attend(q, q, q, mask=regard.causal()).sum()

    wanted = torch.func.grad(loss)(q)
    x = q.clone().requires_grad_()
    torch.compile(loss, fullgraph=True, backend="aot_eager")(x).backward()
    torch.testing.assert_close(x.grad, wanted)


@pytest.mark.parametrize("mask", [None, regard.causal()])
def test_the_gradient_of_a_small_call_outlives_the_graph_it_came_from(mask: regard.Mask | None) -> None:
    leaves = [torch.randn(1, 2, 5, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    results = []
    for kernel in ("auto", "reference"):
        output = regard.attend(*leaves, mask=mask, kernel=kernel)
        grads = torch.autograd.grad(output.sum(), leaves, create_graph=True, retain_graph=kernel == "reference")
        results.append(torch.autograd.grad(sum(grad.pow(2).sum() for grad in grads), leaves))
    for ours, wanted in zip(*results, strict=True):
        torch.testing.assert_close(ours, wanted)
        assert wanted.abs().max() > 0
