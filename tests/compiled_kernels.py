"""The compiled kernels for tests that need them; where they were not built, the importing test file is skipped and says why."""

from __future__ import annotations

import pytest

from regard.kernels.native.extension import compiled

if compiled is None:
    pytest.skip(
        "regard was built without its compiled kernels: install it with a C++ compiler and without REGARD_NO_NATIVE",
        allow_module_level=True,
    )

SETS: list[str] = compiled.instruction_sets()

__all__ = ["SETS", "compiled"]
