"""A forward pass that works unwatched works watched: what cannot be seen is named, and nothing of the model's state is touched."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from regard.sight import change, watch

transformers = pytest.importorskip("transformers", reason="pip install transformers to compare with its models")
SIZES = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}
pytestmark = pytest.mark.filterwarnings(
    "ignore:There is a performance drop", "ignore:.*nested tensors.*:UserWarning", "ignore:flex_attention", "ignore:_compile flag"
)


class Sdpa(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(x)
        return F.scaled_dot_product_attention(y, y, y)


class ByHand(Sdpa):
    def forward(self, x: Tensor) -> Tensor:
        y = self.project(x)
        return (y @ y.mT).softmax(-1) @ y


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def llama(**options: Any) -> Any:
    return transformers.LlamaModel(transformers.LlamaConfig(**SIZES, num_key_value_heads=2, **options))


def bloom() -> Any:
    return transformers.BloomModel(transformers.BloomConfig(vocab_size=97, hidden_size=32, n_layer=2, n_head=4))


def named(seen: Any) -> bool:
    return len(seen) == 0 and bool(seen.missed) and all("plain tensors" in m.advice for m in seen.missed)


@pytest.mark.parametrize("kind", [Sdpa, ByHand])
def test_vmap_and_functional_gradients(kind: type[nn.Module]) -> None:
    model, x = kind(), torch.randn(3, 2, 5, 16)
    parameters = dict(model.named_parameters())

    def loss(parameters: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(model, parameters, (x,)).square().sum()

    plain, gradient = torch.func.vmap(model)(x), torch.func.grad(loss)(parameters)
    with watch(model) as seen:
        assert torch.allclose(torch.func.vmap(model)(x), plain, atol=1e-6)
    assert named(seen)
    with watch(model) as seen:
        assert torch.allclose(torch.func.grad(loss)(parameters)["project.weight"], gradient["project.weight"], atol=1e-6)
    assert named(seen)


def test_nested_tensors() -> None:
    class Nested(Sdpa):
        def forward(self, x: Tensor) -> Tensor:
            y = self.project(x).unflatten(-1, (2, 8)).transpose(1, 2)
            return F.scaled_dot_product_attention(y, y, y)

    model, x = Nested(), torch.nested.nested_tensor([torch.randn(5, 16), torch.randn(7, 16)], layout=torch.jagged)
    plain = model(x)
    with watch(model) as seen:
        assert torch.allclose(model(x).values(), plain.values())
    assert named(seen)


@pytest.mark.parametrize("make", [Sdpa, ByHand, llama, bloom])
def test_the_meta_device_and_fake_tensors(make: Any) -> None:
    def inputs(device: str = "cpu") -> Tensor:
        return torch.randn(2, 5, 16, device=device) if make in (Sdpa, ByHand) else torch.zeros(2, 7, dtype=torch.int64, device=device)

    model = make().eval().to("meta")
    with watch(model) as seen:
        model(inputs("meta"))
    assert named(seen)
    for _ in range(3):
        with FakeTensorMode():
            model = make().eval()
            with watch(model) as seen:
                model(inputs())
        assert named(seen)


@torch.no_grad()
def test_flex_attention_of_transformers() -> None:
    model = llama(attn_implementation="flex_attention", head_dim=16).eval()
    ids = torch.randint(3, 97, (2, 9))
    plain = model(ids)[0]
    for kernel in ("auto", "own"):
        with watch(model, kernel=kernel) as seen:
            assert torch.allclose(model(ids)[0], plain, atol=1e-5)
        assert [s.kind for s in seen] == ["causal", "causal"]
        assert seen.missed == ()
    with change(model) as c:
        c.layer(0).temperature(3.0)
        assert not torch.allclose(model(ids)[0], plain, atol=1e-4)
        c.clear()
        assert torch.allclose(model(ids)[0], plain, atol=1e-5)


@pytest.mark.parametrize("make", [llama, bloom])
def test_gradient_checkpointing_with_the_backward_pass_after_the_block(make: Any) -> None:
    model, ids = make().train(), torch.randint(3, 97, (2, 9))
    model.gradient_checkpointing_enable()
    model(ids)[0].square().sum().backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    with watch(model) as seen:
        loss = model(ids)[0].square().sum()
    loss.backward()
    assert len(seen) == 2
    for name, p in model.named_parameters():
        assert p.grad is None or torch.allclose(p.grad, expected[name], atol=1e-6)


def test_checkpoint_of_torch() -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Sdpa()

        def forward(self, x: Tensor) -> Any:
            return checkpoint(self.inner, x, use_reentrant=False)

    model, x = Checkpointed(), torch.randn(2, 5, 16, requires_grad=True)
    with watch(model) as seen:
        output = model(x)
    output.sum().backward()
    assert (len(seen), x.grad is not None) == (1, True)


@pytest.mark.parametrize("make", [ByHand, llama])
def test_an_unwatched_thread_in_the_middle_of_a_forward_pass_when_the_block_closes(make: Any) -> None:
    model = make().eval()
    x = torch.randn(2, 5, 16) if make is ByHand else torch.randint(3, 97, (2, 7))
    reached, go_on, outputs = threading.Event(), threading.Event(), []

    def wait(*_: Any) -> None:
        reached.set()
        go_on.wait(30)

    first = next(module for name, module in model.named_modules() if name.endswith(("project", "q_proj")))

    def run() -> None:
        hook = first.register_forward_hook(wait)
        outputs.append(model(x))
        hook.remove()

    plain = model(x)
    with watch(model) as seen:
        thread = threading.Thread(target=run)
        thread.start()
        assert reached.wait(30)
    go_on.set()
    thread.join(30)
    a, b = (y if isinstance(y, Tensor) else y[0] for y in (plain, outputs[0]))
    assert torch.allclose(a, b, atol=1e-5)
    assert any("another thread" in m.advice for m in seen.missed)


@pytest.mark.parametrize("kind", ["bert", "torch", "by hand"])
def test_own_kernels_leave_random_numbers_and_dropout_alone(kind: str) -> None:
    x = torch.randn(2, 5, 16)
    if kind == "bert":
        model: Any = transformers.BertModel(transformers.BertConfig(**SIZES, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2))
        x = torch.randint(3, 97, (2, 7))
    elif kind == "torch":
        model = nn.TransformerEncoderLayer(16, 2, dropout=0.2, batch_first=True)
    else:
        model = nn.Sequential(ByHand(), nn.Dropout(0.2))
    model.train()
    torch.manual_seed(1)
    plain, number = model(x), torch.rand(1)
    torch.manual_seed(1)
    with watch(model, kernel="own") as seen:
        watched = model(x)
    assert torch.equal(torch.rand(1), number)
    assert torch.equal(watched if isinstance(watched, Tensor) else watched[0], plain if isinstance(plain, Tensor) else plain[0])
    assert len(seen) > 0


NO_WEIGHTS = [((0, 2, 3, 4), (0, 2, 3, 4)), ((1, 2, 0, 4), (1, 2, 5, 4)), ((2, 0, 3, 4), (2, 0, 3, 4)), ((2, 2, 3, 4), (2, 2, 0, 4))]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("shapes", NO_WEIGHTS)
def test_empty_batches_and_texts(shapes: tuple[tuple[int, ...], tuple[int, ...]], own: bool) -> None:
    class EmptyAttention(nn.Module):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            return (q @ k.mT).softmax(-1) @ k if own else F.scaled_dot_product_attention(q, k, k)

    q, k = (torch.randn(shape) for shape in shapes)
    model = EmptyAttention()
    plain = model(q, k)
    for kernel in ("auto", "own"):
        with watch(model, kernel=kernel) as seen:
            assert torch.equal(model(q, k), plain)
        assert (len(seen), seen.missed) == (0, ())

    with change(model) as c:
        c.layer(0).mute()
        assert torch.equal(model(q, k), plain)
        c.clear()
