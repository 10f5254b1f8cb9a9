"""Terminal views of a sighting, with colour and without."""

import dataclasses

import pytest

from regard.colours import blue, red
from regard.readings import Entropy
from regard.sight.proof import Proof
from regard.sight.views.terminal import heads_text, pattern_text, words_text
from regard.terminal import Pen, columns
from sightings import WORDS, long, translated, watched


def code(colour: tuple[int, int, int], ground: int = 38) -> str:
    return f"{ground};2;{colour[0]};{colour[1]};{colour[2]}"


def test_every_head_has_a_thumbnail_and_the_proof_stands_below() -> None:
    seen = watched(heads=4, layers=2)
    plain = heads_text(seen, Pen())
    rows = plain.splitlines()
    assert "\x1b" not in plain
    assert rows[0].split() == ["0", "1", "2", "3"]
    assert [row.split()[0] for row in rows if row[:3].strip().isdigit()] == ["0", "1"]
    assert "✓ row sums" in rows[-1]
    assert max(map(columns, rows[:-1])) <= 5 + 4 * 9


def test_heads_that_do_not_fit_are_counted() -> None:
    assert "… 2 more" in heads_text(watched(heads=4), Pen(), width=24)


def test_a_pattern_shows_its_words_numbers_and_mask() -> None:
    seen = watched(WORDS[:4])
    assert float(seen.head(0, 1).tile()[0, 0]) == pytest.approx(1)
    plain = pattern_text(seen, 0, 1, Pen())
    assert "1.00@" in plain
    assert plain.count("/") == 6
    coloured = pattern_text(seen, 0, 1, Pen(True, dark=False))
    assert code(blue(float(seen.head(0, 1).tile()[0, 0]), dark=False), 48) in coloured


@pytest.mark.parametrize(("width", "lines"), [(40, 11), (8, 3)])
def test_a_narrow_terminal_gets_a_pattern_without_numbers(width: int, lines: int) -> None:
    plain = pattern_text(watched(), 0, 1, Pen(), width=width)
    body = plain.split("\n\n")[1].splitlines()
    assert len(body) == lines
    assert all(columns(line) <= width for line in body)


def test_words_are_red_and_blue() -> None:
    seen = watched()
    plain = words_text(seen, 1, 2, Pen(), queries=[6])
    assert "[criminal]" in plain
    assert code(red(dark=True)) in words_text(seen, 1, 2, Pen(True), queries=[6])
    assert len(words_text(seen, 1, 2, Pen()).splitlines()) == len(WORDS) + 2


def test_cross_attention_names_the_query_first() -> None:
    seen = translated()
    layer = next(one.layer for one in seen if one.kind == "cross")
    assert words_text(seen, layer, 0, Pen(), queries=[2]).startswith("[love]")


def test_errors_without_maps_or_kept_queries() -> None:
    without_maps = watched(readings=[Entropy()], keep=False)
    assert "Pooled(64, 64)" in heads_text(without_maps, Pen())
    with pytest.raises(ValueError, match="keep=True"):
        pattern_text(without_maps, 0, 0, Pen())
    with pytest.raises(ValueError, match="keep=True"):
        words_text(long(50, keep=False, side=8), 0, 0, Pen())


def test_a_proof_that_fails_is_bold() -> None:
    seen = watched()
    seen._all[0] = dataclasses.replace(seen[0], proof=Proof(0.3, 0.2, 9, "", "native", False))
    assert "DOES NOT HOLD" in heads_text(seen, Pen())
    assert "\x1b[1m✗" in heads_text(seen, Pen(True))
