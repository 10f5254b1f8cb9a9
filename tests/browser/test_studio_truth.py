"""What the studio displays is true: formulas follow switches, products add up, cut input is told, results stand under their own name."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

Visit = Callable[..., Any]
CELLS = """name => [...document.querySelectorAll(`[data-matrix="${name}"] tbody tr`)].map(
  row => [...row.querySelectorAll('td')].map(cell => cell.querySelector('input') ? cell.querySelector('input').value : cell.textContent))"""


def cells(page: Any, name: str) -> torch.Tensor:
    rows = [[-math.inf if t == "−∞" else float(t.replace("−", "-")) for t in row] for row in page.evaluate(CELLS, name)]
    return torch.tensor(rows, dtype=torch.float64)


def test_what_stands_in_the_steps_multiplies_in_both_forms(visit: Visit, wait: Any) -> None:
    for form in ("row", "column"):
        page = visit(f"#steps?form={form}&count=2&shown=1&mask=window&temperature=0.5&choice=sparsemax")
        wait(page.locator('[data-matrix="change:0"]')).to_be_visible()
        results = {
            name: cells(page, name) for name in ("E", "W-query", "query", "weights", "value", "output", "W-output", "change:1", "change:0")
        }
        product = (lambda a, b: a @ b) if form == "row" else (lambda a, b: b @ a)
        assert torch.allclose(product(results["E"], results["W-query"]), results["query"], atol=0.03)
        assert torch.allclose(product(results["weights"], results["value"]), results["output"], atol=0.03)
        assert torch.allclose(product(results["output"], results["W-output"]), results["change:1"], atol=0.03)
        assert torch.allclose(results["change:0"] + results["change:1"], cells(page, "change"), atol=0.02)
        assert torch.allclose(results["E"] + cells(page, "change"), cells(page, "result"), atol=0.02)
        formula = page.locator("[data-formula] math").text_content()
        assert "sparsemax" in formula
        assert "window" in formula
        assert "τ" in formula
        assert "∑" in formula
        assert (formula.index("W") < formula.index("sparsemax")) == (form == "column")
    page.locator('[data-v="additive"]').click()
    wait(page.locator("[data-formula] math")).to_contain_text("tanh")


def test_words_without_vectors_and_words_left_out_are_told(visit: Visit, wait: Any) -> None:
    page = visit("#steps")
    wait(page.locator("[data-words]")).to_have_text("")
    box = page.locator("input.st-text")
    box.fill("one two three four five six seven eight nine ten eleven twelve blue creature")
    box.press("Enter")
    wait(page.locator("[data-words]")).to_contain_text("first 10 of your 14 words")
    wait(page.locator("[data-words]")).to_contain_text("made up")
    wait(page.locator(".st-word").first).to_have_text("one*")


def test_an_inspected_text_says_what_was_cut_and_spaces_are_visible(visit: Visit, wait: Any) -> None:
    page = visit("#look?model=shakespeare&text=" + "To be or not. " * 8)
    wait(page.locator("[data-cut]")).to_contain_text("first 64 of 111 tokens")
    wait(page.locator("[data-limit]")).to_contain_text("64")
    wait(page.locator(".rv-chips").first).to_contain_text("on random tokens")
    wait(page.locator(".rv-chips").nth(1)).to_contain_text("on this text")
    page.locator('.rv-tab[data-view="lines"]').click()
    wait(page.locator(".rv-wordrow").first).to_contain_text("␣")
    page.locator("textarea").first.fill("")
    page.locator(".st-go").first.click()
    wait(page.locator(".rv-canvas")).to_have_count(0)
    wait(page.locator("[data-facts]")).to_have_text("")


def test_a_link_holds_the_what_if_and_can_be_copied_at_every_size(visit: Visit, wait: Any) -> None:
    allowed = ["clipboard-read", "clipboard-write"]
    page = visit("#look?model=shakespeare&text=To be&changes=1.2.mute,0.*.temperature.0.3", height=800, permissions=allowed)
    for width in (1440, 1024, 768, 390):
        page.set_viewport_size({"width": width, "height": 800})
        page.evaluate("navigator.clipboard.writeText('')")
        box = page.locator(".st-link").bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width
        page.locator(".st-link").click()
        page.wait_for_function("async () => (await navigator.clipboard.readText()).includes('changes=1.2.mute')")
    wait(page.locator("[data-effect] [data-mean]")).to_be_visible()
    wait(page.get_by_text("1.2 muted ×")).to_be_visible()
    wait(page.get_by_text("0.* temperature 0.3 ×")).to_be_visible()
    page.get_by_text("1.2 muted ×").click()
    wait(page).to_have_url(re.compile(r"changes=0\.\*\.temperature\.0\.3"))


def test_no_result_stands_under_another_model_s_name(visit: Visit, wait: Any, chinese_studio: str) -> None:
    page = visit("#look?model=zh-en-transformer&text=我爱书。", at=chinese_studio, refusals=True)
    wait(page.locator(".rv-title")).to_have_text("zh-en-transformer")
    page.locator("select").first.select_option("zh-en-changed")
    wait(page.locator(".st-problem").first).to_contain_text("zh-en-changed")
    wait(page.locator(".rv-title")).to_have_count(0)


def test_hard_attention_proves_and_an_empty_box_clears(visit: Visit, wait: Any, chinese_studio: str) -> None:
    page = visit("#translate?text=我爱书。&models=zh-en-transformer&hard=true", at=chinese_studio, lang="zh")
    wait(page.locator(".rv-proof summary")).to_contain_text("✓")
    wait(page.locator("[data-averaged]")).to_contain_text("2 个头")
    wait(page.locator("[data-lengths]")).to_be_visible()
    page.locator("textarea").first.fill("")
    wait(page.locator("[data-result]")).to_have_count(0)


def test_measuring_is_a_button_that_says_what_it_takes(visit: Visit, wait: Any) -> None:
    page = visit("#cost", lang="zh")
    wait(page.locator("[data-measure]")).to_be_enabled()
    assert "30 秒" in page.locator("#page").inner_text()
    wait(page.locator("[data-formula]")).to_contain_text("层数")
    big = page.locator("[data-total]").inner_text()
    page.locator('[data-v="stored"]').click()
    wait(page.locator("[data-total]")).not_to_have_text(big)


MEASURED = {
    "machine": {"name": "this one", "flops": 1e11, "bandwidth": 1e10, "threads": 2}, "seconds": 21.0, "kernel": "native", "load": 1.5,
    "times": [{"name": "regard.attend", "points": [{"tokens": n, "measured": n / 1e5, "predicted": n / 1e5} for n in (256, 512)]}],
    "bytes": [], "formulas": {"crossover at N": "N = d = 64"},
    "recurrence": {"tokens": 256, "seconds at once": 0.001, "seconds in turn": 0.01, "times slower": 10.0},
}  # fmt: skip


@pytest.mark.parametrize(("lang", "facts", "again"), [("en", "2 threads", "Measure again"), ("zh", "2 个线程", "再测一次")])
def test_the_machine_is_measured_when_asked_with_threads_and_load_and_can_be_measured_again(
    visit: Visit, wait: Any, lang: str, facts: str, again: str
) -> None:
    """The answer is made up, since a real one takes half a minute: what is asked of the server and what is told of the answer is tested."""
    page = visit("#cost", lang=lang)
    asked: list[str] = []
    page.route("**/api/cost/measure*", lambda route: (asked.append(route.request.url), route.fulfill(json=MEASURED)))
    page.wait_for_timeout(300)
    assert asked == []  # not before the button
    page.locator("[data-measure]").click()
    wait(page.locator("[data-machine]")).to_contain_text(facts)
    wait(page.locator("[data-machine]")).to_contain_text("1.5")  # the load
    wait(page.locator("[data-measure]")).to_have_text(again)
    page.locator("[data-measure]").click()
    wait(page.locator("[data-measure]")).to_be_enabled()
    assert ["again=true" in url for url in asked] == [False, True]


CHINESE = """async (plan) => {
  const { ZH } = await import("/static/studio/pages/cost/texts.js");
  const groups = [plan.parameters, ...Object.values(plan.steps).map((step) => step.needed), ...Object.values(plan.memory)];
  const parts = groups.flatMap((group) => Object.entries(group));
  const words = parts.flatMap(([name, { formula }]) => [ZH.part(name).replace("sink", ""), ZH.formula(formula)]);
  words.push(...Object.values(plan.steps).map(({ title }) => ZH.step(title)));
  return words.flatMap((text) => text.match(/[A-Za-z_]{2,}/g) || []).filter((word) => !/^(d_[a-z]+|max|min|fp|bf|AdamW)$/.test(word));
}"""


def test_costs_are_written_in_chinese_to_the_last_symbol(visit: Visit, wait: Any) -> None:
    from regard.cost import Workload, plan

    page = visit("#cost", lang="zh")
    wait(page.locator("[data-total]")).to_be_visible()
    for preset in ("gpt3", "gemma-2-9b", "deepseek-v3", "t5-base", "bert-base"):
        for mode in ("infer", "train"):
            assert page.evaluate(CHINESE, plan(preset, Workload(mode=mode, dtype="fp16")).to_dict()) == [], (preset, mode)
    assert "_" not in page.locator("#page").inner_text()


def test_a_text_in_another_language_is_told(visit: Visit, wait: Any, german_studio: str) -> None:
    page = visit("#translate?text=The cat sat on the mat.", at=german_studio)
    wait(page.locator("[data-note]")).to_contain_text("translates from German, and this text seems to be English")
    page.locator(".st-lang").click()
    wait(page.locator("[data-note]")).to_contain_text("源语言是德语，而这段文本看来是英语")
    page.locator("textarea").fill("hello")
    wait(page.locator("[data-note]")).to_contain_text("可能是英语")
    page.locator("textarea").fill("Wo ist der Bahnhof?")
    wait(page.locator("[data-result]")).to_contain_text("station")
    wait(page.locator("[data-note]")).to_have_count(0)


def test_w_is_the_inverse_bandwidth_in_both_languages(visit: Visit, wait: Any) -> None:
    page = visit("#regression", lang="zh")
    wait(page.get_by_role("slider", name="w，带宽的倒数")).to_be_visible()
    page.locator(".st-lang").click()
    wait(page.get_by_role("slider", name="w, inverse bandwidth")).to_be_visible()
    assert "width" not in page.locator("#page").inner_text().replace("bandwidth", "").replace("NadarayaWatson(width=", "")


def test_query_and_key_of_an_explained_weight_are_marked_in_their_roles(visit: Visit, wait: Any, axe: Any) -> None:
    colour = "node => getComputedStyle(node).color"
    for scheme in ("light", "dark"):
        page = visit("#look?model=shakespeare&text=To be or not&layer=1&head=1&q=5", color_scheme=scheme)
        page.get_by_role("link", name="How is this number computed?").click()
        wait(page.locator("[data-query]")).to_be_visible()
        query, key = page.locator(".st-words .st-now"), page.locator(".st-words .st-key")
        wait(query).to_have_count(1)
        wait(key).to_have_count(1)
        page.locator(".st-words .st-word").first.click()
        wait(page.locator(".st-words .st-word").first).to_have_class(re.compile("st-key"))
        red = page.locator("[data-query]").evaluate(colour)
        assert query.evaluate(colour) == red
        assert key.evaluate(colour) != red
        assert page.locator("th.st-now").evaluate(colour) == red
        assert page.locator("th.st-key").evaluate(colour) != red
        axe(page)


def test_spaces_are_visible_on_every_page_that_shows_tokens(visit: Visit, wait: Any) -> None:
    page = visit("#write?model=shakespeare&text=To be")
    wait(page.locator("[data-tokens] .st-token").nth(2)).to_have_text("␣")
    page = visit("#steps?model=shakespeare&text=To be&layer=1&head=1&q=4")
    wait(page.locator(".st-words .st-word").nth(2)).to_contain_text("␣")
    page = visit("#look?model=shakespeare&text=To be&view=words&layer=1&head=1&q=4")
    wait(page.locator(".rv-words .rv-token").nth(2)).to_have_text(re.compile("[·␣]"))
    blank = "[...document.querySelectorAll('#page .rv-token, #page .st-token, #page .st-word')].filter((n) => !n.textContent.trim()).length"
    assert page.evaluate(blank) == 0


def test_every_test_set_of_the_shipped_translators_has_its_chinese_name(visit: Visit) -> None:
    from regard.studio.library import lengths
    from regard.zoo.card import Card
    from regard.zoo.catalog import find

    names = ("zh-en-transformer", "zh-en-bahdanau", "zh-en-fixed", "de-en-transformer")
    test_sets = {test_set for name in names if (card := Card.read(find(name).path)) for test_set in lengths(card)}
    assert "held out" in test_sets
    texts = visit("#regression").evaluate("async () => (await import('/static/studio/pages/translate/texts.js')).ZH.testSets")
    assert [test_set for test_set in test_sets if not re.search("[一-鿿]", texts.get(test_set, ""))] == []


def test_each_question_stands_in_its_own_stage(visit: Visit, wait: Any) -> None:
    page = visit("#steps")
    wait(page.locator(".st-quiz-box").first).to_be_visible()
    counts = page.evaluate(
        """async () => {
          const { EN } = await import("/static/studio/pages/steps/texts.js");
          const asked = (stage) => EN.quiz.questions.filter((question) => question.stage === stage).length;
          return [...document.querySelectorAll("[data-stage]")].map((node) => {
            return [node.querySelectorAll(".st-quiz li").length, asked(Number(node.dataset.stage))];
          });
        }"""
    )
    assert len(counts) == 5
    assert all(here == asked for here, asked in counts)
    assert sum(here for here, _ in counts) == page.locator(".st-quiz li").count() == 5


def test_cosine_lines_are_coloured_and_arcs_are_whole(visit: Visit, wait: Any) -> None:
    # Between the new word and the new sentences the old sentences lack the word, which the server may have time to refuse.
    page = visit("#look?model=letters&text=the quick brown fox&view=lines&layer=1&head=0&q=6", width=390, height=800, refusals=True)
    wait(page.locator(".rv-links path").first).to_be_attached()
    outside = page.evaluate(
        """() => [...document.querySelectorAll(".rv-links")].flatMap((links) => {
          const { width, height } = links.getBoundingClientRect();
          return [...links.querySelectorAll("path")].map((path) => path.getBBox())
            .filter((box) => box.x < -1 || box.y < -1 || box.x + box.width > width + 1 || box.y + box.height > height + 1);
        }).length"""
    )
    assert outside == 0
    card = page.locator(".st-card").last
    card.locator("select").select_option("letters")
    card.locator("input[type=text]").fill("fox")
    card.locator("textarea").fill("a fox\nthe lazy fox\nfox")
    card.locator("textarea").blur()
    lines = card.locator(".st-chart .ch-series path")
    wait(lines).to_have_count(3)
    strokes = lines.evaluate_all("nodes => nodes.map((node) => getComputedStyle(node).stroke)")
    assert len(set(strokes)) == 3
    for stroke in strokes:
        red, green, blue = map(int, re.findall(r"\d+", stroke)[:3])
        assert max(red, green, blue) - min(red, green, blue) > 30, f"{stroke} is grey"
