import os
import pickle
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from torch import nn

from regard.files import DamagedFile
from regard.training.loop import checkpoints


def test_what_is_written_is_read_back(tmp_path):
    tensors = {"a": torch.randn(3, 4), "b": torch.arange(5), "c": torch.tensor(2.5, dtype=torch.float64)}
    checkpoints.write(tmp_path / "x.safetensors", tensors, {"step": 3, "text": "中"})
    got, state = checkpoints.read(tmp_path / "x.safetensors")
    assert state == {"step": 3, "text": "中"}
    assert got.keys() == tensors.keys()
    assert all(torch.equal(got[k], tensors[k]) and got[k].dtype == tensors[k].dtype for k in tensors)
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]


def test_a_pickle_is_not_read(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ValueError, match="not a safetensors file, or incomplete"):
        checkpoints.read(tmp_path / "x.safetensors")


def test_any_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / "x.safetensors"
    checkpoints.write(path, {"a": torch.randn(3, 4), "b": torch.arange(5)}, {"step": 3})
    good = path.read_bytes()
    wanted, state = checkpoints.read(path)
    for bit in range(8 * len(good)):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        try:
            got, got_state = checkpoints.read(path)
        except DamagedFile as error:
            assert len(str(error).splitlines()) == 1  # noqa: PT017
            continue
        # Not noticed, and it makes no difference: padding of the header, or the order of its names.
        assert got_state == state
        assert got.keys() == wanted.keys()
        assert all(torch.equal(got[name], wanted[name]) and got[name].dtype == wanted[name].dtype for name in wanted)


def test_a_checkpoint_cut_short_is_noticed(tmp_path):
    path = tmp_path / "x.safetensors"
    checkpoints.write(path, {"a": torch.randn(3, 4)}, {})
    good = path.read_bytes()
    for length in range(0, len(good), 7):
        path.write_bytes(good[:length])
        with pytest.raises(DamagedFile):
            checkpoints.read(path)


def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(tmp_path):
    for step in (10, 20, 30):
        checkpoints.write(tmp_path / checkpoints.name_of(step), {"a": torch.full((4,), float(step))}, {"step": step})
    newest = tmp_path / checkpoints.name_of(30)
    newest.write_bytes(newest.read_bytes()[:-4])
    with pytest.warns(UserWarning, match=r"step-000000030.*kept as step-000000030\.safetensors\.damaged.*goes on from step 20"):
        result = checkpoints.read_newest(tmp_path)
    assert result is not None
    path, tensors, state = result
    assert (path.name, state, tensors["a"][0].item()) == (checkpoints.name_of(20), {"step": 20}, 20.0)
    assert checkpoints.steps_in(tmp_path) == [10, 20]
    assert (tmp_path / "step-000000030.safetensors.damaged").exists()
    for step in (10, 20):
        (tmp_path / checkpoints.name_of(step)).write_bytes(b"nothing")
    with pytest.raises(DamagedFile, match="no checkpoint before it is whole; remove"):
        checkpoints.read_newest(tmp_path)
    assert checkpoints.steps_in(tmp_path) == [10, 20]
    assert checkpoints.read_newest(tmp_path / "empty") is None


def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path):
    """A process overwrites one file as fast as it can with tensors of one value; each kill must leave one whole value."""
    code = (
        "import sys, torch; from pathlib import Path; from regard.training.loop import checkpoints\n"
        "for i in range(10**9):\n"
        "    checkpoints.write(Path(sys.argv[1]), {'a': torch.full((300_000,), float(i))}, {'i': i})\n"
        "    print(i, flush=True)\n"
    )
    path, dice = tmp_path / "x.safetensors", random.Random(0)
    for _ in range(4):
        writer = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        writer.stdout.readline()
        time.sleep(dice.random() * 0.2)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        tensors, state = checkpoints.read(path)
        assert tensors["a"].unique().tolist() == [float(state["i"])]


def test_tidy_keeps_the_newest_and_the_newest_on_schedule(tmp_path):
    for step in (5, 10, 20, 25, 30, 31, 33):
        (tmp_path / checkpoints.name_of(step)).touch()
    (tmp_path / ".step-000000040.safetensors.draft").touch()
    (tmp_path / "notes.txt").touch()
    assert checkpoints.steps_in(tmp_path) == [5, 10, 20, 25, 30, 31, 33]
    checkpoints.tidy(tmp_path, every=10, keep=2)
    assert checkpoints.steps_in(tmp_path) == [20, 30, 33]
    assert sorted(os.listdir(tmp_path))[-2:] == ["step-000000030.safetensors", "step-000000033.safetensors"]
    assert not list(tmp_path.glob(".*"))
    assert (tmp_path / "notes.txt").exists()
    (tmp_path / checkpoints.name_of(40)).touch()
    checkpoints.tidy(tmp_path, every=10, keep=1)
    assert checkpoints.steps_in(tmp_path) == [33, 40]  # one alone could not be replaced
    checkpoints.tidy(tmp_path, every=10, keep=1, finished=True)
    assert checkpoints.steps_in(tmp_path) == [40]


def test_average_is_the_mean_of_the_weights(tmp_path):
    files = []
    for i, values in enumerate([[1.0, 2.0], [3.0, 6.0], [5.0, 1.0]]):
        files.append(tmp_path / f"{i}.safetensors")
        checkpoints.write(files[-1], {"model.w": torch.tensor(values), "model.n": torch.tensor(i), "optimiser.w": torch.zeros(1)}, {})
    mean = checkpoints.average(files)
    assert mean.keys() == {"w", "n"}
    torch.testing.assert_close(mean["w"], torch.tensor([3.0, 3.0]))
    assert mean["n"].item() == 2


def test_tied_weights_are_stored_once_and_tied_again():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(2, 2, bias=False)
            self.b = nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight

    first, second = Tied(), Tied()
    weights = checkpoints.weights_of(first)
    assert list(weights) == ["a.weight"]
    checkpoints.load_weights(second, weights)
    assert torch.equal(second.b.weight, first.a.weight)
    with pytest.raises(ValueError, match=r"missing \['a\.weight'\], unknown \['c'\]"):
        checkpoints.load_weights(second, {"c": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"a\.weight is \(3, 3\) but the model's is \(2, 2\)"):
        checkpoints.load_weights(second, {"a.weight": torch.zeros(3, 3)})


def test_random_numbers_go_on_where_they_were():
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    random.gauss(0, 1), np.random.standard_normal()  # leaves a cached second normal in both
    tensors, state = checkpoints.random_state()
    wanted = [random.gauss(0, 1), random.random(), np.random.standard_normal(), np.random.random(), torch.rand(3).tolist()]
    checkpoints.set_random_state(tensors, state)
    assert wanted == [random.gauss(0, 1), random.random(), np.random.standard_normal(), np.random.random(), torch.rand(3).tolist()]


def test_an_optimiser_goes_on_where_it_was():
    def make() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        return model, torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)

    def step(model: nn.Module, optimiser: torch.optim.Optimizer, x: torch.Tensor) -> None:
        optimiser.zero_grad()
        model(x).square().sum().backward()
        optimiser.step()

    x = torch.randn(4, 3)
    model, optimiser = make()
    step(model, optimiser, x)
    saved = {k: v.clone() for k, v in checkpoints.optimiser_tensors(optimiser, model).items()}
    weights = {k: v.clone() for k, v in checkpoints.weights_of(model).items()}
    step(model, optimiser, x)
    other, fresh = make()
    checkpoints.load_weights(other, weights)
    checkpoints.load_optimiser(fresh, other, saved)
    step(other, fresh, x)
    assert torch.equal(other.weight, model.weight)
