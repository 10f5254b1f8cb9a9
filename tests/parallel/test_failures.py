"""Ranks that make different calls, are late, silent or have exited: a clear error on the others, never a hang."""

import json

import pytest
from ranks import run_ranks

MESSAGES = {
    "width": "the query width of rank 1 differs from that of rank 0: 6 instead of 8",
    "length": "the ranks hold [4, 4, 5] queries",
    "dtype": "the dtype of rank 0 differs from that of rank 1",
    "mask": "the mask of rank 1 differs from that of rank 0",
    "mask tensor": "the mask of rank 1 differs from that of rank 0",
    "mask of one rank": "the mask of rank 0 differs from that of rank 1",
    "score": "the score of rank",
    "sinks": "the choice of rank",
    "layout": "the layout of rank 0 differs from that of rank 1",
}


@pytest.fixture(scope="module")
def errors():
    """The errors of ranks 0 and 2 by scenario; rank 1 exits in the last scenario."""
    done = run_ranks("fail_ranks.py", 3, timeout=150, expect=None)
    assert [process.returncode for process in done] == [0, 7, 0], [process.stderr[-1500:] for process in done]
    return [json.loads(done[rank].stdout) for rank in (0, 2)]


@pytest.mark.parametrize("name", MESSAGES)
def test_calls_that_differ_name_the_rank_and_the_difference(errors, name):
    for error in errors:
        assert error[name].startswith("RingError: ")
        assert MESSAGES[name] in error[name]


@pytest.mark.parametrize("name", ["late", "late, unchecked", "silent", "gone"])
def test_a_rank_that_does_not_answer_is_given_up(errors, name):
    for error in errors:
        assert error[name].startswith("RingError: rank ")
        assert "a rank is stuck, much slower, or has exited" in error[name] or "could not reach" in error[name]
