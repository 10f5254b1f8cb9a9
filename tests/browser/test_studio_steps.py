"""Steps in a real browser: the cells are the library's numbers, and the arithmetic under the pointer comes to them."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import regard

Visit = Callable[..., Any]
E = torch.tensor([[0, 0, 0, 0.1, 0.1], [0, 1, 0, 1, 0], [0, 1, 0, 0, 1], [1, 0, 0, 0, 0], [0, 0, 1, 0, 0]], dtype=torch.float64)
WQ = torch.tensor([[4, 0], [0, 1], [0, 0], [0, 0], [0, 0]], dtype=torch.float64)
WK = torch.tensor([[0, 1], [1, 0], [0, 0], [0, 0], [0, 0]], dtype=torch.float64)
CELLS = """name => [...document.querySelectorAll(`[data-matrix="${name}"] tbody tr`)].map(
  row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"""
TOLD = """name => [...document.querySelectorAll(`[data-matrix="${name}"] tbody td`)].map(td => {
  td.dispatchEvent(new PointerEvent('pointerenter'));
  return document.querySelector('[data-sum] b').textContent;
})"""


def cells(page: Any, name: str) -> list[list[float]]:
    return [[-math.inf if t == "−∞" else float(t.replace("−", "-")) for t in row] for row in page.evaluate(CELLS, name)]


def test_the_cells_are_the_library_s_numbers(visit: Visit) -> None:
    page = visit("#steps")
    scores = regard.ScaledDot()(E @ WQ, E @ WK)
    assert torch.allclose(torch.tensor(cells(page, "scaled"), dtype=torch.float64), scores, atol=0.006)
    weights = regard.Softmax()(scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf))
    assert torch.allclose(torch.tensor(cells(page, "weights"), dtype=torch.float64), weights, atol=0.006)
    assert page.locator("[data-proof]").inner_text().startswith("✓")


@pytest.mark.parametrize(
    "switches", ["", "?score=additive&count=2&shown=1", "?score=bilinear&temperature=0.5&mask=none", "?choice=sparsemax&mask=window"]
)
def test_the_arithmetic_comes_to_the_number(visit: Visit, switches: str) -> None:
    page = visit(f"#steps{switches}")
    for stage in ("query", "key", "value", "raw", "scaled", "output", "change", "result"):
        for told in page.evaluate(TOLD, stage):
            left, _, right = told.rpartition(" = ")
            expression = (
                left.split(" = ")[-1]
                .replace("·10⁻", "e-")
                .replace("·", "*")
                .replace("−", "-")
                .replace("√2", "1.41421356")
                .replace("not scaled", right.replace("−", "-"))
            )
            assert re.fullmatch(r"[-\d.e*+/() ]*(?:(?:tanh)?[-\d.e*+/() ]*)*", expression), told
            assert eval(expression, {"tanh": math.tanh}) == pytest.approx(float(right.replace("−", "-")), abs=2e-3), (stage, told)


def test_a_weight_says_how_it_came_about(visit: Visit, wait: Any) -> None:
    page = visit("#steps")
    page.locator('[data-matrix="weights"] tbody tr').nth(3).locator("td").nth(1).hover()
    wait(page.locator("[data-sum]")).to_contain_text("e^2.8284 / Σ = 16.9188 / (1 + 16.919 + 16.919 + 1) = 0.4721")
    page.locator('[data-matrix="masked"] tbody tr').nth(1).locator("td").nth(4).hover()
    wait(page.locator("[data-sum]")).to_contain_text("−∞")


def test_numbers_words_and_switches_are_live(visit: Visit, wait: Any) -> None:
    page = visit("#steps")
    cell = page.locator('[data-matrix="weights"] tbody tr').nth(3).locator("td").nth(2)
    wait(cell).to_have_text("0.47")
    box = page.get_by_label("E, blue, adjective", exact=True)
    box.fill("0")
    box.press("Enter")
    wait(cell).to_have_text("0.05")
    assert "numbers=" in page.url
    page.locator('[data-v="argmax"]').click()
    wait(cell).to_have_text("0.00")
    wait(page.locator('[data-matrix="weights"] tbody tr').nth(3).locator("td").nth(1)).to_have_text("1.00")
    page.locator("input.st-text").fill("one two three")
    page.locator("input.st-text").press("Enter")
    wait(page.locator('[data-matrix="weights"] tbody tr')).to_have_count(3)
    page.locator(".st-word").nth(2).click()
    wait(page.locator(".st-word").nth(2)).to_have_attribute("aria-pressed", "true")


def test_column_form_is_the_transpose(visit: Visit, wait: Any) -> None:
    rows, columns = visit("#steps"), visit("#steps?form=column")
    assert torch.equal(torch.tensor(cells(rows, "weights")).T, torch.tensor(cells(columns, "weights")))
    wait(columns.locator('[data-matrix="raw"] b')).to_have_text("Kᵀ·Q")


def test_arrow_keys_walk_the_cells(visit: Visit, wait: Any) -> None:
    page = visit("#steps")
    first = page.locator('[data-matrix="weights"] tbody td').first
    first.focus()
    wait(page.locator("[data-sum]")).to_contain_text("a · a")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    wait(page.locator("[data-sum]")).to_contain_text("fluffy · fluffy")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_questions_can_be_answered_and_checked(visit: Visit, wait: Any, lang: str) -> None:
    page = visit("#steps", lang=lang)
    for box in page.locator(".st-quiz-box").all():
        box.locator("summary").click()
    questions = page.locator(".st-quiz li")
    assert questions.count() == 5
    for i in range(questions.count()):
        boxes = questions.nth(i).locator("select")
        for j in range(boxes.count()):
            boxes.nth(j).select_option(str((int(boxes.nth(j).get_attribute("data-right")) + 1) % 3))
        wait(questions.nth(i).locator(".st-said")).to_contain_text("✗")
        for j in range(boxes.count()):
            boxes.nth(j).select_option(boxes.nth(j).get_attribute("data-right"))
        wait(questions.nth(i).locator(".st-said")).to_contain_text("✓")


def test_the_panels_answer(visit: Visit, wait: Any) -> None:
    page = visit("#steps")
    soft = page.locator("[data-soft]")
    wait(soft).to_have_text("7.978")
    page.get_by_label("mixed with apple").fill("0.5")
    wait(page.locator(".st-code").first).to_contain_text("KeyError")
    wait(page.locator('[data-number="variance"]').first).to_have_text("65.94")
    page.get_by_label("to drink").fill("4")
    wait(page.locator(".st-card").nth(2)).to_contain_text("red cup")
