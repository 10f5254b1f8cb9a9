"""Translate, Look, Regression and Cost in a real browser: what is typed, dropped, dragged and switched comes to the library's numbers."""

import json
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.cost import plan
from regard.models.kernel_regression import NadarayaWatson, textbook_data

Visit = Callable[..., Any]


def ask(studio: str, path: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(studio + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=900) as answer:
        return json.load(answer)


def test_a_translation_appears_with_its_alignment(visit: Visit, wait: Any, studio: str) -> None:
    page = visit("#translate")
    box = page.locator("textarea")
    box.fill("c a b")
    box.press("Enter")
    wanted = ask(studio, "api/translate", {"models": ["reverser", "fixed"], "text": "c a b", "width": 4})["translations"]
    wait(page.locator("[data-result]")).to_have_text(wanted[0]["candidates"][0]["text"])
    wait(page.locator('[data-other="fixed"] .st-said')).to_have_text(wanted[1]["candidates"][0]["text"] or "…")
    wait(page.locator(".rv-wordrow").first).to_contain_text("c")
    word = page.locator(".rv-wordrow .rv-token").last
    word.hover()
    wait(page.locator(".rv-said")).not_to_contain_text("Point at")
    page.locator("ol.st-alts button").nth(1).click()
    wait(page.locator("[data-result]")).to_have_text(wanted[0]["candidates"][1]["text"] or "…")
    assert "text=c+a+b" in page.url


def test_hard_attention_reads_one_place(visit: Visit, wait: Any, studio: str) -> None:
    page = visit("#translate?text=a+b+c&models=reverser")
    wait(page.locator("[data-result]")).to_be_visible()
    page.locator('[data-v="hard"]').click()
    hard = ask(studio, "api/translate", {"models": ["reverser"], "text": "a b c", "width": 4, "hard": True})["translations"][0][
        "candidates"
    ][0]
    wait(page.locator("[data-result]")).to_have_text(hard["text"])
    wait(page.locator('[data-v="hard"]')).to_have_attribute("aria-pressed", "true")
    assert "hard=true" in page.url


def test_a_text_is_looked_at_and_heads_are_changed(visit: Visit, wait: Any, studio: str) -> None:
    page = visit("#look?model=letters&text=the+lazy+dog")
    wait(page.locator("[data-facts]")).to_contain_text("12 tokens")
    page.locator("textarea").first.fill("the quick brown fox")
    page.get_by_role("button", name="Inspect", exact=True).click()
    wait(page.locator("[data-facts]")).to_contain_text("19 tokens")
    wait(page.locator(".rv-proof > summary")).to_contain_text("✓")
    page.locator("[data-apply]").click()
    place = re.search(r"layer (\d+), head (\d+)", page.locator(".st-card b").first.inner_text())
    assert place is not None
    changes = [{"layer": int(place[1]), "head": int(place[2]), "what": "mute"}]
    wanted = ask(studio, "api/look/what-if", {"model": "letters", "text": "the quick brown fox", "changes": changes})
    wait(page.locator("[data-mean]")).to_have_text(re.compile(r"\d"))
    shown = page.locator("[data-mean]").inner_text().strip().replace("·10", "e").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    assert float(shown) == pytest.approx(wanted["mean"], rel=0.06, abs=1e-4)
    page.get_by_role("button", name="Undo all").click()
    wait(page.locator("[data-mean]")).to_have_count(0)
    page.locator('.rv-tab[data-view="words"]').click()
    wait(page.locator(".rv-words").last).to_be_visible()
    page.keyboard.press("]")
    page.wait_for_url(re.compile("view=words"))
    assert "layer=" in page.url


def test_a_long_look_can_be_cancelled_and_nothing_typed_is_lost(visit: Visit, wait: Any) -> None:
    page = visit("#look?model=letters&text=the+lazy+dog", refusals=True)
    wait(page.locator("[data-facts]")).to_contain_text("12 tokens")
    long = "the quick brown fox. " * 1500
    page.locator("textarea").first.fill(long)
    page.get_by_role("button", name="Inspect", exact=True).click()
    wait(page.locator(".st-progress").first).to_be_visible()
    page.get_by_role("button", name="Cancel").first.click()
    wait(page.locator(".st-progress").first).to_be_hidden()
    wait(page.locator("[data-facts]")).to_contain_text("12 tokens")
    assert page.locator("textarea").first.input_value() == long


def test_one_word_in_several_sentences(visit: Visit, wait: Any, studio: str) -> None:
    page = visit("#look?model=letters&text=the+fox", refusals=True)
    card = page.locator(".st-card").last
    card.locator("select").select_option("letters")
    card.locator("input[type=text]").fill("fox")
    card.locator("textarea").fill("a fox\nthe lazy fox")
    card.locator("textarea").blur()
    wanted = ask(studio, "api/look/meanings", {"model": "letters", "word": "fox", "sentences": ["a fox", "the lazy fox"]})
    wait(card.locator("[data-apart]")).to_contain_text(f"cos(1, 2): {round(wanted['cosine'][0][0][1], 3):g} →")
    wait(card.locator(".st-plane path").first).to_be_attached()
    card.locator("input[type=text]").fill("cat")
    card.locator("input[type=text]").blur()
    wait(card.locator(".st-problem[role=alert]")).to_contain_text("cat")


def test_the_fit_moves_with_the_width(visit: Visit, wait: Any) -> None:
    page = visit("#regression")
    X, y = textbook_data()
    learned = NadarayaWatson(width="learn").fit(X, y)
    wait(page.locator('[data-fact="learned"]')).to_have_text(f"{learned.loo_error_:.4f}".rstrip("0"))
    wait(page.locator('[data-fact="now"]')).to_have_text("0.6763")
    page.get_by_role("button", name="Use the learned w").click()
    wait(page.locator('[data-fact="now"]')).to_have_text(f"{learned.loo_error_:.4f}".rstrip("0"))
    page.get_by_label("w, inverse bandwidth", exact=True).fill(str(np.log(0.2)))
    wait(page.locator('[data-fact="now"]')).to_have_text(re.compile(r"^1\.\d+"))
    page.get_by_label("Query", exact=True).fill("3")
    wait(page.locator(".st-split output").first).to_contain_text("x = 0.")


def test_a_table_of_one_s_own(visit: Visit, wait: Any, tmp_path: Path) -> None:
    page = visit("#regression")
    good, bad = tmp_path / "mine.csv", tmp_path / "bad.csv"
    good.write_text("time;height\n" + "".join(f"{i},5;{i * i}\n" for i in range(20)) + "x;y\n")
    bad.write_text("a,b\nc,d\n")
    page.locator("input[type=file]").set_input_files(good)
    wait(page.locator(".st-card")).to_contain_text("mine.csv · 20 points")
    wait(page.locator(".st-chart").first.locator("circle[stroke]")).to_have_count(20)
    page.locator("input[type=file]").set_input_files(bad)
    wait(page.locator(".st-problem")).to_contain_text("two columns of numbers")
    page.get_by_role("button", name="Back to the textbook").click()
    wait(page.locator(".st-chart").first.locator("circle[stroke]")).to_have_count(50)


def test_costs_are_counted_with_their_formulas(visit: Visit, wait: Any) -> None:
    page = visit("#cost")
    wait(page.locator("[data-total]")).to_have_text("175,181,291,520")
    wait(page.locator("[data-formula]")).to_contain_text("12,288 · 128 · 96 · 96 = 14,495,514,624")
    page.locator('[data-v="stored"]').click()
    wait(page.locator("[data-total]")).to_have_text("174,604,259,328")
    page.locator(".st-field select").first.select_option("llama-2-7b")
    wait(page.locator("[data-total]")).to_have_text(f"{plan('llama-2-7b').total.value:,}")
    page.locator("details summary").first.click()
    area = page.locator("details textarea")
    area.fill('{"model_type": "gpt2", "n_layer": 2')
    page.get_by_role("button", name="Count it").click()
    wait(page.locator(".st-problem").first).to_contain_text("not JSON")
    area.fill('{"model_type": "gpt2", "n_layer": 2}')
    page.get_by_role("button", name="Count it").click()
    wait(page.locator("[data-total]")).to_have_text(f"{plan({'model_type': 'gpt2', 'n_layer': 2}).total.value:,}")
    assert area.input_value() == '{"model_type": "gpt2", "n_layer": 2}'


@pytest.mark.slow
def test_this_machine_is_measured(visit: Visit, wait: Any, studio: str) -> None:
    found = ask(studio, "api/cost/measure", {})  # as long as this machine needs; the page is then told at once
    page = visit("#cost", lang="zh")
    page.locator("[data-measure]").click()
    wait(page.locator("[data-machine]")).to_contain_text(re.compile(r"\d 个?线程.*负载为 \d"))
    wait(page.locator("[data-measure]")).to_have_text("再测一次")
    wait(page.locator("[data-measure]")).to_be_enabled()
    wait(page.locator("[data-recurrence]")).to_contain_text("倍", timeout=120_000)
    wait(page.locator(".st-card").last).to_contain_text(found["kernel"])
