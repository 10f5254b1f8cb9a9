"""`regard read`: the picked sentences, the answer and the saving; the reader of stories as the small example."""

import json

import pytest
from command_line import regard, without_box

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
ENGLISH = """The lighthouse

The village of Skarvik lies on the northern coast. Its people lived from fishing for three hundred years.
The lighthouse was built by the engineer Anna Berg in 1890. It is 31 metres high and made of granite.
Ships from many countries pass the harbour every week. In winter the sea is rough.
"""
GERMAN = (
    b"Der Leuchtturm wurde damals von einem Ingenieur gebaut. Seitdem steht er weithin sichtbar auf den Felsen und weist Schiffen den Weg."
)
CHINESE = (
    "斯卡维克村位于北部海岸。村民三百年来以捕鱼为生。灯塔由工程师安娜·贝里于1890年建造。"
    "它高31米，用花岗岩砌成。每周有许多国家的船只经过港口。"
)


def run(*arguments, **options):
    return regard("read", *arguments, **options)


@pytest.fixture
def article(tmp_path):
    file = tmp_path / "article.txt"
    file.write_text(ENGLISH)
    return file


def test_picks_the_sentence_that_answers_in_english(article):
    result = run(article, "--ask", "Who built the lighthouse?", "--picks", "1", "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    (picked,) = answer["picks"]
    assert answer["sentences"][picked] == "The lighthouse was built by the engineer Anna Berg in 1890."
    assert answer["weights"][picked] == max(answer["weights"])
    assert sum(answer["weights"]) == pytest.approx(1, abs=1e-4)
    assert answer["answer"]["text"] == answer["sentences"][picked]
    assert not answer["answer"]["span"]
    assert answer["read"] < answer["total"]
    assert answer["seconds_everything"] > 0


def test_gives_a_span_in_chinese_and_marks_it(tmp_path):
    (tmp_path / "文章.txt").write_text(CHINESE)
    result = run(tmp_path / "文章.txt", "-a", "灯塔是由谁建造的？", "--json", "--no-compare")
    answer = json.loads(result.stdout)
    place = answer["answer"]
    assert answer["sentences"][place["sentence"]] == "灯塔由工程师安娜·贝里于1890年建造。"
    assert place["span"]
    assert CHINESE[place["start"] : place["stop"]] == place["text"]
    assert "安娜" in place["text"]
    shown = run(tmp_path / "文章.txt", "-a", "灯塔是由谁建造的？").stdout
    assert f"[{place['text']}]" in shown
    assert "saved" in shown


def test_soft_attention_stands_beside_it_and_a_page_is_written(article, tmp_path):
    result = run(article, "-a", "How high is the lighthouse?", "--soft", "--html", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    assert "soft  " in result.stdout
    page = (tmp_path / "page.html").read_text()
    assert "<mark" in page
    assert "How high is the lighthouse?" in page


def test_standard_input_is_read():
    result = run("-", "-a", "How high is the lighthouse?", "--no-compare", input=ENGLISH)
    assert result.exit_code == 0, result.output
    assert "31 metres" in result.stdout


@pytest.mark.parametrize(
    ("text", "question", "message"),
    [
        (b"\n \n", "Who?", "is empty"),
        (b"\x89PNG\xff\xfe\x00", "Who?", "UTF-8"),
        (b"text\x00with zeros.", "Who?", "zero bytes"),
        ("……！？".encode(), "Who?", "no sentence"),
        (ENGLISH.encode(), "?!", "has no words"),
        (ENGLISH.encode(), " ", "the text is empty"),
        (ENGLISH.encode(), "Кто построил маяк?", "question is in Cyrillic"),
        ("Маяк построили в деревне. Он высокий.".encode(), "Who built it?", "article is in Cyrillic"),
        (GERMAN, "Wer?", "appears to be German; the model reads Chinese and English"),
        (b"a word. " * 130_000, "Who?", "characters; at most 1,000,000"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, text, question, message):
    file = tmp_path / "given.txt"
    file.write_bytes(text)
    result = run(file, "--ask", question)
    assert result.exit_code == 2
    assert message in without_box(result.output)


def test_files_and_options_are_checked(article, tmp_path):
    for arguments, message in [
        ([tmp_path / "nowhere.txt", "-a", "Where?"], "there is no file"),
        ([article, "-a", "Where?", "-m", tmp_path], "is not a model"),
        ([article, "-a", "Where?", "--skim", "bert"], "expected words or minilm"),
        ([article, "-a", "Where?", "-m", "shakespeare"], "is a run of 'lm', not 'article'"),
        ([article, "-a", "Where?", "-m", "reader", "--soft"], "are for articles"),
    ]:
        result = run(*arguments)
        assert result.exit_code == 2
        assert message in without_box(result.output)


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader")
    lines = []
    for story in tell_stories(200, facts=1, sentences=(3, 6)):
        lines += [f"{n} {sentence}" for n, sentence in enumerate(story.sentences, 1)]
        lines.append(f"{len(story.sentences) + 1} {story.question}\t{story.answer}\t{story.supports[0] + 1}")
    (folder / "stories.txt").write_text("\n".join(lines) + "\n")
    (folder / "config.toml").write_text(CONFIG)
    train("reader", folder / "config.toml")
    return folder / "run"


def test_a_story_is_shown_with_the_picks_and_the_saving(stories, tmp_path):
    story = tmp_path / "story.txt"
    story.write_text("Mary went to the kitchen. John moved to the garden.\nMary went to the office.\n")
    result = run(story, "--ask", "Where is Mary?", "--model", stories)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line[6:] for line in lines[:3]] == ["Mary went to the kitchen.", "John moved to the garden.", "Mary went to the office."]
    assert sum(line.startswith("   1  ") for line in lines) == 1
    assert lines[3] == "   ?  Where is Mary?"
    assert "words (" in lines[4]


def test_json_of_a_story_has_the_picks(stories, tmp_path):
    story = tmp_path / "story.txt"
    story.write_text("Mary went to the kitchen.\nJohn moved to the garden.\n")
    result = run(story, "-a", "Where is Mary?", "-a", "Where is John?", "-m", stories, "--json")
    first, second = map(json.loads, result.stdout.splitlines())
    assert (first["question"], second["question"]) == ("Where is Mary?", "Where is John?")
    assert first["story"] == ["Mary went to the kitchen.", "John moved to the garden."]
    assert len(first["picks"]) == 1
    assert first["read"] < first["total"]


def test_says_which_words_of_a_story_it_does_not_know(stories, tmp_path):
    story = tmp_path / "story.txt"
    story.write_text("Mary went to Mars.\n")
    result = run(story, "-a", "Where is Mary?", "-m", stories)
    assert result.exit_code == 0
    assert "Mars." in result.stderr
    assert "Mary" not in result.stderr
    story.write_text("Ships pass the harbour.\n")
    result = run(story, "-a", "Who passes?", "-m", stories)
    assert result.exit_code == 2
    assert "most words are not in the model's vocabulary" in without_box(result.output)


def test_sentences_end_at_full_stops_and_lines():
    assert split_sentences("One. Two?\n\nThree 3.5 metres!") == ("One.", "Two?", "Three 3.5 metres!")
