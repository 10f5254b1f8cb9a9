"""The signatures of the entry points name every keyword argument with its default, although they are written as **options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

import regard
import regard.parallel
from regard.kernels.request import DEFAULTS

ATTEND = ["score", "mask", "bias", "choice", "dropout", "generator", "kernel", "limit_bytes"]
RING = [*ATTEND[:6], "group", "layout", "timeout", "check"]


@pytest.mark.parametrize(
    ("function", "keywords"),
    [
        (regard.attend, ATTEND),
        (regard.observe, [*ATTEND, "readings"]),
        (regard.explain, [*ATTEND, "readings"]),
        (regard.parallel.attend, RING),
        (regard.parallel.observe, [*RING, "readings"]),
    ],
)
def test_every_keyword_argument_is_shown(function: Callable[..., Any], keywords: list[str]) -> None:
    parameters = inspect.signature(function).parameters
    assert [name for name, parameter in parameters.items() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD] == [
        "query",
        "key",
        "value",
    ]
    assert {name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY} == set(keywords)
    assert len(parameters) == 3 + len(keywords)  # no **options left
    for name in keywords:
        assert parameters[name].annotation is not inspect.Parameter.empty
        if name in DEFAULTS:
            assert parameters[name].default is DEFAULTS[name]  # type: ignore[literal-required]


def test_attend_takes_no_readings() -> None:
    q = torch.zeros(1, 1, 3, 8)
    with pytest.raises(TypeError, match=r"attend returns the output alone; use observe"):
        regard.attend(q, q, q, readings=[regard.Entropy()])  # type: ignore[call-arg]
