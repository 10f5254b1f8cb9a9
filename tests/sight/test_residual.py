"""The path to the next token: the stream adds up, and a logit is the sum of its parts."""

import pytest
import torch

from regard.models import Bert, BertConfig, Gpt, GptConfig
from regard.sight import change
from regard.sight.residual import residual_path

IDS = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])


def model(**options):
    torch.manual_seed(0)
    return Gpt(GptConfig(vocabulary=30, d_model=24, heads=3, layers=3, context=16, **options)).eval()


OPTIONS = [
    {},
    {"bias": False, "norm": "rms", "positions": "rotary", "activation": "swiglu", "tied": False},
    {"kv_heads": 1, "positions": "none", "out_bias": True},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_stream_is_the_sum_of_what_was_added(options):
    path = residual_path(model(**options), IDS)
    assert torch.allclose(path.states[1:], path.states[:-1] + path.attention + path.mlp, atol=1e-6)
    assert torch.allclose(path.logits, path.model(IDS[None])[0], atol=1e-6)
    probabilities, ids = path.predictions(5)
    assert torch.allclose(probabilities[-1], path.logits.softmax(-1).topk(5).values, atol=1e-6)
    assert torch.equal(ids[-1, :, 0], path.logits.argmax(-1))


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("position", [-1, 0, 4])
def test_a_logit_is_the_sum_of_its_parts(options, position):
    net = model(**options)
    with torch.no_grad():
        for name, parameter in net.named_parameters():  # so that gains and biases matter
            if "norm" in name or "bias" in name:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    path = residual_path(net, IDS)
    parts = path.contributions(7, position)
    assert sum(part.value for part in parts) == pytest.approx(float(path.logits[position, 7]), abs=1e-5)
    assert sum(part.kind == "head" for part in parts) == 9
    assert sum(part.kind == "mlp" for part in parts) == 3


def test_a_muted_head_contributes_nothing():
    net = model()
    with change(net) as changed:
        changed.layer(1).head(2).mute()
        path = residual_path(net, IDS)
    muted = {(part.layer, part.head): part.value for part in path.contributions(7) if part.kind == "head"}
    assert muted[1, 2] == 0
    assert all(value for place, value in muted.items() if place != (1, 2))


def test_other_models_are_told():
    with pytest.raises(ValueError, match="needs a Gpt with pre-norm layers"):
        residual_path(Bert(BertConfig(vocabulary=30, d_model=24, heads=3, layers=1, context=16)), IDS)
