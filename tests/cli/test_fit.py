"""`regard fit`: what it prints, what it draws, and its errors."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from command_line import regard

from regard.models.kernel_regression import textbook_data


def run(*arguments):
    return regard("fit", *arguments)


def write(path, header, rows):
    path.write_text("\n".join([header, *(",".join(f"{cell}" for cell in row) for row in rows)]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def textbook(tmp_path):
    X, y = textbook_data(200)
    return write(tmp_path / "textbook.csv", "x,y", zip(X[:, 0], y, strict=True))


def test_the_learned_width_beats_the_baselines(textbook):
    result = run(textbook, "--target", "y", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    r2 = report["r2"]
    assert report["rows"] == 200
    assert report["held_out"] == 50
    assert 2 < report["width"] < 10
    assert r2["kernel regression"] > max(r2["5 nearest"], r2["width 1"])
    assert r2["average pooling"] < 0.05


def test_prints_scores_and_draws_a_picture(textbook, tmp_path):
    picture = tmp_path / "fit.svg"
    result = run(textbook, "-t", "y", "--width", "4", "--kernel", "epanechnikov", "--out", picture)
    assert result.exit_code == 0, result.output
    assert "average pooling    R²" in result.stdout
    assert "w 4, the inverse bandwidth" in result.stdout
    assert "bandwidth 1/w 0.25" in result.stdout
    assert "learned" not in result.stdout
    text = "".join(ET.parse(picture).getroot().itertext())
    assert "held out" in text
    assert "weight (linear)" in text


def test_a_bandwidth_is_the_inverse_of_a_width(textbook):
    by_width, by_bandwidth = (json.loads(run(textbook, "-t", "y", *words, "--json").stdout) for words in (("-w", "4"), ("-b", "0.25")))
    assert by_width == by_bandwidth
    assert by_width["bandwidth"] == 0.25
    both = run(textbook, "-t", "y", "-w", "4", "-b", "0.25")
    assert both.exit_code == 2
    assert "not both" in both.output
    assert "expected a number > 0" in run(textbook, "-t", "y", "-b", "0").output


def test_several_features_get_a_width_each(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    data = write(tmp_path / "two.csv", "useful,noise,y", np.c_[X, np.sin(2 * X[:, 0])])
    report = json.loads(run(data, "-t", "y", "--json", "--out", tmp_path / "two.png").stdout)
    assert report["width"]["useful"] > 10 * report["width"]["noise"]
    assert (tmp_path / "two.png").read_bytes().startswith(b"\x89PNG")
    noise_only = json.loads(run(data, "-t", "y", "--json", "--features", "noise").stdout)
    assert noise_only["features"] == ["noise"]
    assert noise_only["r2"]["kernel regression"] < 0.2 < report["r2"]["kernel regression"]


def test_tab_separated(tmp_path):
    data = tmp_path / "t.tsv"
    data.write_text("x\ty\n" + "".join(f"{i}\t{2 * i}\n" for i in range(20)))
    assert json.loads(run(data, "-t", "y", "--json").stdout)["rows"] == 20


ROWS = [(i, i) for i in range(10)]


@pytest.mark.parametrize(
    ("header", "rows", "options", "message"),
    [
        ("x,y", ROWS, ["-t", "z"], "there is no column 'z'; the columns are x, y"),
        ("x,y", ROWS, ["-t", "y", "--features", "q"], "there is no column 'q'"),
        ("x,y", [*ROWS, ("red", 3)], ["-t", "y"], "data.csv:12: column 'x' is 'red'; expected a number"),
        ("x,y", [*ROWS, (1, "")], ["-t", "y"], "data.csv:12: column 'y' is empty; expected a number"),
        ("x,y", [*ROWS, (1, "nan")], ["-t", "y"], "data.csv:12: column 'y' is 'nan'"),
        ("x,y", [(1, 2, 3), *ROWS], ["-t", "y"], "data.csv:2: 3 cells, but the header has 2"),
        ("x,y", ROWS[:5], ["-t", "y"], "5 rows; at least 8 are needed"),
        ("y", [(i,) for i in range(10)], ["-t", "y"], "needs at least one other column"),
        ("x,y", ROWS, ["-t", "y", "--width", "wide"], "--width is 'wide'; expected learn, a number"),
        ("x,y", ROWS, ["-t", "y", "--width", "1,2"], "or 1 of them, one per feature"),
        ("x,y", ROWS, ["-t", "y", "--kernel", "cosine"], "kernel is 'cosine'; expected one of gaussian"),
        ("x,y", ROWS, ["-t", "y", "--out", "fit.txt"], "a figure is saved as .svg, .png, .pdf"),
    ],
)
def test_errors_name_the_place_and_what_to_do(tmp_path, header, rows, options, message):
    result = run(write(tmp_path / "data.csv", header, rows), *options)
    assert result.exit_code == 2
    assert message in result.output
