"""`regard read`: the picked sentences and the answer."""

import json

import pytest
from command_line import regard

from regard.text.sentences import split_sentences
from regard.text.stories import tell_stories
from regard.training.runs import train

CONFIG = """
out = "run"
[data]
train = "stories.txt"
held_out = 50
grow = 1
[model]
draws = 4
[training]
steps = 10
evaluate_every = 10
"""


def run(*arguments):
    return regard("read", *arguments)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader")
    lines = []
    for story in tell_stories(200, facts=1, sentences=(3, 6)):
        lines += [f"{n} {sentence}" for n, sentence in enumerate(story.sentences, 1)]
        lines.append(f"{len(story.sentences) + 1} {story.question}\t{story.answer}\t{story.supports[0] + 1}")
    (folder / "stories.txt").write_text("\n".join(lines) + "\n")
    (folder / "config.toml").write_text(CONFIG)
    train("reader", folder / "config.toml")
    return folder / "run"


def test_shows_the_story_with_the_picks_and_the_saving(model, tmp_path):
    story = tmp_path / "story.txt"
    story.write_text("Mary went to the kitchen. John moved to the garden.\nMary went to the office.\n")
    result = run(story, "--ask", "Where is Mary?", "--model", model)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line[6:] for line in lines[:3]] == ["Mary went to the kitchen.", "John moved to the garden.", "Mary went to the office."]
    assert sum(line.startswith("   1  ") for line in lines) == 1
    assert lines[3] == "   ?  Where is Mary?"
    assert "words (" in lines[4]


def test_json_has_the_picks(model, tmp_path):
    story = tmp_path / "story.txt"
    story.write_text("Mary went to the kitchen.\nJohn moved to the garden.\n")
    result = run(story, "-a", "Where is Mary?", "-a", "Where is John?", "-m", model, "--json")
    first, second = map(json.loads, result.stdout.splitlines())
    assert (first["question"], second["question"]) == ("Where is Mary?", "Where is John?")
    assert first["story"] == ["Mary went to the kitchen.", "John moved to the garden."]
    assert len(first["picks"]) == 1
    assert first["read"] < first["total"]


def test_says_which_words_it_does_not_know(model, tmp_path):
    story = tmp_path / "story.txt"
    story.write_text("Mary went to Mars.\n")
    result = run(story, "-a", "Where is Mary?", "-m", model)
    assert result.exit_code == 0
    assert "Mars." in result.stderr
    assert "Mary" not in result.stderr


def test_errors(model, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    story = tmp_path / "story.txt"
    story.write_text("Mary left.\n")
    for arguments, message in [
        ([empty, "-a", "Where?", "-m", model], "empty.txt is empty"),
        ([story, "-a", " ", "-m", model], "the text is empty"),
        ([tmp_path / "nowhere.txt", "-a", "Where?", "-m", model], "there is no file"),
        ([story, "-a", "Where?", "-m", tmp_path], "is not a model"),
    ]:
        result = run(*arguments)
        assert result.exit_code == 2
        assert message in result.output


def test_sentences_end_at_full_stops_and_lines():
    assert split_sentences("One. Two?\n\nThree 3.5 metres!") == ("One.", "Two?", "Three 3.5 metres!")
