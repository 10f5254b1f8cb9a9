"""Other spellings of a question's words, and abbreviations that an article defines."""

import numpy as np
import pytest

from regard.text.skimming import SkimmedArticle, skim
from regard.text.units import FEATURES, UnitTable
from regard.text.variants import abbreviations, by_beginning, similarity, variants

TEXT = (
    "Carrageenan is made of red seaweed. The barrier of the nose is thin. Acute necrotizing encephalopathy (ANE) is rare."
    " Most children with ANE had a fever. The weather was mild."
)
TABLE = UnitTable.count(TEXT.split(". "), least=1)
STEMS, VARIANTS = 65, FEATURES - 65  # the columns of the coverage by stems, and by stems and variants


def test_similarity_by_hand():
    """^abc$ has ^ab abc bc$, ^abd$ has ^ab abd bd$: one of three in common."""
    assert similarity("abc", "abd") == pytest.approx(1 / 3)


def test_a_misspelt_word_is_found_and_an_unlike_one_is_not():
    groups = by_beginning(["carrageenan", "carry", "cardiac", "transmitted", "transmits", "nose"])
    assert variants("carageenan", groups) == ["carrageenan"]
    assert variants("transmit", groups) == ["transmits", "transmitted"]
    assert variants("nos", groups) == []  # too short to be compared
    assert variants("海边", groups) == []


def test_a_word_of_the_article_has_fewer_variants_than_an_unknown_one():
    words = ["transmission", "transmitter"]
    assert variants("transmission", by_beginning(words)) == []
    assert variants("transmission", by_beginning(words[1:])) == ["transmitter"]


@pytest.mark.parametrize(
    ("text", "defined"),
    [
        ("the World Health Organization (WHO) said", {"who": "world health organization"}),
        ("Middle East respiratory syndrome coronavirus (MERS-CoV)", {"mers-cov": "middle east respiratory syndrome coronavirus"}),
        ("a chest X-ray (CXRAY) was", {"cxray": "chest x-ray"}),
        ("in May (2020), see (Fig), (a) and ()", {}),
        ("(ANE) begins the text", {}),
        ("children (ANE) were ill", {}),
    ],
)
def test_abbreviations_are_those_defined_in_brackets(text, defined):
    assert abbreviations(text) == defined


def test_a_sentence_with_the_right_spelling_is_covered():
    features = skim(SkimmedArticle(TEXT, TABLE), "carageenan, nose, weather?")
    assert features[0, STEMS] == 0 < features[0, VARIANTS]


def test_a_sentence_with_the_abbreviation_is_covered_by_the_long_form_and_the_other_way_round():
    article = SkimmedArticle(TEXT, TABLE)
    features = skim(article, "acute necrotizing encephalopathy fever")
    assert features[3, STEMS] < features[3, VARIANTS] == 1
    features = skim(article, "ANE rare")
    assert features[2, VARIANTS] == 1


def test_without_variants_the_columns_are_those_of_the_stems():
    features = skim(SkimmedArticle("The cat sat. A dog ran!", TABLE), "Who sat?")
    assert np.array_equal(features[:, STEMS : 2 * STEMS], features[:, VARIANTS:])


def test_a_table_without_a_number_of_features_gives_those_of_its_time(tmp_path):
    file = tmp_path / "units.json"
    TABLE.save(file)
    question = "What is carageenan?"
    new = skim(SkimmedArticle(TEXT, UnitTable.load(file)), question)
    file.write_text(file.read_text().replace(f'"features": {FEATURES}, ', ""))
    old = skim(SkimmedArticle(TEXT, UnitTable.load(file)), question)
    assert new.shape == (5, FEATURES)
    assert old.shape == (5, 190)
    assert np.array_equal(old, new[:, :190])
    file.write_text(file.read_text().replace('"sentences"', '"features": 7, "sentences"'))
    with pytest.raises(ValueError, match="7 features a sentence"):
        UnitTable.load(file)
