"""Choices by hand: weights, thresholds, samples, and the REINFORCE loss."""

from __future__ import annotations

import math

import pytest
import torch

import regard


def test_softmax_by_hand() -> None:
    p = regard.Softmax()(torch.tensor([[0.0, math.log(2), math.log(5)]]))
    torch.testing.assert_close(p, torch.tensor([[1 / 8, 2 / 8, 5 / 8]]))
    p = regard.Softmax(temperature=2.0)(torch.tensor([[0.0, math.log(9)]]))
    torch.testing.assert_close(p, torch.tensor([[0.25, 0.75]]))


def test_a_sink_takes_its_share_and_gives_nothing() -> None:
    k = torch.zeros(1, 1, 3, 4)
    v = torch.ones(1, 1, 3, 4)
    out = regard.attend(k, k, v, choice=regard.Softmax(sinks=torch.tensor([math.log(2.0)])))
    torch.testing.assert_close(out, torch.full((1, 1, 3, 4), 3 / 5))


def test_sparsemax_and_entmax_by_hand() -> None:
    z = torch.tensor([[0.1, 1.1, 0.2]], dtype=torch.float64)
    torch.testing.assert_close(regard.Sparsemax()(z), torch.tensor([[0.0, 0.95, 0.05]], dtype=torch.float64))
    p = regard.Entmax15()(z)
    tau = (z / 2 - p.sqrt())[p > 0]
    assert tau.max() - tau.min() < 1e-12  # one threshold for the whole support
    torch.testing.assert_close(p.sum(), torch.tensor(1.0, dtype=torch.float64))
    for choice in (regard.Sparsemax(), regard.Entmax15()):
        assert (choice(torch.tensor([[9.0, 0.0, 0.0]])) == torch.tensor([[1.0, 0.0, 0.0]])).all()


@pytest.mark.parametrize("choice", [regard.Sparsemax(), regard.Entmax15()])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
def test_tiled_thresholds_agree_with_sorting(choice: regard.Choice, scale: float) -> None:
    z = torch.randn(2, 3, 50, 400, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * scale
    row = choice.fit(lambda: z.split(64, -1))
    torch.testing.assert_close(choice.weights(z, row), choice.dense(z))
    torch.testing.assert_close(choice.weights(z, row).sum(-1), torch.ones(2, 3, 50, dtype=torch.float64))
    torch.testing.assert_close(row.mass, choice.slope(choice.dense(z)).sum(-1), rtol=1e-5, atol=1e-8)


def test_argmax_takes_the_first_of_equals() -> None:
    q, k = torch.ones(1, 1, 1, 2), torch.tensor([[[[0.0, 1], [1, 1], [2, 0], [1, 1]]]])
    seen = regard.observe(q, k, k, choice=regard.Argmax())
    assert seen.index is not None
    assert seen.index.item() == 1
    assert seen.output.tolist() == [[[[1, 1]]]]


@pytest.mark.parametrize("kernel", ["auto", "streamed", "reference"])
def test_samples_follow_the_distribution(kernel: str) -> None:
    z = torch.log(torch.tensor([0.5, 0.2, 0.0, 0.3]))
    q, k = torch.ones(1, 1, 40_000, 1), z.view(1, 1, 4, 1).clamp(min=-1e4)
    seen = regard.observe(q, k, k, choice=regard.Sample(), generator=torch.Generator().manual_seed(0), kernel=kernel)
    assert seen.index is not None
    assert seen.log_prob is not None
    share = torch.bincount(seen.index.flatten(), minlength=4) / 40_000
    assert (share - torch.tensor([0.5, 0.2, 0.0, 0.3])).abs().max() < 0.01
    torch.testing.assert_close(seen.log_prob, z[seen.index])
    again = regard.observe(q, k, k, choice=regard.Sample(), generator=torch.Generator().manual_seed(0), kernel=kernel)
    assert torch.equal(again.index, seen.index)


def test_every_kernel_draws_the_same() -> None:
    q, k, v = (torch.randn(2, 3, 200, 8, dtype=torch.float64) for _ in range(3))
    picks = [
        regard.observe(
            q, k, v, choice=regard.Sample(0.5), mask=regard.causal(), generator=torch.Generator().manual_seed(2), kernel=kernel
        ).index
        for kernel in ("streamed", "reference")
    ]
    assert torch.equal(*picks)


def test_reinforce_by_hand_and_its_errors() -> None:
    log_prob = torch.tensor([-0.5, -2.0], requires_grad=True)
    loss = regard.reinforce(log_prob, torch.tensor([1.0, 0.0]), torch.tensor([0.25, 0.5]))
    assert loss.item() == pytest.approx(-(0.75 * -0.5 + -0.5 * -2.0) / 2)
    (grad,) = torch.autograd.grad(loss, log_prob)
    torch.testing.assert_close(grad, torch.tensor([-0.375, 0.25]))
    with pytest.raises(ValueError, match=r"log_prob has shape \(2,\) but reward \(3,\)"):
        regard.reinforce(log_prob, torch.zeros(3))


def test_reinforce_gradient_is_the_true_one_on_average() -> None:
    """The expected gradient of the sampled loss equals the gradient of the expected reward."""
    logits = torch.tensor([0.3, -0.2, 0.9], requires_grad=True)
    reward = torch.tensor([1.0, 3.0, -2.0])
    (want,) = torch.autograd.grad(-(logits.softmax(0) * reward).sum(), logits)
    q, k = torch.ones(1, 1, 60_000, 1), logits.view(1, 1, 3, 1)
    seen = regard.observe(q, k, k.detach(), choice=regard.Sample(), score=regard.Dot(), generator=torch.Generator().manual_seed(0))
    (got,) = torch.autograd.grad(regard.reinforce(seen.log_prob, reward[seen.index], 0.5), logits)
    assert (got - want).abs().max() < 0.03


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_temperature_must_be_positive(temperature: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        regard.Softmax(temperature=temperature)


def bisected(z: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    """α-entmax by bisection, as in its definition; no gradient."""
    x = z * (alpha - 1)
    low, high = x.amax(-1, keepdim=True) - 1, x.amax(-1, keepdim=True)
    for _ in range(100):
        middle = (low + high) / 2
        enough = ((x - middle).clamp(min=0) ** (1 / (alpha - 1))).sum(-1, keepdim=True) >= 1
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
    return (x - low).clamp(min=0) ** (1 / (alpha - 1))


@pytest.mark.parametrize("alpha", [1.05, 1.3, 1.5, 2.0, 3.0])
def test_entmax_is_the_root_and_meets_its_named_relatives(alpha: float) -> None:
    z = torch.randn(4, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2
    p = regard.Entmax(alpha)(z)
    torch.testing.assert_close(p, bisected(z, torch.tensor(alpha, dtype=torch.float64)), rtol=0, atol=1e-12)
    for other, choice in ((1.5, regard.Entmax15()), (2.0, regard.Sparsemax())):
        if alpha == other:
            torch.testing.assert_close(p, choice(z), rtol=0, atol=1e-12)


def test_entmax_agrees_with_entmax_bisect_and_its_gradient_in_alpha() -> None:
    entmax = pytest.importorskip("entmax", reason="pip install entmax to compare with entmax_bisect")
    z = torch.randn(2, 3, 5, 40, dtype=torch.float64, requires_grad=True)
    alpha = torch.tensor([1.2, 1.5, 2.5], dtype=torch.float64, requires_grad=True)
    theirs = entmax.entmax_bisect(z, alpha.view(1, 3, 1, 1).expand(2, 3, 5, 1), dim=-1, n_iter=100)
    weight = torch.randn_like(theirs)
    ours = regard.Entmax(alpha)(z)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    torch.testing.assert_close(*(torch.autograd.grad((y * weight).sum(), (z, alpha)) for y in (ours, theirs)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(), (2,)])
def test_the_gradient_of_alpha_in_every_kernel(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.kernels.tiles import Tiles

    monkeypatch.setattr(Tiles.__init__, "__defaults__", (200,))  # several tiles a row
    q, k, v = (torch.randn(1, 2, 9, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    alpha = torch.full(shape, 1.4, dtype=torch.float64, requires_grad=True)

    def work(kernel: str) -> list[torch.Tensor]:
        out = regard.attend(q, k, v, choice=regard.Entmax(alpha), mask=regard.causal(), kernel=kernel)
        return [out, *torch.autograd.grad(out.sin().sum(), (q, k, v, alpha))]

    torch.testing.assert_close(work("streamed"), work("reference"), rtol=1e-9, atol=1e-9)
    inputs = [x[:, :, :4].detach().requires_grad_() for x in (q, k, v)]
    small = lambda q, k, v, alpha: regard.attend(q, k, v, choice=regard.Entmax(alpha))  # noqa: E731
    assert torch.autograd.gradcheck(small, (*inputs, alpha))
    assert torch.autograd.gradgradcheck(small, (*inputs, alpha), atol=1e-4)
    assert regard.explain(q, k, v, choice=regard.Entmax(alpha)).kernel == "streamed"


def test_entmax_trains_one_alpha_per_head_of_a_layer() -> None:
    layer = regard.MultiHeadAttention(16, 4, choice=regard.Entmax(torch.nn.Parameter(torch.full((4,), 1.5))))
    assert layer.parameter_table()["choice"] == 4
    layer(torch.randn(2, 6, 16)).square().sum().backward()
    assert layer.choice.alpha.grad is not None
    assert bool(layer.choice.alpha.grad.any())


def test_top_k_by_hand_and_with_equal_scores() -> None:
    z = torch.tensor([[0.0, math.log(3.0), -1.0, -2.0]])
    torch.testing.assert_close(regard.TopKSoftmax(2)(z), torch.tensor([[0.25, 0.75, 0.0, 0.0]]))
    torch.testing.assert_close(regard.TopKSoftmax(9)(z), z.softmax(-1))
    torch.testing.assert_close(regard.TopKSoftmax(2)(torch.zeros(1, 4)), torch.full((1, 4), 0.25))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: regard.Entmax(1.0), r"alpha is 1.0; entmax needs alpha > 1"),
        (lambda: regard.Entmax(torch.ones(2, 2)), r"alpha is torch.float32 of shape \(2, 2\)"),
        (lambda: regard.TopKSoftmax(0), r"k is 0; expected how many keys"),
        (
            lambda: regard.attend(*[torch.zeros(1, 2, 3, 4)] * 3, choice=regard.Entmax(torch.full((3,), 1.5))),
            r"3 learned numbers but there are 2 heads",
        ),
    ],
)
def test_choices_that_cannot_be_made(build: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()  # type: ignore[operator]
