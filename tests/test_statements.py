"""Twelve properties of attention (M1 to M12), each by a small case that can be checked by hand."""

import math

import pytest
import torch

import regard
from regard.layers.hard import HardAttention
from regard.layers.keyvalue import KeyValueAttention
from regard.layers.multihead import MultiHeadAttention
from regard.layers.pooling import GatedPooling, MaxPooling, WinnerTakeAll

X = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
Q = torch.tensor([[2.0, 1.0]], dtype=torch.float64)


def weights(query: torch.Tensor, key: torch.Tensor, **options: object) -> torch.Tensor:
    """The attention weights (L, S)."""
    rows = regard.Rows(list(range(query.shape[-2])))
    result: torch.Tensor = regard.observe(query, key, key, readings=[rows], **options).readings["rows"]  # type: ignore[arg-type]
    return result


def test_m1_the_attention_distribution_is_a_softmax_over_inputs() -> None:
    """Scores 2, 1, 3: α_n = e^s_n / Σ e^s_m."""
    alpha = weights(Q, X, score=regard.Dot())[0]
    total = math.e**2 + math.e + math.e**3
    torch.testing.assert_close(alpha, torch.tensor([math.e**2, math.e, math.e**3], dtype=torch.float64) / total)
    # z is a choice among N inputs: its draws follow α.
    z = regard.observe(Q.expand(20_000, -1), X, X, score=regard.Dot(), choice=regard.Sample(), generator=torch.Generator().manual_seed(0))
    assert z.index is not None
    torch.testing.assert_close(torch.bincount(z.index, minlength=3).double() / 20_000, alpha, atol=0.01, rtol=0)


def test_m2_the_four_scores() -> None:
    assert regard.Dot()(Q, X).tolist() == [[2.0, 1.0, 3.0]]
    torch.testing.assert_close(regard.ScaledDot()(Q, X), torch.tensor([[2.0, 1.0, 3.0]], dtype=torch.float64) / math.sqrt(2))
    additive = regard.Additive(2, 2, hidden=2).double()
    bilinear = regard.Bilinear(2, 2).double()
    with torch.no_grad():
        additive.W.copy_(torch.eye(2))
        additive.U.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
        additive.v.copy_(torch.tensor([1.0, -1.0]))
        bilinear.W.copy_(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    # vᵀ tanh(x + (q₂, q₁)) with q = (2, 1)
    expected = [[math.tanh(a + 1) - math.tanh(b + 2) for a, b in X.tolist()]]
    torch.testing.assert_close(additive(Q, X), torch.tensor(expected, dtype=torch.float64))
    assert bilinear(Q, X).tolist() == [[1.0, 0.0, 1.0]]  # xᵀWq = x₁ q₂
    assert all(isinstance(s, torch.nn.Module) for s in (additive, bilinear, regard.Dot(), regard.ScaledDot()))
    assert [name for name, _ in additive.named_parameters()] == ["U", "W", "v"]


def test_m2_a_factored_bilinear_score_is_low_rank_and_asymmetric() -> None:
    torch.manual_seed(0)
    score = regard.Bilinear(6, 6, rank=2).double()
    x = torch.randn(9, 6, dtype=torch.float64)
    scores = score(x, x)
    torch.testing.assert_close(scores, (x @ score.V.mT) @ (x @ score.U.mT).mT)
    assert torch.linalg.matrix_rank(scores) == 2
    assert not torch.allclose(scores, scores.mT)
    torch.testing.assert_close(regard.Dot()(x, x), regard.Dot()(x, x).mT)


def test_m3_soft_attention_is_the_expectation_of_the_input_chosen() -> None:
    alpha = weights(Q, X)[0]
    torch.testing.assert_close(regard.attend(Q, X, X)[0], sum(a * x for a, x in zip(alpha, X, strict=True)))


@pytest.mark.parametrize("score", [regard.Dot(), regard.Additive(2, 2, hidden=4).double(), regard.Gaussian(0.5)], ids=repr)
def test_m4_key_value_attention_with_k_equal_to_v_is_soft_attention(score: regard.Score) -> None:
    layer = KeyValueAttention(score)
    assert torch.equal(layer(Q, X, X), layer(Q, X))
    torch.testing.assert_close(layer(Q, X, X), torch.softmax(score(Q, X), -1) @ X)
    V = torch.tensor([[10.0], [20.0], [30.0]], dtype=torch.float64)
    torch.testing.assert_close(layer(Q, X, V), torch.softmax(score(Q, X), -1) @ V)


def test_m5_three_stages_each_callable_and_a_dict_in_the_limit() -> None:
    scores = regard.ScaledDot()(Q, X)  # score
    alpha = regard.Softmax()(scores)  # normalise
    torch.testing.assert_close(alpha @ X, regard.attend(Q, X, X))  # weighted sum
    table = {"a": 1.0, "b": 2.0, "c": 3.0}
    keys, values = torch.eye(3, dtype=torch.float64), torch.tensor(list(table.values()), dtype=torch.float64).unsqueeze(-1)
    for i, name in enumerate(table):
        assert regard.attend(keys[i : i + 1], keys, values, choice=regard.Argmax()).item() == table[name]
        soft = [regard.attend(keys[i : i + 1], keys, values, choice=regard.Softmax(temperature=t)).item() for t in (1.0, 0.1, 0.01)]
        assert soft[2] == pytest.approx(table[name], abs=1e-12)
    with pytest.raises(ValueError, match="for the limit 0 use Argmax"):
        regard.Softmax(temperature=0.0)


def test_m6_hard_attention_takes_one_input_and_passes_no_gradient_to_the_scores() -> None:
    best = regard.observe(Q, X, X, choice=regard.Argmax())
    assert best.index is not None
    assert best.index.tolist() == [2]
    assert best.output.tolist() == [X[2].tolist()]
    q, x = Q.clone().requires_grad_(), X.clone()
    drawn = regard.observe(q, x, x, choice=regard.Sample(), generator=torch.Generator().manual_seed(0))
    assert drawn.index is not None
    assert drawn.log_prob is not None
    torch.testing.assert_close(drawn.log_prob.exp().detach(), weights(Q, X)[0][drawn.index])
    assert not drawn.output.requires_grad  # nothing to learn from the value alone …
    (gradient,) = torch.autograd.grad(drawn.log_prob.sum(), q)  # … but from its log-probability: x_z − E[x], over √d
    torch.testing.assert_close(gradient, (x[drawn.index] - weights(Q, X) @ x) / math.sqrt(2))


def test_m6_reinforce_follows_the_gradient_of_the_expected_reward() -> None:
    """Averaged over many draws, REINFORCE's gradient is the exact one, d/dq Σ α_n r_n; a baseline leaves its mean alone."""
    r = torch.tensor([1.0, 5.0, 2.0], dtype=torch.float64)
    q = Q.clone().requires_grad_()
    exact = torch.autograd.grad(torch.softmax(regard.ScaledDot()(q, X), -1) @ r, q)[0]
    for baseline in (0.0, 2.5):
        queries = q.expand(40_000, -1)
        attended = HardAttention()(queries, X, generator=torch.Generator().manual_seed(0))
        assert attended.index is not None
        assert attended.log_prob is not None
        (gradient,) = torch.autograd.grad(-regard.reinforce(attended.log_prob, r[attended.index], baseline), q)
        torch.testing.assert_close(gradient, exact, atol=0.03, rtol=0)


def test_m7_saliency_has_no_query_and_focus_has_one() -> None:
    x = torch.tensor([[3.0, 0.0, 0.0], [0.1, 2.0, 0.0], [0.1, 0.0, 2.0]])
    loud = torch.tensor([1.0, 0.0, 0.0])
    assert WinnerTakeAll(3, saliency=loud)(x).tolist() == x[0].tolist()
    assert MaxPooling()(x).tolist() == [3.0, 2.0, 2.0]
    assert GatedPooling(3)(x).shape == (3,)
    focus = regard.observe(torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), x, x, choice=regard.Argmax())
    assert focus.index is not None
    assert focus.index.tolist() == [1, 2]  # one input, two queries, two selections


def test_m8_many_queries_are_rows_and_two_projections_are_one() -> None:
    torch.manual_seed(0)
    queries = torch.randn(5, 2, dtype=torch.float64)
    together = regard.attend(queries, X, X)
    torch.testing.assert_close(together, torch.cat([regard.attend(q[None], X, X) for q in queries]))
    layer = MultiHeadAttention(8, heads=2, bias=False).double()
    x, first = torch.randn(1, 4, 8, dtype=torch.float64), torch.randn(8, 8, dtype=torch.float64)
    collapsed = MultiHeadAttention(8, heads=2, bias=False).double()
    with torch.no_grad():
        collapsed.in_proj_weight.copy_(layer.in_proj_weight @ first.mT)  # type: ignore[union-attr, operator]
        collapsed.out_proj.weight.copy_(layer.out_proj.weight)
    torch.testing.assert_close(layer(x @ first), collapsed(x))


def test_m9_self_attention_is_attention_of_x_to_itself_at_any_length() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(6, heads=1, bias=False).double()
    Wq, Wk, Wv = layer.in_proj_weight.view(3, 6, 6)  # type: ignore[union-attr]
    for n in (1, 4, 9):
        x = torch.randn(1, n, 6, dtype=torch.float64)
        expected = regard.attend(x @ Wq.mT, x @ Wk.mT, x @ Wv.mT) @ layer.out_proj.weight.mT
        torch.testing.assert_close(layer(x), expected)


def test_m10_cross_attention_asks_from_one_sequence_and_answers_from_another() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, heads=2).double()
    x, memory = torch.randn(2, 3, 8, dtype=torch.float64), torch.randn(2, 5, 8, dtype=torch.float64)
    padded = torch.cat([memory, torch.full((2, 2, 8), math.nan, dtype=torch.float64)], 1)
    out = layer(x, padded, mask=regard.padding(torch.tensor([5, 5])))
    torch.testing.assert_close(out, layer(x, memory))  # padding stays masked, and nothing is causal:
    changed = memory.clone()
    changed[:, -1] += 1
    assert (layer(x, changed) - layer(x, memory)).abs().amax(-1).min() > 0  # the first query sees the last key


def test_m11_masked_scores_are_minus_infinity_before_the_softmax() -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 4, dtype=torch.float64)
    scores = regard.ScaledDot()(x, x).masked_fill(torch.ones(6, 6).triu(1).bool(), -math.inf)
    causal = weights(x, x, mask=regard.causal())
    torch.testing.assert_close(causal, torch.softmax(scores, -1))
    torch.testing.assert_close(causal.sum(-1), torch.ones(6, dtype=torch.float64))
    later = x.clone()
    later[4:] = 100.0
    assert torch.equal(regard.attend(later, later, later, mask=regard.causal())[:4], regard.attend(x, x, x, mask=regard.causal())[:4])
    assert not torch.equal(regard.attend(later, later, later)[:4], regard.attend(x, x, x)[:4])  # the unmasked variant


def test_m12_the_value_map_is_factored_and_its_work_is_added() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, heads=3, bias=False).double()
    E = torch.randn(1, 5, 12, dtype=torch.float64)
    _, attended = layer.observe(E, readings=[regard.Rows(list(range(5)))])
    assert layer.value_down(0).shape == (4, 12)
    assert layer.value_up(0).shape == (12, 4)
    # W_o holds every head's Value↑ side by side.
    assert torch.equal(torch.cat([layer.value_up(head) for head in range(3)], 1), layer.out_proj.weight)
    alpha = attended.readings["rows"][0]
    change = sum(alpha[head] @ E[0] @ (layer.value_up(head) @ layer.value_down(head)).mT for head in range(3))
    torch.testing.assert_close(E[0] + change, (E + layer(E))[0])


def test_the_textbooks_column_form_is_the_transpose() -> None:
    """H = V softmax(KᵀQ/√d), tokens as columns, each column of weights summing to 1."""
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 8, 5, dtype=torch.float64)
    H = v @ torch.softmax(k.mT @ q / math.sqrt(8), dim=0)
    torch.testing.assert_close(regard.attend(q.mT, k.mT, v.mT), H.mT)
