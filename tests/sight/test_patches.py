"""Patching: heads whose weights or output come from another run, are added to, kept, or given to a function."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.models import Gpt, GptConfig
from regard.sight import change, label_heads, watch


@pytest.fixture
def model() -> Gpt:
    torch.manual_seed(0)
    return Gpt(GptConfig(vocabulary=50, d_model=32, heads=4, layers=2, context=16)).eval()


A, B = torch.tensor([[1, 2, 3, 4, 5]]), torch.tensor([[6, 7, 8, 9, 10]])


@torch.no_grad()
def test_values_outputs_and_whole_weights(model: Gpt) -> None:
    with watch(model, keep_values=True) as seen:
        model(A)
    for recorded in seen:
        assert recorded.output is not None
        assert recorded.values is not None
        assert torch.allclose(recorded.weights() @ recorded.values, recorded.output, atol=1e-5)
    with pytest.raises(MemoryError, match="limit_bytes"):
        seen[0].weights(limit_bytes=10)
    with watch(model) as seen:
        model(A)
    assert seen[0].output is None
    with change(model) as c:
        c.layer(0).replace(output_of=seen)
        with pytest.raises(ValueError, match="keep_values"):
            model(A)


@torch.no_grad()
def test_replacing_everything_by_another_run_gives_that_run(model: Gpt) -> None:
    with watch(model, keep_values=True) as other:
        expected = model(B)
    with change(model) as c:
        c.layer(1).replace(output_of=other)
        changed = model(A)
        c.layer(0).replace(pattern_of=other).head(2).mute()
        assert not torch.allclose(model(A), changed)
    assert not torch.allclose(changed, expected)
    with change(model) as c:
        c.layer(0).replace(pattern_of=other)
        c.layer(1).replace(pattern_of=other)
        assert torch.allclose(model(B), expected, atol=1e-5)  # its own pattern changes nothing
        assert not torch.allclose(model(A), model(B))


@torch.no_grad()
def test_add_on_and_one_head(model: Gpt) -> None:
    plain = model(A)
    shapes: list[tuple[int, ...]] = []

    def look(call: object) -> Tensor | None:
        shapes.append((*call.output.shape, *call.weights().shape))  # type: ignore[attr-defined]
        return None

    with change(model) as c:
        c.layer(0).head(1).on(look)
        assert torch.allclose(model(A), plain, atol=1e-6)
        assert shapes == [(1, 1, 5, 8, 1, 1, 5, 5)]
        c.clear()
        c.layer(0).head(1).add(torch.zeros(8))
        assert torch.allclose(model(A), plain, atol=1e-6)
        c.clear()
        c.layer(0).heads([0, 1]).add(torch.ones(8))
        added = model(A)
        c.clear()
        c.layer(0).heads([0, 1]).on(lambda call: call.output + 1)
        assert torch.allclose(model(A), added, atol=1e-6)
        c.clear()
        c.layer(0).head(0).add(torch.ones(3))
        with pytest.raises(RuntimeError):
            model(A)
    assert not torch.allclose(added, plain)


@torch.no_grad()
def test_a_frozen_layer_hides_changes_before_it(model: Gpt) -> None:
    outputs: list[Tensor] = []
    with change(model) as c:
        c.layer(0).mute()
        c.layer(1).freeze()
        c.layer(1).on(lambda call: outputs.append(call.output))
        with pytest.raises(RuntimeError, match="paused"):
            model(A)
        with watch(model, keep_values=True) as plain, c.paused():
            model(A)
        model(A)
    assert plain[1].output is not None
    assert torch.allclose(outputs[-1], plain[1].output, atol=1e-6)


def test_weights_can_be_differentiated(model: Gpt) -> None:
    with watch(model, keep_graph=True) as seen:
        model(A)
    tile = seen.head(1, 2).tile(rows=slice(3, 5), cols=slice(0, 3), grad=True)
    assert torch.allclose(tile.detach().float(), seen.head(1, 2).tile(rows=slice(3, 5), cols=slice(0, 3)), atol=1e-5)
    tile[1, 0].backward()
    assert any(p.grad is not None and float(p.grad.abs().sum()) > 0 for p in model.parameters())
    with watch(model) as seen:
        model(A)
    with pytest.raises(ValueError, match="keep_graph"):
        seen.head(1, 2).tile(grad=True)


class Outputs(nn.Module):
    """A model that returns its hidden states in some container."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.layer = how, nn.TransformerEncoderLayer(16, 2, batch_first=True)

    def forward(self, x: Tensor) -> object:
        y = self.layer(x)
        if self.how == "tuple":
            return (torch.zeros(3), y)
        return {"dict": {"sentence_embedding": y.mean(1)}, "image": y.unflatten(1, (2, 2)).permute(0, 3, 1, 2)}[self.how]


@pytest.mark.parametrize("how", ["tuple", "dict", "image"])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_effects_of_models_that_return_other_things(how: str) -> None:
    torch.manual_seed(0)
    with change(Outputs(how)) as c:
        c.layer(0).mute()
        effect = c.effect(torch.randn(2, 4, 16))
    assert effect.cosine is not None
    assert effect.mean_cosine < 1 - 1e-6


def test_the_effect_on_a_model_of_pictures_and_texts() -> None:
    """CLIP returns the similarity of every picture to every text, which is what the KL is of."""
    transformers = pytest.importorskip("transformers", reason="pip install transformers to compare with its models")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}
    text = {**sizes, "vocab_size": 97, "max_position_embeddings": 16, "eos_token_id": 2}
    config = transformers.CLIPConfig(text_config=text, vision_config={**sizes, "image_size": 32, "patch_size": 8}, projection_dim=16)
    inputs = {"input_ids": torch.randint(3, 97, (3, 9)), "pixel_values": torch.randn(2, 3, 32, 32)}
    with change(transformers.CLIPModel(config)) as c:
        same = c.effect(inputs)
        c.layer(0).mute()
        effect = c.effect(inputs)
    assert same.kl is not None
    assert effect.kl is not None
    assert effect.kl.shape == (2,)
    assert (same.mean_kl, effect.mean_kl > 1e-9) == (pytest.approx(0, abs=1e-12), True)


def test_labels_of_images_and_sound() -> None:
    transformers = pytest.importorskip("transformers", reason="pip install transformers to compare with its models")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}
    vit = transformers.ViTModel(transformers.ViTConfig(**sizes, image_size=32, patch_size=8))
    convolutions = {"conv_dim": (16, 16), "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_feat_extract_layers": 2}
    speech = {**sizes, **convolutions, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
    wav2vec2 = transformers.Wav2Vec2Model(transformers.Wav2Vec2Config(**speech))
    for model in (vit, wav2vec2):
        scores = label_heads(model, batch=2).scores
        assert sorted(scores) == [0, 1]
        assert all(0 <= x <= 1 for x in scores[0]["uniform"])
        assert all(x != x for x in scores[0]["induction"])
    assert all(x != x for x in label_heads(vit, batch=2).scores[0]["local"])
    strange = transformers.ViTModel(transformers.ViTConfig(**sizes, image_size=32, patch_size=8))
    strange.main_input_name = "point_clouds"
    with pytest.raises(ValueError, match="point_clouds"):
        label_heads(strange)


def test_labels_of_an_encoder_decoder() -> None:
    transformers = pytest.importorskip("transformers", reason="pip install transformers to compare with its models")
    sizes = {"vocab_size": 97, "d_model": 32, "d_kv": 8, "num_heads": 4, "num_layers": 1, "d_ff": 40, "decoder_start_token_id": 0}
    scores = label_heads(transformers.T5Model(transformers.T5Config(**sizes)), length=12, batch=2).scores
    encoder, decoder, cross = (scores[layer] for layer in (0, 1, 2))
    assert all(0 <= x <= 1 for x in (*encoder["previous token"], *decoder["induction"], *cross["sink"]))
    assert all(x != x for x in (*encoder["induction"], *cross["induction"], *cross["previous token"]))


def test_a_report_for_every_batch_item(model: Gpt, tmp_path: object) -> None:
    from pathlib import Path

    with watch(model) as seen:
        model(torch.cat([A, B]))
    seen.save(f"{tmp_path}/report.html")
    pages = sorted(path.name for path in Path(str(tmp_path)).iterdir())
    assert pages == ["report-1.html", "report.html"]
    assert Path(f"{tmp_path}/report-1.html").read_text() != Path(f"{tmp_path}/report.html").read_text()
