"""Hashing: exact on the pairs it sees, the error over all pairs measured, and linear memory."""

import math

import pytest
import torch

import regard
from regard.layers.hashing import LshAttention, NotItself, hash_buckets, hashed_attend, unit


def clustered(B: int, N: int, D: int, clusters: int, spread: float = 0.05, seed: int = 0) -> torch.Tensor:
    """Tokens near a few directions, in random order: like tokens matter, and hashing can find them."""
    g = torch.Generator().manual_seed(seed)
    centres = 6 * unit(torch.randn(clusters, D, generator=g))
    which = torch.randint(clusters, (B, N), generator=g)
    return centres[which] + spread * torch.randn(B, N, D, generator=g)


def seen_pairs(query: torch.Tensor, chunk: int, rounds: int, buckets: int, ahead: bool, seed: int) -> torch.Tensor:
    """By brute force, for one sequence and head: which keys each query meets in some round."""
    N = query.shape[2]
    result = hash_buckets(query, buckets, rounds, torch.Generator().manual_seed(seed))[0, 0]
    C = -(-N // chunk)
    together = torch.zeros(N, N, dtype=torch.bool)
    for row in result.tolist():
        order = sorted(range(N), key=lambda i: (row[i], i))
        chunk_of = {token: place // chunk for place, token in enumerate(order)}
        for i in range(N):
            for j in range(N):
                step = (chunk_of[j] - chunk_of[i]) % C
                together[i, j] |= row[i] == row[j] and step in ({0, 1 % C, -1 % C} if ahead else {0, -1 % C})
    return together


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize(("N", "chunk", "rounds", "buckets"), [(37, 5, 3, 6), (16, 8, 2, 2), (10, 16, 2, 4), (24, 12, 4, 1)])
def test_exact_on_the_pairs_that_meet(N: int, chunk: int, rounds: int, buckets: int, ahead: bool) -> None:
    """However many rounds show a pair, it counts once, with its exact weight."""
    torch.manual_seed(N)
    query, value = torch.randn(1, 1, N, 4, dtype=torch.float64), torch.randn(1, 1, N, 3, dtype=torch.float64)
    g = torch.Generator().manual_seed(5)
    out = hashed_attend(query, value, chunk=chunk, rounds=rounds, buckets=buckets, ahead=ahead, generator=g)
    pairs = seen_pairs(query, chunk, rounds, buckets, ahead, 5)
    expected = regard.attend(query, unit(query), value, mask=regard.dense(pairs), bias=NotItself())
    torch.testing.assert_close(out, expected)


def test_one_bucket_in_one_chunk_is_full_attention() -> None:
    torch.manual_seed(0)
    layer = LshAttention(16, heads=2, chunk=50, rounds=1, buckets=1)
    assert layer.error(torch.randn(2, 50, 16)) < 1e-6


def test_error_on_clustered_tokens_falls_with_rounds_and_is_small() -> None:
    torch.manual_seed(0)
    x = clustered(1, 512, 32, clusters=16)
    errors = []
    for rounds in (1, 2, 8):
        torch.manual_seed(0)
        layer = LshAttention(32, heads=2, chunk=64, rounds=rounds)
        with torch.no_grad():  # maps that keep directions, as trained shared maps do; scores sharp enough to choose
            layer.query.weight.copy_(10 * torch.eye(32))
        errors.append(layer.error(x))
    assert errors[0] < 0.3
    assert errors[0] > 3 * errors[1] > 3 * errors[2]
    assert errors[2] < 0.01


def test_error_on_noise_is_large_and_said() -> None:
    torch.manual_seed(0)
    assert LshAttention(32, heads=2, chunk=32, rounds=2).error(torch.randn(1, 512, 32)) > 0.3


def test_causal_no_leak_and_padding() -> None:
    torch.manual_seed(0)
    layer = LshAttention(16, heads=2, chunk=8, rounds=4, causal=True).double()
    x = torch.randn(2, 40, 16, dtype=torch.float64, requires_grad=True)
    # Sorting looks at every token, so what must not leak is a later token's gradient.
    (gradient,) = torch.autograd.grad(layer(x)[:, 20].sum(), x)
    assert gradient[:, 21:].abs().max() == 0
    assert gradient[:, :20].abs().max() > 0
    lengths = regard.padding(torch.tensor([40, 25]))
    (gradient,) = torch.autograd.grad(layer(x, mask=lengths)[1, :25].sum(), x)
    assert gradient[1, 25:].abs().max() == 0


def test_a_token_with_nobody_else_looks_at_itself() -> None:
    torch.manual_seed(0)
    query, value = torch.randn(1, 1, 3, 4), torch.randn(1, 1, 3, 4)
    out = hashed_attend(query, value, chunk=4, rounds=2, buckets=1, mask=regard.window(0, 0))
    torch.testing.assert_close(out, value)
    # And where even that is masked, the empty-row contract holds.
    assert hashed_attend(query, value, chunk=4, mask=regard.padding(torch.tensor([0]))).abs().sum() == 0


def test_gradients() -> None:
    torch.manual_seed(0)
    query = torch.randn(1, 2, 9, 4, dtype=torch.float64, requires_grad=True)
    value = torch.randn(1, 2, 9, 3, dtype=torch.float64, requires_grad=True)

    def run(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return hashed_attend(q, v, chunk=4, rounds=2, buckets=2, generator=torch.Generator().manual_seed(0))

    assert torch.autograd.gradcheck(run, (query, value))


def test_many_buckets_are_products_of_few_and_close_directions_share_them() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 1, 400, 16)
    near = x + 0.01 * torch.randn_like(x)
    both = hash_buckets(torch.cat([x, near, -x], 2), 1000, 3, torch.Generator().manual_seed(0))
    assert both.unique().numel() > 300
    assert int(both.max()) < 1100
    same = (both[..., :400] == both[..., 400:800]).float().mean()
    opposite = (both[..., :400] == both[..., 800:]).float().mean()
    assert same > 0.9
    assert opposite == 0


def test_a_pattern_of_many_ranges_is_refused() -> None:
    holes = regard.dense(torch.rand(400, 400, generator=torch.Generator().manual_seed(0)) < 0.5)
    with pytest.raises(ValueError, match="needs too many key ranges per row for hashing"):
        hashed_attend(torch.randn(1, 1, 400, 4), torch.randn(1, 1, 400, 4), mask=holes)


def test_hashes_follow_the_seed_or_the_generator() -> None:
    torch.manual_seed(0)
    layer = LshAttention(16, heads=1, chunk=8, rounds=1)
    x = torch.randn(1, 64, 16)
    assert torch.equal(layer(x), layer(x))
    g = torch.Generator().manual_seed(9)
    assert not torch.equal(layer(x, generator=g), layer(x, generator=g))


def test_no_tensor_grows_with_the_square_of_the_length() -> None:
    """The largest tensor that autograd keeps grows in proportion to N."""
    sizes = []
    for N in (512, 2048):
        largest = 0

        def keep(t: torch.Tensor) -> torch.Tensor:
            nonlocal largest
            largest = max(largest, t.numel())
            return t

        layer = LshAttention(16, heads=1, chunk=32, rounds=2)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            layer(torch.randn(1, N, 16)).sum().backward()
        sizes.append(largest)
    assert sizes[1] / sizes[0] == pytest.approx(4, rel=0.1)
    assert math.prod((2048, 2048)) > 4 * sizes[1]
