"""The translation a translator is inspected with: all sentences of the text, none of them repeated up to the length limit."""

import pytest

import regard
from regard.studio.target_text import PART_TOKENS, target_text, translated_parts


@pytest.fixture(scope="module")
def german():
    return regard.open("de-en-transformer")


@pytest.fixture(scope="module")
def chinese():
    return regard.open("zh-en-transformer")


def test_one_short_sentence_is_translated_as_everywhere_else(chinese) -> None:
    assert target_text(chinese, "我爱中国。") == chinese.candidates(["我爱中国。"], width=1)[0][0].text


def test_no_sentence_is_left_out(chinese) -> None:
    sentences = ["我爱中国。", "他在看书。", "今天天气很好。", "你想吃什么？"]
    together = target_text(chinese, "".join(sentences))
    assert together == " ".join(chinese.candidates([one], width=1)[0][0].text for one in sentences)
    assert together.count(".") + together.count("?") == 4


def test_clauses_of_a_long_sentence_end_as_sentences_do(german) -> None:
    text = "Niemand wusste, wann der Zug kommt, und heute Abend essen wir mit unseren Freunden in der Stadt, zwei Kinder spielen im Park,"
    parts = translated_parts(german, text)
    assert len(parts) > 1
    assert all(part.endswith(".") for part in parts[:-1])
    assert all(len(german.source.encode(part)) <= PART_TOKENS for part in parts)
    assert "".join(parts).replace(".", ",").replace(" ", "") == text.replace(" ", "")


def test_a_sentence_without_clauses_stays_whole(chinese) -> None:
    text = "他昨天在新开的书店里给他的弟弟和妹妹买了一本很有意思的书。"
    assert len(chinese.source.encode(text)) > PART_TOKENS
    assert translated_parts(chinese, text) == [text]


def test_a_translation_that_repeats_itself_is_ended(german) -> None:
    clauses = ("zwei Kinder spielen im Park Fußball", "eine Frau in einem roten Mantel kauft Brot", "niemand wusste wann der Zug kommt")
    text = " ".join(clauses)
    written = german.target.encode(target_text(german, text))
    assert len(written) <= 2 * len(german.source.encode(text)) + 10
    assert translated_parts(german, text) == [text]


@pytest.mark.parametrize("text", ["", " ", ",", "。", "\n\n", "?!", "a" * 300])
def test_any_text_has_a_target(chinese, text) -> None:
    assert isinstance(target_text(chinese, text), str)
