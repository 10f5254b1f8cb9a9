import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from regard.training.loop import checkpoints
from regard.training.loop.log import read_log
from regard.training.loop.settings import Training
from regard.training.loop.trainer import Trainer


class Line:
    """Fit a line with dropout; batches of unlike sizes, so that averaging per batch and per example differ."""

    def __init__(self, *, sizes: Sequence[int] = (1, 5, 2, 8), dropout: float = 0.0, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1))
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(sum(sizes), 3, generator=generator)
        self.data = list(zip(x.split(list(sizes)), x.sum(-1, keepdim=True).split(list(sizes)), strict=True))
        self.evaluations = 0
        self.scores: list[float] | None = None

    def batches(self, epoch: int) -> list[tuple[Tensor, Tensor]]:
        return self.data[epoch % 2 :] + self.data[: epoch % 2]

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
        return (model(batch[0]) - batch[1]).square().sum(), len(batch[0])

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> dict[str, float]:
        torch.rand(3)  # an evaluation may draw random numbers; training must not notice
        self.evaluations += 1
        if self.scores:
            return {"loss": self.scores.pop(0)}
        return {"loss": float(sum(self.loss(model, b)[0] for b in self.data))}

    def samples(self, model: nn.Module) -> str:
        return ""


SETTINGS = Training(steps=12, rate=0.02, evaluate_every=4, checkpoint_every=4, log_every=2, clip=0.0)


def train(task, settings, folder):
    trainer = Trainer(task, settings, folder)
    return trainer.run(), {k: v.clone() for k, v in checkpoints.weights_of(task.model).items()}


def rows(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_accumulated_batches_are_one_batch_of_all_their_examples(tmp_path):
    _, small = train(Line(sizes=(1, 5, 2, 8)), replace(SETTINGS, accumulate=4), tmp_path / "a")
    _, large = train(Line(sizes=(16,)), SETTINGS, tmp_path / "b")
    for name in small:
        torch.testing.assert_close(small[name], large[name], rtol=1e-4, atol=1e-5)


def test_it_learns(tmp_path):
    task = Line()
    before = task.evaluate(task.model)["loss"]
    state, _ = train(task, replace(SETTINGS, steps=150), tmp_path)
    assert state.best < 0.1 * before
    assert state.finished


def test_the_same_seed_gives_the_same_bits_and_another_does_not(tmp_path):
    first = train(Line(dropout=0.3), SETTINGS, tmp_path / "a")[1]
    again = train(Line(dropout=0.3), SETTINGS, tmp_path / "b")[1]
    other = train(Line(dropout=0.3), replace(SETTINGS, seed=1), tmp_path / "c")[1]
    assert all(torch.equal(first[k], again[k]) for k in first)
    assert not all(torch.equal(first[k], other[k]) for k in first)


def test_evaluating_more_often_changes_nothing_in_training(tmp_path):
    rare = train(Line(dropout=0.3), replace(SETTINGS, evaluate_every=12), tmp_path / "a")[1]
    often = train(Line(dropout=0.3), replace(SETTINGS, evaluate_every=1), tmp_path / "b")[1]
    assert all(torch.equal(rare[k], often[k]) for k in rare)


def test_more_steps_later_go_on_from_the_end(tmp_path):
    train(Line(dropout=0.3), replace(SETTINGS, steps=8), tmp_path / "a")
    extended = train(Line(dropout=0.3), SETTINGS, tmp_path / "a")[1]
    whole = train(Line(dropout=0.3), SETTINGS, tmp_path / "b")[1]
    assert all(torch.equal(extended[k], whole[k]) for k in whole)


def test_patience_stops_and_the_best_is_kept(tmp_path):
    task = Line()
    task.scores = [5.0, 3.0, 4.0, 3.5, 9.9, 9.9]
    state, _ = train(task, replace(SETTINGS, steps=1000, patience=2, keep=9), tmp_path)
    assert (state.step, state.best, state.best_step) == (16, 3.0, 8)
    best, note = checkpoints.read(tmp_path / "best.safetensors")
    assert note["step"] == 8
    saved, _ = checkpoints.read(tmp_path / "checkpoints" / checkpoints.name_of(8))
    assert all(torch.equal(best[k], saved[f"model.{k}"]) for k in best)


def test_the_average_of_the_last_checkpoints_is_tried_and_kept_when_better(tmp_path):
    task = Line()
    task.scores = [5.0, 4.0, 3.0, 1.0]  # three evaluations, then the average
    _, last = train(task, replace(SETTINGS, keep=3, average=3), tmp_path)
    assert [row["event"] for row in rows(tmp_path)][-1] == "average"
    best, _ = checkpoints.read(tmp_path / "best.safetensors")
    saved = [checkpoints.read(tmp_path / "checkpoints" / checkpoints.name_of(s))[0] for s in (4, 8, 12)]
    for name in best:
        torch.testing.assert_close(best[name], sum(s[f"model.{name}"] for s in saved) / 3)
    assert all(torch.equal(saved[2][f"model.{k}"], last[k]) for k in last)  # the run itself goes on from its own weights


def test_a_gradient_longer_than_clip_is_cut(tmp_path):
    class Sharp(Line):
        def loss(self, model, batch):
            loss, count = super().loss(model, batch)
            return 1e4 * loss, count

    train(Sharp(), replace(SETTINGS, clip=0.5), tmp_path)
    assert all(row["norm"] > 100 for row in rows(tmp_path) if row["event"] == "step")  # measured before the cut
    assert checkpoints.read(tmp_path / "checkpoints" / checkpoints.name_of(4))[0]["optimiser.0.weight/exp_avg"].norm() < 0.5


def test_bfloat16_trains(tmp_path):
    task = Line()
    before = task.evaluate(task.model)["loss"]
    state, _ = train(task, replace(SETTINGS, steps=100, precision="bfloat16"), tmp_path)
    assert state.best < 0.3 * before
    assert all(p.dtype == torch.float32 for p in task.model.parameters())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "steps and epochs are both 0"),
        ({"average": 5, "keep": 2}, "only 2 checkpoints are kept"),
        ({"smoothing": 1.0}, "smoothing is 1.0"),
        ({"accumulate": 0}, "accumulate is 0; expected 1 or more"),
    ],
)
def test_settings_that_cannot_work_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(SETTINGS, **change)


def test_a_cosine_schedule_ends_with_the_last_epoch(tmp_path):
    train(Line(), replace(SETTINGS, steps=0, epochs=3, schedule="cosine", floor=0.1, log_every=1), tmp_path)
    rates = [record["rate"] for record in read_log(tmp_path / "log.jsonl") if record["event"] == "step"]
    assert rates[-1] == pytest.approx(0.1 * SETTINGS.rate)
    assert rates == sorted(rates, reverse=True)


def test_an_unknown_metric_and_an_empty_task_are_named(tmp_path):
    with pytest.raises(ValueError, match="metric is 'bleu'; expected one of this task's metrics: loss"):
        train(Line(), replace(SETTINGS, metric="bleu"), tmp_path / "a")
    with pytest.raises(ValueError, match="no batches"):
        train(Line(sizes=()), SETTINGS, tmp_path / "b")


def test_epochs_end_a_run(tmp_path):
    state, _ = train(Line(), replace(SETTINGS, steps=0, epochs=3), tmp_path)
    assert (state.step, state.epoch) == (12, 3)


def interrupted(folder):
    """A run of 12 steps that was stopped after 8, with checkpoints at 4 and 8."""
    train(Line(dropout=0.3), replace(SETTINGS, steps=8), folder)


def same_as_whole(folder, tmp_path):
    again = train(Line(dropout=0.3), SETTINGS, folder)[1]
    whole = train(Line(dropout=0.3), SETTINGS, tmp_path / "whole")[1]
    return all(torch.equal(again[k], whole[k]) for k in whole)


def flip(path, position=-3):
    data = bytearray(path.read_bytes())
    data[position] ^= 16
    path.write_bytes(data)


def test_a_damaged_newest_checkpoint_is_put_aside_and_the_result_is_the_same(tmp_path):
    interrupted(tmp_path / "a")
    flip(tmp_path / "a" / "checkpoints" / checkpoints.name_of(8))
    with pytest.warns(UserWarning, match="damaged.*goes on from step 4"):
        assert same_as_whole(tmp_path / "a", tmp_path)
    assert [f.name for f in (tmp_path / "a" / "checkpoints").glob("*.damaged")] == ["step-000000008.safetensors.damaged"]


def test_damaged_best_weights_are_put_aside_and_written_again(tmp_path):
    interrupted(tmp_path / "a")
    flip(tmp_path / "a" / "best.safetensors")
    with pytest.warns(UserWarning, match=r"best\.safetensors.*next evaluation writes it anew"):
        assert same_as_whole(tmp_path / "a", tmp_path)
    assert checkpoints.read(tmp_path / "a" / "best.safetensors")[1]["step"] == 12
    assert (tmp_path / "a" / "best.safetensors.damaged").exists()


def test_a_deleted_log_is_begun_again(tmp_path):
    interrupted(tmp_path / "a")
    (tmp_path / "a" / "log.jsonl").unlink()
    with pytest.warns(UserWarning, match="was deleted; it is begun again"):
        assert same_as_whole(tmp_path / "a", tmp_path)
    assert [row["step"] for row in read_log(tmp_path / "a" / "log.jsonl") if row["event"] == "step"] == [10, 12]


@pytest.mark.parametrize("change", ["cut", "flip"])
def test_damaged_records_of_the_log_are_left_out_and_kept_aside(tmp_path, change):
    interrupted(tmp_path / "a")
    log = tmp_path / "a" / "log.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    if change == "cut":
        log.write_bytes(b"".join(lines)[:-20])
    else:
        log.write_bytes(lines[0].replace(b"step", b"stop", 1) + b"".join(lines[1:]))
    kept = len(lines) - 1
    with pytest.warns(UserWarning, match=f"log.jsonl is damaged: {kept} of its records are whole and stay"):
        assert same_as_whole(tmp_path / "a", tmp_path)
    assert len(read_log(log)) == kept + 3
    assert (tmp_path / "a" / "log.jsonl.damaged").exists()


def test_a_log_can_be_read_with_a_damaged_record_in_it(tmp_path):
    interrupted(tmp_path / "a")
    log = tmp_path / "a" / "log.jsonl"
    whole = read_log(log)
    assert whole == [{key: value for key, value in row.items() if key != "crc32"} for row in rows(tmp_path / "a")]
    log.write_bytes(log.read_bytes().replace(b'"loss": ', b'"loss":8', 1))
    with pytest.warns(UserWarning, match=r"log\.jsonl:1: this record is damaged"):
        assert read_log(log) == whole[1:]


def test_a_compiled_model_trains_to_the_same_weights_and_is_evaluated_as_written(tmp_path, monkeypatch):
    calls = {"compiled": 0, "evaluated compiled": 0}
    plain, compiled = Line(), Line()

    def count_calls(function):  # in place of torch.compile, which needs a C++ compiler
        def run(x):
            calls["compiled"] += 1
            calls["evaluated compiled"] += not compiled.model.training
            return function(x)

        return run

    monkeypatch.setattr(torch, "compile", count_calls)
    _, expected = train(plain, SETTINGS, tmp_path / "a")
    state, weights = train(compiled, replace(SETTINGS, compile=True), tmp_path / "b")
    assert calls == {"compiled": SETTINGS.steps, "evaluated compiled": 0}
    assert state.finished
    assert weights.keys() == expected.keys()
    for name in weights:
        torch.testing.assert_close(weights[name], expected[name])
