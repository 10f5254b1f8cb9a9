"""The displayed text of tokens, for every way in which tokenizers write them."""

import pytest

from regard.sight.views.token_display import DisplayToken, display_tokens


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
def test_text_and_mark(tokens: list[str], expected: list[tuple[str, str]]) -> None:
    assert [(token.text, token.mark) for token in display_tokens(tokens)] == expected


def test_a_character_split_into_bytes_is_shown_whole_on_each_part() -> None:
    by_fallback = display_tokens(["<0xE5>", "<0x9B>", "<0xBD>", "▁is"])
    assert [p.text for p in by_fallback] == ["国", "国", "国", "is"]
    assert [p.part for p in by_fallback] == [(1, 3), (2, 3), (3, 3), None]
    by_alphabet = display_tokens(["Ġa", "Ġå", "Ľ½"])
    assert by_alphabet == [DisplayToken("a", "_"), DisplayToken("国", "_", (1, 2)), DisplayToken("国", "+", (2, 2))]
    assert by_alphabet[2].label == "国 2/2"


def test_broken_bytes_do_not_break_the_picture() -> None:
    assert [p.text for p in display_tokens(["<0xFF>", "<0xE5>", "▁x"])] == ["�", "�", "x"]


def test_every_token_has_one_display_token() -> None:
    tokens = ["Ġ", "", "å", "<0xE5>", "[MASK]", "ĠĠ", "b"]
    assert len(display_tokens(tokens)) == len(tokens)
    assert display_tokens([]) == []
