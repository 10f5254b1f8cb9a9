"""What a recorded call is: its kind, the positions of its queries and keys, and the tokens they belong to."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.sight import change, watch

transformers = pytest.importorskip("transformers", reason="pip install transformers to compare with its models")
transformers.logging.set_verbosity_error()
SMALL: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
    "initializer_range": 0.4, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
SEQ2SEQ: dict[str, Any] = {
    "vocab_size": 97, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "init_std": 0.4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "decoder_start_token_id": 1, "pad_token_id": 0,
}  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:transformers", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def ids(length: int = 9) -> Tensor:
    return torch.randint(3, 97, (2, length), generator=torch.Generator().manual_seed(1))


def llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, num_key_value_heads=2)).eval()


def encoder_decoder(name: str) -> Any:
    t = transformers
    if name == "t5":
        sizes = {"vocab_size": 97, "d_model": 32, "d_kv": 8, "num_heads": 4, "num_layers": 1, "d_ff": 37, "decoder_start_token_id": 0}
        return t.T5ForConditionalGeneration(t.T5Config(**sizes)).eval()
    if name == "bart":
        return t.BartForConditionalGeneration(t.BartConfig(**SEQ2SEQ, max_position_embeddings=64, forced_eos_token_id=None)).eval()
    sizes = {"max_source_positions": 16, "max_target_positions": 32, "num_mel_bins": 8, "bos_token_id": 1, "eos_token_id": 2}
    silent = {"suppress_tokens": None, "begin_suppress_tokens": None}
    return t.WhisperForConditionalGeneration(t.WhisperConfig(**SEQ2SEQ, **sizes, **silent)).eval()


@pytest.mark.parametrize("name", ["t5", "bart", "whisper"])
def test_tokens_and_positions_of_generation(name: str) -> None:
    model = encoder_decoder(name)
    inputs = {"input_features": torch.randn(2, 8, 32)} if name == "whisper" else {"input_ids": ids()}
    with watch(model) as seen:
        made = model.generate(**inputs, max_new_tokens=5, min_new_tokens=5, do_sample=False)
    assert seen.tokens is not None
    assert seen.tokens[1][-3:] == [str(int(i)) for i in made[1][: len(seen.tokens[1])][-3:]] or name == "whisper"
    assert seen.source_tokens == (None if name == "whisper" else [[str(int(i)) for i in row] for row in ids()])
    for kind in ("causal", "cross"):
        starts = [s.query_pos.start for s in seen if s.kind == kind]
        assert starts == sorted(starts)
        assert starts[-1] >= 3
    assert {len(s.key_pos) for s in seen if s.kind == "cross"} == {16 if name == "whisper" else 9}


def test_tokens_of_labels_and_of_embeddings() -> None:
    model = encoder_decoder("bart")
    with watch(model) as seen:
        model(input_ids=ids(), labels=ids(4))
    assert seen.tokens == [["1", *(str(int(i)) for i in row[:3])] for row in ids(4)]
    assert seen.source_tokens == [[str(int(i)) for i in row] for row in ids()]
    decoder = llama()
    with watch(decoder) as seen:
        decoder(inputs_embeds=decoder.get_input_embeddings()(ids()), attention_mask=torch.ones(2, 9, dtype=torch.int64))
    assert seen.tokens is None


@pytest.mark.parametrize("kernel", ["auto", "own"])
def test_positions_with_a_static_cache(kernel: str) -> None:
    model = llama()
    with watch(model, kernel=kernel) as seen:
        model.generate(ids(), max_new_tokens=4, min_new_tokens=4, do_sample=False, cache_implementation="static")
    assert [s.query_pos for s in seen if s.layer == 0] == [range(9), *(range(n, n + 1) for n in (9, 10, 11))]
    assert {s.kind for s in seen} == {"causal"}
    assert seen.tokens is not None
    assert len(seen.tokens[0]) == 12


def test_a_window_with_a_static_cache() -> None:
    model, made = llama(), []
    for implementation in ("sdpa", "eager"):
        model.set_attn_implementation(implementation)
        for cache in (None, "static"):
            with change(model) as c:
                c.layer(0).window(2)
                c.layer(1).forget(1)
                made.append(model.generate(ids(), max_new_tokens=6, do_sample=False, cache_implementation=cache))
    assert all(torch.equal(one, made[0]) for one in made[1:])
    assert not torch.equal(model.generate(ids(), max_new_tokens=6, do_sample=False), made[0])


def test_kinds() -> None:
    t = transformers
    with watch(model := t.BertForMaskedLM(t.BertConfig(**SMALL)).eval()) as seen:
        model(ids())
    assert [s.kind for s in seen] == ["self", "self"]
    sizes = {name: SMALL[name] for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")}
    with watch(model := t.SiglipVisionModel(t.SiglipVisionConfig(**sizes, image_size=32, patch_size=8)).eval()) as seen:
        model(torch.randn(2, 3, 32, 32))
    assert [s.kind for s in seen] == ["self", "self", "cross"]
    with watch(model := nn.MultiheadAttention(16, 2, add_bias_kv=True, batch_first=True)) as seen:
        x = torch.randn(2, 5, 16)
        model(x, x, x)
    assert (seen[0].kind, seen[0].query_pos, seen[0].key_pos) == ("self", range(5), range(6))


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("kernel", ["auto", "own"])
def test_left_padding(implementation: str, kernel: str) -> None:
    """Rows of padding see nothing: they keep the model's own output, and averages leave them out."""
    extra = {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}
    model = transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**SMALL, **extra, attn_implementation=implementation)).eval()
    keep = torch.ones(2, 9, dtype=torch.int64)
    keep[1, :4] = 0
    plain = model(ids(), attention_mask=keep).logits
    with watch(model, kernel=kernel) as seen:
        watched = model(ids(), attention_mask=keep).logits
    assert torch.equal(watched, plain) if kernel == "own" else torch.allclose(watched, plain, atol=1e-4)
    assert [s.kind for s in seen] == ["causal", "causal"]
    entropy = seen[1].readings["entropy"][1]  # (h, L)
    rows = [row for row in seen.summary() if row["layer"] == 1 and row["batch"] == 1]
    assert torch.allclose(torch.tensor([row["entropy"] for row in rows]), entropy[:, 4:].mean(-1), atol=1e-5)


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_attentions_are_returned_inside_the_block(name: str) -> None:
    model = llama() if name == "llama" else encoder_decoder("t5")
    inputs = {"input_ids": ids()} | ({"decoder_input_ids": ids(5)} if name == "t5" else {})
    model.set_attn_implementation("eager")
    expected = model(**inputs, output_attentions=True)
    model.set_attn_implementation("sdpa")
    with watch(model):
        found = model(**inputs, output_attentions=True)
        assert "attentions" not in model(**inputs)
    fields = [field for field in expected if "attentions" in field]
    assert fields
    for field in fields:
        for a, b in zip(found[field], expected[field], strict=True):
            assert torch.allclose(a, b, atol=1e-5)
