"""Sightings for the tests of views: small models, run and watched."""

from __future__ import annotations

import dataclasses

import torch

from regard.models import Gpt, GptConfig, Transformer, TransformerConfig
from regard.readings import Pooled, Reading, TopK
from regard.sight.sighting import Sighting
from regard.sight.watch import default_readings, watch

WORDS = ["<s>", *("▁" + word for word in ["The", "FBI", "is", "chasing", "a", "criminal", "on", "the", "run", "."])]


def sharp(model: torch.nn.Module) -> torch.nn.Module:
    """Scale up the attention projections: an untrained model's attention is nearly uniform otherwise."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "attention" in name and parameter.dim() == 2:
                parameter.mul_(9)
    return model.eval()


def watched(
    tokens: list[str] = WORDS,
    *,
    layers: int = 2,
    heads: int = 4,
    readings: list[Reading] | None = None,
    keep: bool = True,
    labels: bool = True,
) -> Sighting:
    """Watch a causal model on these tokens."""
    torch.manual_seed(0)
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    config = GptConfig(
        vocabulary=len(vocabulary) + 2, d_model=8 * heads, heads=heads, layers=layers, context=max(len(tokens), 2), positions="rotary"
    )
    model = sharp(Gpt(config))
    with torch.no_grad():
        model.tokens.weight.mul_(20)
    ids = torch.tensor([[vocabulary[token] for token in tokens]])
    with torch.no_grad(), watch(model, readings=readings, tokens=[list(tokens)], keep=keep) as seen:
        model(ids)
    if labels:
        head_labels = {0: [("previous token", 0.91), ("sink", 0.5)], 1: [("induction", 0.75)]}
        seen._all = [dataclasses.replace(one, labels=head_labels if one.layer == 1 else {}) for one in seen]
    return seen


def long(length: int, *, k: int = 2, side: int = 64, layers: int = 2, heads: int = 2, keep: bool = False) -> Sighting:
    """Watch a model on a text too long to keep its weights: numbered words, and one that repeats."""
    tokens = ["▁needle" if i % 97 == 13 else f"▁w{i}" for i in range(length)]
    readings = [r for r in default_readings() if r.name not in ("top", "pooled")] + [TopK(k), Pooled(side, side)]
    return watched(tokens, layers=layers, heads=heads, readings=readings, keep=keep, labels=False)


def translated() -> Sighting:
    """Watch an encoder–decoder: encoder, decoder and cross-attention."""
    torch.manual_seed(1)
    model = sharp(
        Transformer(TransformerConfig(source_vocabulary=9, target_vocabulary=9, d_model=16, heads=2, encoder_layers=1, decoder_layers=1))
    )
    with torch.no_grad(), watch(model) as seen:
        model(torch.tensor([[5, 6, 7, 8]]), torch.tensor([4]), torch.tensor([[1, 5, 6]]))
    seen.source_tokens, seen.tokens = [["我", "爱", "中", "国"]], [["<s>", "▁I", "▁love"]]
    return seen
