"""Attention by hashing, as in Reformer: tokens that point the same way share a bucket and see only it. O(N · chunk · rounds).

An approximation: a pair that no round puts together is not seen. What is seen is weighed exactly: the rounds are joined by their lse,
and a pair seen n times counts once (−ln n in its score). Kitaev, Kaiser and Levskaya 2020, section 2 and appendix A.

Axes: B batch, h heads, N tokens (padded to n), C chunks of m tokens, w neighbouring chunks, R rounds, d head width, D model width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention import attend, observe
from regard.biases import Bias, offsets
from regard.masks import Mask, causal, dense

__all__ = ["LshAttention", "NotItself", "hash_buckets", "hashed_attend"]

_LAST_RESORT = -1e5  # what a token's score with itself is lowered by: it looks at itself only when it sees nobody else
_WIDEST = 64  # more buckets than this are made of several smaller hashes, so that hashing stays linear in N


class NotItself(Bias):
    """A token with equal query and key would see little but itself; this leaves itself as the last resort (Reformer, section 2)."""

    def tile(
        self, rows: range, cols: range, L: int, S: int, *, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        itself = offsets(rows, cols, L, S, device=device) == 0
        return _LAST_RESORT * itself.to(dtype or torch.get_default_dtype())[None, None]


def hash_buckets(x: Tensor, buckets: int, rounds: int, generator: torch.Generator | None = None) -> Tensor:
    """The bucket of each vector in each round, (B, h, R, N), by random rotations: near directions fall together, whatever their length.

    Andoni et al. 2015 (cross-polytope hashing): the bucket is the nearest of ± the rotated axes. ``buckets`` is rounded up to what the
    rotations give (even numbers, products above 64).

    >>> x = torch.randn(1, 1, 1, 8)
    >>> found = hash_buckets(torch.cat([x, 3 * x, -x], 2), 4, rounds=2)
    >>> bool((found[..., 0] == found[..., 1]).all()), bool((found[..., 0] == found[..., 2]).any())
    (True, False)
    """
    if buckets == 1:
        return torch.zeros(*x.shape[:2], rounds, x.shape[2], dtype=torch.int64, device=x.device)
    parts = 1
    while round(buckets ** (1 / parts)) > _WIDEST:
        parts += 1
    side = max(1, -(-round(buckets ** (1 / parts)) // 2))  # half the buckets of one hash
    where = generator.device if generator is not None else x.device
    axes = torch.randn(x.shape[1], rounds, parts, x.shape[-1], side, generator=generator, device=where).to(x)
    found = torch.zeros(*x.shape[:2], rounds, x.shape[2], dtype=torch.int64, device=x.device)
    for r in range(rounds):
        for part in range(parts):
            turned = x.detach() @ axes[:, r, part]  # (B, h, N, side)
            found[:, :, r] = found[:, :, r] * (2 * side) + torch.cat([turned, -turned], -1).argmax(-1)
    return found


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
    """Self-attention with keys ``query / ‖query‖``, each token looking at the tokens of its bucket in its own and the neighbouring chunks.

    Shapes: query (B, h, N, d), value (B, h, N, dv) to (B, h, N, dv). ``ahead`` also looks at the chunk after (of no use when causal).
    ``buckets`` defaults to two a chunk. The mask must have spans (all but random dense patterns do).
    """
    if query.dim() != 4 or query.shape[:3] != value.shape[:3]:
        raise ValueError(f"query is {tuple(query.shape)} and value {tuple(value.shape)}; expected (B, h, N, d) and (B, h, N, dv)")
    if chunk < 1 or rounds < 1 or (buckets is not None and buckets < 1):
        raise ValueError(f"chunk={chunk}, rounds={rounds}, buckets={buckets}; each must be at least 1")
    B, h, N, _ = query.shape
    if not query.numel():
        return torch.zeros_like(value)
    wanted = buckets or max(1, -(-2 * N // chunk))
    sorting = _Sorting(hash_buckets(query, wanted, rounds, generator), chunk, ahead)
    allowed = None if mask is None else _ranges(mask, B, h, N, query.device)
    key = unit(query)
    accurate = torch.float64 if query.dtype == torch.float64 else torch.float32
    outputs, weights = [], []
    for r in range(rounds):
        i, j, seen, bias = sorting.pairs(r, allowed, accurate)
        chunks = sorting.chunks
        q = _pick(query, i).view(B * h, chunks, chunk, -1)
        k, v = (_pick(x, j).view(B * h, chunks, j.shape[-1], -1) for x in (key, value))
        found = observe(q, k, v, mask=dense(seen.flatten(0, 1)), bias=bias.flatten(0, 1))
        assert found.lse is not None
        back = sorting.place[:, :, r, :N]
        outputs.append(found.output.reshape(B, h, -1, v.shape[-1]).gather(2, back.unsqueeze(-1).expand(-1, -1, -1, v.shape[-1])))
        weights.append(found.lse.reshape(B, h, -1).gather(2, back))
    lse = torch.stack(weights, -1)  # (B, h, N, R)
    peak = lse.detach().amax(-1, keepdim=True)
    share = (lse - peak.masked_fill(peak == -torch.inf, 0.0)).exp()
    share = share / share.sum(-1, keepdim=True).masked_fill(peak == -torch.inf, 1.0)
    return (torch.stack(outputs, -1) @ share.to(value.dtype).unsqueeze(-1)).squeeze(-1)


class LshAttention(nn.Module):
    """Self-attention by hashing, for long sequences: one map makes queries and (made unit length) keys, so that like tokens share a bucket.

    Hashes are drawn anew from ``seed`` at each call, so a call is a function of its input; pass a ``generator`` for fresh ones.
    With ``causal`` no later token is ever read, but the sort knows all of them: a later token can change which earlier ones meet.

    Shapes: x (B, N, D) to (B, N, D).

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
        found = hashed_attend(
            self._split(self.query(x)),
            self._split(self.value(x)),
            chunk=self.chunk,
            rounds=self.rounds,
            buckets=self.buckets,
            mask=self._mask(mask),
            ahead=not self.causal,
            generator=generator,
        )
        return self.out_proj(found.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def exact(self, x: Tensor, *, mask: Mask | None = None) -> Tensor:
        """What hashing approximates: every token sees every other, in O(N²) time and linear memory."""
        query = self._split(self.query(x))
        found = attend(query, unit(query), self._split(self.value(x)), mask=self._mask(mask), bias=NotItself())
        return self.out_proj(found.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    @torch.no_grad()
    def error(self, x: Tensor, *, mask: Mask | None = None) -> float:
        """‖hashed − exact‖ / ‖exact‖."""
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
    """Vectors made unit length."""
    return nn.functional.normalize(x, dim=-1)


class _Sorting:
    """Tokens sorted by bucket and cut into chunks, round by round; which pairs a round puts together."""

    def __init__(self, buckets: Tensor, chunk: int, ahead: bool) -> None:
        self.N, self.chunk = buckets.shape[-1], chunk
        self.chunks = -(-self.N // chunk)
        n = self.chunks * chunk
        beyond = int(buckets.max()) + 1  # padding sorts to the end, into a bucket of its own
        self.buckets = nn.functional.pad(buckets, (0, n - self.N), value=beyond)  # (B, h, R, n)
        self.order = self.buckets.argsort(dim=-1, stable=True)  # the token at each place
        self.place = torch.empty_like(self.order).scatter_(-1, self.order, torch.arange(n, device=buckets.device).expand_as(self.order))
        # Chunk steps that are looked at; in a ring of one or two chunks some of them are the same chunk.
        self.steps = sorted({step % self.chunks for step in ((-1, 0, 1) if ahead else (-1, 0))})

    def pairs(self, r: int, allowed: tuple[Tensor, Tensor] | None, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries (B, h, C, m) and keys (B, h, C, w·m) of a round, which pairs are seen, and what is added to their scores."""
        i = self.order[:, :, r].reshape(*self.order.shape[:2], self.chunks, self.chunk)
        j = torch.cat([i.roll(-step, 2) for step in self.steps], -1)
        seen = self._together(r, i, j)
        times = seen.to(torch.int32)
        for other in range(self.buckets.shape[2]):
            if other != r:
                times += self._together(other, i, j)
        seen = seen & (j < self.N).unsqueeze(-2)
        if allowed is not None:
            seen = seen & _inside(allowed, i.clamp(max=self.N - 1), j)
        bias = -times.clamp(min=1).to(dtype).log()
        return i, j, seen, bias + _LAST_RESORT * (i.unsqueeze(-1) == j.unsqueeze(-2))

    def _together(self, r: int, i: Tensor, j: Tensor) -> Tensor:
        """Whether round r shows query i the key j: one bucket, and a chunk that is looked at. (B, h, C, m, w·m)"""
        bucket, chunk = self.buckets[:, :, r], self.place[:, :, r] // self.chunk
        same = _pick(bucket, i).unsqueeze(-1) == _pick(bucket, j).unsqueeze(-2)
        step = (_pick(chunk, j).unsqueeze(-2) - _pick(chunk, i).unsqueeze(-1)) % self.chunks
        near = step == self.steps[0]
        for wanted in self.steps[1:]:
            near = near | (step == wanted)
        return same & near


def _pick(x: Tensor, index: Tensor) -> Tensor:
    """Rows of x (B, h, N, …) at index (B, h, C, m), which may point past N (padding takes the last row)."""
    flat = index.flatten(2).clamp(max=x.shape[2] - 1)
    if x.dim() == 3:
        return x.gather(2, flat).view_as(index)
    return x.gather(2, flat.unsqueeze(-1).expand(-1, -1, -1, x.shape[-1])).view(*index.shape, x.shape[-1])


def _ranges(mask: Mask, B: int, h: int, N: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """First and past-last keys of each query's ranges, (B, h, N, spans) each."""
    mask.check(B, h, N, N)
    spans = mask.spans(N, N, device=device)
    if spans is None:
        raise ValueError(f"{mask!r} needs too many key ranges a row to be used with hashing; use attend with it, or a mask made of ranges")
    spans = spans.expand(B, h, -1, -1, -1)
    return spans[..., 0].long(), spans[..., 1].long()


def _inside(allowed: tuple[Tensor, Tensor], i: Tensor, j: Tensor) -> Tensor:
    """Whether key j lies in a range of query i, (B, h, C, m, w·m)."""
    start, stop = (_pick(x, i) for x in allowed)  # (B, h, C, m, spans)
    inside = torch.zeros(*i.shape, j.shape[-1], dtype=torch.bool, device=i.device)
    for low, high in zip(start.unbind(-1), stop.unbind(-1), strict=True):
        inside |= (j.unsqueeze(-2) >= low.unsqueeze(-1)) & (j.unsqueeze(-2) < high.unsqueeze(-1))
    return inside
