"""Sample the next token from its logits."""

import torch
from torch import Tensor

__all__ = ["next_distribution", "next_token"]

_COLDEST = 1e-6


def next_distribution(logits: Tensor, *, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None) -> Tensor:
    """Compute the probabilities the next token is drawn with: logits (…, V) to probabilities (…, V), 0 for tokens that are left out.

    temperature  divides the logits; 0 puts all probability on the most likely token
    top_k        only the k most likely tokens
    top_p        only the smallest set of tokens whose probabilities sum to p or more (nucleus sampling)

    >>> next_distribution(torch.tensor([2.0, 1.0, 0.0]), top_k=2).tolist()
    [0.73..., 0.26..., 0.0]
    """
    ranked, order = _ranked(logits, temperature, top_k, top_p)
    return torch.zeros_like(logits, dtype=ranked.dtype).scatter(-1, order, ranked / ranked.sum(-1, keepdim=True))


def next_token(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Sample one token per row: logits (…, V) to ids (…).

    logits: scores of the next token, (…, V).
    temperature: divides the logits; 0 (or less than 1e-6, where they would overflow) returns the most likely token
    top_k: sample among the k most likely tokens only
    top_p: sample among the smallest set of tokens whose probabilities sum to p or more (nucleus sampling)
    generator: source of the random numbers

    Returns ids, (…).

    >>> next_token(torch.tensor([[0.0, 3.0, 1.0]]), temperature=0)
    tensor([1])
    >>> next_token(torch.tensor([[0.0, 3.0, 1.0]]), top_p=0.5)
    tensor([1])
    """
    if temperature < _COLDEST:
        _check(temperature, top_k, top_p)
        return logits.argmax(-1)
    probabilities, order = _ranked(logits, temperature, top_k, top_p)
    rank = torch.multinomial(probabilities.view(-1, probabilities.shape[-1]), 1, generator=generator)
    return order.gather(-1, rank.view(*probabilities.shape[:-1], 1))[..., 0]


def _check(temperature: float, top_k: int | None, top_p: float | None) -> None:
    if not temperature >= 0:
        raise ValueError(f"temperature is {temperature}; expected 0 (the most likely token) or more")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k is {top_k}; expected 1 or more (how many of the most likely tokens to keep)")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p is {top_p}; expected a probability above 0 and at most 1")


def _ranked(logits: Tensor, temperature: float, top_k: int | None, top_p: float | None) -> tuple[Tensor, Tensor]:
    """Return the probabilities of the tokens, most likely first, and their ids. Those outside the nucleus are 0; they need not sum to 1."""
    _check(temperature, top_k, top_p)
    if temperature < _COLDEST:
        return torch.ones_like(logits[..., :1], dtype=torch.float32), logits.argmax(-1, keepdim=True)
    ranked, order = (logits.float() / temperature).sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        ranked, order = ranked[..., :top_k], order[..., :top_k]
    probabilities = ranked.softmax(-1)
    if top_p is not None:
        preceding = probabilities.cumsum(-1) - probabilities  # total probability of the more likely tokens
        probabilities = probabilities.masked_fill(preceding >= top_p, 0.0)
    return probabilities, order
