"""Scores: the similarity of a query and a key, the first of attention's three stages.

Every score is an ``nn.Module``, so its parameters train like any other layer's. A score that can be rewritten as a dot product
does so in :meth:`Score.lower`, and every dot-product kernel of the library can then run it.

Axes: B batch, h heads, L queries, S keys, d width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


@dataclass(eq=False, slots=True)
class Lowered:
    """A score written as ``cap(scale · query · key + key_bias) + row_shift``: what `Score.lower` returns.

    Treated as immutable; not a frozen dataclass because building one takes a microsecond of every call.

    query, key: what the kernel multiplies, (…, L, d') and (…, S, d').
    scale: the factor of the product.
    key_bias: added to every row, (…, S).
    row_shift: the same along a row, (…, L), so softmax cancels it and only the lse and the largest logit need it.
    cap: the soft cap ``c · tanh(s / c)``; None for none.

    >>> q, k = torch.randn(3, 4), torch.randn(5, 4)
    >>> ScaledDot().lower(q, k).scale
    0.5
    """

    query: Tensor
    key: Tensor
    scale: float = 1.0
    key_bias: Tensor | None = None
    row_shift: Tensor | None = None
    cap: float | None = None


def _multiplied(lowered: Lowered) -> Tensor:
    """The scores (…, L, S) that a lowered score stands for."""
    s = lowered.scale * (lowered.query @ lowered.key.mT)
    if lowered.key_bias is not None:
        s = s + lowered.key_bias.unsqueeze(-2)
    if lowered.cap is not None:
        s = lowered.cap * torch.tanh(s / lowered.cap)
    return s if lowered.row_shift is None else s + lowered.row_shift.unsqueeze(-1)


class Score(nn.Module):
    """Base class of scores. ``score(query, key)`` computes the whole (…, L, S) matrix.

    A new score is a subclass with ``tile``, or with ``lower`` if it is a dot product after a change of query and key; the other methods
    make it faster (``prepare``), keep its tiles small (``width``) or check more.

    >>> class Manhattan(Score):
    ...     def tile(self, query, key):
    ...         return -(query[..., :, None, :] - key[..., None, :, :]).abs().sum(-1)
    >>> Manhattan()(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 0.0], [1.0, 2.0]]))
    tensor([[-3., -0.]])
    """

    widens = True  # run half-precision inputs in float32; False for plain dot products, which accumulate in float32 anyway

    def lower(self, query: Tensor, key: Tensor) -> Lowered | None:
        """The score as a dot product, or None when it is not one.

        query, key: (…, L, d) and (…, S, d).
        """
        return None

    def prepare(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """The computation done once per query and once per key, before any pair is scored."""
        return query, key

    def tile(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores of prepared queries `query` (…, l, d') against prepared keys `key` (…, s, d'): (…, l, s).

        A score with only ``lower`` has its tiles from that.
        """
        lowered = self.lower_prepared(query, key)
        if lowered is None:
            raise NotImplementedError(f"{type(self).__name__} does not define tile(query, key), nor a dot product in its place with lower")
        return _multiplied(lowered)

    def prepared(self) -> Prepared:
        """This score for queries and keys that `prepare` has already transformed, such as the keys of a source used at every step."""
        return Prepared(self)

    def lower_prepared(self, query: Tensor, key: Tensor) -> Lowered | None:
        """`lower` for a prepared `query` and `key`."""
        return self.lower(query, key) if type(self).prepare is Score.prepare else None

    def width(self, query: Tensor) -> int:
        """How many numbers are held per entry of a tile while it is computed; tiles are made smaller by this factor."""
        return 1

    def check(self, query_width: int, key_width: int) -> None:
        """Raise ValueError if the score cannot compare `query_width` with `key_width` features."""
        if query_width != key_width:
            raise ValueError(
                f"key has {key_width} features but the query has {query_width}; pass a Bilinear or Additive score, or project one of them"
            )

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        self.check(query.shape[-1], key.shape[-1])
        return self.tile(*self.prepare(query, key))


class Prepared(Score):
    """A score whose queries and keys are already prepared, so that only the pairs are left. Made by `Score.prepared`.

    >>> score = Additive(3, 5, hidden=8)
    >>> query, key = torch.randn(4, 3), torch.randn(6, 5)
    >>> torch.equal(score.prepared()(*score.prepare(query, key)), score(query, key))
    True
    """

    def __init__(self, inner: Score) -> None:
        super().__init__()
        self.__dict__["inner"] = inner  # not a submodule: its parameters already belong to another module
        self.widens = inner.widens

    inner: Score

    def lower(self, query: Tensor, key: Tensor) -> Lowered | None:
        return self.inner.lower_prepared(query, key)

    def tile(self, query: Tensor, key: Tensor) -> Tensor:
        return self.inner.tile(query, key)

    def width(self, query: Tensor) -> int:
        return self.inner.width(query)

    def extra_repr(self) -> str:
        return repr(self.inner)


class Dot(Score):
    """Dot product: ``s(x, q) = xᵀq``.

    >>> Dot()(torch.tensor([[1., 2.]]), torch.tensor([[3., 4.], [0., 1.]]))
    tensor([[11.,  2.]])
    """

    widens = False

    def lower(self, query: Tensor, key: Tensor) -> Lowered:
        return Lowered(query, key)

    def tile(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.mT

    def extra_repr(self) -> str:
        return ""


class ScaledDot(Score):
    """Scaled dot product: ``s(x, q) = xᵀq / √d``, or times `scale`; optionally soft-capped, ``c · tanh(s / c)``.

    Vaswani et al. 2017, section 3.2.1; the cap is Gemma 2's (Gemma Team 2024, section 2).

    scale: the factor; None for 1/√d.
    cap: the c of the soft cap; None for none.

    Raises ValueError for a cap that is not positive.

    >>> ScaledDot()(torch.tensor([[1., 2., 0., 0.]]), torch.tensor([[3., 4., 9., 9.]]))
    tensor([[5.5000]])
    """

    widens = False

    def __init__(self, scale: float | None = None, cap: float | None = None) -> None:
        super().__init__()
        if cap is not None and not cap > 0:
            raise ValueError(f"cap is {cap}; a soft cap must be positive (or None for no cap)")
        self.scale = scale
        self.cap = cap

    def factor(self, width: int) -> float:
        """The scale for vectors of this width."""
        return (1.0 / math.sqrt(width) if width else 1.0) if self.scale is None else self.scale

    def lower(self, query: Tensor, key: Tensor) -> Lowered:
        return Lowered(query, key, scale=self.factor(query.shape[-1]), cap=self.cap)

    def tile(self, query: Tensor, key: Tensor) -> Tensor:
        scores = query @ key.mT * self.factor(query.shape[-1])
        return scores if self.cap is None else self.cap * torch.tanh(scores / self.cap)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in (("scale", self.scale), ("cap", self.cap)) if value is not None)


class Additive(Score):
    """Additive score: ``s(x, q) = vᵀ tanh(W x + U q)``, one hidden layer applied to the pair.

    Bahdanau et al. 2015, appendix A.1.2 (their W_a is our U, their U_a our W). W x and U q are computed once each; only the
    tanh and the product with v are done per pair.

    query_width, key_width: features of a query and of a key.
    hidden: units of the hidden layer.

    >>> Additive(3, 5, hidden=8)(torch.randn(2, 4, 3), torch.randn(2, 6, 5)).shape
    torch.Size([2, 4, 6])
    """

    def __init__(self, query_width: int, key_width: int, hidden: int) -> None:
        super().__init__()
        self.U = nn.Parameter(torch.empty(hidden, query_width))
        self.W = nn.Parameter(torch.empty(hidden, key_width))
        self.v = nn.Parameter(torch.empty(hidden))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the parameters anew."""
        nn.init.xavier_uniform_(self.U)
        nn.init.xavier_uniform_(self.W)
        bound = 1 / math.sqrt(max(self.v.numel(), 1))
        nn.init.uniform_(self.v, -bound, bound)

    def check(self, query_width: int, key_width: int) -> None:
        _check_widths(self, query_width, key_width, self.U.shape[1], self.W.shape[1])

    def prepare(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return linear(query, self.U.to(query.dtype)), linear(key, self.W.to(key.dtype))  # (…, L, hidden), (…, S, hidden)

    def tile(self, query: Tensor, key: Tensor) -> Tensor:
        return torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ self.v.to(query.dtype)  # (…, l, s, hidden) → (…, l, s)

    def width(self, query: Tensor) -> int:
        return self.v.numel()

    def extra_repr(self) -> str:
        return f"{self.U.shape[1]}, {self.W.shape[1]}, hidden={self.v.numel()}"


class Bilinear(Score):
    """Bilinear score: ``s(x, q) = xᵀ W q``; with ``rank`` it is factored, ``(U x)ᵀ (V q)``, of at most that rank.

    Asymmetric: swapping x and q changes the score, unlike a dot product.

    query_width, key_width: features of a query and of a key.
    rank: the largest rank of W; None for a full matrix.

    >>> Bilinear(3, 5, rank=2)(torch.randn(4, 3), torch.randn(6, 5)).shape
    torch.Size([4, 6])
    """

    def __init__(self, query_width: int, key_width: int, rank: int | None = None) -> None:
        super().__init__()
        self.widths = query_width, key_width
        self.rank = rank
        if rank is None:
            self.W = nn.Parameter(torch.empty(key_width, query_width))
        else:
            self.U = nn.Parameter(torch.empty(rank, key_width))
            self.V = nn.Parameter(torch.empty(rank, query_width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the parameters anew."""
        for parameter in self.parameters():
            nn.init.xavier_uniform_(parameter)

    def check(self, query_width: int, key_width: int) -> None:
        _check_widths(self, query_width, key_width, *self.widths)

    def matrix(self) -> Tensor:
        """The full (key_width, query_width) matrix, multiplied out when it is factored."""
        return self.W if self.rank is None else self.U.mT @ self.V

    def prepare(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        if self.rank is None:
            return query @ self.W.mT.to(query.dtype), key
        return query @ self.V.mT.to(query.dtype), key @ self.U.mT.to(key.dtype)

    def lower(self, query: Tensor, key: Tensor) -> Lowered:
        return Lowered(*self.prepare(query, key))

    def lower_prepared(self, query: Tensor, key: Tensor) -> Lowered:
        return Lowered(query, key)

    def tile(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.mT

    def extra_repr(self) -> str:
        return f"{self.widths[0]}, {self.widths[1]}" + ("" if self.rank is None else f", rank={self.rank}")


class Gaussian(Score):
    """Gaussian score: ``s(x, q) = −½ ‖(q − x) w‖²``, the logarithm of a Gaussian kernel of bandwidth 1/w (Nadaraya–Watson).

    w is one number or one per dimension; ``learn=True`` makes it a parameter. It lowers to a dot product only where rounding
    allows: the expanded square loses precision by cancellation once w·range is large, and then the difference is computed in the tile.

    width: w, a number or a tensor of one per dimension.
    learn: whether w is a parameter.

    Raises ValueError for a width that is not a number or a vector.

    >>> Gaussian(width=2.0)(torch.tensor([[1.0]]), torch.tensor([[0.0], [1.0]]))
    tensor([[-2.,  0.]])
    """

    def __init__(self, width: float | Tensor = 1.0, *, learn: bool = False) -> None:
        super().__init__()
        w = torch.as_tensor(width, dtype=None if isinstance(width, Tensor) else torch.get_default_dtype())
        if w.dim() > 1:
            raise ValueError(f"width has shape {tuple(w.shape)}; give one number or one per dimension, (d,)")
        if learn:
            self.w = nn.Parameter(w.detach().clone())
        elif isinstance(width, nn.Parameter):
            self.w = width
        else:
            self.register_buffer("w", w)

    w: Tensor

    def check(self, query_width: int, key_width: int) -> None:
        super().check(query_width, key_width)
        if self.w.dim() == 1 and self.w.numel() not in (1, query_width):
            raise ValueError(
                f"width has {self.w.numel()} entries but queries and keys have {query_width} features; give one number or {query_width}"
            )

    def lower(self, query: Tensor, key: Tensor) -> Lowered | None:
        if not (query.numel() and key.numel()):
            return None
        w = self.w.to(query.dtype)
        centre = key.detach().reshape(-1, key.shape[-1]).mean(0)
        q, k = (query - centre) * w, (key - centre) * w
        q_square, k_square = q.square().sum(-1), k.square().sum(-1)  # (…, L), (…, S)
        reach = float(q_square.detach().max() + k_square.detach().max())
        # NaN fails the comparison too, and the tile path below keeps masked NaN keys from spreading.
        if not torch.finfo(query.dtype).eps * reach < 1e-6:
            return None
        return Lowered(q, k, key_bias=-0.5 * k_square, row_shift=-0.5 * q_square)

    def prepare(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        w = self.w.to(query.dtype)
        return query * w, key * w

    def tile(self, query: Tensor, key: Tensor) -> Tensor:
        scores = query.new_zeros(()).expand(*torch.broadcast_shapes(query.shape[:-2], key.shape[:-2]), query.shape[-2], key.shape[-2])
        for q, k in zip(query.unbind(-1), key.unbind(-1), strict=True):  # one dimension at a time: (…, l), (…, s)
            scores = scores - 0.5 * (q.unsqueeze(-1) - k.unsqueeze(-2)).square()
        return scores

    def width(self, query: Tensor) -> int:
        return max(1, query.shape[-1] if torch.is_grad_enabled() else 2)

    def extra_repr(self) -> str:
        return f"width={self.w.tolist() if self.w.numel() < 9 else f'({self.w.numel()},)'}"


def _check_widths(score: Score, query_width: int, key_width: int, expected_query: int, expected_key: int) -> None:
    if (query_width, key_width) != (expected_query, expected_key):
        raise ValueError(
            f"{type(score).__name__} was made for queries of {expected_query} and keys of {expected_key} features but got {query_width} "
            f"and {key_width}; make it as {type(score).__name__}({query_width}, {key_width}, …)"
        )
