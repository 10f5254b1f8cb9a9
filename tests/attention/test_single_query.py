"""A decoding step: one query per head, with masks that hide nothing from it and masks that do."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import regard
from regard import attention
from regard.kernels.native import instruction_set

G = torch.Generator().manual_seed(0)
Q = torch.randn(2, 4, 1, 8, generator=G)
K, V = (torch.randn(2, 2, 6, 8, generator=G) for _ in range(2))
SHOW_ALL = {
    "none": None,
    "causal": regard.causal(),
    "wide window": regard.causal() & regard.window(9, 0),
    "either": regard.causal() | regard.window(1, 0),
}
HIDE_SOME = {
    "causal from the start": regard.causal(align="start"),
    "window": regard.window(2, 0),
    "padding": regard.padding(torch.tensor([4, 6])),
    "dense": regard.dense(torch.tensor([True, False, True, True, False, True])[None]),
}


@pytest.mark.parametrize("name", [*SHOW_ALL, *HIDE_SOME])
def test_the_reference_agrees(name: str) -> None:
    mask = {**SHOW_ALL, **HIDE_SOME}[name]
    expected = regard.attend(Q.double(), K.double(), V.double(), mask=mask, kernel="reference")
    torch.testing.assert_close(regard.attend(Q, K, V, mask=mask).double(), expected, atol=1e-6, rtol=1e-5)


@pytest.mark.skipif(instruction_set() is None, reason="without compiled kernels there is no shorter way; reinstall with a C++ compiler")
@pytest.mark.parametrize("name", [*SHOW_ALL, *HIDE_SOME])
def test_what_hides_nothing_needs_no_request(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[object] = []
    execute = attention.execute

    def counting(request: Any) -> Any:
        requests.append(request)
        return execute(request)

    monkeypatch.setattr(attention, "execute", counting)
    regard.attend(Q, K, V, mask={**SHOW_ALL, **HIDE_SOME}[name])
    assert len(requests) == (name in HIDE_SOME)


def test_a_mask_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="was made for 3 sequences but the inputs have a batch of 2"):
        regard.attend(Q, K, V, mask=regard.padding(torch.tensor([4, 6, 6])))
    with pytest.raises(TypeError, match=r"wrap a boolean tensor in regard\.dense"):
        regard.attend(Q, K, V, mask=torch.ones(1, 6, dtype=torch.bool))
    with pytest.raises(TypeError, match="query, key and value are Tensor, list, Tensor"):
        regard.attend(Q, K.tolist(), V, mask=regard.causal())
