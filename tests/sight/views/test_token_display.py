"""Tokens as people read them, whatever alphabet a tokeniser writes in."""

import pytest

from regard.sight.views.token_display import Piece, read_pieces


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["▁The", "▁run", "ning"], [("The", "_"), ("run", "_"), ("ning", ".")]),
        (["ĠThe", "ĠFBI", "Ċ"], [("The", "_"), ("FBI", "_"), ("⏎", ".")]),
        (["chas", "##ing"], [("chas", "."), ("ing", "+")]),
        (["[CLS]", "<|endoftext|>", "<pad>", "</s>"], [("CLS", "*"), ("endoftext", "*"), ("pad", "*"), ("/s", "*")]),
        (["</script>", "<b>", "[x]"], [("</script>", "."), ("<b>", "."), ("[x]", ".")]),
        (["på", "gård", "żółw"], [("på", "."), ("gård", "."), ("żółw", ".")]),
        (["我", "爱", "中国"], [("我", "."), ("爱", "."), ("中国", ".")]),
        (["\t", "a\x07b"], [("⇥", "."), ("a‹07›b", ".")]),
    ],
)
def test_pieces_read_as_words(tokens: list[str], expected: list[tuple[str, str]]) -> None:
    assert [(piece.text, piece.mark) for piece in read_pieces(tokens)] == expected


def test_a_character_split_into_bytes_is_shown_whole_on_each_part() -> None:
    by_fallback = read_pieces(["<0xE5>", "<0x9B>", "<0xBD>", "▁is"])
    assert [p.text for p in by_fallback] == ["国", "国", "国", "is"]
    assert [p.part for p in by_fallback] == [(1, 3), (2, 3), (3, 3), None]
    by_alphabet = read_pieces(["Ġa", "Ġå", "Ľ½"])
    assert by_alphabet == [Piece("a", "_"), Piece("国", "_", (1, 2)), Piece("国", "+", (2, 2))]
    assert by_alphabet[2].label == "国 2/2"


def test_broken_bytes_do_not_break_the_picture() -> None:
    assert [p.text for p in read_pieces(["<0xFF>", "<0xE5>", "▁x"])] == ["�", "�", "x"]


def test_every_token_has_one_piece() -> None:
    tokens = ["Ġ", "", "å", "<0xE5>", "[MASK]", "ĠĠ", "b"]
    assert len(read_pieces(tokens)) == len(tokens)
    assert read_pieces([]) == []
