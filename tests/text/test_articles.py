"""Articles: where sentences begin and end, and questions read from SQuAD-form files."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.articles import Question, read_questions, split_article


def texts(article: str) -> list[str]:
    return [sentence.text for sentence in split_article(article)]


def test_lines_broken_by_a_layout_are_joined_and_headings_stand_alone():
    article = (
        "1 Introduction\n\nThe lighthouse was built on the rocks by the people of\nthe village, who needed\nit. It still stands.\n\nMethods"
    )
    assert texts(article) == [
        "1 Introduction",
        "The lighthouse was built on the rocks by the people of the village, who needed it.",
        "It still stands.",
        "Methods",
    ]
    assert texts("这座灯塔建于一八九〇年，当时村里的人需要它来指引船只，免得它们在雾中触\n礁。它还在。") == [
        "这座灯塔建于一八九〇年，当时村里的人需要它来指引船只，免得它们在雾中触礁。",
        "它还在。",
    ]


def test_full_stops_inside_a_sentence_do_not_end_it():
    assert texts("Dr. Smith et al. (Fig. 3) measured 3.5 m, e.g. in the U.S. navy. Then J. H. Ward left.") == [
        "Dr. Smith et al. (Fig. 3) measured 3.5 m, e.g. in the U.S. navy.",
        "Then J. H. Ward left.",
    ]
    assert texts("他问：“谁？”她没有回答……然后走了！！") == ["他问：“谁？”", "她没有回答……然后走了！！"]


@given(st.text(st.sampled_from("ab A.。!？ \n“”(1)，"), max_size=60))
def test_sentences_are_in_order_and_hold_every_letter(text):
    sentences = split_article(text)
    assert all(a.stop <= b.start for a, b in pairwise(sentences))
    assert all("\n" not in s.text and s.text.replace(" ", "") == "".join(text[s.start : s.stop].split()) for s in sentences)
    inside = {i for s in sentences for i in range(s.start, s.stop)}
    assert all(i in inside for i, c in enumerate(text) if c.isalnum())


def test_the_right_sentence_holds_the_first_letter_of_an_answer():
    text = "It stood. “The tower” fell."
    question = Question("What fell?", (("“The tower”", text.index("“")),))
    assert question.right_sentences(split_article(text)) == {1}


def test_misplaced_answers_are_found_nearby_and_missing_ones_left_out(tmp_path):
    context = "red red blue. red."
    answers = [{"text": "red", "answer_start": 5}, {"text": "red", "answer_start": 15}, {"text": "green", "answer_start": 0}]
    qas = [{"question": "Which?", "answers": answers}, {"question": "None?", "answers": [{"text": "green", "answer_start": -1}]}]
    file = tmp_path / "squad.json"
    file.write_text(json.dumps({"data": [{"title": "t", "paragraphs": [{"context": context, "qas": qas}]}]}))
    (article,) = read_questions(file)
    assert [q.answers for q in article.questions] == [(("red", 4), ("red", 14))]


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "is not JSON"), ('{"data": [{"paragraphs": 3}]}', "not in the form of SQuAD"), ('{"data": []}', "no question with an answer")],
)
def test_other_files_are_refused(tmp_path, content, message):
    file = tmp_path / "other.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_questions(file)
