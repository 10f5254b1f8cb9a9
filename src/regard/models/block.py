"""The Transformer block, attention and MLP, with options that make it the block of GPT-2, Llama, BERT or the translator.

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
from regard.limits import check_fields
from regard.masks import Mask, causal, window
from regard.readings import Reading

__all__ = ["Block", "BlockConfig", "Mlp", "Recorder", "causal_mask", "init_weights", "norm_layer", "position_table"]


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """Options of a Transformer block. A sublayer is self-attention, cross-attention or the MLP.

    d_model: width of the vectors between the sublayers.
    heads: query heads.
    kv_heads: key-value heads, each shared by heads / kv_heads query heads; None: as many as heads.
    head_dim: width of a head; None: d_model / heads.
    hidden: MLP width; None: 4·d_model, or ⅔ of that rounded up to a multiple of 64 for swiglu (which has three matrices).
    norm: "layer" for LayerNorm, "rms" for RMSNorm.
    placement: "pre" normalises the input of a sublayer, "post" the sum of its input and output.
    eps: added to the variance by the norms.
    activation: of the MLP: "gelu", "gelu_tanh" (its approximation), "relu" or "swiglu".
    positions: "learned", "sinusoidal", "rotary" or "none".
    rotary: options of rotary positions.
    bias: of every linear layer and LayerNorm.
    qkv_bias, out_bias, mlp_bias: override it for the projections into attention, out of it, and the MLP.
    dropout: on the output of every sublayer, and on the embedding.
    attention_dropout: on the attention weights.
    window: sliding window: a token sees itself and the window − 1 tokens before it.
    window_layers: the layers that have the window; None: all.

    >>> BlockConfig(d_model=64, heads=8).placement
    'pre'
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
        check_fields(self, may_be_zero=("types",), indices=("align_layer",))

    @property
    def width(self) -> int:
        """The hidden width of the MLP."""
        if self.hidden is not None:
            return self.hidden
        return -(-8 * self.d_model // 3 // 64) * 64 if self.activation == "swiglu" else 4 * self.d_model

    def window_of(self, layer: int) -> int | None:
        """Return the sliding window of a layer, or None if it has none."""
        return self.window if self.window_layers is None or layer in self.window_layers else None


@dataclass
class Recorder:
    """Collects the readings of every attention layer during one forward pass, in execution order. No module keeps a reference to it."""

    readings: Sequence[Reading] = ()
    attended: list[Attended] = field(default_factory=list)


class Mlp(nn.Module):
    """The position-wise feed-forward network: D → H, an activation, H → D.

    With swiglu, `up` holds the gate and the value projections stacked.

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
    """Self-attention, cross-attention if `cross`, then the MLP, each with a residual connection.

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
        self.attention_norm = norm_layer(config)
        self.attention = MultiHeadAttention(config.d_model, config.heads, rotary=rotary, **shape)
        self.cross_norm = norm_layer(config) if cross else None
        self.cross = MultiHeadAttention(config.d_model, config.heads, **shape) if cross else None
        self.mlp_norm = norm_layer(config)
        self.mlp = Mlp(config)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask | None = None,
        cache: LayerCache | None = None,
        memory: Tensor | Projected | None = None,
        memory_mask: Mask | None = None,
        recorder: Recorder | None = None,
        cross_recorder: Recorder | None = None,
    ) -> Tensor:
        inner = x if self.post else self.attention_norm(x)
        x = self._residual(x, _run(self.attention, recorder, inner, mask=mask, cache=cache), self.attention_norm)
        if self.cross is not None and self.cross_norm is not None:
            inner = x if self.post else self.cross_norm(x)
            x = self._residual(x, _run(self.cross, cross_recorder, inner, memory=memory, mask=memory_mask), self.cross_norm)
        inner = x if self.post else self.mlp_norm(x)
        return self._residual(x, self.mlp(inner), self.mlp_norm)

    def _residual(self, x: Tensor, output: Tensor, norm: nn.Module) -> Tensor:
        total = x + dropout(output, self.dropout, self.training)
        return norm(total) if self.post else total


def _run(layer: MultiHeadAttention, recorder: Recorder | None, x: Tensor, **arguments: Any) -> Tensor:
    if recorder is None:
        return layer(x, **arguments)  # type: ignore[no-any-return]
    output, attended = layer.observe(x, readings=recorder.readings, **arguments)
    recorder.attended.append(attended)
    return output


def norm_layer(config: BlockConfig) -> nn.Module:
    """Return the normalisation layer of a config: RMSNorm or LayerNorm."""
    if config.norm == "rms":
        return nn.RMSNorm(config.d_model, eps=config.eps)
    return nn.LayerNorm(config.d_model, eps=config.eps, bias=config.bias)


def position_table(config: BlockConfig, context: int) -> Learned | Sinusoidal | None:
    """Return the layer that adds positions to the embedding, or None where positions are rotary or absent."""
    if config.positions == "learned":
        return Learned(context, config.d_model)
    return Sinusoidal(config.d_model) if config.positions == "sinusoidal" else None


def causal_mask(length: int, window_size: int | None, *, cached: bool) -> Mask | None:
    """Return the mask of the newest `length` tokens. A single token needs none: its cache holds exactly its window."""
    if length == 1 and cached:
        return None
    return causal() if window_size is None else causal() & window(window_size - 1, 0)


@torch.no_grad()
def init_weights(model: nn.Module, *, std: float, layers: int | None = None) -> None:
    """Initialise as GPT-2 does: normal weights with this standard deviation, zero biases.

    With `layers`, the projections that write to the residual stream get std / √(2·layers).
    """
    for name, parameter in model.named_parameters():
        if "norm" in name:
            continue
        if parameter.dim() < 2:
            parameter.zero_()
        elif layers is not None and name.endswith(("out_proj.weight", "mlp.down.weight")):
            parameter.normal_(std=std / (2 * layers) ** 0.5)
        else:
            parameter.normal_(std=std)
