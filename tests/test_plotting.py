"""The shared figure style: which files it writes, the same bytes each time, and no package of ours but the colours behind it."""

import subprocess
import sys
from pathlib import Path

import pytest

from regard.plotting import blank, escape_dollars, figure_file, figure_style, finish, save_figure

pytest.importorskip("matplotlib", reason="matplotlib is not installed; pip install 'regard[pictures]'")


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_the_same_figure_is_the_same_file(tmp_path: Path, suffix: str) -> None:
    written = []
    for number in range(2):
        with figure_style([]):
            figure = blank(2, 1)
            figure.subplots().plot([0, 1], [0, 1])
            finish(figure, "a title that costs $5", None)
        written.append(save_figure(figure, tmp_path / "folder" / f"{number}{suffix}").read_bytes())
    assert written[0] == written[1]


def test_a_suffix_no_figure_is_saved_as() -> None:
    with pytest.raises(ValueError, match=r"a\.gif ends in \.gif; a figure is saved as \.svg, \.png, \.pdf"):
        figure_file("a.gif")


def test_dollar_signs_are_not_formulas() -> None:
    assert escape_dollars("$5 and $6") == r"\$5 and \$6"


def test_importing_the_style_imports_neither_matplotlib_nor_sight() -> None:
    code = "import sys, regard.plotting; print([m for m in ('matplotlib', 'regard.sight') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
