"""Skimming: features that rise with what a sentence shares with the question."""

import numpy as np
import pytest

from regard.models.article_reader import CHINESE
from regard.text.passages import passages
from regard.text.skimming import SkimmedArticle, skim
from regard.text.units import BUCKETS, FEATURES, UnitTable, stem

ENGLISH = "The village lies by the sea. The lighthouse was built by Anna Berg in 1890. The harbour is new. Ships pass the lighthouse."
CHINESE_TEXT = "村庄在海边。灯塔由安娜于1890年建造。港口是新的。船经过灯塔。"
TABLE = UnitTable.count(ENGLISH.split(". ") + CHINESE_TEXT.split("。"), least=1)


@pytest.mark.parametrize(("text", "question"), [(ENGLISH, "Who built the lighthouse?"), (CHINESE_TEXT, "灯塔是谁建造的？")])
def test_the_sentence_with_the_question_s_words_has_the_largest_coverage(text, question):
    features = skim(SkimmedArticle(text, TABLE), question)
    assert features.shape == (4, FEATURES)
    assert np.isfinite(features).all()
    assert features[:, 0].argmax() == 1  # the share of the question's rarity that a sentence contains
    assert features[:, 2].max() == 1  # its rank: first


def test_one_feature_says_that_the_question_is_chinese():
    for text in (ENGLISH, CHINESE_TEXT):
        article = SkimmedArticle(text, TABLE)
        assert (skim(article, "灯塔是谁建造的？")[:, CHINESE] == 1).all()
        assert (skim(article, "Who built the lighthouse?")[:, CHINESE] == 0).all()


def test_coverage_by_hand():
    """Two sentences, question words a (in both) and b (in the first): idf log(1 + 0.5/2.5) and log(1 + 1.5/1.5)."""
    features = skim(SkimmedArticle("aa bb。aa cc。", UnitTable.count(["aa bb", "aa cc"], least=1)), "aa bb")
    a, b = np.log(1 + 0.5 / 2.5), np.log(2)
    assert features[:, 0] == pytest.approx([1, a / (a + b)], rel=1e-6)


def test_a_question_s_features_do_not_depend_on_an_article_read_before():
    article = SkimmedArticle(ENGLISH, TABLE)
    first = skim(article, "Who built the lighthouse?")
    skim(article, "Where is the village?")
    assert np.array_equal(first, skim(article, "Who built the lighthouse?"))


def test_a_question_without_words_is_refused():
    with pytest.raises(ValueError, match="has no words"):
        skim(SkimmedArticle(ENGLISH, TABLE), "?!")


def test_one_sentence_and_odd_texts():
    for text in ("One", "1", "a b " * 300, "。。a", "…\n\nx\n\ny"):
        features = skim(SkimmedArticle(text, TABLE), "a 1?")
        assert np.isfinite(features).all()


def test_a_sentence_is_read_the_same_beside_any_other():
    article = SkimmedArticle(ENGLISH, TABLE)
    together = passages([(article, "Who built the lighthouse?", [0, 1, 2])])
    alone = passages([(article, "Who built the lighthouse?", [1])])
    n = int(alone.lengths[0])
    assert together.units[1, :n].tolist() == alone.units[0].tolist()
    assert together.unit_features[1, :n].tolist() == alone.unit_features[0].tolist()


def test_matches_of_units_by_hand():
    read = passages([(SkimmedArticle("The (old) lighthouse fell.", TABLE), "old lighthouse?", [0])])
    matched, left, right, depth = (read.unit_features[0, :, i].tolist() for i in (0, 2, 3, 11))
    assert matched == [0, 0, 1, 0, 1, 0, 0]
    assert left == right == [0] * 7  # a bracket is between the two words
    assert depth == [0, 1, 1, 1, 0, 0, 0]


def test_units_and_their_table(tmp_path):
    table = UnitTable.count(["the cat 猫", "the dog 狗"], least=1)
    table.save(tmp_path / "units.json")
    again = UnitTable.load(tmp_path / "units.json")
    assert again.ids(["the", "猫", "unseen"]).tolist() == table.ids(["the", "猫", "unseen"]).tolist()
    assert len(table) == 1 + 5 + BUCKETS
    assert stem("infections") == stem("infection")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match="not a table of units"):
        UnitTable.load(tmp_path / "other.json")
