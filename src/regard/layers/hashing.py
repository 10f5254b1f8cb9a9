"""LSH attention, as in Reformer: tokens with similar directions hash to one bucket and attend only within it. O(N · chunk · rounds).

An approximation: pairs that no round puts into one bucket are left out. The others are weighted exactly: rounds are combined by
their lse, and a pair found in n rounds counts once (−ln n in its score). Kitaev, Kaiser and Levskaya 2020, section 2 and appendix A.

Axes: B batch, h heads, N tokens (padded to n), C chunks of m tokens, w neighbouring chunks, R rounds, d head width, D model width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention import attend, observe
from regard.biases import Bias, offsets
from regard.masks import Mask, causal, dense

__all__ = ["LshAttention", "NotItself", "hash_buckets", "hashed_attend"]

_SELF_PENALTY = -1e5  # added to a token's score with itself: it attends to itself only when nothing else is visible
_MAX_BUCKETS = 64  # of one hash; more buckets combine several hashes, so that hashing stays linear in N


class NotItself(Bias):
    """Penalise a token's score with itself, which would dominate because query and key are equal (Reformer, section 2)."""

    def tile(
        self, rows: range, cols: range, L: int, S: int, *, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        itself = offsets(rows, cols, L, S, device=device) == 0
        return _SELF_PENALTY * itself.to(dtype or torch.get_default_dtype())[None, None]


def hash_buckets(x: Tensor, buckets: int, rounds: int, generator: torch.Generator | None = None) -> Tensor:
    """The bucket of each vector in each round, (B, h, R, N), by random rotations: similar directions share a bucket, at any length.

    Andoni et al. 2015 (cross-polytope hashing): the bucket is the nearest of ± the rotated axes. ``buckets`` is rounded up to what the
    rotations give (even numbers, products above 64).

    >>> x = torch.randn(1, 1, 1, 8)
    >>> bucket = hash_buckets(torch.cat([x, 3 * x, -x], 2), 4, rounds=2)
    >>> bool((bucket[..., 0] == bucket[..., 1]).all()), bool((bucket[..., 0] == bucket[..., 2]).any())
    (True, False)
    """
    if buckets == 1:
        return torch.zeros(*x.shape[:2], rounds, x.shape[2], dtype=torch.int64, device=x.device)
    parts = 1
    while round(buckets ** (1 / parts)) > _MAX_BUCKETS:
        parts += 1
    side = max(1, -(-round(buckets ** (1 / parts)) // 2))  # half the buckets of one hash
    device = generator.device if generator is not None else x.device
    axes = torch.randn(x.shape[1], rounds, parts, x.shape[-1], side, generator=generator, device=device).to(x)
    bucket = torch.zeros(*x.shape[:2], rounds, x.shape[2], dtype=torch.int64, device=x.device)
    for r in range(rounds):
        for part in range(parts):
            rotated = x.detach() @ axes[:, r, part]  # (B, h, N, side)
            bucket[:, :, r] = bucket[:, :, r] * (2 * side) + torch.cat([rotated, -rotated], -1).argmax(-1)
    return bucket


def hashed_attend(
    query: Tensor,
    value: Tensor,
    *,
    chunk: int = 64,
    rounds: int = 4,
    buckets: int | None = None,
    mask: Mask | None = None,
    ahead: bool = True,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Self-attention with keys ``query / ‖query‖``; each token attends to those of its bucket in its own and neighbouring chunks.

    query: (B, h, N, d).
    value: (B, h, N, dv).
    chunk, rounds, buckets: as in :class:`LshAttention`.
    mask: which keys are visible; `mask.spans` must not be None (it is for irregular dense patterns).
    ahead: whether the chunk after is attended to as well (useless when causal).
    generator: of the hashes.

    Returns (B, h, N, dv). Raises ValueError for other shapes or sizes below 1.

    >>> hashed_attend(torch.randn(1, 2, 50, 8), torch.randn(1, 2, 50, 8), chunk=8).shape
    torch.Size([1, 2, 50, 8])
    """
    if query.dim() != 4 or query.shape[:3] != value.shape[:3]:
        raise ValueError(f"query is {tuple(query.shape)} and value {tuple(value.shape)}; expected (B, h, N, d) and (B, h, N, dv)")
    if chunk < 1 or rounds < 1 or (buckets is not None and buckets < 1):
        raise ValueError(f"chunk={chunk}, rounds={rounds}, buckets={buckets}; each must be at least 1")
    B, h, N, _ = query.shape
    if not query.numel():
        return torch.zeros_like(value)
    buckets = buckets or max(1, -(-2 * N // chunk))
    sorting = _Sorting(hash_buckets(query, buckets, rounds, generator), chunk, ahead)
    allowed = None if mask is None else _ranges(mask, B, h, N, query.device)
    key = unit(query)
    accurate = torch.float64 if query.dtype == torch.float64 else torch.float32
    outputs, lses = [], []
    for r in range(rounds):
        i, j, visible, bias = sorting.pairs(r, allowed, accurate)
        chunks = sorting.chunks
        q = _rows(query, i).view(B * h, chunks, chunk, -1)
        k, v = (_rows(x, j).view(B * h, chunks, j.shape[-1], -1) for x in (key, value))
        attended = observe(q, k, v, mask=dense(visible.flatten(0, 1)), bias=bias.flatten(0, 1))
        assert attended.lse is not None
        unsort = sorting.place[:, :, r, :N]
        outputs.append(attended.output.reshape(B, h, -1, v.shape[-1]).gather(2, unsort.unsqueeze(-1).expand(-1, -1, -1, v.shape[-1])))
        lses.append(attended.lse.reshape(B, h, -1).gather(2, unsort))
    lse = torch.stack(lses, -1)  # (B, h, N, R)
    peak = lse.detach().amax(-1, keepdim=True)
    share = (lse - peak.masked_fill(peak == -torch.inf, 0.0)).exp()
    share = share / share.sum(-1, keepdim=True).masked_fill(peak == -torch.inf, 1.0)
    return (torch.stack(outputs, -1) @ share.to(value.dtype).unsqueeze(-1)).squeeze(-1)


class LshAttention(nn.Module):
    """Self-attention by hashing, for long sequences. Queries and (unit-length) keys share one projection: similar tokens share a bucket.

    The hashes depend only on ``seed``, so equal inputs give equal outputs; pass a ``generator`` for other hashes. With ``causal`` no
    later token is attended to, but all tokens are sorted together: a later token can change which earlier ones share a chunk.

    Shapes: x (B, N, D) to (B, N, D).

    d_model: width of the inputs and outputs, D.
    heads: number of heads; must divide d_model.
    chunk: tokens of a chunk.
    rounds: how often the tokens are hashed; more rounds miss fewer pairs.
    buckets: of one round; None: two per chunk.
    causal: whether later tokens are hidden.
    bias: whether the projections have biases.
    seed: of the hashes.

    Raises ValueError if d_model does not divide into the heads.

    >>> LshAttention(32, heads=4, chunk=8, rounds=2)(torch.randn(2, 50, 32)).shape
    torch.Size([2, 50, 32])
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        chunk: int = 64,
        rounds: int = 4,
        buckets: int | None = None,
        causal: bool = False,
        bias: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if d_model % heads:
            raise ValueError(f"d_model {d_model} does not divide into {heads} heads; change one of them")
        self.heads, self.chunk, self.rounds, self.buckets, self.causal, self.seed = heads, chunk, rounds, buckets, causal, seed
        self.query = nn.Linear(d_model, d_model, bias=bias)
        self.value = nn.Linear(d_model, d_model, bias=bias)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x: Tensor, *, mask: Mask | None = None, generator: torch.Generator | None = None) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed) if generator is None else generator
        mixed = hashed_attend(
            self._split(self.query(x)),
            self._split(self.value(x)),
            chunk=self.chunk,
            rounds=self.rounds,
            buckets=self.buckets,
            mask=self._mask(mask),
            ahead=not self.causal,
            generator=generator,
        )
        return self.out_proj(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def exact(self, x: Tensor, *, mask: Mask | None = None) -> Tensor:
        """The attention that hashing approximates: all pairs, in O(N²) time and linear memory.

        Arguments as in `forward`.
        """
        query = self._split(self.query(x))
        mixed = attend(query, unit(query), self._split(self.value(x)), mask=self._mask(mask), bias=NotItself())
        return self.out_proj(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    @torch.no_grad()
    def error(self, x: Tensor, *, mask: Mask | None = None) -> float:
        """The relative error ‖hashed − exact‖ / ‖exact‖.

        Arguments as in `forward`.
        """
        exact = self.exact(x, mask=mask)
        return float((self(x, mask=mask) - exact).norm() / exact.norm())

    def extra_repr(self) -> str:
        return f"heads={self.heads}, chunk={self.chunk}, rounds={self.rounds}, buckets={self.buckets}, causal={self.causal}"

    def _mask(self, mask: Mask | None) -> Mask | None:
        if not self.causal:
            return mask
        return causal() if mask is None else causal() & mask

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)  # (B, h, N, d)


def unit(x: Tensor) -> Tensor:
    """Vectors scaled to unit length."""
    return nn.functional.normalize(x, dim=-1)


class _Sorting:
    """Tokens sorted by bucket and divided into chunks, for each round."""

    def __init__(self, buckets: Tensor, chunk: int, ahead: bool) -> None:
        self.N, self.chunk = buckets.shape[-1], chunk
        self.chunks = -(-self.N // chunk)
        n = self.chunks * chunk
        beyond = int(buckets.max()) + 1  # padding sorts to the end, into a bucket of its own
        self.buckets = nn.functional.pad(buckets, (0, n - self.N), value=beyond)  # (B, h, R, n)
        self.order = self.buckets.argsort(dim=-1, stable=True)  # the token at each sorted position
        self.place = torch.empty_like(self.order).scatter_(-1, self.order, torch.arange(n, device=buckets.device).expand_as(self.order))
        # Relative positions of the chunks attended to; they wrap around, so with one or two chunks some coincide.
        self.steps = sorted({step % self.chunks for step in ((-1, 0, 1) if ahead else (-1, 0))})

    def pairs(self, r: int, allowed: tuple[Tensor, Tensor] | None, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries (B, h, C, m) and keys (B, h, C, w·m) of a round, which pairs are visible, and what is added to their scores."""
        i = self.order[:, :, r].reshape(*self.order.shape[:2], self.chunks, self.chunk)
        j = torch.cat([i.roll(-step, 2) for step in self.steps], -1)
        visible = self._together(r, i, j)
        times = visible.to(torch.int32)
        for other in range(self.buckets.shape[2]):
            if other != r:
                times += self._together(other, i, j)
        visible = visible & (j < self.N).unsqueeze(-2)
        if allowed is not None:
            visible = visible & _inside(allowed, i.clamp(max=self.N - 1), j)
        bias = -times.clamp(min=1).to(dtype).log()
        return i, j, visible, bias + _SELF_PENALTY * (i.unsqueeze(-1) == j.unsqueeze(-2))

    def _together(self, r: int, i: Tensor, j: Tensor) -> Tensor:
        """Whether round r pairs query i with key j: same bucket, own or neighbouring chunk. (B, h, C, m, w·m)"""
        bucket, chunk = self.buckets[:, :, r], self.place[:, :, r] // self.chunk
        same = _rows(bucket, i).unsqueeze(-1) == _rows(bucket, j).unsqueeze(-2)
        step = (_rows(chunk, j).unsqueeze(-2) - _rows(chunk, i).unsqueeze(-1)) % self.chunks
        near = step == self.steps[0]
        for neighbour in self.steps[1:]:
            near = near | (step == neighbour)
        return same & near


def _rows(x: Tensor, index: Tensor) -> Tensor:
    """Rows of x (B, h, N, …) at index (B, h, C, m), which may point past N (padding takes the last row)."""
    flat = index.flatten(2).clamp(max=x.shape[2] - 1)
    if x.dim() == 3:
        return x.gather(2, flat).view_as(index)
    return x.gather(2, flat.unsqueeze(-1).expand(-1, -1, -1, x.shape[-1])).view(*index.shape, x.shape[-1])


def _ranges(mask: Mask, B: int, h: int, N: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Starts and stops of each query's key ranges, (B, h, N, spans) each."""
    mask.check(B, h, N, N)
    spans = mask.spans(N, N, device=device)
    if spans is None:
        raise ValueError(f"{mask!r} needs too many key ranges per row for hashing; use regard.attend with it, or a simpler mask")
    spans = spans.expand(B, h, -1, -1, -1)
    return spans[..., 0].long(), spans[..., 1].long()


def _inside(allowed: tuple[Tensor, Tensor], i: Tensor, j: Tensor) -> Tensor:
    """Whether key j lies in a range of query i, (B, h, C, m, w·m)."""
    start, stop = (_rows(x, i) for x in allowed)  # (B, h, C, m, spans)
    inside = torch.zeros(*i.shape, j.shape[-1], dtype=torch.bool, device=i.device)
    for low, high in zip(start.unbind(-1), stop.unbind(-1), strict=True):
        inside |= (j.unsqueeze(-2) >= low.unsqueeze(-1)) & (j.unsqueeze(-2) < high.unsqueeze(-1))
    return inside
