"""A ring agrees with one process: every mask, score, bias and reading; forward and backward; 2 and 4 ranks."""

import json

import pytest
from compare_attention import CASES, sweep_of, title
from ranks import run_ranks

BOUND = {"float64": 1e-10, "float32": 1e-5}


def names(sweep: str) -> list[str]:
    pairs = [(name, case, dtype, size) for name, case in CASES.items() for dtype in case.dtypes for size in (2, 4)]
    return [title(name, dtype, size) for name, case, dtype, size in pairs if sweep_of(case, dtype, size) == sweep]


def agree(found: list[dict], name: str) -> None:
    bound = BOUND[name.rsplit(" / ", 1)[1]]
    for rank, answers in enumerate(found):
        errors = answers[name]
        assert isinstance(errors, dict), f"rank {rank}: {errors}"
        assert {"output", "lse", "d query", "d key", "d value"} <= errors.keys()
        assert max(errors.values()) <= bound, f"rank {rank}: {errors}"


def sweep(which: str) -> list[dict]:
    return [json.loads(done.stdout) for done in run_ranks("compare_attention.py", 4, which, timeout=400)]


@pytest.fixture(scope="module")
def quick():
    return sweep("quick")


@pytest.fixture(scope="module")
def slow():
    return sweep("slow")


@pytest.mark.parametrize("name", names("quick"))
def test_a_ring_is_one_process(quick, name):
    agree(quick, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", names("slow"))
def test_a_ring_is_one_process_in_the_other_precision_too(slow, name):
    agree(slow, name)
