"""`regard.replace`: torch's and Hugging Face's attention layers on regard, the same outputs and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import regard


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("masks", ["none", "padding", "causal", "float", "per head"])
def test_a_torch_layer(batch_first: bool, masks: str) -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(16, 4, batch_first=batch_first)
    x = torch.randn(2, 5, 16)
    x = x if batch_first else x.transpose(0, 1)
    options: dict[str, Any] = {"need_weights": False}
    if masks == "padding":
        options["key_padding_mask"] = torch.arange(5) >= torch.tensor([[3], [5]])
    elif masks == "causal":
        options |= {"attn_mask": torch.ones(5, 5, dtype=torch.bool).triu(1), "is_causal": True}
    elif masks == "float":
        options |= {"attn_mask": torch.randn(5, 5), "key_padding_mask": torch.tensor([[0.0] * 4 + [-torch.inf], [0.0] * 5])}
    elif masks == "per head":
        options["attn_mask"] = torch.rand(8, 5, 5) < 0.3
    want, _ = layer(x, x, x, **options)
    grads = torch.autograd.grad(want.sin().sum(), list(layer.parameters()))
    assert regard.replace(layer) is layer
    got, _ = layer(x, x, x, **options)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, equal_nan=True)
    torch.testing.assert_close(torch.autograd.grad(got.sin().sum(), list(layer.parameters())), grads, rtol=1e-3, atol=1e-4)
    assert layer(x, x, x)[1].shape == (2, 5, 5)  # the weights, if asked for


def test_a_torch_encoder_in_evaluation_mode_runs_on_regard() -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, batch_first=True), 2, enable_nested_tensor=False).eval()
    x = torch.randn(2, 5, 16)
    want = model(x)
    calls = []
    regard.replace(model)
    with regard.kernels.intercept(lambda request, run: calls.append(1) or run(request)):
        torch.testing.assert_close(model(x), want, rtol=1e-4, atol=1e-5)
    assert len(calls) == 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_hugging_face_models(family: str) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if family == "bert":
        config = transformers.BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
        model = transformers.BertModel(config).eval()
    else:
        model = transformers.GPT2Model(transformers.GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=32)).eval()
    ids, keep = torch.randint(0, 50, (2, 9)), torch.ones(2, 9, dtype=torch.long)
    keep[1, 6:] = 0
    want = model(ids, attention_mask=keep).last_hidden_state
    regard.replace(model)
    assert model.config._attn_implementation == "regard"
    got = model(ids, attention_mask=keep).last_hidden_state
    torch.testing.assert_close(got[keep.bool()], want[keep.bool()], rtol=1e-4, atol=1e-5)


def test_a_model_without_attention_is_told_so() -> None:
    with pytest.raises(ValueError, match=r"Linear has no torch.nn.MultiheadAttention"):
        regard.replace(nn.Linear(2, 2))
