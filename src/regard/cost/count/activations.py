"""Activation memory: temporary tensors of the forward pass, and what autograd keeps for the backward pass.

Counted tensor by tensor as in PyTorch's eager mode, without dropout. `dense` attention has the N×N weights in memory, `fused` is
torch's kernel, `streamed` is regard's.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from regard.cost.count.flops import Step
from regard.cost.count.weights import Symbols
from regard.cost.quantity import Quantity, largest, quantity, symbol
from regard.cost.workload import Workload, dtype_bytes
from regard.models.published.architecture import Architecture

Attention = Literal["dense", "fused", "streamed"]

# How many tensors of the MLP's width are kept for the backward pass, and are alive at once in the forward pass, by activation.
# transformers writes gelu_new as several Python operations, each of which creates a tensor; relu needs its output only.
_KEPT = {"relu": 1, "gelu": 2, "gelu_new": 5}
_ALIVE = {"relu": 2, "gelu": 2, "gelu_new": 4}

TILE = 1 << 20  # regard.kernels.tiles.TILE (a test compares them), which is not imported because it needs torch


class _Sizes:
    """Sizes of the tensors of a step, for the whole batch."""

    def __init__(self, a: Architecture, work: Workload, tokens: int) -> None:
        s = Symbols(a)
        self.a, self.bytes = a, symbol("bytes", dtype_bytes(work.dtype))
        half_precision = dtype_bytes(work.dtype) < 4
        self.float32 = quantity(4) if half_precision else self.bytes  # RMSNorm and the loss are computed in float32 at least
        self.softmax_in_float32 = half_precision and a.wide_softmax
        self.batch, self.n = symbol("batch", work.batch), symbol("N", tokens)
        self.rows = self.batch * self.n  # tokens of the batch
        self.d, self.mlp, self.vocabulary = s.d, s.mlp, s.vocabulary
        self.query, self.out = s.head_dim * s.heads, s.value_dim * s.heads
        self.key, self.value = s.head_dim * s.kv_heads, s.value_dim * s.kv_heads
        self.repeated = s.head_dim * s.heads + s.value_dim * s.heads  # keys and values repeated to all heads
        self.grouped = a.kv_heads != a.heads
        self.scores = self.batch * s.heads * self.n * self.n
        self.layers = symbol("layers", a.layers + a.encoder_layers)

    def per_token(self, width: Quantity) -> Quantity:
        """Return the bytes of a tensor with `width` numbers per token."""
        return self.rows * width * self.bytes

    def tiles(self, *, train: bool) -> Quantity:
        """Return the bytes of the streamed kernel's workspace."""
        return workspace(int(self.batch.value), self.a.heads, int(self.n.value), self.a.head_dim, train=train)

    def norm(self) -> Quantity:
        """Return the bytes a norm keeps: its input and output; an unfused RMSNorm also the normalised input."""
        if self.a.norm == "gain":
            return self.rows * self.d * self.float32 + 2 * self.per_token(self.d)
        return 2 * self.per_token(self.d)

    def embeddings(self) -> Quantity:
        """Return the bytes of embeddings that stay in memory; position embeddings are the same for the whole batch."""
        tokens = self.per_token(self.d) if self.a.held_embeddings else Quantity()
        return tokens + (self.n * self.d * self.bytes if self.a.held_embeddings > 1 else Quantity())

    def mlp_kept(self) -> Quantity:
        """Return the bytes that the MLP of a layer keeps for the backward pass."""
        a = self.a
        kept = _KEPT.get(a.activation, 2) + (2 if a.gated else 0)
        if not a.experts:
            return self.per_token(kept * self.mlp)
        active, inner = symbol("active_experts", a.active_experts), symbol("d_expert", a.expert_width)
        shared = symbol("d_shared", a.shared_width) if a.shared_width else Quantity()
        # Each active expert keeps its gathered input and its output before weighting, both of the model's width.
        return self.per_token(kept * active * inner + 2 * active * self.d + kept * shared)

    def attention_kept(self, attention: Attention) -> Quantity:
        """Return the bytes that attention keeps for the backward pass: query, key, value, output; if dense, the weights too."""
        joined = self.a.joined_projection and self.a.position == "rotary" and attention != "dense"
        normed = 2 * (self.query + self.key) if self.a.query_key_norm != "none" else Quantity()
        # Rotary positions copy query and key, while the value keeps the joint projection's output alive.
        rotated = self.query + self.key if joined else Quantity()
        if attention == "dense":
            key_value = self.repeated if self.grouped else self.key + self.value
            weights = self.scores * (self.bytes + self.float32 if self.softmax_in_float32 else self.bytes)
            if self.a.softcap:
                weights = weights + self.scores * self.bytes
            return self.per_token(self.query + key_value + self.out + normed + rotated) + weights
        copies = 2 if attention == "streamed" else 1  # (B, h, N, d) for the backward pass, (B, N, h, d) for the output projection
        return self.per_token(self.query + self.key + self.value + copies * self.out + normed + rotated)


def inference_activations(a: Architecture, work: Workload, attention: Attention) -> Quantity:
    """Return the peak of temporary tensors while a prompt is processed, beside weights and cache: in attention or in the MLP."""
    z = _Sizes(a, work, work.tokens(a))
    projected = z.query + z.key + z.value
    if a.position == "rotary" and a.joined_projection:
        projected = projected + z.query + z.key
    inputs = z.d if a.norm_place == "after" else 2 * z.d  # the layer's input, and with a norm before attention its output
    if attention == "dense":
        repeated = z.repeated if z.grouped else Quantity()
        mask = z.batch * z.n * z.n * z.bytes if a.causal else Quantity()
        weights = z.scores * (z.bytes + 2 * z.float32) if z.softmax_in_float32 else 2 * z.scores * z.bytes
        in_attention = z.per_token(inputs + projected + repeated) + weights + mask
        during_mlp = z.scores * z.bytes + mask  # eager attention returns its weights, which live until the layer ends
    else:
        in_attention = z.per_token(inputs + projected + z.out) + (z.tiles(train=False) if attention == "streamed" else Quantity())
        during_mlp = Quantity()
    alive = _ALIVE.get(a.activation, 2) + (0 if not a.gated else 2 if a.joined_projection or a.experts else 1)
    mlp = z.per_token(alive * z.mlp)
    if a.experts:
        active = symbol("active_experts", a.active_experts)
        mlp = z.per_token(alive * active * symbol("d_expert", a.expert_width) + 2 * active * z.d)
    return z.embeddings() + largest(in_attention, z.per_token(3 * z.d) + mlp + during_mlp)


def training_activations(a: Architecture, work: Workload, attention: Attention) -> dict[str, Quantity]:
    """Return the bytes that autograd keeps, and the peak of temporary tensors in the backward pass; their sum is the peak."""
    z = _Sizes(a, work, work.tokens(a))
    norms = (a.norms + (1 if a.encoder_layers else 0)) * z.norm()
    mlp = z.mlp_kept()
    layer = norms + z.attention_kept(attention) + mlp
    outside_layers = (z.norm() if a.final_norm else Quantity()) + (z.norm() if a.embedding_norm else Quantity())
    if a.head == "masked":
        outside_layers = outside_layers + z.norm() + 2 * z.per_token(z.d)
    logits = 3 * z.rows * z.vocabulary * z.float32 if a.head != "none" else Quantity()  # log-probabilities and two gradients
    if attention == "dense":
        attention_backward = 2 * z.scores * (z.float32 if z.softmax_in_float32 else z.bytes)  # gradients of weights and scores
    else:
        attention_backward = z.tiles(train=True) if attention == "streamed" else Quantity()
    freed = mlp + z.norm()  # kept by the MLP, and freed before the backward pass reaches the layer's attention
    mlp_backward = z.per_token(2 * z.mlp if a.activation == "gelu_new" else z.mlp + z.d)  # gradients inside the MLP
    backward = largest(mlp_backward, attention_backward - freed) if attention_backward.value > freed.value else mlp_backward
    if work.checkpointing:
        return {
            "kept for the backward pass": z.layers * z.per_token(z.d) + outside_layers,
            "at the peak beside it": largest(logits, layer + backward),
        }
    return {"kept for the backward pass": z.layers * layer + outside_layers, "at the peak beside it": largest(logits, backward)}


def attention_bytes(kernel: Literal["dense", "streamed"], step: Step, heads: int, head_dim: int, *, train: bool = False) -> Quantity:
    """Return the peak bytes of one causal attention call in float32 beside its inputs; with its backward pass if `train`.

    >>> step = Step(batch=1, new=1024, context=1024, logits=0)
    >>> print(attention_bytes("dense", step, heads=8, head_dim=64))
    8 · batch · heads · N · N + N · N = 8 · 1 · 8 · 1,024 · 1,024 + 1,024 · 1,024 = 68,157,440
    """
    batch, n, h = step.count("batch"), step.count("context"), symbol("heads", heads)
    scores = batch * h * n * n
    rows = 4 * batch * h * n * symbol("d_head", head_dim)
    if kernel == "dense":  # scores and weights (and a gradient), the mask; backward: output, its gradient and one more
        return 4 * (3 if train else 2) * scores + n * n + (3 * rows if train else Quantity())
    return (5 if train else 1) * rows + 4 * batch * h * n + workspace(step.batch, heads, step.context, head_dim, train=train)


def workspace(batch: int, heads: int, tokens: int, head_dim: int, *, train: bool) -> Quantity:
    """Return the bytes of the streamed kernel's tiles of scores in float32: two, three with several tiles per row, six backward.

    The tile has the shape that `regard.kernels.tiles.Tiles` chooses: nearly square, a fixed number of entries over batch and heads.
    """
    entries = max(1, TILE // (batch * heads))
    side = 1 << max(4, (entries.bit_length() - 1) // 2)
    rows = max(1, min(tokens, max(side, entries // tokens)))
    columns = max(1, min(tokens, max(16, entries // rows)))
    tile = symbol("tile", batch * heads * rows * columns)
    if train:
        return 24 * tile
    # A tile is freed after the next one is computed, which may be narrow at the edge.
    count = min(Fraction(3), max(Fraction(2), 1 + Fraction(2 * (tokens - columns), columns)))
    return 4 * count * tile + 4 * symbol("block", batch * heads * rows * head_dim)
