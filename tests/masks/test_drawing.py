"""Masks as text and as SVG."""

from __future__ import annotations

import pytest
import torch

from regard.masks import causal, dense, documents, everything, global_tokens, padding, per_head, window


def test_drawings() -> None:
    assert causal().draw(2, 3) == "████··\n██████"
    assert causal().draw(2, 3, ascii=True) == "####..\n######"
    assert causal().draw(4, 4, width=4) == "▒▒··\n██▒▒"
    assert per_head([causal(), everything()]).draw(2, 2, head=1) == "████\n████"
    assert padding([1, 2]).draw(1, 2, batch=1) == "████"
    assert causal().draw(0, 3) == ""
    assert len(causal().draw(1_000_000, 1_000_000, width=8).splitlines()) == 4
    with pytest.raises(ValueError, match="head is 2 but"):
        per_head([causal(), causal()]).draw(2, 2, head=2)
    with pytest.raises(ValueError, match="width is 1"):
        causal().draw(2, 2, width=1)


def test_the_notebook_picture_is_whole_and_follows_the_scheme() -> None:
    from xml.etree import ElementTree

    for mask in (causal() & window(2, 0) | global_tokens([0]), dense(torch.eye(70, dtype=torch.bool)), padding([0]), documents([])):
        tree = ElementTree.fromstring(mask._repr_html_().replace("<br>", "<br/>"))
        assert tree.tag == "figure"
        code = tree.find(".//code")
        assert code is not None
        assert code.text == repr(mask)
        assert tree.find(".//pattern") is not None
    page = causal()._repr_html_()
    assert "prefers-color-scheme:dark" in page
    assert page.count('class="all"') == 12  # one run per row of the triangle
    assert len(dense(torch.rand(500, 500) < 0.5)._repr_html_()) < 60_000
