"""What-if: each change against the same attention computed by hand; its effect; importance; labels."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models import Gpt, GptConfig
from regard.sight import change, label_heads, watch
from regard.sight.labels import LABELS, Labels, labels_on_text, repeated_tokens

transformers = pytest.importorskip("transformers", reason="pip install transformers to compare with its models")
transformers.logging.set_verbosity_error()


class CausalAttention(nn.Module):
    """Causal attention without projections: the output is the heads' own."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def by_hand(q: Tensor, k: Tensor, v: Tensor, *, temperature: float = 1.0, forget: int = 0, window: int | None = None) -> Tensor:
    s = (q @ k.mT) / math.sqrt(q.shape[-1]) / temperature
    i, j = torch.arange(q.shape[2])[:, None], torch.arange(q.shape[2])
    visible = (j <= i) & (j >= forget) & ((i - j) <= (q.shape[2] if window is None else window))
    return s.masked_fill(~visible, -math.inf).softmax(-1).nan_to_num(0) @ v


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda h: h.mute(), lambda *x: torch.zeros_like(x[2])),
        (lambda h: h.temperature(3.0), lambda *x: by_hand(*x, temperature=3.0)),
        (lambda h: h.forget(first=2), lambda *x: by_hand(*x, forget=2)),
        (lambda h: h.window(1), lambda *x: by_hand(*x, window=1)),
        (lambda h: h.temperature(0.5).window(2).forget(), lambda *x: by_hand(*x, temperature=0.5, window=2, forget=1)),
    ],
)
def test_changes(edit: Any, expected: Any) -> None:
    torch.manual_seed(0)
    model, (q, k, v) = CausalAttention(), (torch.randn(2, 3, 7, 8) for _ in range(3))
    plain = model(q, k, v)
    with change(model) as c, watch(model) as seen:
        edit(c.layer(0).head(1))
        changed = model(q, k, v)
    by_formula = expected(q, k, v)
    assert torch.allclose(changed[:, 1], by_formula[:, 1], atol=1e-5)
    assert torch.allclose(changed[:, [0, 2]], plain[:, [0, 2]], atol=1e-5)
    assert seen[0].proof.holds
    with change(model) as c:
        edit(c.layer(0))
        assert torch.allclose(model(q, k, v), by_formula, atol=1e-5)
    assert torch.equal(model(q, k, v), plain)


def test_multihead_with_weights_is_changed_too() -> None:
    torch.manual_seed(0)
    model, x = nn.MultiheadAttention(16, 2, batch_first=True).eval(), torch.randn(1, 5, 16)
    plain, _ = model(x, x, x)
    with change(model) as c:
        c.layer(0).forget(first=1)
        changed, weights = model(x, x, x, average_attn_weights=False)
    assert float(weights[..., 0].detach().abs().max()) == 0
    assert torch.allclose(weights.sum(-1), torch.ones(1, 2, 5))
    assert not torch.allclose(changed, plain)


def llama() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
        initializer_range=0.3, pad_token_id=0, bos_token_id=1, eos_token_id=2, max_position_embeddings=128,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


@torch.no_grad()
def test_effect_on_a_transformers_model() -> None:
    model = llama()
    ids, keep = torch.randint(3, 97, (2, 9)), torch.ones(2, 9, dtype=torch.int64)
    keep[1, :3] = 0
    inputs = {"input_ids": ids * keep, "attention_mask": keep}
    before = model(**inputs, output_hidden_states=True)
    # Muting a head is the same as zeroing its columns of the output projection.
    other = llama()
    other.model.layers[1].self_attn.o_proj.weight[:, 16:24] = 0
    after = other(**inputs, output_hidden_states=True)
    with change(model) as c:
        assert c.effect(inputs).mean_kl == 0
        c.layer(1).head(2).mute()
        effect = c.effect(inputs)
        assert torch.allclose(model(**inputs).logits[keep.bool()], after.logits[keep.bool()], atol=1e-5)
    assert torch.equal(model(**inputs).logits, before.logits)
    p, q = before.logits.double().log_softmax(-1), after.logits.double().log_softmax(-1)
    kl = (p.exp() * (p - q)).sum(-1)
    assert effect.kl is not None
    assert effect.cosine is not None
    assert torch.allclose(effect.kl[keep.bool()], kl[keep.bool()], atol=1e-6)
    cosine = F.cosine_similarity(before.hidden_states[-1].double(), after.hidden_states[-1].double(), dim=-1)
    assert torch.allclose(effect.cosine[keep.bool()], cosine[keep.bool()], atol=1e-6)
    assert effect.mean_kl == pytest.approx(float(kl[keep.bool()].mean()), abs=1e-6)
    assert "KL of the next token" in str(effect)


@torch.no_grad()
def test_importance_and_layers_by_name() -> None:
    model = llama()
    model.model.layers[2].self_attn.o_proj.weight[:, 8:16] = 0  # head 2.1 has no effect
    inputs = {"input_ids": torch.randint(3, 97, (1, 8))}
    with change(model) as c:
        importance = c.importance(inputs, progress=False)
        c.layer("model.layers.0.self_attn").mute()
        assert c.effect(inputs).mean_kl > 0
        c.layer(9).mute()
        with pytest.raises(IndexError, match=r"changed layers that never ran: 9; the model ran layers 0 … 2"):
            c.effect(inputs)
        c.clear()
        c.layer(0).head(4).mute()
        with pytest.raises(IndexError, match="has heads 0 … 3"):
            c.effect(inputs)
        c.clear()
    assert len(importance.effects) == 12
    assert importance.ranked()[-1][:2] == (2, 1)
    assert importance.effects[2, 1].mean_kl == pytest.approx(0, abs=1e-9)
    assert importance.ranked()[0][2] > 0
    assert "layer.head" in str(importance)


def test_changes_that_never_ran_warn() -> None:
    model = CausalAttention()
    c = change(model)
    c.layer(4).mute()

    def run() -> None:
        with c:
            model(*(torch.randn(1, 1, 3, 4) for _ in range(3)))

    with pytest.warns(UserWarning, match="layers that never ran: 4"):
        run()
    for wrong in (lambda h: h.temperature(0), lambda h: h.forget(0), lambda h: h.window(-1)):
        with pytest.raises(ValueError):
            wrong(change(model).layer(0))


class HandMadeHeads(nn.Module):
    """Four heads by construction: previous token, first token, induction, uniform."""

    class config:
        vocabulary = 60
        context = 200

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, ids: Tensor) -> Tensor:
        B, L = ids.shape
        at = torch.eye(L)  # one axis a position
        word = F.one_hot(ids, 60).float()
        before = torch.cat([torch.zeros(B, 1, 60), word[:, :-1]], 1)  # the word before each key
        pad = lambda x: F.pad(x, (0, max(L, 60) - x.shape[-1]))  # noqa: E731
        q = torch.stack([pad(at.roll(-1, 1).expand(B, L, L)), pad(at[:1].expand(B, L, L)), pad(word), pad(word) * 0], 1)
        k = torch.stack([pad(at.expand(B, L, L)), pad(at.expand(B, L, L)), pad(before), pad(word)], 1)
        return F.scaled_dot_product_attention(q * 40, k, torch.zeros(B, 4, L, 8), is_causal=True, scale=1.0)


def test_labels_of_heads_made_by_hand() -> None:
    labels = label_heads(HandMadeHeads(), length=20)
    strongest = [pairs[0][0] for pairs in labels.of(0).values()]
    assert strongest == ["previous token", "sink", "induction", "uniform"]
    scores = labels.scores[0]
    assert scores["previous token"][0] > 0.95
    assert scores["sink"][1] > 0.99
    assert scores["induction"][2] > 0.99
    assert scores["uniform"][3] == pytest.approx(1, abs=1e-5)
    assert scores["induction"][3] < 0.1
    assert next(iter(labels))[3] >= 0.99
    assert "induction" in str(labels)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_label_scores_are_those_of_the_eager_weights(kind: str) -> None:
    if kind == "llama":
        model = llama()
    else:
        torch.manual_seed(0)
        small = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
        model = transformers.BertModel(transformers.BertConfig(**small, initializer_range=0.3)).eval()
    labels = label_heads(model, length=12)
    ids, n = repeated_tokens(model, 12, 4, 0)
    model.set_attn_implementation("eager")
    weights = model(ids, output_attentions=True).attentions
    L, position = 2 * n + 1, torch.arange(2 * n + 1)
    for layer, p in enumerate(weights):
        scores = labels.scores[layer]
        previous = p[:, :, position[1:], position[:-1]].mean((0, 2))
        assert torch.allclose(torch.tensor(scores["previous token"]), previous, atol=1e-5)
        assert torch.allclose(torch.tensor(scores["sink"]), p[:, :, 1:, 0].mean((0, 2)), atol=1e-5)
        same = (ids[:, :, None] == ids[:, None, :]) & ~torch.eye(L, dtype=torch.bool)
        duplicate = (p * same[:, None]).sum(-1)[..., n + 1 :].mean((0, 2))
        assert torch.allclose(torch.tensor(scores["duplicate token"]), duplicate, atol=1e-5)
        local = (((position[:, None] - position).abs() <= 4) & (position[:, None] - position != 1)).float()
        assert torch.allclose(torch.tensor(scores["local"]), (p * local).sum(-1).mean((0, 2)), atol=1e-5)
        if kind == "llama":
            induction = p[:, :, position[n + 1 :], position[n + 1 :] - n + 1].mean((0, 2))
            assert torch.allclose(torch.tensor(scores["induction"]), induction, atol=1e-5)
        else:
            assert all(math.isnan(x) for x in scores["induction"])
    assert set(labels.scores[0]) == set(LABELS)
    assert "n/a" in str(labels) or kind == "llama"


def test_labels_need_a_text() -> None:
    with pytest.raises(ValueError, match="no vocabulary"):
        label_heads(CausalAttention())
    model = Gpt(GptConfig(vocabulary=50, d_model=32, heads=2, layers=1, context=6))
    with pytest.raises(ValueError, match="too few"):
        label_heads(model)


@torch.no_grad()
def test_labels_are_copied_to_a_sighting() -> None:
    model = llama()
    labels = label_heads(model, length=12, least=0.05)
    with watch(model) as seen:
        model(torch.randint(3, 97, (1, 8)))
    marked = seen.with_labels(labels)
    assert marked[1].labels == labels.of(1)
    assert marked.head(1, 2).labels == labels.of(1)[2]
    assert seen[1].labels is None


def test_the_labels_of_one_text_are_computed_from_its_weights() -> None:
    tokens = list("abcab")
    previous = torch.zeros(5, 5)
    previous[0, 0] = 1
    previous[range(1, 5), range(4)] = 1
    induction = torch.zeros(5, 5)
    induction[:, 0] = 1
    induction[3:] = 0
    induction[3, 1] = induction[4, 2] = 1  # after the earlier a stands b, after the earlier b stands c
    labels = labels_on_text(torch.stack([previous, induction]), tokens)
    assert labels[0] == [("previous token", 1.0)]
    assert labels[1][0] == ("induction", 1.0)
    assert "duplicate token" not in dict(labels[1])
    flat = torch.tril(torch.ones(5, 5)) / torch.arange(1, 6)[:, None]
    assert dict(labels_on_text(flat[None], tokens)[0])["uniform"] == pytest.approx(1.0)


def test_a_pattern_is_named_before_uniform() -> None:
    scores = {label: [0.0] for label in LABELS} | {"previous token": [0.45], "uniform": [0.6]}
    assert [name for name, _ in Labels({0: scores}, {0: "attention"}).of(0)[0]] == ["previous token", "uniform"]
