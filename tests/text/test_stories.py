"""Stories: bAbI files read with their supports, mistakes named by line, and told stories that hold together."""

import re

import pytest

from regard.text.stories import DROPS, PLACES, Story, read_stories, tell_stories

FILE = """1 Mary got the football.
2 Where is the football? \tgarden\t1
3 Mary went to the garden.
4 Where is the football?\tgarden\t1 3
1 John left.
2 Who left?\tJohn
"""


def test_reads_a_babi_file(tmp_path):
    path = tmp_path / "qa.txt"
    path.write_text(FILE, encoding="utf-8")
    first, second, third = read_stories(path)
    assert first == Story(("Mary got the football.",), "Where is the football?", "garden", (0,))
    # A question's line has a number but is no sentence: line 3 is the second sentence.
    assert second == Story(("Mary got the football.", "Mary went to the garden."), "Where is the football?", "garden", (0, 1))
    assert third == Story(("John left.",), "Who left?", "John")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 Mary left.\nthen John left.\n", "qa.txt:2: 'then John left.'; expected a number"),
        ("1 Mary left.\n3 John left.\n", "qa.txt:2: line 3 of a story follows line 1; expected 2"),
        ("1 Who left?\tMary\t1\n", "qa.txt:1: a question before any sentence"),
        ("1 Mary left.\n2 Who left?\tMary\t2\n", r"qa.txt:2: supporting line '2' is not an earlier sentence of this story \(1\)"),
        ("1 Mary left.\n2 Who left?\tMary\tone\n", "qa.txt:2: supporting line 'one'"),
        ("1 Mary left.\n2 Who left?\t\t1\n", "qa.txt:2: expected question, answer and supporting lines"),
        ("1 Mary left.\n", "qa.txt: it has no question"),
        ("", "qa.txt: it has no question"),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path, text, message):
    path = tmp_path / "qa.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_stories(path)


def last_move(sentences, person, before):
    return max(n for n in range(before) if sentences[n].startswith(person) and any(place in sentences[n] for place in PLACES))


def test_one_fact_stories_are_supported_by_the_last_move():
    for story in tell_stories(200, facts=1, sentences=(2, 9), seed=5):
        person = re.fullmatch(r"Where is (\w+)\?", story.question)[1]
        n = last_move(story.sentences, person, len(story.sentences))
        assert story.supports == (n,)
        assert story.sentences[n].endswith(f"the {story.answer}.")
        assert 2 <= len(story.sentences) <= 9


def test_two_fact_stories_are_supported_by_who_had_it_and_where_they_went():
    dropped = 0
    for story in tell_stories(300, facts=2, sentences=(4, 14), seed=6):
        thing = re.fullmatch(r"Where is the (\w+)\?", story.question)[1]
        n = max(i for i, sentence in enumerate(story.sentences) if thing in sentence)
        drop = any(verb in story.sentences[n] for verb in DROPS)
        dropped += drop
        m = last_move(story.sentences, story.sentences[n].split()[0], n if drop else len(story.sentences))
        assert story.supports == (n, m)
        assert story.sentences[m].endswith(f"the {story.answer}.")
    assert 50 < dropped < 250


def test_stories_follow_from_the_seed():
    assert tell_stories(20, facts=2, seed=1) == tell_stories(20, facts=2, seed=1)
    assert tell_stories(20, facts=2, seed=1) != tell_stories(20, facts=2, seed=2)


@pytest.mark.parametrize(("facts", "sentences"), [(3, (4, 8)), (2, (1, 8)), (1, (5, 4))])
def test_impossible_stories_are_refused(facts, sentences):
    with pytest.raises(ValueError, match=r"facts is 3|expected \(fewest, most\)"):
        tell_stories(1, facts=facts, sentences=sentences)
