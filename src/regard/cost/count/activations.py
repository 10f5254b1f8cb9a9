"""Bytes that come and go: what stands in memory while a model runs, and what autograd keeps for the way back.

Counted tensor by tensor as PyTorch's eager mode holds them, without dropout. `dense` attention is the textbook's
(the N×N weights stand in memory), `fused` torch's own kernel, `streamed` ours.
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

# Numbers of the MLP's width kept for the backward pass, and alive at once in the forward pass, one activation and MLP form each.
# gelu_new is written out in Python by transformers, step by step, and every step is a tensor; relu's output is all it needs.
_KEPT = {"relu": 1, "gelu": 2, "gelu_new": 5}
_ALIVE = {"relu": 2, "gelu": 2, "gelu_new": 4}


class _Sizes:
    """Sizes of the tensors of a run, in bytes for the whole batch."""

    def __init__(self, a: Architecture, work: Workload, tokens: int) -> None:
        s = Symbols(a)
        self.a, self.bytes = a, symbol("bytes", dtype_bytes(work.dtype))
        narrow = dtype_bytes(work.dtype) < 4
        self.wide = quantity(4) if narrow else self.bytes  # RMSNorm and the loss are computed in float32 at least
        self.widened = narrow and a.wide_softmax
        self.batch, self.n = symbol("batch", work.batch), symbol("N", tokens)
        self.rows = self.batch * self.n  # tokens of the batch
        self.d, self.mlp, self.vocabulary = s.d, s.mlp, s.vocabulary
        self.query, self.out = s.head_dim * s.heads, s.value_dim * s.heads
        self.key, self.value = s.head_dim * s.kv_heads, s.value_dim * s.kv_heads
        self.repeated = s.head_dim * s.heads + s.value_dim * s.heads
        self.grouped = a.kv_heads != a.heads
        self.scores = self.batch * s.heads * self.n * self.n
        self.layers = symbol("layers", a.layers + a.encoder_layers)

    def per_token(self, width: Quantity) -> Quantity:
        return self.rows * width * self.bytes

    def tiles(self, *, train: bool) -> Quantity:
        """Working space of the streamed kernel."""
        return workspace(int(self.batch.value), self.a.heads, int(self.n.value), self.a.head_dim, train=train)

    def norm(self) -> Quantity:
        """A norm keeps its input and its output; RMSNorm, not fused, also the input over its root mean square."""
        if self.a.norm == "gain":
            return self.rows * self.d * self.wide + 2 * self.per_token(self.d)
        return 2 * self.per_token(self.d)

    def held(self) -> Quantity:
        """Embeddings that stay alive; that of the positions is the same for the whole batch."""
        first = self.per_token(self.d) if self.a.held_embeddings else Quantity()
        return first + (self.n * self.d * self.bytes if self.a.held_embeddings > 1 else Quantity())

    def mlp_kept(self) -> Quantity:
        a = self.a
        kept = _KEPT.get(a.activation, 2) + (2 if a.gated else 0)
        if not a.experts:
            return self.per_token(kept * self.mlp)
        active, inner = symbol("active_experts", a.active_experts), symbol("d_expert", a.expert_width)
        shared = symbol("d_shared", a.shared_width) if a.shared_width else Quantity()
        # The tokens are gathered for their experts, and what those answer is weighed: two rows of the model's width an expert.
        return self.per_token(kept * active * inner + 2 * active * self.d + kept * shared)

    def attention_kept(self, attention: Attention) -> Quantity:
        """Query, key, value and output; the weights too when the attention is dense."""
        joined = self.a.joined_projection and self.a.position == "rotary" and attention != "dense"
        normed = 2 * (self.query + self.key) if self.a.query_key_norm != "none" else Quantity()
        turned = self.query + self.key if joined else Quantity()  # beside the projection's own output, which the value keeps alive
        if attention == "dense":
            pairs = self.repeated if self.grouped else self.key + self.value
            saved = self.scores * (self.bytes + self.wide if self.widened else self.bytes)
            if self.a.softcap:
                saved = saved + self.scores * self.bytes
            return self.per_token(self.query + pairs + self.out + normed + turned) + saved
        copies = 2 if attention == "streamed" else 1  # heads first for the backward pass, tokens first for the output map
        return self.per_token(self.query + self.key + self.value + copies * self.out + normed + turned)


def inference_activations(a: Architecture, work: Workload, attention: Attention) -> Quantity:
    """The most that stands beside the weights and the cache while a prompt is read: in the attention or in the MLP."""
    z = _Sizes(a, work, work.tokens(a))
    projected = z.query + z.key + z.value
    if a.position == "rotary" and a.joined_projection:
        projected = projected + z.query + z.key
    stream = z.d if a.norm_place == "after" else 2 * z.d  # what goes in, and what the norm makes of it
    if attention == "dense":
        repeated = z.repeated if z.grouped else Quantity()
        mask = z.batch * z.n * z.n * z.bytes if a.causal else Quantity()
        pairs = z.scores * (z.bytes + 2 * z.wide) if z.widened else 2 * z.scores * z.bytes
        attending = z.per_token(stream + projected + repeated) + pairs + mask
        lasting = z.scores * z.bytes + mask  # the weights are handed back, and stand until the layer ends
    else:
        attending = z.per_token(stream + projected + z.out) + (z.tiles(train=False) if attention == "streamed" else Quantity())
        lasting = Quantity()
    alive = _ALIVE.get(a.activation, 2) + (0 if not a.gated else 2 if a.joined_projection or a.experts else 1)
    inner = z.per_token(alive * z.mlp)
    if a.experts:
        active = symbol("active_experts", a.active_experts)
        inner = z.per_token(alive * active * symbol("d_expert", a.expert_width) + 2 * active * z.d)
    return z.held() + largest(attending, z.per_token(3 * z.d) + inner + lasting)


def training_activations(a: Architecture, work: Workload, attention: Attention) -> dict[str, Quantity]:
    """What autograd keeps, and the most that stands beside it at one moment of the backward pass; their sum is the peak."""
    z = _Sizes(a, work, work.tokens(a))
    norms = (a.norms + (1 if a.encoder_layers else 0)) * z.norm()
    mlp = z.mlp_kept()
    layer = norms + z.attention_kept(attention) + mlp
    ends = (z.norm() if a.final_norm else Quantity()) + (z.norm() if a.embedding_norm else Quantity())
    if a.head == "masked":
        ends = ends + z.norm() + 2 * z.per_token(z.d)
    logits = 3 * z.rows * z.vocabulary * z.wide if a.head != "none" else Quantity()  # log-probabilities and two gradients
    if attention == "dense":
        turning = 2 * z.scores * (z.wide if z.widened else z.bytes)  # gradients of the weights and of the scores
    else:
        turning = z.tiles(train=True) if attention == "streamed" else Quantity()
    spent = mlp + z.norm()  # gone when the layer's attention is reached
    bending = z.per_token(2 * z.mlp if a.activation == "gelu_new" else z.mlp + z.d)  # gradients inside the MLP
    backward = largest(bending, turning - spent) if turning.value > spent.value else bending
    if work.checkpointing:
        return {
            "kept for the backward pass": z.layers * z.per_token(z.d) + ends,
            "at the peak beside it": largest(logits, layer + backward),
        }
    return {"kept for the backward pass": z.layers * layer + ends, "at the peak beside it": largest(logits, backward)}


def attention_bytes(kernel: Literal["dense", "streamed"], step: Step, heads: int, head_dim: int, *, train: bool = False) -> Quantity:
    """The most one causal attention call in float32 needs beside query, key and value; with its backward pass if `train`.

    >>> step = Step(batch=1, new=1024, seen=1024, logits=0)
    >>> print(attention_bytes("dense", step, heads=8, head_dim=64))
    8 · batch · heads · N · N + N · N = 8 · 1 · 8 · 1,024 · 1,024 + 1,024 · 1,024 = 68,157,440
    """
    batch, n, h = step.count("batch"), step.count("seen"), symbol("heads", heads)
    scores = batch * h * n * n
    rows = 4 * batch * h * n * symbol("d_head", head_dim)
    if kernel == "dense":  # scores and weights (and a gradient), the mask, and on the way back output, its gradient and one more
        return 4 * (3 if train else 2) * scores + n * n + (3 * rows if train else Quantity())
    return (5 if train else 1) * rows + 4 * batch * h * n + workspace(step.batch, heads, step.seen, head_dim, train=train)


def workspace(batch: int, heads: int, tokens: int, head_dim: int, *, train: bool) -> Quantity:
    """A few tiles of scores in float32: two, three once the keys fill several, and six on the way back.

    The tile is cut as `regard.kernels.tiles.Tiles` does: nearly square, a fixed number of entries over batch and heads.
    """
    from regard.kernels.tiles import TILE

    entries = max(1, TILE // (batch * heads))
    side = 1 << max(4, (entries.bit_length() - 1) // 2)
    rows = max(1, min(tokens, max(side, entries // tokens)))
    columns = max(1, min(tokens, max(16, entries // rows)))
    tile = symbol("tile", batch * heads * rows * columns)
    if train:
        return 24 * tile
    # The tile before stays while the next is made, which may be a narrow one at the edge.
    count = min(Fraction(3), max(Fraction(2), 1 + Fraction(2 * (tokens - columns), columns)))
    return 4 * count * tile + 4 * symbol("block", batch * heads * rows * head_dim)
