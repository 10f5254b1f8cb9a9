"""The figure that compares two sightings."""

import pytest
import torch

from regard.colours import hexadecimal, signed
from regard.sight.sighting import Sighting
from regard.sight.watch import watch
from sightings import watched

matplotlib = pytest.importorskip("matplotlib", reason="pip install regard[pictures] draws figures")


def other() -> Sighting:
    from regard.models import Gpt, GptConfig

    torch.manual_seed(1)
    model = Gpt(GptConfig(vocabulary=13, d_model=32, heads=4, layers=2, context=11, positions="rotary")).eval()
    with torch.no_grad(), watch(model) as seen:
        model(torch.arange(11)[None])
    return seen


def test_colours_are_symmetric_about_zero() -> None:
    compared = watched().compare(other())
    figure = compared.figure(1, 2)
    image = figure.axes[0].images[0]
    cells = compared.pooled[1, 0][0, 2]
    low, high = image.get_clim()
    assert low == -high
    assert high == pytest.approx(float(cells.abs().max()))
    torch.testing.assert_close(torch.tensor(image.get_array()), cells.float(), check_dtype=False)
    assert matplotlib.colors.to_hex(image.to_rgba(0.0)) == hexadecimal(signed(0.0, dark=False))
    assert matplotlib.colors.to_hex(image.to_rgba(high)) == hexadecimal(signed(1.0, dark=False))
    assert matplotlib.colors.to_hex(image.to_rgba(low)) == hexadecimal(signed(-1.0, dark=False))


def test_without_a_head_the_heads_that_differ_most_come_first() -> None:
    compared = watched().compare(other())
    titles = [name for axes in compared.figure().axes if (name := axes.get_title(loc="left")).startswith("layer")]
    assert len(titles) == 8
    first = compared.largest(1)[0]
    assert titles[0].startswith(f"layer {first['layer']} · head {first['head']} ")


def test_errors() -> None:
    compared = watched().compare(other())
    with pytest.raises(ValueError, match="together"):
        compared.figure(1)
    with pytest.raises(IndexError, match="layer 9"):
        compared.figure(9, 0)
    with pytest.raises(IndexError, match="batch is 3"):
        compared.figure(0, 0, batch=3)
    apart = watched(["a", "b", "c"], labels=False).compare(other())
    with pytest.raises(ValueError, match="no maps"):
        apart.figure()
