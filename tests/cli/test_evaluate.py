"""`regard evaluate`."""

import json

import pytest
from command_line import regard, without_box
from pairs_of import config, reversal


def test_evaluation_prints_scores_with_signatures_and_by_length(reversal_run, tmp_path):
    result = regard("evaluate", "translation", reversal_run, "--test", reversal_run.parent / "valid.tsv", "--out", tmp_path / "out.txt")
    assert result.exit_code == 0, result.output
    assert "case:lc" in result.output
    assert "case:mixed" in result.output
    assert "chrf" in result.output
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 30
    data = json.loads(regard("evaluate", "translation", reversal_run, "--test", reversal_run.parent / "valid.tsv", "--json").output)
    assert data["sentences"] == 30 == sum(row["sentences"] for row in data["by_length"])
    assert data["exact"] > 50


def test_two_translators_are_compared_by_length(reversal_run, tmp_path):
    reversal(tmp_path, train=50, valid=30, longest=6)
    settings = "steps = 2\nevaluate_every = 2"
    regard("train", "translation", config(tmp_path, settings, model="embedding = 24\nstate = 64\nalignment = 24"))
    options = ("--test", reversal_run.parent / "valid.tsv", "--against", tmp_path / "run")
    result = regard("evaluate", "translation", reversal_run, *options, "--figure", tmp_path / "lengths.svg", "--json")
    assert result.exit_code == 0, result.output
    result = json.loads(result.output)
    other = result["against"][str(tmp_path / "run")]
    assert result["exact"] > 50 > other["exact"]
    assert [row["sentences"] for row in other["by_length"]] == [row["sentences"] for row in result["by_length"]]
    drawn = (tmp_path / "lengths.svg").read_text()
    assert "source tokens" in drawn
    assert str(reversal_run) in drawn
    assert str(tmp_path / "run") in regard("evaluate", "translation", reversal_run, *options).output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["evaluate", "lm", "nowhere", "--test", __file__, "--figure", "a.svg"],
            "compare translators; the task is lm",
        ),
        (["evaluate", "translation", "nowhere", "--test", __file__, "--figure", "a.gif"], "a.gif ends in .gif; a figure is saved as"),
        (["evaluate", "reading", "nowhere", "--test", __file__], "expected one of translation, summarise, lm, mlm, classify"),
    ],
)
def test_mistakes_are_explained_without_a_traceback(words, message):
    result = regard(*words)
    assert result.exit_code == 2
    assert message in without_box(result.output)
    assert "Traceback" not in result.output
