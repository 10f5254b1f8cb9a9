"""The vectors of one word in several sentences, layer by layer.

Axes: n sentences, l layers, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...memory import check_memory, free_bytes, inspection_bytes
from ...request_error import RequestError
from ...worker_state import WorkerState


def meanings(state: WorkerState, model: str, word: str, sentences: list[str]) -> dict[str, Any]:
    """The word's vector in each sentence after every layer, projected on the plane of greatest variance, and the cosines between them."""
    state.set_threads(1)
    vectors, pieces = [], []
    for sentence in sentences:
        module, tokens, run = _prepare(state, model, sentence)
        texts, positions = _find_word(model, tokens, sentence, word)
        check_memory(free_bytes(), inspection_bytes(module, len(texts)), "these sentences")
        with state.progress.follow(module):
            states = _states(_layers(module), run)  # (l + 1) × (L, D)
        vectors.append(torch.stack([hidden[positions].double().mean(0) for hidden in states]))  # (l + 1, D)
        pieces.append({"tokens": texts, "places": positions})
    x = torch.stack(vectors, 1)  # (l + 1, n, D)
    unit = nn.functional.normalize(x, dim=-1)
    cosine = unit @ unit.mT  # (l + 1, n, n)
    # Directions are compared, not lengths, which grow from layer to layer.
    centred = unit - unit.mean(1, keepdim=True)
    _, _, axes = torch.linalg.svd(centred.flatten(0, 1), full_matrices=False)
    plane = (centred @ axes[:2].mT) if len(axes) > 1 else torch.zeros(*centred.shape[:2], 2)
    return {
        "model": model,
        "word": word,
        "sentences": [{"text": text, **piece} for text, piece in zip(sentences, pieces, strict=True)],
        "layers": [[[round(float(c), 5) for c in point] for point in layer] for layer in plane],
        "cosine": [[[round(float(c), 5) for c in row] for row in layer] for layer in cosine],
    }


def _prepare(state: WorkerState, model: str, sentence: str) -> tuple[nn.Module, list[str], Callable[[], Any]]:
    """The model, the tokens of a sentence, and a function that runs the model on them (of a translator only its encoder)."""
    if state.library.find(model).kind == "translator":
        translator = state.translator(model)
        module: Any = translator.model.eval()
        ids = translator.encode([sentence])[0]
        source, length = torch.tensor([ids]), torch.tensor([len(ids)])
        return module, [translator.source.piece(i) for i in ids], lambda: module.encode(source, length)
    opened = state.opened(model)
    inputs = opened.inputs(sentence)
    tokens, source_tokens = opened.tokens(inputs)
    return opened.model, (source_tokens or tokens or [[]])[0], lambda: opened.run(inputs)


def _layers(model: nn.Module) -> list[nn.Module]:
    """The layers whose outputs are compared: the longest list of modules of one type; of a translator, those of its encoder."""
    lists = [(name, list(module)) for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    stacks = [(name, layers) for name, layers in lists if len({type(layer) for layer in layers}) == 1]
    stacks = [(name, layers) for name, layers in stacks if "encoder" in name.split(".")] or stacks
    if not stacks:
        raise RequestError("unseen", f"{type(model).__name__} has no list of layers to read vectors from", name=type(model).__name__)
    return max((layers for _, layers in stacks), key=len)


def _states(layers: list[nn.Module], run: Callable[[], Any]) -> list[Tensor]:
    """The input of the first layer and the output of every layer, each (L, D)."""
    states: list[Tensor] = []

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hidden = args[0] if args else kwargs.get("hidden_states", kwargs.get("x"))
        if isinstance(hidden, Tensor):
            states.append(hidden[0].detach())

    def after(module: nn.Module, args: Any, output: Any) -> None:
        hidden = output[0] if isinstance(output, tuple) else output
        states.append((hidden[0] if hidden.dim() == 3 else hidden).detach())

    hooks = [layers[0].register_forward_pre_hook(before, with_kwargs=True), *(layer.register_forward_hook(after) for layer in layers)]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return states


def _find_word(name: str, tokens: list[str], sentence: str, word: str) -> tuple[list[str], list[int]]:
    """The tokens as readable text, and the positions of those that make up the word (its last occurrence)."""
    from ....sight.views.token_display import display_tokens

    pieces = display_tokens(tokens)
    text, token_of = "", []  # token_of: the token of each character
    for number, piece in enumerate(pieces):
        characters = "" if piece.mark == "*" or (piece.part is not None and piece.part[0] > 1) else piece.text.lower()
        token_of += [number] * len(characters)
        text += characters
    begin = text.rfind(word.lower().replace(" ", ""))
    if begin < 0:
        raise RequestError(
            "no_word", f"{word!r} was not found among the tokens of {name} for {sentence!r}", name=name, word=word, sentence=sentence
        )
    positions = sorted(set(token_of[begin : begin + len(word.replace(" ", ""))]))
    first, last = positions[0], positions[-1]
    while last + 1 < len(pieces) and pieces[last + 1].part is not None and (pieces[last + 1].part or (1, 1))[0] > 1:
        last += 1
    return [piece.text for piece in pieces], list(range(first, last + 1))
