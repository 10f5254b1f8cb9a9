"""Adaptive span: the paper's formula, what it reaches, its gradient, and heads that learn how far to look."""

import math

import pytest
import torch

import regard
from regard.layers.adaptive_span import AdaptiveSpanAttention, SoftSpan


def formula(layer: AdaptiveSpanAttention, x: torch.Tensor) -> torch.Tensor:
    """Weights m(x) exp(s) / Σ m(x) exp(s), written as the paper writes them, causal."""
    mha = layer.attention
    q, k, v = (
        t.view(*x.shape[:2], mha.heads, -1).transpose(1, 2)
        for t in torch.nn.functional.linear(x, mha.in_proj_weight, mha.in_proj_bias).chunk(3, -1)  # type: ignore[arg-type]
    )
    at = torch.arange(x.shape[1])
    distance = at.unsqueeze(-1) - at
    z = layer.span.spans().view(-1, 1, 1)
    m = ((layer.span.ramp + z - distance) / layer.span.ramp).clamp(0, 1) * (distance >= 0)
    top = m * torch.exp(q @ k.mT / math.sqrt(mha.head_dim))
    mixed = (top / top.sum(-1, keepdim=True)) @ v
    return mha.out_proj(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


def test_the_papers_formula_and_its_gradient() -> None:
    torch.manual_seed(0)
    layer = AdaptiveSpanAttention(16, heads=4, longest=20, ramp=4).double()
    with torch.no_grad():
        layer.span.share.copy_(torch.tensor([0.01, 0.13, 0.52, 0.97]))
    x = torch.randn(2, 30, 16, dtype=torch.float64)
    out, expected = layer(x, mask=regard.causal()), formula(layer, x)
    torch.testing.assert_close(out, expected)
    upstream = torch.randn_like(out)
    ours = torch.autograd.grad(out, list(layer.parameters()), upstream)
    theirs = torch.autograd.grad(expected, list(layer.parameters()), upstream)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
    assert ours[[name for name, _ in layer.named_parameters()].index("span.share")].abs().min() > 0


def test_a_span_that_covers_everything_is_full_attention() -> None:
    torch.manual_seed(0)
    layer = AdaptiveSpanAttention(16, heads=2, longest=30, ramp=4, start=1.0)
    x = torch.randn(2, 20, 16)
    torch.testing.assert_close(layer(x), layer.attention(x))
    # With a short span it is another model: no bound is claimed, and the difference is real.
    short = AdaptiveSpanAttention(16, heads=2, longest=30, ramp=4)
    short.attention.load_state_dict(layer.attention.state_dict())
    assert (short(x) - layer(x)).norm() / layer(x).norm() > 0.1


def test_the_window_is_exactly_where_the_soft_span_is_above_zero() -> None:
    span = SoftSpan(heads=3, longest=10, ramp=3)
    with torch.no_grad():
        span.share.copy_(torch.tensor([0.0, 0.25, 0.4]))
    values = span.tile(range(20), range(20), 20, 20)
    assert torch.equal(values > -math.inf, span.windows().dense(20, 20))


def test_a_share_pushed_out_of_range_can_return() -> None:
    span = SoftSpan(heads=2, longest=10, ramp=4)
    with torch.no_grad():
        span.share.copy_(torch.tensor([-0.3, 1.2]))
    assert span.spans().tolist() == pytest.approx([0.0, 10.0])
    span.spans().sum().backward()
    assert span.share.grad is not None
    assert span.share.grad.tolist() == [10.0, 10.0]


@pytest.mark.parametrize(("distance", "least", "most"), [(12, 8.0, 12.0), (1, 0.0, 0.5)])
def test_heads_learn_how_far_they_must_look(distance: int, least: float, most: float) -> None:
    """The answer at each token is the mark seen `distance` before. Far needs a wide span; near lets the penalty shrink it."""
    N, width = 48, 49  # a token is its place, one-hot, and a mark
    layer = AdaptiveSpanAttention(width, heads=1, longest=40, ramp=4, start=0.25, bias=False)
    with torch.no_grad():  # a head that looks exactly `distance` back, if its span lets it
        query, key, value = torch.zeros(width, width), torch.zeros(width, width), torch.zeros(width, width)
        query[range(N - distance), range(distance, N)] = 5.0 * math.sqrt(width)
        key[range(N), range(N)] = 1.0
        value[N, N] = 1.0
        layer.attention.in_proj_weight.copy_(torch.cat([query, key, value]))  # type: ignore[union-attr]
        layer.attention.out_proj.weight.copy_(torch.eye(width))
    optimiser = torch.optim.Adam([layer.span.share], lr=0.003)
    g = torch.Generator().manual_seed(0)
    for _ in range(150):
        mark = torch.randn(4, N, 1, generator=g)
        optimiser.zero_grad()
        result = layer(torch.cat([torch.eye(N).expand(4, N, N), mark], -1), mask=regard.causal())[..., N:]
        loss = (result[:, distance:] - mark[:, :-distance]).square().mean()
        (loss + 0.01 * layer.span_cost()).backward()
        optimiser.step()
    assert least <= layer.span.spans().item() <= most


def test_wrong_sizes_say_so() -> None:
    with pytest.raises(ValueError, match="longest=0, ramp=32"):
        SoftSpan(2, 0)
    with pytest.raises(ValueError, match="SoftSpan was made for 2 heads but the query has 4"):
        regard.attend(*(torch.randn(1, 4, 5, 8) for _ in range(3)), bias=SoftSpan(2, 10))
