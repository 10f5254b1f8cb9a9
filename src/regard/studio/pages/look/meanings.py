"""The vectors of one word in several sentences, layer by layer.

Axes: n sentences, l layers, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ....sight.hidden_states import hidden_states
from ....sight.word_senses import compare_senses, find_word
from ...memory import check_memory, free_bytes, inspection_bytes
from ...request_error import RequestError
from ...worker_state import WorkerState

TOLERANCE = 1  # the most that the word's positions may differ in a compared pair


def meanings(state: WorkerState, model: str, word: str, sentences: list[str], senses: list[int] | None = None) -> dict[str, Any]:
    """The word's vector in each sentence after every layer, projected on the plane of greatest variance, and the cosines between them.

    senses: the sense of the word in each sentence; cosines within a sense are then compared with those between senses (`control`).
    """
    state.set_threads(1)
    vectors: list[Tensor] = []
    pieces: list[dict[str, Any]] = []
    for sentence in sentences:
        module, tokens, run = _prepare(state, model, sentence)
        texts, positions = _find_word(model, tokens, sentence, word)
        check_memory(free_bytes(), inspection_bytes(module, len(texts)), "these sentences")
        with state.progress.follow(module):
            states = _states(module, run)  # (l + 1) × (L, D)
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
        "control": _control(word, senses, x, [piece["places"][0] for piece in pieces]) if senses else None,
    }


def _control(word: str, senses: list[int], x: Tensor, places: list[int]) -> dict[str, Any]:
    """Mean cosines within and between senses by layer, or why they cannot be compared. x: (l + 1, n, D)."""
    try:
        separation = compare_senses(word, [str(sense) for sense in senses], x, places, tolerance=TOLERANCE)
    except ValueError as error:
        return {"refused": str(error)}
    layers = [{"within": round(r.within, 5), "between": round(r.between, 5), "chance": round(r.chance, 4)} for r in separation.layers]
    return {"within_pairs": separation.within_pairs, "between_pairs": separation.between_pairs, "layers": layers}


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


def _states(module: nn.Module, run: Callable[[], Any]) -> list[Tensor]:
    """The input of the first layer and the output of every layer, each (L, D)."""
    try:
        return [state[0] if state.dim() == 3 else state for state in hidden_states(module, run)]
    except ValueError as error:
        raise RequestError("unseen", str(error), name=type(module).__name__) from error


def _find_word(name: str, tokens: list[str], sentence: str, word: str) -> tuple[list[str], list[int]]:
    """The tokens as readable text, and the positions of those that make up the word (its last occurrence)."""
    try:
        return find_word(tokens, word, sentence)
    except ValueError as error:
        raise RequestError(
            "no_word", f"{word!r} was not found among the tokens of {name} for {sentence!r}", name=name, word=word, sentence=sentence
        ) from error
