"""Scores and choices as a caller gives them: by name, as objects, or as something else, which gets an error that says what was expected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..choices import Argmax, Choice, Entmax15, Sample, Softmax, Sparsemax
from ..scores import Dot, Gaussian, ScaledDot, Score

# A class that needs no arguments, or how to make the others.
SCORES: dict[str, Callable[[], Score] | str] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "gaussian": Gaussian,
    "additive": "regard.Additive(query_width, key_width, hidden=…)",
    "bilinear": "regard.Bilinear(query_width, key_width)",
}
CHOICES: dict[str, Callable[[], Choice] | str] = {
    "softmax": Softmax,
    "sparsemax": Sparsemax,
    "entmax15": Entmax15,
    "argmax": Argmax,
    "sample": Sample,
    "entmax": "regard.Entmax(alpha), or choice='entmax15',",
    "topk": "regard.TopKSoftmax(k)",
}


def _from_name(part: str, name: str, known: Mapping[str, Any]) -> Any:
    """A score or choice given by name as an object; those that need arguments are refused with how to make them."""
    make = known.get(part)
    if callable(make):
        return make()
    if make is not None:
        raise ValueError(f"{name}={part!r} needs arguments: make it once with {make} and pass that")
    names = ", ".join(repr(other) for other, kind in known.items() if callable(kind))
    example = "regard.Dot()" if name == "score" else "regard.Softmax()"
    raise ValueError(f"{name} is {part!r}; expected one of {names}, or an object such as {example}")


def as_score(score: Any) -> Score:
    """A score, or the one of that name; anything else is refused."""
    if isinstance(score, str):
        score = _from_name(score, "score", SCORES)
    if not isinstance(score, Score):
        if isinstance(score, type) and issubclass(score, Score):
            raise TypeError(f"score is the class {score.__name__}; pass an object of it, e.g. {score.__name__}(…)")
        if callable(score):
            raise TypeError(
                f"score is a {type(score).__name__}; write a subclass of regard.Score whose tile(query, key) computes (…, l, s) scores "
                "from (…, l, d) and (…, s, d)"
            )
        raise TypeError(f"score is a {type(score).__name__}; expected a regard score, e.g. regard.Dot(), or a subclass of regard.Score")
    if type(score).tile is Score.tile and type(score).forward is not Score.forward:
        raise TypeError(f"{type(score).__name__} defines forward, which kernels do not call; name it tile(query, key)")
    return score


def as_choice(choice: Any) -> Choice:
    """A choice, or the one of that name; anything else is refused, and hard choices that kernels do not know."""
    if isinstance(choice, str):
        choice = _from_name(choice, "choice", CHOICES)
    if not isinstance(choice, Choice):
        if isinstance(choice, type) and issubclass(choice, Choice):
            raise TypeError(f"choice is the class {choice.__name__}; pass an object of it, e.g. {choice.__name__}()")
        raise TypeError(
            f"choice is a {type(choice).__name__}; expected a regard choice, e.g. regard.Softmax(), or a subclass of regard.Choice"
        )
    if choice.hard and not isinstance(choice, Argmax | Sample):
        raise TypeError(f"{type(choice).__name__} is a hard choice; kernels pick keys for Argmax and Sample only, so make it a soft one")
    return choice


__all__ = ["CHOICES", "SCORES", "as_choice", "as_score"]
