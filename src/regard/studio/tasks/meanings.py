"""Meanings: one word in several sentences, its vector moving apart (or not) through the layers of a model.

Axes: n sentences, l layers, D width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..memory import free_bytes, look_bytes, refuse_above
from ..refusal import Refusal
from .bench import Bench


def meanings(bench: Bench, model: str, word: str, sentences: list[str]) -> dict[str, Any]:
    """The word's vector in each sentence after every layer, in the plane that shows most of how they differ, and their cosines."""
    opened = bench.opened(model)
    stack = _stack(opened.model)
    bench.threads_for(1)
    vectors, pieces = [], []
    for sentence in sentences:
        inputs = opened.encode(sentence)
        tokens, source = opened.tokens(inputs)
        shown, places = _places((source or tokens or [[]])[0], sentence, word)
        refuse_above(free_bytes(), look_bytes(opened.model, len(shown)), "these sentences")
        states = _states(bench, opened, stack, inputs)  # (l + 1) × (L, D)
        vectors.append(torch.stack([state[places].double().mean(0) for state in states]))  # (l + 1, D)
        pieces.append({"tokens": shown, "places": places})
    x = torch.stack(vectors, 1)  # (l + 1, n, D)
    unit = nn.functional.normalize(x, dim=-1)
    cosine = unit @ unit.mT  # (l + 1, n, n)
    # Directions count, not lengths: what layers add differs in size. The plane is that of the last layer's differences, then of all.
    flat = unit - unit.mean(1, keepdim=True)
    _, _, axes = torch.linalg.svd(flat.flatten(0, 1), full_matrices=False)
    plane = (flat @ axes[:2].mT) if len(axes) > 1 else torch.zeros(*flat.shape[:2], 2)
    return {
        "model": model,
        "word": word,
        "sentences": [{"text": text, **piece} for text, piece in zip(sentences, pieces, strict=True)],
        "layers": [[[round(float(c), 5) for c in point] for point in layer] for layer in plane],
        "cosine": [[[round(float(c), 5) for c in row] for row in layer] for layer in cosine],
    }


def _stack(model: nn.Module) -> list[nn.Module]:
    """The layers whose outputs are the word's vectors: the first longest list of like modules (an encoder before its decoder)."""
    stacks = [list(module) for module in model.modules() if isinstance(module, nn.ModuleList) and len({type(one) for one in module}) == 1]
    if not stacks:
        raise Refusal("unseen", f"{type(model).__name__} has no list of layers to read vectors from", name=type(model).__name__)
    return max(stacks, key=len)


def _states(bench: Bench, opened: Any, stack: list[nn.Module], inputs: Any) -> list[Tensor]:
    """What goes into the first layer and what comes out of each: (L, D)."""
    found: list[Tensor] = []

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = args[0] if args else kwargs.get("hidden_states", kwargs.get("x"))
        if isinstance(given, Tensor):
            found.append(given[0].detach())

    def after(module: nn.Module, args: Any, output: Any) -> None:
        made = output[0] if isinstance(output, tuple) else output
        found.append((made[0] if made.dim() == 3 else made).detach())

    hooks = [stack[0].register_forward_pre_hook(before, with_kwargs=True), *(layer.register_forward_hook(after) for layer in stack)]
    try:
        with bench.progress.over(opened.model):
            opened(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _places(tokens: list[str], sentence: str, word: str) -> tuple[list[str], list[int]]:
    """The tokens as people read them, and which of them the word is made of (its last occurrence)."""
    from ...sight.pieces import read_pieces

    pieces = read_pieces(tokens)
    text, where = "", []
    for number, piece in enumerate(pieces):
        written = "" if piece.mark == "*" or (piece.part is not None and piece.part[0] > 1) else piece.text.lower()
        where += [number] * len(written)
        text += written
    begin = text.rfind(word.lower().replace(" ", ""))
    if begin < 0:
        raise Refusal("invalid", f"{word!r} was not found among the model's tokens of {sentence!r}", word=word)
    places = sorted(set(where[begin : begin + len(word.replace(" ", ""))]))
    first, last = places[0], places[-1]
    while last + 1 < len(pieces) and pieces[last + 1].part is not None and (pieces[last + 1].part or (1, 1))[0] > 1:
        last += 1
    return [piece.text for piece in pieces], list(range(first, last + 1))
