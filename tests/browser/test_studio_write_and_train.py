"""Write and Train by what a class does with them: empty and long prompts, sampling, own pairs, pausing, the scrubber, a terminal's run."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.studio.pages.train.task_files import reverse_pairs

Visit = Callable[..., Any]


def test_sampling_is_folded_away_and_moves_the_probabilities(visit: Visit, wait: Any) -> None:
    page = visit("#write?model=shakespeare&text=ROMEO:")
    wait(page.locator("[data-next] [data-token]").first).to_be_visible()
    assert not page.get_by_role("slider", name="Temperature").is_visible()
    before = page.locator("[data-next]").text_content()
    page.locator("details.st-more summary").click()
    page.get_by_role("slider", name="top-k").fill("2")
    wait(page.locator("[data-next]")).not_to_have_text(before)
    wait(page.locator("[data-next] .st-row", has_text="excluded").first).to_be_visible()
    shares = [float(text) for text in re.findall(r"0\.\d{3}|1\.000", page.locator("[data-next]").inner_text())]
    assert sum(shares) == pytest.approx(1, abs=0.002)
    assert "top_k=2" in page.url


def test_an_empty_prompt_clears_and_a_long_one_says_what_is_read(visit: Visit, wait: Any) -> None:
    page = visit("#write?model=shakespeare&text=ROMEO:")
    wait(page.locator("[data-why] [data-sum]")).to_be_visible()
    box = page.locator("textarea")
    box.fill("so " * 60)
    box.press("Enter")
    wait(page.locator("#page")).to_contain_text("reads only the last 64 of 180 tokens")
    box.fill("")
    box.press("Enter")
    wait(page.locator("[data-tokens]")).to_have_count(0)
    wait(page.locator("[data-next]")).to_have_count(0)
    wait(page.locator("[data-sum]")).to_have_count(0)
    wait(page.locator("[data-one]")).to_be_disabled()


def test_the_mean_of_several_heads_is_called_that(visit: Visit, wait: Any) -> None:
    page = visit("#train")
    page.get_by_role("button", name="Transformer", exact=True).click()
    page.get_by_role("group", name="Heads").get_by_role("button", name="4").click()
    wait(page.locator("[data-untrained] [data-averaged]")).to_contain_text("the mean of 4 heads")
    page.get_by_role("group", name="Heads").get_by_role("button", name="1").click()
    wait(page.locator("[data-averaged]")).to_have_count(0)


def test_own_pairs_are_trained_paused_and_resumed(visit: Visit, wait: Any, tmp_path: Path) -> None:
    mine, few = tmp_path / "mine.tsv", tmp_path / "few.tsv"
    mine.write_text("".join(f"{source}\t{target}\n" for source, target in reverse_pairs(400)))
    few.write_text("a\tb\n")
    page = visit("#train", refusals=True)
    page.locator("input[type=file]").set_input_files(few)
    wait(page.locator(".st-problem").first).to_contain_text("The file has 1 pairs")
    page.locator("input[type=file]").set_input_files(mine)
    wait(page.locator("[data-plan]")).to_contain_text("1000 steps on your pairs")
    wait(page.locator("#page")).to_contain_text("mine.tsv: one pair a line")
    wait(page.locator("[data-untrained]")).to_be_visible()
    page.locator("[data-start]").click()
    wait(page.locator("[data-state]")).to_contain_text(re.compile(r"step [1-9]"), timeout=240_000)
    page.locator("[data-pause]").click()
    wait(page.locator("[data-state]")).to_contain_text("paused", timeout=60_000)
    wait(page.locator("[data-got]")).to_be_visible()
    page.locator("[data-resume]").click()
    wait(page.locator("[data-state]")).to_contain_text("training", timeout=60_000)
    scrubber = page.get_by_role("slider", name="Training step shown")
    first = page.locator(".st-slide", has=scrubber).locator("output")
    scrubber.press("Home")
    shown = first.inner_text()
    page.wait_for_timeout(2500)  # the run goes on; the step that was chosen stays
    wait(first).to_have_text(shown)
    page.locator("[data-pause]").click()
    wait(page.locator("[data-state]")).to_contain_text("paused", timeout=60_000)


def test_a_run_of_a_terminal_is_watched_with_its_scores_and_sentences(visit: Visit, wait: Any, runs_folder: Path, tmp_path: Path) -> None:
    from regard.training.runs import train

    (tmp_path / "my.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in reverse_pairs(60)))
    (tmp_path / "my.toml").write_text(
        f'out = "{runs_folder / "terminal"}"\n[data]\ntrain = "{tmp_path / "my.tsv"}"\n[source]\nkind = "word"\n[target]\nkind = "word"\n'
        '[model]\nkind = "bahdanau"\nembedding = 8\nstate = 16\nalignment = 8\n'
        "[training]\nsteps = 4\ncheckpoint_every = 2\nevaluate_every = 2\nlog_every = 1\n"
    )
    train("translation", tmp_path / "my.toml")
    page = visit("#train?run=runs/terminal")  # as `regard studio --run` opens it
    wait(page.locator("[data-state]")).to_have_text("finished after 4 steps")
    wait(page.locator("[data-watch] .st-chart")).to_be_visible()
    wait(page.locator("[data-exact]")).to_contain_text("BLEU")
    wait(page.get_by_label("Held-out sentence").locator("option")).to_have_count(1)
    scrubber = page.get_by_role("slider", name="Training step shown")
    scrubber.press("Home")
    wait(page.locator(".st-slide", has=scrubber).locator("output")).to_have_text("step 2")
    wait(page.locator("[data-pause]")).to_have_count(0)  # it is not ours to stop
    wait(page.locator("[data-resume]")).to_have_count(0)


@pytest.mark.parametrize("task", ["open the right box (hard attention)", "find the bandwidth of a kernel"])
def test_the_trainings_of_a_second_are_played_and_can_be_scrubbed(visit: Visit, wait: Any, task: str) -> None:
    page = visit("#train", reduced_motion="reduce")
    page.get_by_role("button", name=task).click()
    page.locator("[data-start]").click()
    last = page.locator("[data-small]")
    wait(last).to_be_visible()
    told = last.inner_text()
    page.get_by_role("slider", name="Training step shown").press("Home")
    wait(last).not_to_have_text(told)
    wait(page.locator("[data-watch] table")).to_be_visible()
