"""Cards: what they say, and that files which are not theirs are noticed."""

import json
from pathlib import Path

import pytest

from regard.zoo.card import Card, Data, hashes, markdown, sha256


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "weights").write_bytes(b"abc" * 1000)
    (tmp_path / "words").write_bytes(b"xyz")
    card = Card(
        "m", "lm", "A model.", hashes(tmp_path, ["weights", "words"]), data=(Data("plays", "free", "By W. S."),), command=("a", "b")
    )
    (tmp_path / "card.json").write_text(card.to_json(), encoding="utf-8")
    return tmp_path


def test_a_card_is_read_as_it_was_written(folder):
    card = Card.read(folder)
    assert card is not None
    assert card.data == (Data("plays", "free", "By W. S."),)
    assert card.command == ("a", "b")
    assert card.files["words"] == sha256(folder / "words") == "3608bca1e44ea6c4d268eb6db02260269892c0b42b86bbf1e77a6fa16c3c9282"
    assert Card.read(folder.parent) is None


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda f: (f / "weights").write_bytes(b"abc" * 999), r"weights \(2,997 bytes\) is damaged or was changed"),
        (lambda f: (f / "weights").write_bytes(b"abd" + b"abc" * 999), "is damaged or was changed: its sha256 is"),
        (lambda f: (f / "words").unlink(), "words is missing; install regard again"),
    ],
)
def test_a_truncated_changed_or_missing_file_is_noticed(folder, harm, message):
    card = Card.read(folder)
    card.check(folder)
    harm(folder)
    with pytest.raises(ValueError, match=message):
        card.check(folder)


def test_a_card_of_a_later_version_may_say_more_but_not_less(folder):
    fields = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    (folder / "card.json").write_text(json.dumps({**fields, "mood": "calm"}), encoding="utf-8")
    assert Card.read(folder).name == "m"
    for text in ("{", "[1]", json.dumps({"name": "m"})):
        (folder / "card.json").write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=r"card\.json is damaged"):
            Card.read(folder)


def test_the_page_tells_scores_by_length(folder):
    row = {"least": 1, "most": 9, "sentences": 700, "bleu": 31.25, "exact": 12.0}
    result = {"sentences": 1000, "scores": [{"name": "bleu", "value": 28.126, "signature": "tok:13a"}], "by_length": [row]}
    card = Card("t", "translation", "T.", {"w": "0" * 64}, ("zh", "en"), scores={"held out": result})
    page = markdown(card)
    assert "| bleu | 28.13 | tok:13a |" in page
    assert "| 1–9 | 700 | 31.2 | 12.0 % |" in page
    assert "| Languages | zh → en |" in page
    assert card.headline() == "BLEU 28.1 (held out)"
    assert card.bleu() == 28.126


def test_the_page_explains_the_names_of_an_evaluation():
    result = {
        "questions": 10,
        "loss": 1.5,
        "picked_1": 60.0,
        "picked_2": 75.25,
        "picked_5": 90.0,
        "bm25_1": 50.0,
        "bm25_2": 61.0,
        "bm25_5": 72.0,
    }
    page = markdown(Card("a", "article", "A.", {}, scores={"set": result}))
    assert "| loss | 1.5 | mean −ln of the attention weight of the sentences with the answer |" in page
    assert "| this model | 60.0 | 75.2 | 90.0 |" in page
    assert "| BM25 | 50.0 | 61.0 | 72.0 |" in page
    assert "picked_1" not in page
    page = markdown(Card("l", "lm", "L.", {}, scores={"set": {"tokens": 7, "loss": 1.5, "unheard_of": 2.0}}))
    assert "| loss | 1.5 | mean −ln p of a token, in nats |" in page
    assert "| unheard_of | 2 |  |" in page


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"loss": 1.64, "picked_1": 82.0, "picked_2": 93.44}, "right sentence in 2 picks 93.4% (set)"),
        ({"loss": 3.8, "perplexity": 45.8, "accuracy": 38.25}, "accuracy 38.2% (set)"),
        ({"loss": 4.27, "bits_per_character": 2.311}, "2.31 bits a character (set)"),
    ],
)
def test_a_headline_is_a_score_that_can_be_compared(result, text):
    assert Card("m", "mlm", "M.", {}, scores={"set": result}).headline() == text
