"""Sample the next token from its logits."""

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
    """Sample one token per row: logits (…, V) to ids (…).

    temperature  divides the logits; 0 returns the most likely token
    top_k        sample among the k most likely tokens only
    top_p        sample among the smallest set of tokens whose probabilities sum to p or more (nucleus sampling)

    >>> next_token(torch.tensor([[0.0, 3.0, 1.0]]), temperature=0)
    tensor([1])
    >>> next_token(torch.tensor([[0.0, 3.0, 1.0]]), top_p=0.5)
    tensor([1])
    """
    if temperature < 0:
        raise ValueError(f"temperature is {temperature}; expected 0 (the most likely token) or more")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k is {top_k}; expected 1 or more (how many of the most likely tokens to keep)")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p is {top_p}; expected a probability above 0 and at most 1")
    if temperature == 0:
        return logits.argmax(-1)
    ranked, order = (logits.float() / temperature).sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        ranked, order = ranked[..., :top_k], order[..., :top_k]
    probabilities = ranked.softmax(-1)
    if top_p is not None:
        preceding = probabilities.cumsum(-1) - probabilities  # total probability of the more likely tokens
        probabilities = probabilities.masked_fill(preceding >= top_p, 0.0)
    rank = torch.multinomial(probabilities.view(-1, probabilities.shape[-1]), 1, generator=generator)
    return order.gather(-1, rank.view(*probabilities.shape[:-1], 1))[..., 0]
