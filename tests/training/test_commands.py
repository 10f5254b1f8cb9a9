"""`regard train`, `translate`, `generate` and `evaluate`, as a user types them."""

import json
from pathlib import Path

import pytest
from pairs_of import config, reversal
from typer.testing import CliRunner

from regard.cli import build


def regard(*words: object, **options):
    return CliRunner().invoke(build(), [str(word) for word in words], **options)


def squeezed(text: str) -> str:
    """Without the box an error is drawn in."""
    return " ".join(text.replace("│", " ").split())


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Reversal, trained just enough to align."""
    folder = tmp_path_factory.mktemp("cli")
    reversal(folder, train=1500, valid=30, longest=6)
    settings = 'steps = 250\nrate = 6e-3\nwarmup = 20\nschedule = "cosine"\nevaluate_every = 125\nmetric = "exact"'
    path = config(folder, settings, model="embedding = 24\nstate = 64\nalignment = 24\ndropout = 0.0")
    result = regard("train", "translation", path)
    assert result.exit_code == 0, result.output
    assert "step 125" in result.output
    assert "done: 250 steps" in result.output
    return folder / "run"


def test_training_again_has_nothing_to_do(run):
    result = regard("train", "translation", run.parent / "config.toml", "--quiet")
    assert result.exit_code == 0
    assert result.output.splitlines()[0].startswith("done: 250 steps")


def test_a_translation_is_shown_with_its_alignment_in_plain_characters(run):
    result = regard("translate", "a b c d", "--model", run)
    lines = result.output.splitlines()
    assert lines[0] == "d c b a"
    assert lines[1].split() == ["d", "c", "b", "a"]
    assert [line.split()[0] for line in lines[2:6]] == ["a", "b", "c", "d"]
    assert result.output.isascii()


def test_the_alignment_can_be_written_as_a_page(run, tmp_path):
    page = tmp_path / "page.html"
    result = regard("translate", "a b c d", "--model", run, "--html", page)
    assert result.exit_code == 0, result.output
    assert "d c b a" in page.read_text(encoding="utf-8")
    refused = regard("translate", "a b", "c d", "--model", run, "--html", tmp_path / "two.html")
    assert refused.exit_code != 0
    assert "a page shows one translation" in squeezed(refused.output)
    assert not (tmp_path / "two.html").exists()


def test_json_holds_the_translations_and_their_alignments(run):
    result = regard("translate", "a b c d", "b a", "--model", run, "--n-best", 2, "--json")
    first, second = (json.loads(line) for line in result.output.splitlines())
    assert first["source"] == "a b c d"
    assert first["translations"][0]["text"] == "d c b a"
    assert first["translations"][0]["score"] >= first["translations"][1]["score"]
    weights = first["translations"][0]["alignment"]
    assert [len(row) for row in weights] == [4] * 4
    assert all(sum(row) == pytest.approx(1, abs=1e-4) for row in weights)
    assert second["translations"][0]["target_words"] == ["a", "b"]


def test_a_file_and_standard_input_are_translated_line_by_line(run, tmp_path):
    (tmp_path / "in.txt").write_text("a b\nc d e\n")
    assert regard("translate", "--file", tmp_path / "in.txt", "--model", run).output == "b a\ne d c\n"
    assert regard("translate", "--model", run, "--beam", 1, input="a b\n").output == "b a\n"


def test_sampling_is_repeatable(run):
    draws = [regard("translate", "a b c d e f", "--model", run, "--temperature", 1.5, "--seed", 3).output for _ in range(2)]
    assert draws[0] == draws[1]


def test_evaluation_prints_scores_with_signatures_and_by_length(run, tmp_path):
    result = regard("evaluate", "translation", run, "--test", run.parent / "valid.tsv", "--out", tmp_path / "out.txt")
    assert result.exit_code == 0, result.output
    assert "case:lc" in result.output
    assert "case:mixed" in result.output
    assert "chrf" in result.output
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 30
    data = json.loads(regard("evaluate", "translation", run, "--test", run.parent / "valid.tsv", "--json").output)
    assert data["sentences"] == 30 == sum(row["sentences"] for row in data["by_length"])
    assert data["exact"] > 50


def test_two_translators_are_compared_by_length(run, tmp_path):
    reversal(tmp_path, train=50, valid=30, longest=6)
    settings = "steps = 2\nevaluate_every = 2"
    regard("train", "translation", config(tmp_path, settings, model="embedding = 24\nstate = 64\nalignment = 24"))
    options = ("--test", run.parent / "valid.tsv", "--against", tmp_path / "run")
    result = regard("evaluate", "translation", run, *options, "--figure", tmp_path / "lengths.svg", "--json")
    assert result.exit_code == 0, result.output
    ours = json.loads(result.output)
    other = ours["against"][str(tmp_path / "run")]
    assert ours["exact"] > 50 > other["exact"]
    assert [row["sentences"] for row in other["by_length"]] == [row["sentences"] for row in ours["by_length"]]
    drawn = (tmp_path / "lengths.svg").read_text()
    assert "source tokens" in drawn
    assert str(run) in drawn
    assert str(tmp_path / "run") in regard("evaluate", "translation", run, *options).output


def test_a_language_model_is_trained_measured_and_used(tmp_path):
    (tmp_path / "t.txt").write_text("abcdefg\n" * 200)
    (tmp_path / "lm.toml").write_text(
        'out = "run"\n[data]\ntrain = "t.txt"\nbatch = 8\n[model]\nd_model = 24\nheads = 2\nlayers = 1\ncontext = 16\n'
        "[training]\nsteps = 80\nrate = 1e-2\nwarmup = 10\nevaluate_every = 80\n"
    )
    assert regard("train", "lm", tmp_path / "lm.toml", "--quiet").exit_code == 0
    assert regard("generate", "abc", "--model", tmp_path / "run", "--max-new", 6, "--temperature", 0).output == "abcdefg\na\n"
    assert json.loads(regard("generate", "-", "--model", tmp_path / "run", "--max-new", 1, "--json", input="ab").output)["prompt"] == "ab"
    data = json.loads(regard("evaluate", "lm", tmp_path / "run", "--test", tmp_path / "t.txt", "--json").output)
    assert data["perplexity"] < 1.3
    assert data["tokens"] == 200 * 8 - 1  # the last line break ends the file, not a line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["translate", "hallo", "--model", "nowhere"], "there is no model 'nowhere' and no such path"),
        (["translate", "hallo", "--model", "."], "it has no run.json"),
        (
            ["evaluate", "lm", "nowhere", "--test", __file__, "--figure", "a.svg"],
            "compare translators; the task is lm",
        ),
        (["evaluate", "translation", "nowhere", "--test", __file__, "--figure", "a.gif"], "a.gif ends in .gif; a figure is saved as"),
        (["evaluate", "reading", "nowhere", "--test", __file__], "what can be evaluated: translation, lm, mlm, classify"),
        (["train", "translate", __file__], "did you mean 'translation'?"),
    ],
)
def test_mistakes_are_explained_without_a_traceback(words, message):
    result = regard(*words)
    assert result.exit_code == 2
    assert message in squeezed(result.output)
    assert "Traceback" not in result.output


def test_a_mistyped_key_is_named_on_the_command_line(tmp_path):
    reversal(tmp_path, train=4, valid=2, longest=3)
    path = config(tmp_path, "stepz = 3")
    assert "there is no key 'stepz'; did you mean 'steps'?" in squeezed(regard("train", "translation", path).output)
