"""Attention that models compute themselves: caught with the model's own weights, changed like any other, and no false alarms."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.sight import change, watch


class Own(nn.Module):
    """Self-attention with two heads that keeps its weights for the test; `weigh` makes them of scores, `gather` sums the values."""

    def __init__(self, weigh: Callable[[Tensor], Tensor], gather: Callable[[Tensor, Tensor], Tensor] = torch.matmul) -> None:
        super().__init__()
        self.project, self.weigh, self.gather = nn.Linear(16, 48), weigh, gather

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.project(x).chunk(3, -1))
        self.last = self.weigh(q @ k.mT / math.sqrt(8))
        return self.gather(self.last, v).transpose(1, 2).flatten(2)


def hide_later(s: Tensor) -> Tensor:
    return s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), torch.finfo(s.dtype).min)


def by_exponentials(s: Tensor) -> Tensor:
    e = (s - s.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


WAYS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor], str, str]] = {
    "softmax": (lambda s: s.softmax(-1), torch.matmul, "self", "queries and keys"),
    "causal": (lambda s: F.dropout(F.softmax(hide_later(s), dim=-1), 0.5, False), torch.matmul, "causal", "queries and keys"),
    "biased": (lambda s: (s + torch.arange(7.0)).softmax(-1), torch.matmul, "self", "queries and keys"),
    "squashed": (lambda s: s.tanh().softmax(-1), torch.matmul, "self", "scores"),
    "einsum": (lambda s: s.softmax(-1), lambda p, v: torch.einsum("bhij,bhjd->bhid", p, v), "self", "queries and keys"),
    "merged": (
        lambda s: s.flatten(0, 1).softmax(-1),
        lambda p, v: torch.bmm(p, v.flatten(0, 1)).unflatten(0, (-1, 2)),
        "self",
        "queries and keys",
    ),
    "by hand": (by_exponentials, torch.matmul, "self", "weights"),
    "log": (lambda s: s.log_softmax(-1).exp(), torch.matmul, "self", "weights"),
    "columns": (lambda s: s.mT.softmax(-2).mT, torch.matmul, "self", "queries and keys"),
    "sum": (lambda s: s.softmax(-1), lambda p, v: (p.unsqueeze(-1) * v.unsqueeze(-3)).sum(-2), "self", "queries and keys"),
}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("way", WAYS)
def test_weights_are_the_models_own(way: str) -> None:
    weigh, gather, kind, made_from = WAYS[way]
    model, x = Own(weigh, gather), torch.randn(3, 7, 16)
    plain = model(x)
    expected = model.last.detach().reshape(3, 2, 7, 7)
    with watch(model) as seen:
        assert torch.equal(model(x), plain)
    assert (len(seen), seen.missed) == (1, ())
    assert (seen[0].shape, seen[0].kind) == ((3, 2, 7, 7), kind)
    assert seen[0].proof.holds
    assert seen[0].proof.kernel.endswith(made_from)
    assert float((seen[0].weights() - expected).abs().max()) < 1e-6
    entropy = -torch.special.xlogy(expected, expected).sum(-1)
    assert torch.allclose(seen[0].readings["entropy"], entropy, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_what_if_acts_on_the_scores(way: str) -> None:
    weigh, gather, _, _ = WAYS[way]
    model, x = Own(weigh, gather), torch.randn(3, 7, 16)
    plain = model(x)
    p = model.last.detach().reshape(3, 2, 7, 7)
    v = model.project(x).chunk(3, -1)[2].unflatten(-1, (2, 8)).transpose(1, 2)

    def output(p: Tensor) -> Tensor:
        return (p @ v).transpose(1, 2).flatten(2)

    assert torch.allclose(output(p), plain, atol=1e-6)
    with change(model) as c:
        c.layer(0).head(1).mute()
        muted = p.clone()
        muted[:, 1] = 0
        assert torch.allclose(model(x), output(muted), atol=1e-6)
        c.clear()
        c.layer(0).head(0).temperature(2.0)
        warm = p.clone()
        warm[:, 0] = (p[:, 0].log() / 2).softmax(-1)
        assert torch.allclose(model(x), output(warm), atol=1e-5)
        c.clear()
        c.layer(0).forget(2)
        left = p.clone()
        left[..., :2] = 0
        left = (left / left.sum(-1, keepdim=True)).nan_to_num(0)
        assert torch.allclose(model(x), output(left), atol=1e-5)


def test_gradients_flow_through_changed_scores() -> None:
    model, x = Own(lambda s: s.softmax(-1)), torch.randn(1, 5, 16)
    with change(model) as c:
        c.layer(0).temperature(2.0)
        model(x).square().sum().backward()
    changed = model.project.weight.grad.clone()
    model.zero_grad()
    model.weigh = lambda s: (s / 2).softmax(-1)
    model(x).square().sum().backward()
    assert torch.allclose(changed, model.project.weight.grad, atol=1e-5)


class SigmoidAttention(Own):
    def __init__(self) -> None:
        super().__init__(torch.sigmoid)


def test_sigmoid_attention_need_not_sum_to_one() -> None:
    model, x = SigmoidAttention(), torch.randn(2, 5, 16)
    plain = model(x)
    with watch(model) as seen:
        assert torch.equal(model(x), plain)
    assert torch.allclose(seen[0].weights(), model.last, atol=1e-6)
    assert seen[0].proof.holds
    assert float(seen[0].readings["received"].sum()) > 15
    with change(model) as c:
        c.layer(0).temperature(2.0)
        with pytest.raises(ValueError, match="without a softmax"):
            model(x)


class ReAttention(Own):
    """Weights mixed across heads by a matrix, then normalised, as in DeepViT; without a norm as in CaiT."""

    def __init__(self, norm: bool) -> None:
        super().__init__(self.mix)
        self.heads, self.norm = nn.Parameter(torch.randn(2, 2)), nn.LayerNorm(2) if norm else nn.Identity()

    def mix(self, scores: Tensor) -> Tensor:
        p = torch.einsum("bhij,hg->bgij", scores.softmax(-1), self.heads)
        return self.norm(p.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


@pytest.mark.parametrize("norm", [False, True])
def test_weights_mixed_across_heads(norm: bool) -> None:
    model, x = ReAttention(norm), torch.randn(2, 5, 16)
    with watch(model) as seen:
        model(x)
    assert (len(seen), seen.missed) == (1, ())
    assert seen[0].proof.holds
    assert torch.allclose(seen[0].weights(), model.last, atol=1e-6)


def test_hard_weights_with_a_straight_through_gradient() -> None:
    """As GroupViT assigns tokens to groups: one group for each token, then divided by how many a group has."""

    def assign(s: Tensor) -> Tensor:
        soft = s.softmax(-2)
        hard = torch.zeros_like(s).scatter_(-2, soft.max(-2, keepdim=True)[1], 1.0)
        p = hard - soft.detach() + soft
        return p / (p.sum(-1, keepdim=True) + 1)

    model, x = Own(assign), torch.randn(2, 5, 16)
    with watch(model) as seen:
        model(x)
    assert (len(seen), seen.missed) == (1, ())
    assert torch.allclose(seen[0].weights(), model.last, atol=1e-6)


class CrossAttention(nn.Module):
    """An adapter that attends to something only if there is something."""

    def forward(self, *, x: Tensor, memory: Tensor | None = None) -> Tensor:
        return x if memory is None else F.scaled_dot_product_attention(x, memory, memory)


def test_attention_that_had_nothing_to_do_is_not_missed() -> None:
    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.adapter = CrossAttention()

        def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
            return self.adapter(x=x, memory=memory)

    x = torch.randn(2, 5, 4)
    with watch(model := Adapted()) as seen:
        model(x)
    assert (len(seen), seen.missed) == (0, ())
    with watch(model) as seen:
        model(x, x)
    assert (len(seen), seen.missed) == (1, ())


def scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / 4


def topk_of_values(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    best, index = scores(q, k).topk(3, -1)
    chosen = v.unsqueeze(1).expand(-1, q.shape[1], -1, -1).gather(2, index.unsqueeze(-1).expand(-1, -1, -1, v.shape[-1]))
    return (best.softmax(-1).unsqueeze(-1) * chosen).sum(2)


def with_a_sink(s: Tensor) -> Tensor:
    return s.exp() / (1 + s.exp().sum(-1, keepdim=True))


class Block(nn.Module):
    """A model whose name does not say attention, as `attention(q, k, v)` computes it."""

    def __init__(self, attention: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.project, self.attention = nn.Linear(16, 48), attention

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(*self.project(x).chunk(3, -1))


def one_by_one(attention: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    return lambda q, k, v: torch.stack([attention(*item) for item in zip(q, k, v, strict=True)])


# How the attention is computed, and the softmax whose weights it must show; None: other weights.
FORMS: dict[str, tuple[Callable[[Tensor, Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "matmul by keywords": (
        lambda q, k, v: torch.matmul(input=torch.softmax(input=torch.matmul(input=q, other=k.mT) / 4, dim=-1), other=v),
        scores,
    ),
    "bmm by keywords": (lambda q, k, v: torch.bmm(input=torch.bmm(input=q, mat2=k.mT).div(4).softmax(-1), mat2=v), scores),
    "baddbmm by keywords": (
        lambda q, k, v: torch.baddbmm(input=q.new_zeros(1), batch1=q, batch2=k.mT, beta=0, alpha=0.25).softmax(-1) @ v,
        scores,
    ),
    "sum by keywords": (lambda q, k, v: torch.sum(input=scores(q, k).softmax(-1).unsqueeze(-1) * v.unsqueeze(1), dim=2), scores),
    "linalg.matmul": (lambda q, k, v: torch.linalg.matmul(torch.linalg.matmul(q, k.mT).div(4).softmax(-1), v), scores),
    "product summed by hand": (lambda q, k, v: ((q.unsqueeze(2) * k.unsqueeze(1)).sum(-1) / 4).softmax(-1) @ v, scores),
    "additive": (
        lambda q, k, v: (q.unsqueeze(2) + k.unsqueeze(1)).tanh().sum(-1).softmax(-1) @ v,
        lambda q, k: (q.unsqueeze(2) + k.unsqueeze(1)).tanh().sum(-1),
    ),
    "Gaussian": (
        lambda q, k, v: (-(q.unsqueeze(2) - k.unsqueeze(1)).square().sum(-1)).softmax(-1) @ v,
        lambda q, k: -torch.cdist(q, k).square(),
    ),
    "distance": (lambda q, k, v: (-torch.cdist(q, k)).softmax(-1) @ v, lambda q, k: -torch.cdist(q, k)),
    "cosine": (
        lambda q, k, v: F.cosine_similarity(q.unsqueeze(2), k.unsqueeze(1), dim=-1).softmax(-1) @ v,
        lambda q, k: F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT,
    ),
}
ONE_AT_A_TIME: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "einsum without an arrow": lambda q, k, v: torch.einsum("ij,jd", torch.einsum("id,jd", q, k).div(4).softmax(-1), v),
    "tensordot": lambda q, k, v: torch.tensordot(torch.tensordot(q, k, dims=([1], [1])).div(4).softmax(-1), v, dims=1),
    "inner": lambda q, k, v: torch.inner(q, k).div(4).softmax(-1) @ v,
    "addmm": lambda q, k, v: torch.addmm(q.new_zeros(1), q, k.T, alpha=0.25).softmax(-1) @ v,
}


@pytest.mark.parametrize("form", [*FORMS, *ONE_AT_A_TIME])
def test_forms_of_attention_in_modules_of_any_name(form: str) -> None:
    attention, score = FORMS[form] if form in FORMS else (one_by_one(ONE_AT_A_TIME[form]), scores)
    model, x = Block(attention), torch.randn(2, 7, 16)
    plain = model(x)
    q, k, _ = model.project(x).detach().chunk(3, -1)
    with watch(model) as seen:
        assert torch.equal(model(x), plain)
    assert seen.missed == ()
    expected = score(q, k).softmax(-1)
    recorded = torch.cat([s.weights()[:, 0] for s in seen])
    assert torch.allclose(recorded, expected, atol=1e-5)
    assert all(s.proof.holds for s in seen)
    with change(model) as c:
        c.layer(0).mute()
        assert float(model(x)[0].detach().abs().max()) == 0


def test_one_query_as_a_vector() -> None:
    model = Block(one_by_one(lambda q, k, v: torch.mv(k, q[-1]).div(4).softmax(0) @ v))
    x = torch.randn(1, 7, 16)
    q, k, _ = model.project(x).detach().chunk(3, -1)
    with watch(model) as seen:
        model(x)
    assert (len(seen), seen.missed, seen[0].shape) == (1, (), (1, 1, 1, 7))
    assert torch.allclose(seen[0].weights()[0, 0], (q[0, -1:] @ k[0].T / 4).softmax(-1), atol=1e-6)


def test_weights_that_need_not_sum_to_one_in_modules_of_any_name() -> None:
    x = torch.randn(2, 7, 16)
    visible = torch.ones(7, 7).tril()
    for weigh in (with_a_sink, lambda s: s.relu().square(), lambda s: (1 - s.tanh().acos() / math.pi) ** 3 * visible):  # YOSO
        model = Block(lambda q, k, v, weigh=weigh: weigh(scores(q, k)) @ v)
        q, k, _ = model.project(x).detach().chunk(3, -1)
        with watch(model) as seen:
            model(x)
        assert (len(seen), seen.missed) == (1, ())
        assert torch.allclose(seen[0].weights()[:, 0], weigh(scores(q, k)), atol=1e-5)


@torch.library.custom_op("regard_tests::fast_attn", mutates_args=())
def fast_attn(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores(q, k).softmax(-1) @ v


@torch.jit.script
def scripted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(torch.matmul(q, k.transpose(-1, -2)), -1).matmul(v)


UNSEEN: dict[str, tuple[Callable[[Tensor, Tensor, Tensor], Tensor], str]] = {
    "normalised after the values": (
        lambda q, k, v: (scores(q, k).exp() @ v) / scores(q, k).exp().sum(-1, keepdim=True),
        "divide before",
    ),
    "keys chosen by topk": (topk_of_values, "topk"),
    "three tensors at once": (
        lambda q, k, v: torch.einsum("bij,bjd,d->bid", scores(q, k).softmax(-1), v, torch.ones(16)),
        "third tensor",
    ),
    "added to something": (lambda q, k, v: torch.baddbmm(v, scores(q, k).softmax(-1), v), "third tensor"),
    "an operator": (lambda q, k, v: torch.ops.regard_tests.fast_attn(q, k, v), "fast_attn"),
    "a TorchScript function": (lambda q, k, v: scripted(q, k, v), "TorchScript"),
}


@pytest.mark.parametrize("form", UNSEEN)
def test_what_cannot_be_seen_is_named(form: str) -> None:
    attention, advice = UNSEEN[form]
    model, x = Block(attention), torch.randn(2, 7, 16)
    plain = model(x)
    with watch(model) as seen:
        assert torch.equal(model(x), plain)
    assert (len(seen), len(seen.missed)) == (0, 1)
    assert advice in seen.missed[0].advice


def test_a_decoder_step_in_a_module_of_any_name() -> None:
    """Additive attention of one decoder state over the annotations: a projection to one number, softmax along the tokens."""

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.combine, self.score = nn.Linear(16, 8), nn.Linear(8, 1)

        def forward(self, x: Tensor) -> Tensor:
            e = self.score((self.combine(x) + self.combine(x[:, -1:])).tanh()).squeeze(-1)  # (B, S)
            self.last = e.softmax(-1)
            return torch.bmm(self.last.unsqueeze(1), x)

    with watch(model := Decoder()) as seen:
        model(torch.randn(2, 7, 16))
    assert (len(seen), seen.missed, seen[0].shape) == (1, (), (2, 1, 1, 7))
    assert torch.allclose(seen[0].weights()[:, 0, 0], model.last, atol=1e-6)


NOT_ATTENTION: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "experts": lambda q, k, v: torch.einsum("ble,bled->bld", q[..., :4].softmax(-1), torch.stack([k * i for i in range(4)], 2)),
    "similarities": lambda q, k, v: (q[:, 0] @ k[:, 0].mT).log_softmax(-1),
    "Gram matrix": lambda q, k, v: q.mT @ k,
    "positions": lambda q, k, v: v * (torch.arange(7.0)[:, None] * torch.arange(16.0)[None]).cos(),
}


@pytest.mark.parametrize("form", NOT_ATTENTION)
def test_no_false_alarms(form: str) -> None:
    with watch(model := Block(NOT_ATTENTION[form])) as seen:
        model(torch.randn(2, 7, 16))
    assert (len(seen), seen.missed) == (0, ())


class LinearAttention(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu() @ (x.relu().mT @ x)


def test_attention_without_weights_is_reported() -> None:
    with watch(model := nn.Sequential(LinearAttention())) as seen:
        model(torch.randn(2, 5, 4))
    assert len(seen) == 0
    assert [m.name for m in seen.missed] == ["0 (LinearAttention)"]
    assert "linear" in seen.missed[0].advice


class GatedDeltaNet(nn.Module):
    """A recurrence over the tokens with a gate, among the module's other operations, so that its weights cannot be stated."""

    def forward(self, x: Tensor) -> Tensor:
        state, outputs = torch.zeros(x.shape[0], x.shape[-1], x.shape[-1]), []
        for t in range(x.shape[1]):
            state = 0.9 * state + x[:, t, :, None] * x[:, t, None, :]
            outputs.append((state * x[:, t, :, None]).sum(1))
        return torch.stack(outputs, 1)


class ZeroStates(nn.Module):
    """As in Mamba 2, where a chunk begins with the states of the one before, which are zeros for the first."""

    def forward(self, x: Tensor) -> Tensor:
        outer = torch.einsum("bln,blp->bpn", x, x)
        states = torch.cat([torch.zeros_like(outer)[:, None], outer[:, None]], 1)[:, :1]
        return torch.einsum("bcln,bcpn->bclp", x[:, None], states)


def test_zeros_are_no_weights() -> None:
    with watch(model := nn.Sequential(ZeroStates())) as seen:
        model(torch.randn(2, 4, 4))
    assert (len(seen), seen.missed) == (0, ())


class ChannelGate(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(x.mean(1, keepdim=True))


def test_gated_recurrent_attention_is_named_and_a_gate_is_not() -> None:
    model = nn.Sequential(GatedDeltaNet(), ChannelGate())
    with watch(model) as seen:
        model(torch.randn(2, 5, 4))
    assert len(seen) == 0
    assert [m.name for m in seen.missed] == ["0 (GatedDeltaNet)"]


class HyperConnection(nn.Module):
    """Mixes the streams of every token by weights of its own, as DeepSeek V4 does: a softmax, and no attention."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.factors = nn.Linear(12, 9), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        streams = self.factors(x).unsqueeze(-1) * x.unsqueeze(-2)  # (B, L, 3, 4)
        mixed = self.project(streams.flatten(-2)).unflatten(-1, (3, 3)).softmax(-1)
        return mixed @ streams


def test_streams_of_a_token_are_no_pairs() -> None:
    with watch(model := nn.Sequential(HyperConnection())) as seen:
        model(torch.randn(2, 5, 4))
    assert (len(seen), seen.missed) == (0, ())


class OutputAttention(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True)


class PartedAttention(nn.Module):
    """Changes its output in a part that is named attention too, as NeoMME does."""

    def __init__(self) -> None:
        super().__init__()
        self.part = OutputAttention()

    def forward(self, x: Tensor) -> Tensor:
        return self.part((x @ x.mT).softmax(-1) @ x)


def test_a_part_of_an_attention_that_was_found_is_not_missed() -> None:
    with watch(model := nn.Sequential(PartedAttention(), OutputAttention())) as seen:
        model(torch.randn(2, 5, 4))
    assert len(seen) == 1
    assert [m.name for m in seen.missed] == ["1 (OutputAttention)"]


class NoAttention(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (torch.zeros_like(x),)  # as MRA does without its kernel


def test_attention_that_returns_zeros_is_named() -> None:
    with watch(model := nn.Sequential(NoAttention())) as seen:
        model(torch.randn(2, 5, 4))
    assert "only zeros" in seen.missed[0].advice


class AdditiveAttention(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x.mean(-1, keepdim=True).softmax(-1) * x).sum(1)  # along an axis of one number, as SwiftFormer does


def test_a_softmax_of_one_number_gives_weights_of_one() -> None:
    with watch(model := nn.Sequential(AdditiveAttention())) as seen:
        model(torch.randn(2, 5, 4))
    assert (len(seen), seen.missed) == (1, ())
    assert torch.equal(seen[0].weights(), torch.ones(2, 1, 1, 5))
    assert seen[0].proof.holds


class RelativeAttention(nn.Module):
    """Adds a learned vector for each distance, weighted as the values are, as VITS does: one attention."""

    def __init__(self) -> None:
        super().__init__()
        self.by_distance = nn.Parameter(torch.randn(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        p = (x @ x.mT).softmax(-1)
        return p @ x + p @ F.pad(self.by_distance, (0, 0, 1, 1))


def test_values_that_are_parameters_are_no_attention_of_their_own() -> None:
    with watch(model := nn.Sequential(RelativeAttention())) as seen:
        model(torch.randn(2, 5, 4))
    assert (len(seen), seen.missed) == (1, ())


class StepDecoder(nn.Module):
    """Attends to its source once per step, all in one forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = DecoderCell()

    def forward(self, source: Tensor) -> Tensor:
        state = source.new_zeros(len(source), source.shape[-1])
        for _ in range(3):
            state = self.cell(state, source)
        return state


class DecoderCell(nn.Module):
    def forward(self, state: Tensor, source: Tensor) -> Tensor:
        p = (source @ state.unsqueeze(-1)).softmax(1)  # (B, S, 1)
        return state + (p.mT @ source).squeeze(1)


def test_steps_in_one_forward_pass_are_calls_of_one_layer() -> None:
    with watch(model := StepDecoder()) as seen:
        model(torch.randn(2, 5, 4))
        model(torch.randn(2, 5, 4))
    assert seen.layers == 1
    assert [recorded.call for recorded in seen] == list(range(6))


class Pools(nn.Module):
    """Softmax of a learned score over the inputs: attention in a module named so, a router's weights in any other."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return (self.score(x).softmax(1) * x).sum(1)


class AttentionPool(Pools):
    pass


class Router(Pools):
    pass


@pytest.mark.parametrize(("kind", "count"), [(AttentionPool, 1), (Router, 0)])
def test_pooling_is_attention_and_routing_is_not(kind: type[nn.Module], count: int) -> None:
    with watch(model := nn.Sequential(kind())) as seen:
        model(torch.randn(2, 5, 4))
    assert (len(seen), seen.missed) == (count, ())
    if count:
        assert seen[0].shape == (2, 1, 1, 5)
        assert torch.allclose(seen[0].readings["received"].sum(-1), torch.ones(2, 1))


class Indexer(nn.Module):
    """Chooses which keys an attention may see, as DeepSeek's does: relu of products, summed over heads by weights of the query."""

    def forward(self, x: Tensor) -> Tensor:
        q = x.unflatten(-1, (2, 8))
        scores = (q @ x[..., :8].mT.unsqueeze(1)).relu()  # (B, L, h, S)
        return (x[..., None, :2] @ scores).squeeze(-2).topk(3, -1).indices


class IndexedAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.indexer = Indexer()

    def forward(self, x: Tensor) -> Tensor:
        visible = torch.zeros(*x.shape[:2], x.shape[1], dtype=torch.bool).scatter_(-1, self.indexer(x), True)
        return F.scaled_dot_product_attention(x, x, x, attn_mask=visible)


def test_an_indexer_is_no_attention() -> None:
    with watch(model := nn.Sequential(IndexedAttention())) as seen:
        model(torch.randn(2, 5, 16))
    assert ([s.name for s in seen], seen.missed) == (["0"], ())
    assert seen[0].weights().count_nonzero() == 2 * 5 * 3


def test_dropout_leaves_the_weights_before_it() -> None:
    model, x = Own(lambda s: F.dropout(s.softmax(-1), 0.5, True)), torch.randn(2, 6, 16)
    torch.manual_seed(1)
    plain, drawn = model(x), torch.rand(1)
    torch.manual_seed(1)
    with watch(model, kernel="own") as seen:
        assert torch.equal(model(x), plain)
    assert torch.equal(torch.rand(1), drawn)
    assert torch.allclose(seen[0].weights().sum(-1), torch.ones(2, 2, 6), atol=1e-5)
    assert math.isnan(seen[0].proof.output_error)


class Plain(Own):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.project(x).chunk(3, -1))
        return ((q @ k.mT / math.sqrt(8)).softmax(-1) @ v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("kind", ["own", "torch"])
def test_attention_of_an_exported_program(kind: str) -> None:
    x = torch.randn(2, 7, 16)
    model = Plain(torch.sigmoid) if kind == "own" else nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()
    exported = torch.export.export(model, (x,)).module()
    with watch(exported) as seen:
        exported(x)
    assert (len(seen), seen.missed) == (1, ())
    assert seen[0].proof.holds


def test_torchscript_is_reported() -> None:
    traced = torch.jit.trace(Plain(torch.sigmoid), torch.randn(2, 7, 16))
    for model in (traced, nn.Sequential(traced)):
        with watch(model) as seen:
            model(torch.randn(2, 7, 16))
        assert len(seen) == 0
        assert ["TorchScript" in m.advice for m in seen.missed] == [True]
    with watch(torch.jit.trace(nn.Linear(4, 4), torch.randn(1, 4))) as seen:
        pass
    assert seen.missed == ()


def test_saved_and_drawn_like_any_other(tmp_path: object) -> None:
    model, x = Own(lambda s: s.tanh().softmax(-1)), torch.randn(1, 7, 16)
    with watch(model) as seen:
        model(x)
    path = f"{tmp_path}/seen.safetensors"
    seen.save(path)
    assert torch.allclose(regard.sight.Sighting.load(path)[0].weights(), seen[0].weights(), atol=1e-6)
    assert "own weights" in repr(seen)
    assert "own weights" in seen._repr_html_()
