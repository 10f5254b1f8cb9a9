"""Where the next token comes from: what every block of a decoder adds to the residual stream, what would be predicted after each, and which
heads and MLPs a logit comes from.

Axes: l layers, L tokens, D model width, V vocabulary, h heads, d head width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ..models.gpt import Gpt
from .effect import evaluation_mode

Kind = Literal["embedding", "head", "attention bias", "mlp", "norm bias"]


class Contribution(NamedTuple):
    """What one part of a model adds to a logit; layer and head are None where there is none."""

    kind: Kind
    layer: int | None
    head: int | None
    value: float


@dataclass(frozen=True, eq=False)
class ResidualPath:
    """One text's way through a decoder.

    states (l + 1, L, D): the stream before the first block and after every block. attention, mlp (l, L, D): what each block added.
    """

    model: Gpt
    ids: Tensor  # (L,)
    states: Tensor
    attention: Tensor
    mlp: Tensor
    mixed: tuple[Tensor, ...]  # per layer (L, h·d): the heads' outputs side by side, before W_O
    logits: Tensor  # (L, V), the model's own

    @torch.no_grad()
    def predictions(self, k: int = 5, positions: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
        """Return the k largest next-token probabilities after every layer and prefix, and their ids: (l + 1, positions, k) each.

        The stream after a layer is read as the last one is: through the final norm and the unembedding ("logit lens", nostalgebraist 2020).
        """
        chosen = list(range(self.states.shape[1])) if positions is None else list(positions)
        tops = [self.model.unembed(self.model.norm(state[chosen])).softmax(-1).topk(k) for state in self.states]
        return torch.stack([top.values for top in tops]), torch.stack([top.indices for top in tops])

    @torch.no_grad()
    def contributions(self, token: int, position: int = -1) -> list[Contribution]:
        """Split the logit of a token after a position exactly: their values sum to it.

        The final norm divides by one number and is linear otherwise, so every part of the stream has its own share of the logit: the
        embedding, each head through its part of W_O, each MLP, and the biases (Elhage et al. 2021, "direct logit attribution").
        """
        direction, bias = self._direction(token, position)

        def share(vector: Tensor) -> float:
            return float(vector.double() @ direction)

        parts = [Contribution("embedding", None, None, share(self.states[0, position]))]
        for layer, mixed in enumerate(self.mixed):
            block: Any = self.model.blocks[layer]
            projection = block.attention.out_proj
            heads = mixed[position].double().view(block.attention.heads, -1)  # (h, d)
            weight = projection.weight.double().view(projection.weight.shape[0], *heads.shape)  # (D, h, d)
            by_head = torch.einsum("hd,Dhd,D->h", heads, weight, direction)
            parts += [Contribution("head", layer, head, float(value)) for head, value in enumerate(by_head)]
            if projection.bias is not None:
                parts.append(Contribution("attention bias", layer, None, share(projection.bias)))
            parts.append(Contribution("mlp", layer, None, share(self.mlp[layer, position])))
        return parts if bias == 0 else [*parts, Contribution("norm bias", None, None, bias)]

    def _direction(self, token: int, position: int) -> tuple[Tensor, float]:
        """Return the vector (D,) whose product with the last state is the logit, and what the norm's bias adds."""
        table = self.model.tokens if self.model.head is None else self.model.head
        unembedding = table.weight[token].double()  # (D,)
        norm: Any = self.model.norm
        state = self.states[-1, position].double()
        gained = unembedding * norm.weight.double()
        if isinstance(norm, nn.LayerNorm):
            centred = gained - gained.mean()  # the norm takes the mean of the state away; taking it from the direction is the same
            deviation = (state.var(correction=0) + norm.eps).sqrt()
            return centred / deviation, 0.0 if norm.bias is None else float(norm.bias.double() @ unembedding)
        eps = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
        return gained / (state.square().mean() + eps).sqrt(), 0.0


@torch.no_grad()
def residual_path(model: nn.Module, ids: Tensor) -> ResidualPath:
    """Run a `Gpt` once on ids (L,) and record its residual stream.

    >>> from regard.models import GptConfig
    >>> model = Gpt(GptConfig(vocabulary=50, d_model=32, heads=2, layers=2, context=16)).eval()
    >>> path = residual_path(model, torch.tensor([3, 1, 4]))
    >>> path.states.shape, path.predictions(k=5)[0].shape
    (torch.Size([3, 3, 32]), torch.Size([3, 3, 5]))
    >>> abs(sum(part.value for part in path.contributions(token=7)) - float(path.logits[-1, 7])) < 1e-5
    True
    """
    if not isinstance(model, Gpt) or model.config.placement != "pre":
        placement = f" with {model.config.placement}-norm layers" if isinstance(model, Gpt) else ""
        raise ValueError(f"model is a {type(model).__name__}{placement}; residual_path needs a Gpt with pre-norm layers")
    states: list[Tensor] = []
    attention: list[Tensor] = []
    mlp: list[Tensor] = []
    mixed: list[Tensor] = []
    hooks = [model.norm.register_forward_pre_hook(lambda module, args: states.append(args[0][0]))]
    for block in model.blocks:
        parts: Any = block
        hooks += [
            block.register_forward_pre_hook(lambda module, args: states.append(args[0][0])),
            parts.attention.out_proj.register_forward_pre_hook(lambda module, args: mixed.append(args[0][0])),
            parts.attention.out_proj.register_forward_hook(lambda module, args, out: attention.append(out[0])),
            parts.mlp.register_forward_hook(lambda module, args, out: mlp.append(out[0])),
        ]
    try:
        with evaluation_mode(model):
            logits = model(ids[None])[0]
    finally:
        for hook in hooks:
            hook.remove()
    return ResidualPath(model, ids, torch.stack(states), torch.stack(attention), torch.stack(mlp), tuple(mixed), logits)
