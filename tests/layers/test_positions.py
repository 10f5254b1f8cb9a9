import math

import pytest
import torch

from regard.layers.positions import Learned, Rotary, Sinusoidal


def test_sinusoidal_is_the_papers_formula():
    table = Sinusoidal(6)(torch.zeros(5, 6, dtype=torch.float64))
    for p in range(5):
        for i in range(3):
            angle = p / 10_000 ** (2 * i / 6)
            assert table[p, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-12)
            assert table[p, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-12)


def test_positions_start_where_they_are_told():
    x = torch.zeros(2, 9, 8)
    for layer in (Sinusoidal(8), Learned(16, 8)):
        assert torch.equal(layer(x)[:, 4:], layer(x[:, 4:], 4))


def test_learned_adds_its_rows_and_refuses_what_it_has_not():
    layer = Learned(4, 2)
    assert torch.equal(layer(torch.zeros(1, 3, 2))[0], layer.weight[:3])
    with pytest.raises(ValueError, match="position 4 exceeds the table of 4"):
        layer(torch.zeros(1, 2, 2), 3)


def test_rotary_turns_pairs_by_hand():
    """Width 2 is one pair turning by one radian a token."""
    x = torch.tensor([[1.0, 0.0]] * 3, dtype=torch.float64)
    turned = Rotary().turn(x)
    expected = torch.tensor([[math.cos(p), math.sin(p)] for p in range(3)], dtype=torch.float64)
    torch.testing.assert_close(turned, expected)


def test_rotary_scores_depend_on_the_distance_alone():
    q, k = torch.randn(2, 1, 16, dtype=torch.float64).unbind()
    rotary = Rotary(base=500.0)
    scores = [(rotary.turn(q, start + 7) @ rotary.turn(k, start).mT).item() for start in (0, 3, 1000)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-9)
    assert scores[0] == pytest.approx(scores[2], abs=1e-9)
    assert scores[0] != pytest.approx((rotary.turn(q, 8) @ rotary.turn(k, 0).mT).item(), abs=1e-3)


def test_rotary_leaves_the_rest_of_a_head_alone():
    x = torch.randn(3, 5, 8)
    turned = Rotary(fraction=0.5).turn(x)
    assert torch.equal(turned[..., 4:], x[..., 4:])
    torch.testing.assert_close(turned[..., :4], Rotary().turn(x[..., :4]))


def test_rotary_is_differentiable_after_a_first_use_in_inference_mode():
    rotary = Rotary(base=1234.5)  # a table of its own, made in inference mode
    with torch.inference_mode():
        rotary.turn(torch.randn(4, 8, dtype=torch.float64))
    x = torch.randn(4, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(rotary.turn, (x,))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Rotary(), {"rope_type": "default", "rope_theta": 10_000.0}),
        (Rotary(500_000.0, scaling="linear", factor=4.0), {"rope_type": "linear", "rope_theta": 500_000.0, "factor": 4.0}),
        (
            Rotary(500_000.0, 1.0, "llama3", 8.0, 8192, 1.0, 4.0),
            {
                "rope_type": "llama3",
                "rope_theta": 500_000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        ),
        (
            Rotary(1_000_000.0, 1.0, "yarn", 4.0, 32_768),
            {"rope_type": "yarn", "rope_theta": 1_000_000.0, "factor": 4.0, "original_max_position_embeddings": 32_768},
        ),
    ],
    ids=["default", "linear", "llama3", "yarn"],
)
def test_frequencies_agree_with_transformers(ours, theirs):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(hidden_size=256, num_attention_heads=2, max_position_embeddings=131_072, rope_parameters=theirs)
    peer = LlamaRotaryEmbedding(config)
    torch.testing.assert_close(ours.frequencies(128).float(), peer.inv_freq, rtol=2e-6, atol=0)
    assert ours.gain() == pytest.approx(peer.attention_scaling)


def test_divisors_divide():
    plain, divided = Rotary().frequencies(4), Rotary(divisors=(1.0, 8.0)).frequencies(4)
    assert torch.equal(plain / torch.tensor([1.0, 8.0]), divided)
    with pytest.raises(ValueError, match="2 divisors for 4 pairs"):
        Rotary(divisors=(1.0, 8.0)).frequencies(8)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Rotary(scaling="ntk"), "scaling='ntk' is unknown; expected one of"),
        (lambda: Rotary(fraction=0.0), "above 0"),
        (lambda: Rotary(scaling="llama3", factor=8.0), "needs original="),
        (lambda: Rotary().width(7), "make that number even"),
        (lambda: Sinusoidal(7), "width is 7; .* must be even"),
    ],
)
def test_bad_options_say_what_to_do(build, message):
    with pytest.raises(ValueError, match=message):
        build()
