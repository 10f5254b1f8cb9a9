"""Matplotlib figures: numbers and colours, text stored as text, Chinese text, nothing cut off."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import plotting
from regard.colours import blue, hexadecimal, red
from regard.readings import Entropy
from regard.sight.proof import Proof
from regard.sight.views import figures, word_figures
from sightings import WORDS, long, translated, watched

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed; pip install 'regard[pictures]'")
CHINESE = list("我在苹果店买了一个苹果，$5")
FIGURES = {"pattern": figures.pattern, "words": word_figures.words, "alignment": word_figures.alignment}
needs_font = pytest.mark.skipif(plotting._cjk_font() is None, reason="no font with Chinese characters here; apt install fonts-noto-cjk")


def overflowing(figure: Any) -> list[str]:
    """Return the texts that extend beyond the figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    canvas = FigureCanvasAgg(figure)
    with plotting.figure_style(["我"]):
        canvas.draw()
        renderer, width, height = canvas.get_renderer(), figure.bbox.width, figure.bbox.height
        out = []
        for text in figure.findobj(Text):
            if text.get_text().strip() and text.get_visible():
                box = text.get_window_extent(renderer)
                if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1:
                    out.append(text.get_text())
    return out


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("kind", ["heads", "pattern", "words", "alignment"])
def test_figures_fit_their_columns_and_cut_nothing_off(kind: str, columns: int) -> None:
    seen = watched()
    figure = figures.heads(seen, columns=columns) if kind == "heads" else FIGURES[kind](seen, 1, 2, columns=columns)
    assert figure.get_figwidth() == figures.WIDTHS[columns]
    assert figure.get_figheight() <= 9.3
    assert overflowing(figure) == []


@needs_font
@pytest.mark.parametrize("kind", ["pattern", "words", "alignment"])
def test_chinese_fits_too(kind: str, recwarn: pytest.WarningsRecorder) -> None:
    assert overflowing(FIGURES[kind](watched(CHINESE), 1, 2)) == []
    assert [str(w.message) for w in recwarn] == []


@needs_font
def test_text_stays_text(tmp_path: Path) -> None:
    path = figures.save_figure(figures.pattern(watched(CHINESE), 0, 1), tmp_path / "a.svg")
    drawn = path.read_text(encoding="utf-8")
    for character in (*CHINESE, "layer 0 · head 1", "row sums"):
        assert character in "".join(re.findall(r"<text[^>]*>([^<]*)</text>", drawn))
    assert "CJK" in drawn or "Han" in drawn or "WenQuanYi" in drawn


def test_the_pattern_is_the_weights_in_both_forms() -> None:
    seen = watched()
    weights = seen.head(1, 2).tile().double().numpy()
    for form, expected in (("row", weights), ("column", weights.T)):
        axes = figures.pattern(seen, 1, 2, form=form).axes[0]
        image = axes.images[0]
        np.testing.assert_allclose(np.ma.getdata(image.get_array()), expected, atol=1e-6)
        assert bool(np.ma.getmaskarray(image.get_array())[0 if form == "row" else -1, -1 if form == "row" else 0])
        names = [tick.get_text() for tick in axes.get_yticklabels()]
        assert names == ["‹s›", *(word[1:] for word in WORDS[1:])]
        r, g, b, _ = image.cmap(image.norm(1.0))
        assert hexadecimal((round(255 * r), round(255 * g), round(255 * b))) == hexadecimal(blue(1, dark=False))


def test_rank_and_log_order_cells_as_the_weights_do() -> None:
    seen = watched()
    weights = seen.head(1, 2).tile().double().flatten()
    order = weights[weights > 0].argsort()
    for scale in ("log", "rank"):
        image = figures.pattern(seen, 1, 2, scale=scale).axes[0].images[0]  # type: ignore[arg-type]
        place = torch.tensor(np.ma.getdata(image.norm(np.ma.getdata(image.get_array())))).flatten()[weights > 0][order]
        assert bool((place.diff() >= 0).all())
        assert float(place.max()) > 0.99
    with pytest.raises(ValueError, match="use linear, log or rank"):
        figures.pattern(seen, 1, 2, scale="loud")  # type: ignore[arg-type]


def test_the_current_word_is_red_and_the_heaviest_is_the_darkest() -> None:
    seen = watched()
    query = 6
    weights = seen.head(1, 2).tile()[query]
    figure = word_figures.words(seen, 1, 2, query=query)
    texts = {t.get_text(): t.get_color() for t in figure.axes[0].texts}
    assert texts["criminal"] == hexadecimal(red(dark=False))
    assert list(texts.values()).count(hexadecimal(red(dark=False))) == 1
    faces = {tuple(round(255 * c) for c in patch.get_facecolor()[:3]) for patch in figure.axes[0].patches}
    other = max(float(weights[k]) for k in range(len(WORDS)) if k != query)
    assert blue(other, dark=False) in faces


def test_lines_are_as_many_as_the_weights_worth_drawing() -> None:
    weights = torch.tensor([[0.99, 0.01], [0.4, 0.6]])
    figure = word_figures.alignment_lines(weights, ["I", "love"], ["我", "爱"], title="我爱")
    assert len(figure.axes[0].patches) == 3
    strong, weak = (
        max(figure.axes[0].patches, key=lambda p: p.get_linewidth()),
        min(figure.axes[0].patches, key=lambda p: p.get_linewidth()),
    )
    assert strong.get_linewidth() > weak.get_linewidth()


def test_cross_attention_has_its_own_words_on_each_side() -> None:
    seen = translated()
    layer = next(one.layer for one in seen if one.kind == "cross")
    axes = figures.pattern(seen, layer, 0).axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["‹s›", "I", "love"]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["我", "爱", "中", "国"]


def test_a_long_text_is_drawn_by_its_map_and_refused_where_it_cannot_fit() -> None:
    seen = long(700, side=64, keep=False)
    figure = figures.pattern(seen, 0, 1, columns=2)
    assert figure.axes[0].images[0].get_array().shape == (64, 64)
    assert tuple(figure.axes[0].images[0].get_extent()) == (-0.5, 699.5, 699.5, -0.5)
    assert overflowing(figure) == []
    with pytest.raises(ValueError, match="keep=True"):
        word_figures.words(seen, 0, 1)
    with pytest.raises(ValueError, match="do not fit into one figure"):
        word_figures.words(long(200, keep=True), 0, 1)


def test_a_proof_that_fails_is_printed_large() -> None:
    seen = watched()
    seen._all = [dataclasses.replace(one, proof=Proof(0.3, 0.2, 9, "causal()", "native", False)) for one in seen]
    texts = [t for t in figures.pattern(seen, 0, 0).findobj(matplotlib.text.Text) if "DOES NOT HOLD" in t.get_text()]
    assert len(texts) == 1
    assert texts[0].get_fontsize() > 8


def test_files_are_written_alike_each_time_and_only_in_known_kinds(tmp_path: Path) -> None:
    seen = watched()
    for kind in ("svg", "png", "pdf"):
        first, second = (figures.write_figure(seen, tmp_path / f"{i}.{kind}") for i in range(2))
        assert first.read_bytes() == second.read_bytes()
    one = figures.write_figure(seen, tmp_path / "one.svg", layer=1, head=2)
    assert "layer 1 · head 2" in one.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"saved as \.svg, \.png, \.pdf"):
        figures.write_figure(seen, tmp_path / "a.gif")
    with pytest.raises(ValueError, match="give both"):
        figures.write_figure(seen, tmp_path / "a.svg", layer=1)


def test_without_maps_or_fonts_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    without_maps = watched(readings=[Entropy()], keep=False)
    with pytest.raises(ValueError, match="Pooled"):
        figures.pattern(without_maps, 0, 0)
    with pytest.raises(ValueError, match="Pooled"):
        figures.heads(without_maps)
    monkeypatch.setattr(plotting, "_cjk_font", lambda: None)
    with pytest.warns(UserWarning, match="fonts-noto-cjk"):
        figures.pattern(watched(CHINESE), 0, 0)


def test_heads_are_numbered_cells_are_square_and_axes_are_named() -> None:
    seen = watched()
    figure = figures.heads(seen)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == [f"head {i}" for i in seen[0].head_ids]
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"layer {s.layer}" for s in seen]
    assert axes.get_box_aspect() == len(seen) / len(seen[0].head_ids)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("keys", "queries")
    assert figures.pattern(seen, 1, 2).axes[0].get_aspect() == 1
