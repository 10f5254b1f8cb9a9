"""One word in several sentences, its vector moving apart (or not) through the layers of a model.

Axes: n sentences, l layers, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...bench import Bench
from ...memory import free_bytes, look_bytes, refuse_above
from ...refusal import Refusal


def meanings(bench: Bench, model: str, word: str, sentences: list[str]) -> dict[str, Any]:
    """The word's vector in each sentence after every layer, in the plane that shows most of how they differ, and their cosines."""
    bench.threads_for(1)
    vectors, pieces = [], []
    for sentence in sentences:
        module, tokens, read = _reading(bench, model, sentence)
        shown, places = _places(model, tokens, sentence, word)
        refuse_above(free_bytes(), look_bytes(module, len(shown)), "these sentences")
        with bench.progress.over(module):
            states = _states(_stack(module), read)  # (l + 1) × (L, D)
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


def _reading(bench: Bench, model: str, sentence: str) -> tuple[nn.Module, list[str], Callable[[], Any]]:
    """The model, its tokens of a sentence, and how it is made to read them. A translator reads without writing a translation."""
    if bench.library.find(model).kind == "translator":
        translator = bench.translator(model)
        reader: Any = translator.model.eval()
        ids = translator.encode([sentence])[0]
        source, length = torch.tensor([ids]), torch.tensor([len(ids)])
        return reader, [translator.source.piece(i) for i in ids], lambda: reader.encode(source, length)
    opened = bench.opened(model)
    inputs = opened.inputs(sentence)
    tokens, source_tokens = opened.tokens(inputs)
    return opened.model, (source_tokens or tokens or [[]])[0], lambda: opened.run(inputs)


def _stack(model: nn.Module) -> list[nn.Module]:
    """The layers whose outputs are the word's vectors: the longest list of like modules, a translator's encoder before its decoder."""
    lists = [(name, list(module)) for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    stacks = [(name, layers) for name, layers in lists if len({type(layer) for layer in layers}) == 1]
    stacks = [(name, layers) for name, layers in stacks if "encoder" in name.split(".")] or stacks
    if not stacks:
        raise Refusal("unseen", f"{type(model).__name__} has no list of layers to read vectors from", name=type(model).__name__)
    return max((layers for _, layers in stacks), key=len)


def _states(stack: list[nn.Module], read: Callable[[], Any]) -> list[Tensor]:
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
        read()
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _places(name: str, tokens: list[str], sentence: str, word: str) -> tuple[list[str], list[int]]:
    """The tokens as people read them, and which of them the word is made of (its last occurrence)."""
    from ....sight.views.token_display import display_tokens

    pieces = display_tokens(tokens)
    text, where = "", []
    for number, piece in enumerate(pieces):
        written = "" if piece.mark == "*" or (piece.part is not None and piece.part[0] > 1) else piece.text.lower()
        where += [number] * len(written)
        text += written
    begin = text.rfind(word.lower().replace(" ", ""))
    if begin < 0:
        raise Refusal(
            "no_word", f"{word!r} was not found among the tokens {name} has of {sentence!r}", name=name, word=word, sentence=sentence
        )
    places = sorted(set(where[begin : begin + len(word.replace(" ", ""))]))
    first, last = places[0], places[-1]
    while last + 1 < len(pieces) and pieces[last + 1].part is not None and (pieces[last + 1].part or (1, 1))[0] > 1:
        last += 1
    return [piece.text for piece in pieces], list(range(first, last + 1))
