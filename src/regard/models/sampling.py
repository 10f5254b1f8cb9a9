"""Draw the next token from its logits."""

import torch
from torch import Tensor

__all__ = ["next_token"]


def next_token(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """One token per row: (…, V) to (…).

    temperature 0 takes the likeliest. `top_k` keeps the k likeliest; `top_p` the fewest whose probabilities reach p (at least one).

    >>> next_token(torch.tensor([[0.0, 3.0, 1.0]]), temperature=0)
    tensor([1])
    >>> next_token(torch.tensor([[0.0, 3.0, 1.0]]), top_p=0.5)
    tensor([1])
    """
    if temperature < 0:
        raise ValueError(f"temperature must be 0 (the likeliest token) or above; it is {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k keeps the k likeliest tokens and must be 1 or more; it is {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p is a probability to reach, above 0 and at most 1; it is {top_p}")
    if temperature == 0:
        return logits.argmax(-1)
    ranked, order = (logits.float() / temperature).sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        ranked, order = ranked[..., :top_k], order[..., :top_k]
    probability = ranked.softmax(-1)
    if top_p is not None:
        before = probability.cumsum(-1) - probability
        probability = probability.masked_fill(before >= top_p, 0.0)
    pick = torch.multinomial(probability.view(-1, probability.shape[-1]), 1, generator=generator)
    return order.gather(-1, pick.view(*probability.shape[:-1], 1))[..., 0]
