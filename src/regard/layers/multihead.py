"""Multi-head attention, with grouped key-value heads, rotary positions and caching.

Axes: B batch, h query heads, g key-value heads, L queries, S keys, d head width, D model width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attended, attend, observe
from regard.biases import Bias
from regard.choices import Choice, Softmax
from regard.html_table import html_table
from regard.kernels.request import AttentionOptions
from regard.layers.cache import LayerCache
from regard.layers.positions import Rotary
from regard.masks import ExtraKeys, Mask
from regard.scores import ScaledDot, Score

if TYPE_CHECKING:
    from regard.readings import Reading

__all__ = ["MultiHeadAttention", "ParameterTable", "Projected"]


class Projected(NamedTuple):
    """Projected keys and values of a memory, for use at many steps: (B, g, S, d) each.

    key, value: for each of the g key-value heads, S positions of d features.

    >>> layer = MultiHeadAttention(8, heads=2)
    >>> layer.project(torch.randn(1, 5, 8)).key.shape
    torch.Size([1, 2, 5, 4])
    """

    key: Tensor
    value: Tensor

    def select(self, index: Tensor) -> "Projected":
        """A copy whose batch row i is this one's row index[i]."""
        return Projected(self.key.index_select(0, index), self.value.index_select(0, index))


@dataclass(frozen=True, repr=False)
class ParameterTable:
    """Parameter counts by part, rows of (part, shape, count). Prints as an aligned table with the total.

    rows: the parts.

    >>> print(MultiHeadAttention(8, heads=2, bias=False).parameter_table())
    query       2 × 8 → 4   64
    key         2 × 8 → 4   64
    value down  2 × 8 → 4   64
    value up    2 × 4 → 8   64
    total                  256
    """

    rows: tuple[tuple[str, str, int], ...]

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return sum(count for _, _, count in self.rows)

    def __getitem__(self, part: str) -> int:
        return next(count for name, _, count in self.rows if name == part)

    def _texts(self) -> list[tuple[str, str, str]]:
        return [(part, shape, f"{count:,}") for part, shape, count in (*self.rows, ("total", "", self.total))]

    def _repr_html_(self) -> str:
        return html_table([("part", "shape", "parameters"), *self._texts()])

    def __repr__(self) -> str:
        rows = self._texts()
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join(f"{part:<{widths[0]}}  {shape:<{widths[1]}}  {count:>{widths[2]}}" for part, shape, count in rows)


class MultiHeadAttention(nn.Module):
    """Multi-head attention: h heads with their own W_q, W_k, W_v; their outputs are concatenated and multiplied by W_o.

    `layer(x)` is self-attention, `layer(x, memory)` cross-attention, where a memory is (B, S, kv_dim), a pair of them (one for keys, one
    for values), or the result of `layer.project(memory)`.

    Parameters have the names and layout of `torch.nn.MultiheadAttention`, so its state dict loads unchanged: query, key and value
    projections are one matrix `in_proj_weight` unless kv_dim differs from d_model.

    Shapes: x (B, L, D) to (B, L, D); mask and bias as `regard.attend` takes them, over (B, h, L, S).

    d_model: width of the inputs and outputs, D.
    heads: number of query heads.
    kv_heads: number of key-value heads; each is shared by heads / kv_heads query heads. None: as many as heads.
    head_dim: width of a head; None: d_model / heads.
    kv_dim: width of the memory, or of keys and values separately; None: d_model.
    rotary: whether queries and keys get rotary positions (self-attention only), or the :class:`Rotary` to use.
    bias: whether the projections have biases.
    out_bias: whether the output projection has one; None: as `bias`.
    dropout: on the attention weights, in training mode.
    score, choice: as in :func:`regard.attend`.
    add_bias_kv: append one learned key and value, which every query sees whatever the mask.
    add_zero_attn: append a key and value of zeros, likewise.

    Raises ValueError for heads that do not divide evenly.

    >>> layer = MultiHeadAttention(64, heads=8, kv_heads=2, rotary=True)
    >>> layer(torch.randn(2, 5, 64)).shape
    torch.Size([2, 5, 64])
    >>> print(layer.parameter_table())
    query       8 × 64 → 8   4,096
    key         2 × 64 → 8   1,024
    value down  2 × 64 → 8   1,024
    value up    8 × 8 → 64   4,096
    biases                     160
    total                   10,400

    Vaswani et al. 2017, section 3.2.2; grouped heads: Ainslie et al. 2023.
    """

    in_proj_weight: nn.Parameter | None
    q_proj_weight: nn.Parameter | None
    k_proj_weight: nn.Parameter | None
    v_proj_weight: nn.Parameter | None
    in_proj_bias: nn.Parameter | None
    bias_k: nn.Parameter | None
    bias_v: nn.Parameter | None

    def __init__(
        self,
        d_model: int,
        heads: int,
        kv_heads: int | None = None,
        *,
        head_dim: int | None = None,
        kv_dim: int | tuple[int, int] | None = None,
        rotary: bool | Rotary = False,
        bias: bool = True,
        out_bias: bool | None = None,
        dropout: float = 0.0,
        score: Score | None = None,
        choice: Choice | None = None,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
    ) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        if heads < 1 or kv_heads < 1 or heads % kv_heads:
            raise ValueError(f"{heads} query heads cannot share {kv_heads} key-value heads evenly; kv_heads must divide heads")
        if head_dim is None and d_model % heads:
            raise ValueError(f"d_model {d_model} does not divide into {heads} heads; change one of them or give head_dim=")
        self.d_model, self.heads, self.kv_heads = d_model, heads, kv_heads
        self.head_dim = d_model // heads if head_dim is None else head_dim
        self.kv_dim = (kv_dim, kv_dim) if isinstance(kv_dim, int) else kv_dim or (d_model, d_model)
        self.rotary = (Rotary() if rotary else None) if isinstance(rotary, bool) else rotary
        if self.rotary is not None:
            self.rotary.width(self.head_dim)
        self.dropout = dropout
        self.score = ScaledDot() if score is None else score
        self.choice = Softmax() if choice is None else choice

        inner, outer = heads * self.head_dim, kv_heads * self.head_dim
        self._sizes = [inner, outer, outer]
        if self.kv_dim == (d_model, d_model):
            self.in_proj_weight = nn.Parameter(torch.empty(inner + 2 * outer, d_model))
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.register_parameter("in_proj_weight", None)
            self.q_proj_weight = nn.Parameter(torch.empty(inner, d_model))
            self.k_proj_weight = nn.Parameter(torch.empty(outer, self.kv_dim[0]))
            self.v_proj_weight = nn.Parameter(torch.empty(outer, self.kv_dim[1]))
        if bias:
            self.in_proj_bias = nn.Parameter(torch.empty(inner + 2 * outer))
        else:
            self.register_parameter("in_proj_bias", None)
        self.add_zero_attn = add_zero_attn
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, nn.Parameter(torch.empty(1, 1, outer)) if add_bias_kv else None)
        self.out_proj = nn.Linear(inner, d_model, bias=bias if out_bias is None else out_bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise: Xavier-uniform projections, zero biases."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight, self.out_proj.weight):
            if weight is not None:
                nn.init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                nn.init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                nn.init.xavier_normal_(extra)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | tuple[Tensor, Tensor] | Projected | None = None,
        *,
        mask: Mask | None = None,
        bias: Any = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Attend from x (B, L, D) to itself, to the cache and itself, or to a memory.

        memory: what to attend to instead of x, as the class describes it.
        mask, bias: as in `regard.attend`.
        cache: keys and values of the tokens before x; those of x are appended.
        """
        query, key, value = self.project_heads(x, memory, cache)
        key, value, mask, bias = self._with_extra_keys(key, value, mask, bias)
        mixed = self.attend_heads(query, key, value, self.attention_options(mask, bias))
        return self.out_proj(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def observe(
        self,
        x: Tensor,
        memory: Tensor | tuple[Tensor, Tensor] | Projected | None = None,
        *,
        mask: Mask | None = None,
        bias: Any = None,
        cache: LayerCache | None = None,
        readings: "Sequence[Reading]" = (),
    ) -> tuple[Tensor, Attended]:
        """As `forward`, and also return the readings: (output (B, L, D), `Attended` of the heads).

        Arguments as in `forward`; readings as in `regard.observe`.
        """
        query, key, value = self.project_heads(x, memory, cache)
        key, value, mask, bias = self._with_extra_keys(key, value, mask, bias)
        attended = self.observe_heads(query, key, value, self.attention_options(mask, bias), readings)
        return self.out_proj(attended.output.transpose(1, 2).flatten(2)), attended

    @classmethod
    def from_torch(cls, layer: nn.MultiheadAttention) -> "MultiHeadAttention":
        """The same layer as a `torch.nn.MultiheadAttention`, with a copy of its weights; x is (B, L, D) whatever its batch_first.

        >>> torch_layer = torch.nn.MultiheadAttention(16, 4, add_bias_kv=True, add_zero_attn=True, batch_first=True)
        >>> layer, x = MultiHeadAttention.from_torch(torch_layer), torch.randn(2, 5, 16)
        >>> torch.allclose(layer(x), torch_layer(x, x, x)[0], atol=1e-6)
        True
        """
        D, bias = layer.embed_dim, layer.in_proj_bias is not None
        same = (layer.kdim, layer.vdim) == (D, D)
        made = cls(
            D, layer.num_heads, kv_dim=None if same else (layer.kdim, layer.vdim), bias=bias, out_bias=layer.out_proj.bias is not None,
            dropout=layer.dropout, add_bias_kv=layer.bias_k is not None, add_zero_attn=layer.add_zero_attn,
        )  # fmt: skip
        made.to(layer.out_proj.weight).load_state_dict(layer.state_dict())
        return made.train(layer.training)

    def attend_heads(self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions) -> Tensor:
        """The weighted values of every head, (B, h, L, d).

        query, key, value: as `project_heads` returns them; options: keyword arguments of `regard.attend`.
        """
        return attend(query, key, value, **options)

    def observe_heads(
        self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions, readings: "Sequence[Reading]"
    ) -> Attended:
        """As `attend_heads`, with readings.

        Arguments as in `attend_heads`; readings: statistics of the weights.
        """
        return observe(query, key, value, readings=readings, **options)

    def attention_options(self, mask: Mask | None, bias: Any) -> AttentionOptions:
        """The keyword arguments of `regard.attend` for this layer; dropout only in training."""
        dropout = self.dropout if self.training else 0.0
        return {"score": self.score, "choice": self.choice, "dropout": dropout, "mask": mask, "bias": bias}

    def project(self, memory: Tensor | tuple[Tensor, Tensor]) -> Projected:
        """Project a memory (B, S, kv_dim) to keys and values, once for many steps."""
        keys_from, values_from = memory if isinstance(memory, tuple) else (memory, memory)
        for part, width in zip((keys_from, values_from), self.kv_dim, strict=True):
            if part.dim() != 3 or part.shape[-1] != width:
                raise ValueError(f"a memory must be (batch, tokens, {width}); it is {tuple(part.shape)}; kv_dim= sets its width")
        inner, outer, _ = self._sizes
        if keys_from is values_from and self.in_proj_weight is not None:
            bias = None if self.in_proj_bias is None else self.in_proj_bias[inner:]
            key, value = torch.split(F.linear(keys_from, self.in_proj_weight[inner:], bias), outer, -1)
        else:
            (_, weight_k, weight_v), (_, bias_k, bias_v) = self._maps()
            key, value = F.linear(keys_from, weight_k, bias_k), F.linear(values_from, weight_v, bias_v)
        return Projected(self._split(key, self.kv_heads), self._split(value, self.kv_heads))

    def value_down(self, head: int) -> Tensor:
        """Value↓ of a head, its part of W_v, (head_dim, D). Query heads that share a key-value head share it."""
        group = self._head(head) // (self.heads // self.kv_heads)
        return self._maps()[0][2].view(self.kv_heads, self.head_dim, -1)[group]

    def value_up(self, head: int) -> Tensor:
        """Value↑ of a head, its part of W_o, (D, head_dim)."""
        return self.out_proj.weight.view(self.d_model, self.heads, self.head_dim)[:, self._head(head)]

    def value_map(self, head: int) -> Tensor:
        """Value↑ · Value↓ of a head, (D, D): the low-rank map from an attended token to the head's contribution to the output."""
        return self.value_up(head) @ self.value_down(head)

    def parameter_table(self) -> ParameterTable:
        """The parameter counts of this layer, by part."""
        (query, key, value), _ = self._maps()
        rows = [
            ("query", f"{self.heads} × {self.d_model} → {self.head_dim}", query.numel()),
            ("key", f"{self.kv_heads} × {self.kv_dim[0]} → {self.head_dim}", key.numel()),
            ("value down", f"{self.kv_heads} × {self.kv_dim[1]} → {self.head_dim}", value.numel()),
            ("value up", f"{self.heads} × {self.head_dim} → {self.d_model}", self.out_proj.weight.numel()),
        ]
        extras = (self.in_proj_bias, self.out_proj.bias, self.bias_k, self.bias_v)
        biases = sum(bias.numel() for bias in extras if bias is not None)
        rows += [("biases", "", biases)] if biases else []
        for name, part in (("score", self.score), ("choice", self.choice)):
            count = sum(p.numel() for p in part.parameters())
            rows += [(name, type(part).__name__, count)] if count else []
        return ParameterTable(tuple(rows))

    def extra_repr(self) -> str:
        grouped = "" if self.kv_heads == self.heads else f", kv_heads={self.kv_heads}"
        return f"{self.d_model}, heads={self.heads}{grouped}, head_dim={self.head_dim}"

    def project_heads(
        self, x: Tensor, memory: Tensor | tuple[Tensor, Tensor] | Projected | None, cache: LayerCache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, h, L, d), keys and values (B, g, S, d). Arguments as in `forward`."""
        if x.dim() != 3 or x.shape[-1] != self.d_model:
            raise ValueError(f"x must be (batch, tokens, {self.d_model}); it is {tuple(x.shape)}")
        if memory is None:
            return self._self_heads(x, cache)
        if cache is not None:
            raise ValueError("a cache is for self-attention; for a memory, call project(memory) once and pass its result as the memory")
        if self.rotary is not None:
            raise ValueError("rotary positions do not apply to a memory, which is another sequence; build this layer with rotary=False")
        projected = memory if isinstance(memory, Projected) else self.project(memory)
        inner = self._sizes[0]
        weight = self.q_proj_weight if self.in_proj_weight is None else self.in_proj_weight.narrow(0, 0, inner)
        bias = None if self.in_proj_bias is None else self.in_proj_bias.narrow(0, 0, inner)
        assert weight is not None
        return self._split(F.linear(x, weight, bias), self.heads), projected.key, projected.value

    def _self_heads(self, x: Tensor, cache: LayerCache | None) -> tuple[Tensor, Tensor, Tensor]:
        if self.in_proj_weight is None:
            raise ValueError(f"this layer was built with kv_dim={self.kv_dim}, for cross-attention; call layer(x, memory)")
        h, g = self.heads, self.kv_heads
        parts = F.linear(x, self.in_proj_weight, self.in_proj_bias).view(*x.shape[:2], h + 2 * g, self.head_dim)
        if self.rotary is None:
            query, key, value = (part.transpose(1, 2) for part in torch.split(parts, [h, g, g], 2))
        else:  # queries and keys are adjacent, and rotated together
            unrotated, value = (part.transpose(1, 2) for part in torch.split(parts, [h + g, g], 2))
            query, key = torch.split(self.rotary.turn(unrotated, 0 if cache is None else cache.length), [h, g], 1)
        if cache is not None:
            key, value = cache.append(key, value)
        return query, key, value

    def _with_extra_keys(self, key: Tensor, value: Tensor, mask: Mask | None, bias: Any) -> tuple[Tensor, Tensor, Mask | None, Any]:
        """Append the learned key and value (add_bias_kv) and a zero one (add_zero_attn), visible to every query."""
        extra = (self.bias_k is not None) + self.add_zero_attn
        if not extra:
            return key, value, mask, bias
        rows: list[list[Tensor]] = [[key], [value]]
        for parts, learned in zip(rows, (self.bias_k, self.bias_v), strict=True):
            if learned is not None:
                parts.append(self._split(learned, self.kv_heads).to(key.dtype).expand(key.shape[0], -1, -1, -1))
            if self.add_zero_attn:
                parts.append(key.new_zeros(*key.shape[:2], 1, self.head_dim))
        if isinstance(bias, Bias):
            raise ValueError(
                f"a {type(bias).__name__} has no value for the keys of add_bias_kv and add_zero_attn; pass the bias as a tensor"
            )
        padded = bias if bias is None or bias.shape[-1] == 1 else F.pad(bias, (0, extra))
        return torch.cat(rows[0], 2), torch.cat(rows[1], 2), None if mask is None else ExtraKeys(mask, extra), padded

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:2], heads, self.head_dim).transpose(1, 2)  # (B, heads, L, d)

    def _maps(self) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor | None, Tensor | None, Tensor | None]]:
        """W_q, W_k, W_v and their biases."""
        if self.in_proj_weight is not None:
            query, key, value = torch.split(self.in_proj_weight, self._sizes)
        else:
            assert self.q_proj_weight is not None
            assert self.k_proj_weight is not None
            assert self.v_proj_weight is not None
            query, key, value = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        if self.in_proj_bias is None:
            return (query, key, value), (None, None, None)
        first, second, third = torch.split(self.in_proj_bias, self._sizes)
        return (query, key, value), (first, second, third)

    def _head(self, head: int) -> int:
        if not 0 <= head < self.heads:
            raise IndexError(f"head is {head}, but the layer has {self.heads} heads; count from 0")
        return head
