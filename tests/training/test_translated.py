"""A translation as a result: one text or a list, its candidates, files and displays."""

import json

import pytest

import regard
from regard.training.tasks.translation import Translated


@pytest.fixture(scope="module")
def translator():
    return regard.open("zh-en-transformer")


def test_one_string_is_one_text(translator):
    result = translator.translate("我爱中国")
    assert isinstance(result, Translated)
    assert (result.text, str(result), result.source) == ("I love China.", "I love China.", "我爱中国")
    assert result.alignment.shape == (len(result.target_words), len(result.source_words))
    assert repr(result).startswith("Translated('我爱中国' → 'I love China.'")
    assert len(repr(result)) < 120


def test_a_list_gives_a_list_in_its_order(translator):
    texts = ["我爱中国", "你好", "我爱中国"]
    results = translator.translate(texts, align=False)
    assert [one.source for one in results] == texts
    assert results[0].text == results[2].text == "I love China."
    assert results[0].alignment is None
    assert translator.translate([]) == []


def test_other_candidates_come_with_the_best(translator):
    best = translator.translate("我爱中国", n_best=3)
    assert len(best.others) == 2
    scores = [one.score for one in (best, *best.others)]
    assert scores == sorted(scores, reverse=True)
    assert [one.text for one in (best, *best.others)] == [one.text for one in translator.candidates(["我爱中国"], n_best=3)[0]]


def test_a_long_text_is_translated_in_parts(translator):
    result = translator.translate("我爱中国。" * 60, width=1)
    assert result.text.count("I love China.") >= 50
    assert result.alignment is None
    assert result._repr_html_().startswith("<p>")
    with pytest.raises(ValueError, match="there is no alignment to draw"):
        result.save("a.html")


def test_it_is_saved_as_page_figure_and_json(translator, tmp_path):
    result = translator.translate("我爱中国", n_best=2)
    assert "<!doctype html>" in result.save(tmp_path / "a.html").read_text(encoding="utf-8")
    assert "China" in result.save(tmp_path / "a.svg").read_text(encoding="utf-8")
    saved = json.loads(result.save(tmp_path / "a.json").read_text(encoding="utf-8"))
    assert saved["source"] == "我爱中国"
    assert [one["text"] for one in saved["translations"]] == [result.text, result.others[0].text]
    assert len(saved["translations"][0]["alignment"]) == len(result.target_words)
    with pytest.raises(ValueError, match=r"a translation is saved as \.html"):
        result.save(tmp_path / "a.docx")


def test_it_shows_its_alignment_in_a_notebook(translator):
    html = translator.translate("我爱中国")._repr_html_()
    assert html.startswith("<iframe")
    assert "China" in html
