"""Train: a run of the page is an ordinary run on disk; its attention is learned, it can be stopped and resumed, and opened elsewhere."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.studio.pages.train.task_files import adjective_pairs, own_pairs, reverse_pairs, write_run
from regard.studio.request_error import RequestError
from regard.studio.runs_folder import run_names, run_path


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


SWITCHES = {"model": "bahdanau", "score": "additive", "heads": 1, "positions": "sinusoidal", "mask": "causal", "scaled": True, "steps": 20}
OPTIONS = {**SWITCHES, "pairs": None}


def test_the_tasks_are_what_they_say() -> None:
    assert all(target.split() == source.split()[::-1] for source, target in reverse_pairs(20))
    for source, target in adjective_pairs(20):
        words, named = source.split(), target.split()
        assert all(words[words.index(noun) - 1] == adjective for noun, adjective in zip(named[::2], named[1::2], strict=True))


@pytest.mark.parametrize("options", [{}, {"model": "fixed"}, {"model": "transformer", "heads": 2, "positions": "none"}, {"score": "dot"}])
def test_the_files_of_a_run_are_those_of_regard_train(runs: Path, options: dict[str, Any]) -> None:
    from regard.training.config import read_config
    from regard.training.tasks import find_task

    name = write_run("adjectives", {**OPTIONS, **options})
    folder = run_path(name)
    assert name == "runs/adjectives-1"
    assert folder is not None
    config = read_config(folder / "config.toml", find_task("translation").config)
    assert config.model.kind == options.get("model", "bahdanau")
    assert len(config.data.read(folder)[1]) == 40
    assert write_run("adjectives", OPTIONS) == "runs/adjectives-2"


def test_own_pairs_need_tabs() -> None:
    assert len(own_pairs("a b\tb a\n" * 20)) == 20
    with pytest.raises(RequestError, match="has 0 pairs"):
        own_pairs("a b c\n" * 50)


@pytest.mark.parametrize("name", ["runs/../x", "runs/", "/etc", "x", "runs/none", "runs/a/b"])
def test_a_run_is_a_name_and_never_a_path(runs: Path, name: str) -> None:
    assert run_path(name) is None


@pytest.fixture
def started(studio: Any) -> Iterator[Any]:
    def ask(path: str, **fields: Any) -> Any:
        answer = studio.post(f"/api/train/{path}", json=fields)
        assert answer.status_code == 200, answer.json()
        return answer.json()

    yield ask
    for name in run_names():
        ask("stop", run=name)


def wait_for(ask: Any, run: str, done: Any, seconds: float = 240) -> dict[str, Any]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        state: dict[str, Any] = ask("state", run=run)
        assert state["failed"] is None
        if done(state):
            return state
        time.sleep(0.2)
    raise AssertionError("the run did not get there")


def test_a_run_is_stopped_resumed_watched_and_opened(started: Any, studio: Any, runs_folder: Path) -> None:
    run = started("start", task="reverse", model="bahdanau", steps=120)["run"]
    assert studio.post("/api/train/start", json={"task": "reverse"}).json()["code"] == "training"
    wait_for(started, run, lambda state: len(state["checkpoints"]) > 1)
    started("stop", run=run)
    stopped = started("state", run=run)
    assert not stopped["running"]
    assert stopped["step"] < 120
    started("resume", run=run)
    state = wait_for(started, run, lambda state: state["finished"] and not state["running"])
    assert state["losses"][-1][1] < state["losses"][0][1] / 2
    assert state["scores"][-1]["step"] == 120
    first, last = (started("alignment", run=run, step=step) for step in (state["checkpoints"][0], 120))
    assert first["step"] < last["step"] == 120
    peak = [max(max(row) for row in one["sentences"][0]["weights"]) for one in (first, last)]
    assert peak[1] > peak[0] + 0.2  # out of noise
    assert json.loads((runs_folder / run.removeprefix("runs/") / "run.json").read_text())["task"] == "translation"
    assert run in [model["name"] for model in studio.get("/api/models").json()["models"]]
    translated = studio.post("/api/translate", json={"models": [run], "text": "a b c d"}).json()
    assert translated["translations"][0]["candidates"][0]["payload"] is not None


def test_a_run_of_a_terminal_is_watched_where_its_config_is_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.studio.library import Library
    from regard.studio.pages.train.run_state import alignment, run_state
    from regard.studio.worker_state import Progress, WorkerState
    from regard.training.runs import train

    (tmp_path / "my.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in reverse_pairs(60)))
    (tmp_path / "my.toml").write_text(
        'out = "runs/my"\n[data]\ntrain = "my.tsv"\n[source]\nkind = "word"\n[target]\nkind = "word"\n'
        '[model]\nkind = "bahdanau"\nembedding = 8\nstate = 16\nalignment = 8\n'
        "[training]\nsteps = 2\ncheckpoint_every = 1\nevaluate_every = 1\naverage = 2\n"
    )
    train("translation", tmp_path / "my.toml")
    monkeypatch.setenv("REGARD_RUNS", str(tmp_path / "runs"))  # as `regard studio --run runs/my` sets it
    told = run_state("runs/my")
    assert not told["config"]
    assert [score["step"] for score in told["scores"]] == [1, 2]  # the average of the checkpoints is no third point
    state = WorkerState(Library({}), Progress(lambda data: None, threading.Event()))
    assert alignment(state, "runs/my", 1)["sentences"][0]["weights"] is not None
    (tmp_path / "my.tsv").unlink()
    with pytest.raises(RequestError, match=r"my\.tsv is not there"):
        alignment(state, "runs/my", 1)


def test_without_a_mask_the_loss_falls_and_no_answer_is_right(started: Any) -> None:
    switches = {"model": "transformer", "heads": 2, "steps": 160}
    run = started("start", task="reverse", mask="none", **switches)["run"]
    state = wait_for(started, run, lambda state: state["finished"] and not state["running"])
    assert state["model"]["causal"] is False
    assert state["scores"][-1]["loss"] < 1 < state["scores"][0]["loss"]  # it reads the answer
    assert state["scores"][-1]["exact"] == 0  # and cannot write it


def test_without_the_root_an_untrained_transformer_already_looks_at_one_word(studio: Any) -> None:
    def largest(**switches: Any) -> float:
        answer = studio.post("/api/train/untrained", json={"task": "reverse", "model": "transformer", **switches}).json()
        rows = [row for sentence in answer["sentences"] for row in sentence["weights"]]
        return sum(max(row) for row in rows) / len(rows)

    assert largest(scaled=False) > 0.5 > 0.35 > largest()


@pytest.mark.slow
def test_what_each_switch_of_the_transformer_breaks(started: Any) -> None:
    """The share of exact answers on held-out pairs, as the page shows it, in as many steps as the whole model needs."""

    def exact(**switches: Any) -> float:
        run = started("start", task="adjectives", model="transformer", steps=300, **switches)["run"]
        state = wait_for(started, run, lambda state: state["finished"] and not state["running"])
        return float(state["scores"][-1]["exact"])

    assert exact() >= 90
    for switches in ({"scaled": False}, {"positions": "none"}, {"mask": "none"}):
        assert exact(**switches) <= 25, switches


@pytest.mark.parametrize(
    "body", [{"task": "own"}, {"task": "reverse", "pairs": "a\tb"}, {"steps": 5}, {"heads": 3}, {"task": "own", "pairs": "a"}]
)
def test_what_cannot_be_trained_is_an_error(studio: Any, body: dict[str, Any]) -> None:
    answer = studio.post("/api/train/start", json=body)
    assert answer.status_code == 422
    assert answer.json()["message"]
    for path in ("state", "resume", "alignment"):
        assert studio.post(f"/api/train/{path}", json={"run": "runs/none"}).json()["code"] == "unknown_run"


def test_a_training_of_a_second_learns_where_to_look(studio: Any) -> None:
    answer = studio.post("/api/train/small", json={"task": "where"}).json()
    first, last = answer["frames"][0], answer["frames"][-1]
    assert last["value"] > 0.7 > 0.4 > first["value"]
    assert sum(row.index(max(row)) == i for i, row in enumerate(last["weights"])) >= 7  # every request looks at its own box
    without = studio.post("/api/train/small", json={"task": "where", "baseline": False}).json()["frames"]
    assert without[8]["value"] < answer["frames"][8]["value"]  # it learns more slowly


def test_the_inverse_bandwidth_is_learned_and_is_the_best(studio: Any) -> None:
    import numpy as np

    from regard.models.kernel_regression import NadarayaWatson, textbook_data

    frames = studio.post("/api/train/small", json={"task": "kernel", "begin": 0.3, "steps": 300}).json()["frames"]
    X, y = textbook_data(24, noise=0.3, seed=0)
    errors = [NadarayaWatson(width=float(w)).fit(X, y).leave_one_out_error() for w in np.geomspace(0.5, 20, 60)]
    assert frames[-1]["value"] == pytest.approx(min(errors), rel=0.05)
    assert frames[-1]["value"] < frames[0]["value"] / 2


@pytest.mark.parametrize("switches", [{}, {"task": "adjectives", "model": "transformer", "heads": 2}, {"model": "fixed"}])
def test_before_the_first_step_the_attention_is_that_of_the_run_s_own_beginning(studio: Any, runs: Path, switches: dict[str, Any]) -> None:
    from regard.training.config import read_config
    from regard.training.tasks import find_task

    answer = studio.post("/api/train/untrained", json={"task": "reverse", **switches}).json()
    folder = run_path(write_run(switches.get("task", "reverse"), {**OPTIONS, "steps": 300, **switches}))
    assert folder is not None
    task = find_task("translation")
    begun: Any = task.build(read_config(folder / "config.toml", task.config), folder, folder)
    begun.model.eval()
    pair = begun.valid[0]
    source, target, weights = begun.translations.align(pair.source, pair.target)
    shown = answer["sentences"][0]
    assert (shown["source"], shown["target"], shown["wanted"]) == (source, target, pair.target)
    assert (shown["weights"] is None) == (weights is None) == (switches.get("model") == "fixed")
    if weights is not None:
        assert [w for row in shown["weights"] for w in row] == pytest.approx(weights.flatten().tolist(), abs=1e-4)
    assert answer["step"] == 0
