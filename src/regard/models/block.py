"""One block of attention and MLP; GPT-2, Llama, BERT and the translation Transformer are options of it.

Axes: B batch, L tokens, S tokens of a memory, D model width, H hidden width.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attended
from regard.layers.cache import LayerCache
from regard.layers.dropout import dropout
from regard.layers.multihead import MultiHeadAttention, Projected
from regard.layers.positions import Learned, Rotary, Sinusoidal
from regard.masks import Mask, causal, window
from regard.readings import Reading

__all__ = ["Block", "BlockConfig", "Mlp", "Watcher", "causal_mask", "initialise", "normalise", "position_table"]


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """What a block is made of.

    hidden: MLP width; None is 4·d_model, or ⅔ of that, rounded up to 64, for swiglu (which has three matrices).
    placement: "pre" normalises what goes into a part, "post" the sum of what went in and came out.
    bias: of every map and LayerNorm; qkv_bias, out_bias and mlp_bias override it for one part.
    dropout: on what a part adds, and on the embedding; attention_dropout: on the weights.
    window: a token sees itself and the window − 1 before it, in the layers of window_layers (None: in all).
    """

    d_model: int = 128
    heads: int = 4
    kv_heads: int | None = None
    head_dim: int | None = None
    hidden: int | None = None
    norm: Literal["layer", "rms"] = "layer"
    placement: Literal["pre", "post"] = "pre"
    eps: float = 1e-5
    activation: Literal["gelu", "gelu_tanh", "relu", "swiglu"] = "gelu"
    positions: Literal["learned", "sinusoidal", "rotary", "none"] = "learned"
    rotary: Rotary = field(default_factory=Rotary)
    bias: bool = True
    qkv_bias: bool | None = None
    out_bias: bool | None = None
    mlp_bias: bool | None = None
    dropout: float = 0.0
    attention_dropout: float = 0.0
    window: int | None = None
    window_layers: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        choices = {
            "norm": ("layer", "rms"),
            "placement": ("pre", "post"),
            "activation": ("gelu", "gelu_tanh", "relu", "swiglu"),
            "positions": ("learned", "sinusoidal", "rotary", "none"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is not known; use one of {', '.join(allowed)}")

    @property
    def width(self) -> int:
        """The MLP's width."""
        if self.hidden is not None:
            return self.hidden
        return -(-8 * self.d_model // 3 // 64) * 64 if self.activation == "swiglu" else 4 * self.d_model

    def window_of(self, layer: int) -> int | None:
        return self.window if self.window_layers is None or layer in self.window_layers else None


@dataclass
class Watcher:
    """Collects what each attention of a pass lets be read, in the order they run: handed in by who wants to look, kept by no module."""

    readings: Sequence[Reading] = ()
    seen: list[Attended] = field(default_factory=list)


class Mlp(nn.Module):
    """Each token on its own: D → H, a bend, H → D. With swiglu, `up` holds the gate and the value side by side.

    >>> Mlp(BlockConfig(d_model=8))(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        bias = config.bias if config.mlp_bias is None else config.mlp_bias
        self.activation = config.activation
        self.up = nn.Linear(config.d_model, config.width * (2 if config.activation == "swiglu" else 1), bias=bias)
        self.down = nn.Linear(config.width, config.d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.up(x)
        if self.activation == "swiglu":
            gate, value = hidden.chunk(2, -1)
            hidden = F.silu(gate) * value
        elif self.activation == "relu":
            hidden = F.relu(hidden)
        else:
            hidden = F.gelu(hidden, approximate="tanh" if self.activation == "gelu_tanh" else "none")
        return self.down(hidden)  # type: ignore[no-any-return]


class Block(nn.Module):
    """Self-attention, cross-attention if `cross`, then the MLP; each part's output is added to what went in: E + ΔE.

    Shapes: x (B, L, D) to (B, L, D).

    >>> Block(BlockConfig(d_model=8, heads=2))(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, config: BlockConfig, *, cross: bool = False) -> None:
        super().__init__()
        rotary = config.rotary if config.positions == "rotary" else False
        shape: dict[str, Any] = {
            "kv_heads": config.kv_heads,
            "head_dim": config.head_dim,
            "bias": config.bias if config.qkv_bias is None else config.qkv_bias,
            "out_bias": config.bias if config.out_bias is None else config.out_bias,
            "dropout": config.attention_dropout,
        }
        self.post = config.placement == "post"
        self.dropout = config.dropout
        self.attention_norm = normalise(config)
        self.attention = MultiHeadAttention(config.d_model, config.heads, rotary=rotary, **shape)
        self.cross_norm = normalise(config) if cross else None
        self.cross = MultiHeadAttention(config.d_model, config.heads, **shape) if cross else None
        self.mlp_norm = normalise(config)
        self.mlp = Mlp(config)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask | None = None,
        cache: LayerCache | None = None,
        memory: Tensor | Projected | None = None,
        memory_mask: Mask | None = None,
        watcher: Watcher | None = None,
        cross_watcher: Watcher | None = None,
    ) -> Tensor:
        given = x if self.post else self.attention_norm(x)
        x = self._add(x, _run(self.attention, watcher, given, mask=mask, cache=cache), self.attention_norm)
        if self.cross is not None and self.cross_norm is not None:
            given = x if self.post else self.cross_norm(x)
            x = self._add(x, _run(self.cross, cross_watcher, given, memory=memory, mask=memory_mask), self.cross_norm)
        given = x if self.post else self.mlp_norm(x)
        return self._add(x, self.mlp(given), self.mlp_norm)

    def _add(self, x: Tensor, change: Tensor, norm: nn.Module) -> Tensor:
        total = x + dropout(change, self.dropout, self.training)
        return norm(total) if self.post else total


def _run(layer: MultiHeadAttention, watcher: Watcher | None, x: Tensor, **given: Any) -> Tensor:
    if watcher is None:
        return layer(x, **given)  # type: ignore[no-any-return]
    output, seen = layer.observe(x, readings=watcher.readings, **given)
    watcher.seen.append(seen)
    return output


def normalise(config: BlockConfig) -> nn.Module:
    """The norm a config asks for."""
    if config.norm == "rms":
        return nn.RMSNorm(config.d_model, eps=config.eps)
    return nn.LayerNorm(config.d_model, eps=config.eps, bias=config.bias)


def position_table(config: BlockConfig, context: int) -> Learned | Sinusoidal | None:
    """What is added to the embedding: nothing where positions are rotary or absent."""
    if config.positions == "learned":
        return Learned(context, config.d_model)
    return Sinusoidal(config.d_model) if config.positions == "sinusoidal" else None


def causal_mask(length: int, reach: int | None, *, cached: bool) -> Mask | None:
    """Who the newest `length` tokens may look at. One token sees all its cache holds, which is its window."""
    if length == 1 and cached:
        return None
    return causal() if reach is None else causal() & window(reach - 1, 0)


@torch.no_grad()
def initialise(model: nn.Module, *, std: float, layers: int | None = None) -> None:
    """Normal weights of this spread and zero biases, as GPT-2; maps that add to the residual stream are narrower by √(2·layers)."""
    for name, parameter in model.named_parameters():
        if "norm" in name:
            continue
        if parameter.dim() < 2:
            parameter.zero_()
        elif layers is not None and name.endswith(("out_proj.weight", "mlp.down.weight")):
            parameter.normal_(std=std / (2 * layers) ** 0.5)
        else:
            parameter.normal_(std=std)
