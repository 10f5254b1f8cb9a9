"""Ranks that do not fit together, are late, silent or gone: a clear error on the others, and never a hang."""

import json

import pytest
from ranks import run_ranks

WORDS = {
    "width": "rank 1 has another query width than rank 0: 6 instead of 8",
    "length": "the ranks hold [4, 4, 5] queries",
    "dtype": "rank 0 has another dtype than rank 1",
    "mask": "rank 1 has another mask than rank 0",
    "mask tensor": "rank 1 has another mask than rank 0",
    "mask of one rank": "rank 0 has another mask than rank 1",
    "score": "another score",
    "sinks": "another choice",
    "layout": "rank 0 has another layout than rank 1",
}


@pytest.fixture(scope="module")
def found():
    """What ranks 0 and 2 met; rank 1 ends itself in the last scenario."""
    done = run_ranks("fail_ranks.py", 3, timeout=150, expect=None)
    assert [process.returncode for process in done] == [0, 7, 0], [process.stderr[-1500:] for process in done]
    return [json.loads(done[rank].stdout) for rank in (0, 2)]


@pytest.mark.parametrize("name", WORDS)
def test_calls_that_differ_say_who_and_what(found, name):
    for told in found:
        assert told[name].startswith("RingError: ")
        assert WORDS[name] in told[name]


@pytest.mark.parametrize("name", ["late", "late, unchecked", "silent", "gone"])
def test_a_rank_that_does_not_answer_is_given_up(found, name):
    for told in found:
        assert told[name].startswith("RingError: rank ")
        assert "a rank is stuck, much slower, or gone" in told[name] or "could not reach" in told[name]
