"""A ring agrees with one process: every mask, score, bias and reading; forward and backward; 2 and 4 ranks."""

import json

import pytest
from compare_attention import CASES
from ranks import run_ranks

BOUND = {"float64": 1e-10, "float32": 1e-5}
NAMES = [
    f"{name} / {size} ranks / {str(dtype).removeprefix('torch.')}"
    for name, case in CASES.items()
    for dtype in case.dtypes
    for size in (2, 4)
]


@pytest.fixture(scope="module")
def found():
    return [json.loads(done.stdout) for done in run_ranks("compare_attention.py", 4, timeout=300)]


@pytest.mark.parametrize("name", NAMES)
def test_a_ring_is_one_process(found, name):
    bound = BOUND[name.rsplit(" / ", 1)[1]]
    for rank, answers in enumerate(found):
        errors = answers[name]
        assert isinstance(errors, dict), f"rank {rank}: {errors}"
        assert {"output", "lse", "d query", "d key", "d value"} <= errors.keys()
        assert max(errors.values()) <= bound, f"rank {rank}: {errors}"
