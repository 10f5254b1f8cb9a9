"""Tests of the compiled kernels run once per instruction set this machine has, if they ask for `isa`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from regard.kernels.native.extension import compiled


@pytest.fixture(params=[] if compiled is None else compiled.instruction_sets())
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every test that asks for it runs once per instruction set."""
    compiled.force_instruction_set(request.param)
    yield request.param
    compiled.force_instruction_set(None)
