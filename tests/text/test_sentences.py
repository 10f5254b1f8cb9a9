"""Cutting texts: at sentences first, anywhere last, and nothing is lost."""

from hypothesis import given
from hypothesis import strategies as st

from regard.text.sentences import split_to_fit


def test_the_best_cut_that_fits_is_taken():
    def fits(part: str) -> bool:
        return len(part) <= 8

    assert split_to_fit("我爱中国，你呢，他也一样，真的。好，再见！", fits) == ["我爱中国，你呢，", "他也一样，真的。", "好，再见！"]
    assert split_to_fit("One two three. Four", fits) == ["One two", "three.", "Four"]
    assert split_to_fit("abcdefghij", fits) == ["abcde", "fghij"]
    assert split_to_fit("  \n ", fits) == []


def test_sentences_stay_apart_even_where_two_would_fit():
    assert split_to_fit("A b. C d. E f.", lambda part: len(part) <= 10) == ["A b.", "C d.", "E f."]


@given(st.text("ab ,.。，\n", max_size=60), st.integers(1, 9))
def test_all_parts_fit_and_nothing_but_space_is_lost(text, room):
    parts = split_to_fit(text, lambda part: len(part) <= room)
    assert all(0 < len(part) <= room for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())
