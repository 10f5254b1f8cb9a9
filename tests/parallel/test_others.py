"""Models, regression and the small print of a ring: four ranks against one process."""

import json

import pytest
from ranks import run_ranks


@pytest.fixture(scope="module")
def found():
    answers = [json.loads(done.stdout) for done in run_ranks("compare_others.py", 4, timeout=200)]
    for rank, answer in enumerate(answers):
        failed = {name: told for name, told in answer.items() if isinstance(told, str)}
        assert not failed, f"rank {rank}: " + "\n".join(failed.values())
    return answers


def test_what_is_sharded_comes_back_in_order(found):
    for answer in found:
        assert len(answer["round_trip"]) == 10
        assert all(answer["round_trip"].values())


def test_ranks_without_any_position_take_part(found):
    assert all(answer["fewer_positions_than_ranks"]["error"] < 1e-12 for answer in found)


def test_half_precision_is_merged_in_single(found):
    for answer in found:
        assert answer["half_precision"]["kept"]
        assert answer["half_precision"]["error"] < 0.02  # bfloat16 has 8 bits


def test_dropout_drops_the_same_weights_backward(found):
    for answer in found:
        told = answer["dropout"]
        assert told["same"]
        assert told["drops"]
        assert told["gap"] < 1e-10


def test_blocks_nobody_sees_are_not_sent(found):
    """Counted in blocks of 4 ranks × 16 positions, keys and values together."""
    sent = [answer["what_is_sent"] for answer in found]
    assert [told["none"] for told in sent] == [3, 3, 3, 3]
    assert [told["causal zigzag"] for told in sent] == [3, 3, 3, 3]  # every rank needs some of every other's
    assert [told["causal straight"] for told in sent] == [3, 2, 1, 0]
    assert [told["window straight"] for told in sent] == [1, 1, 1, 0]
    assert [told["own only"] for told in sent] == [0, 0, 0, 0]


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "none"])
def test_a_gpt_on_a_sharded_sequence_is_the_whole_one(found, positions):
    for answer in found:
        told = answer["gpts"][positions]
        assert told["error"] < 1e-10
        assert told["gradient"] < 1e-10


def test_readings_of_a_sharded_gpt_are_those_of_the_whole(found):
    for answer in found:
        assert answer["gpts"]["readings"]["error"] < 1e-10


def test_afterwards_the_model_is_as_before(found):
    for answer in found:
        assert answer["gpts"]["whole again"]["error"] == 0
        assert not [name for name in answer["gpts"]["whole again"]["names"] if name.startswith("Ring")]


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_a_bert_on_a_sharded_sequence_is_the_whole_one(found, positions):
    for answer in found:
        told = answer["berts"][positions]
        assert told["error"] < 1e-10
        assert told["gradient"] < 1e-10


@pytest.mark.parametrize("name", ["plain", "weighted", "flat"])
def test_regression_over_sharded_points_is_that_over_all(found, name):
    for answer in found:
        assert answer["regression"][f"{name} float64"]["error"] < 1e-9
        assert answer["regression"][f"{name} float32"]["error"] < 2e-4
        assert answer["regression"][f"{name} float64"]["points"] in (4000, 4001)


def test_points_that_do_not_fit_together_are_named(found):
    for answer in found:
        assert "the ranks' points have [1, 2, 2, 2] features" in answer["regression"]["misfit"]
