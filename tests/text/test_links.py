"""Alignments by hand: the file, the error rate, and the baselines."""

import pytest

from regard.text.links import Aligned, CountedAlignment, diagonal, error_rate, read_alignments, words_of


def test_the_pairs_of_the_package_are_complete():
    pairs = read_alignments()
    assert len(pairs) == 100
    for pair in pairs:
        assert pair.sure <= pair.possible
        assert (len(pair.source) - 1, len(pair.target) - 1) in pair.sure  # the full stops
        assert "tatoeba.org" in pair.attribution
        assert words_of("".join(pair.source)) == pair.source
    linked = sum(len({j for _, j in pair.possible}) for pair in pairs) / sum(len(pair.target) for pair in pairs)
    assert linked > 0.95


def test_the_error_rate_by_hand():
    pair = Aligned(["a", "b", "c"], ["x", "y"], frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1), (2, 1)}))
    assert error_rate([{(0, 0), (1, 1)}], [pair]) == 0
    assert error_rate([{(0, 0), (2, 1), (2, 0)}], [pair]) == pytest.approx(1 - (1 + 2) / (3 + 2))
    assert error_rate([pair.sure], [pair]) == 0


def test_the_diagonal():
    assert diagonal(Aligned(list("abcd"), list("xy"), frozenset(), frozenset())) == {(1, 0), (3, 1)}


def test_counts_find_words_that_change_places():
    pairs = [(["我", "吃", "鱼"], ["fish", "eat", "I"]), (["我", "看", "书"], ["book", "read", "I"])]
    pairs += [(["你", "吃", "书"], ["book", "eat", "you"]), (["你", "看", "鱼"], ["fish", "read", "you"])]
    counted = CountedAlignment(pairs * 5, rounds=10, tension=0.0)
    assert counted.links(["我", "看", "鱼"], ["fish", "read", "I"]) == {(2, 0), (1, 1), (0, 2)}


@pytest.mark.parametrize(
    ("content", "message"),
    [("a b\tx\n", "1: 2 column"), ("a\tx\t0-1\n", "'0-1' is not a link of 1 source and 1 target"), ("\n", "no aligned pairs")],
)
def test_bad_files_are_named(tmp_path, content, message):
    (tmp_path / "f.tsv").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_alignments(tmp_path / "f.tsv")
