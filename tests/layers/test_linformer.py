"""Linformer: where it is exact, how its error falls with the rank, and where it fails."""

import math

import pytest
import torch

from regard.layers.linformer import LinformerAttention


def smooth(B: int, N: int, D: int, waves: int, seed: int = 0) -> torch.Tensor:
    """Sequences that vary slowly: sums of a few waves, so that the sequence has few degrees of freedom."""
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 1, N).unsqueeze(-1)
    basis = torch.cat([torch.cos(math.pi * t * w) for w in range(waves)], -1)  # (N, waves)
    return basis @ torch.randn(B, waves, D, generator=g)


def layer_of(rank: int, N: int = 256, start: str = "mean") -> LinformerAttention:
    torch.manual_seed(0)
    return LinformerAttention(32, heads=4, length=N, rank=rank, start=start)  # type: ignore[arg-type]


def test_exact_where_the_sequence_is_constant_on_stretches() -> None:
    x = torch.randn(2, 8, 32, dtype=torch.float64).repeat_interleave(32, 1)
    assert layer_of(8).double().error(x) < 1e-12


def test_error_falls_with_rank_on_smooth_sequences() -> None:
    x = smooth(2, 256, 32, waves=4)
    errors = [layer_of(rank).error(x) for rank in (4, 16, 64)]
    assert errors[0] < 0.5
    assert errors[1] < errors[0] / 3
    assert errors[2] < errors[1] / 3
    assert errors[2] < 5e-3


def test_noise_has_no_low_rank_and_the_error_says_so() -> None:
    noise = torch.randn(2, 256, 32, generator=torch.Generator().manual_seed(0))
    assert layer_of(16).error(noise) > 0.2
    assert layer_of(256).error(noise) < 1e-5  # at full rank nothing is mixed


def test_training_the_mixing_lowers_the_error() -> None:
    """A random start is bad; gradients reach E and F and repair much of it on data of one kind."""
    layer = layer_of(16, 64, "random")
    train, test = smooth(64, 64, 32, waves=4, seed=1), smooth(16, 64, 32, waves=4, seed=2)
    before = layer.error(test)
    with torch.no_grad():
        exact = layer.attention(train)
    optimiser = torch.optim.Adam([layer.E, layer.F], lr=0.02)
    for _ in range(60):
        optimiser.zero_grad()
        (layer(train) - exact).square().mean().backward()
        optimiser.step()
    assert layer.error(test) < before / 3


def test_shorter_sequences_and_padding() -> None:
    layer = layer_of(8, 64)
    x = torch.randn(2, 64, 32)
    dirty = x.clone()
    dirty[1, 32:] = 1e3
    padded = layer(dirty, lengths=torch.tensor([64, 32]))
    torch.testing.assert_close(padded[0], layer(x)[0])
    torch.testing.assert_close(padded[1, :32], layer(x[1:, :32])[0])
    # Half the length uses half the mixtures, each still a mean of 8 tokens: exact on stretches of 8.
    flat = torch.randn(1, 4, 32).repeat_interleave(8, 1)
    assert layer.error(flat) < 1e-6


def test_shared_is_one_parameter() -> None:
    layer = LinformerAttention(16, heads=2, length=20, rank=5, shared=True)
    assert layer.E is layer.F
    assert sum(p.numel() for p in layer.parameters()) == 100 + sum(p.numel() for p in layer.attention.parameters())


def test_wrong_sizes_say_so() -> None:
    with pytest.raises(ValueError, match="rank is 9 and length 8"):
        LinformerAttention(8, heads=1, length=8, rank=9)
    with pytest.raises(ValueError, match="x has 9 tokens but this layer was made for at most 8; make it with length=9"):
        LinformerAttention(8, heads=1, length=8, rank=2)(torch.randn(1, 9, 8))
    with pytest.raises(ValueError, match="start is 'zero'"):
        LinformerAttention(8, heads=1, length=8, rank=2, start="zero")  # type: ignore[arg-type]
