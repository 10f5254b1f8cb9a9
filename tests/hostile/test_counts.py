"""Counts that are lies: a file of a few bytes that asks for 10⁹ of something is refused before anything of that size is made.

Also that the limits of the forked processes, which all tests of damaged files rely on, are real.
"""

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

if sys.platform == "win32":
    pytest.skip("the cases run in forked processes; run on Linux or macOS", allow_module_level=True)
sys.path.insert(0, str(Path(__file__).parent))

import forked
from forked import failures

import regard.zoo
from regard.cli.boundary import is_expected
from regard.cost import plan
from regard.models.gpt import Gpt, GptConfig
from regard.training.config import read_config
from regard.training.tasks import find_task
from regard.zoo.transformers_model import TransformersModel

pytest.importorskip("transformers", reason="transformers is not installed; pip install transformers")  # imported once, before the forks
HUGE = 10**9
SAVED = Path(__file__).parent.parent / "saved" / "files" / "training"
LLAMA = {"model_type": "llama", "vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
GGUF = b"GGUF" + (3).to_bytes(4, "little")


def _u64(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in numbers)


def _deep_array(depth: int) -> bytes:
    """A GGUF file with one setting: an array in an array in an array …"""
    return GGUF + _u64(0, 1, 1) + b"a" + (9).to_bytes(4, "little") + ((9).to_bytes(4, "little") + _u64(1)) * depth


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of `Gpt.save_folder`, small and whole."""
    Gpt(GptConfig(vocabulary=32, d_model=16, heads=2, layers=2, context=16)).save_folder(tmp_path / "gpt")
    return tmp_path / "gpt"


def _own(folder: Path, **changed: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["config"] |= changed
    (folder / "config.json").write_text(json.dumps(config))


CONFIGS: dict[str, dict[str, Any]] = {
    "layers": LLAMA | {"num_hidden_layers": HUGE},
    "layers as a fraction": LLAMA | {"num_hidden_layers": 1e9},
    "nested layers": {"model_type": "x", "text_config": LLAMA | {"num_hidden_layers": HUGE}},
    "nested twice": {"text_config": {"text_config": LLAMA | {"num_hidden_layers": HUGE}}},
    "encoder and decoder": {"model_type": "t5", "num_layers": HUGE, "num_decoder_layers": HUGE},
    "list of layers": LLAMA | {"num_hidden_layers": HUGE, "layer_types": ["full_attention"]},
    "experts": LLAMA | {"model_type": "mixtral", "num_local_experts": 10**18},
    "digits": LLAMA | {"vocab_size": 10**4000},
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_config_is_refused(folder: Path, config: dict[str, Any]) -> None:
    """By `regard plan`, by our models and before transformers sees it."""
    (folder / "config.json").write_text(json.dumps(config))
    _refused(lambda: plan(folder / "config.json"))
    _refused(lambda: Gpt.from_folder(folder))
    _refused(lambda: TransformersModel.open(folder))


@pytest.mark.parametrize(
    "changed",
    [
        {"layers": HUGE},
        {"layers": 1e9},
        {"d_model": 10**8, "heads": 1},
        {"vocabulary": 10**8},
        {"context": 10**8},
        {"heads": 10**8, "d_model": 10**8},
    ],
    ids=str,
)
def test_our_own_format_is_refused(folder: Path, changed: dict[str, Any]) -> None:
    """Also sizes that a config may have: the weights of the file are smaller, so no memory is taken for them."""
    _own(folder, **changed)
    _refused(lambda: Gpt.from_folder(folder))


SAFETENSORS = {
    "length of the header": _u64(2**63) + b"{}",
    "header beyond the file": _u64(10**6) + b"{}",
    "shape": {"a": {"dtype": "F32", "shape": [HUGE, HUGE], "data_offsets": [0, 0]}},
    "offsets": {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 2**62]}},
    "product that overflows": {"a": {"dtype": "F32", "shape": [2**32, 2**32], "data_offsets": [0, 0]}},
    "deep": _u64(10**5) + b"[" * 10**5,
}


@pytest.mark.parametrize("content", SAFETENSORS.values(), ids=SAFETENSORS)
def test_safetensors_are_refused(folder: Path, content: Any) -> None:
    header = b"" if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / "model.safetensors").write_bytes(content if isinstance(content, bytes) else _u64(len(header)) + header)
    _refused(lambda: Gpt.from_folder(folder))
    if isinstance(content, bytes):
        _refused(lambda: plan(folder))  # what else a header says is counted, which takes no memory


GGUFS = {
    "tensors": GGUF + _u64(2**64 - 1, 0),
    "settings": GGUF + _u64(0, 2**64 - 1),
    "length of a name": GGUF + _u64(0, 1, 2**63),
    "length of a text": GGUF + _u64(0, 1, 1) + b"a" + (8).to_bytes(4, "little") + _u64(2**40),
    "elements": GGUF + _u64(0, 1, 1) + b"a" + (9).to_bytes(4, "little") + (8).to_bytes(4, "little") + _u64(HUGE),
    "nesting": _deep_array(100_000),
    "dimensions": GGUF + _u64(1, 0, 1) + b"a" + (2**31).to_bytes(4, "little"),
}


@pytest.mark.parametrize("content", GGUFS.values(), ids=GGUFS)
def test_gguf_is_refused(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("gguf", reason="gguf is not installed; pip install 'regard[weights]'")
    (tmp_path / "m.gguf").write_bytes(content)
    _refused(lambda: Gpt.from_folder(tmp_path / "m.gguf"))
    _refused(lambda: plan(tmp_path / "m.gguf"))


@pytest.mark.parametrize("task", ["lm", "mlm", "translation-transformer", "classify", "reader"])
def test_a_run_is_refused(tmp_path: Path, task: str) -> None:
    """A run.json without a checksum, as older versions wrote it."""
    shutil.copytree(SAVED / task, tmp_path / "run")
    file = tmp_path / "run" / "run.json"
    for name in ("layers", "d_model", "hops", "width", "embedding"):
        run = json.loads((SAVED / task / "run.json").read_text())
        if name in (run["config"].get("model") or {}):
            run["config"]["model"][name] = HUGE
            file.write_text(json.dumps(run))
            _refused(lambda: regard.zoo.open(tmp_path / "run"))


def test_a_config_of_a_training_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(f'out = "x"\n[data]\ntrain = "a"\nvalid = "a"\n[model]\nlayers = {HUGE}\n')
    _refused(lambda: read_config(tmp_path / "a.toml", find_task("lm").config))


def _refused(attempt: Callable[[], object]) -> None:
    """In a process of its own, within its limits: an error that is expected, and not one about memory."""

    def case(_: int) -> str:
        with pytest.raises(Exception) as refusal:
            attempt()
        assert is_expected(refusal.value), repr(refusal.value)
        assert "memory" not in str(refusal.value)
        return "refused"

    wrong, outcomes = failures(case, range(1))
    assert not wrong, wrong
    assert outcomes == {"refused": 1}


def test_the_limits_of_the_forked_processes_are_real(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes more than a gigabyte, does not end, or dies, is reported; what comes after it is still tried."""
    monkeypatch.setattr(forked, "SECONDS", 0.2)
    monkeypatch.setattr(forked, "WAITING", 60)
    taken = []

    def case(number: int) -> str:
        if number == 0:
            taken.append(bytearray(6_000_000_000))  # far more than a limit: earlier tests may have left free memory in this process
        elif number == 1:
            taken.append(torch.zeros(1_500_000_000))
        elif number == 2:
            while True:
                pass
        elif number == 3:
            time.sleep(10**6)
        elif number == 4:
            taken.append(bytearray(500_000_000))
        return "read"

    wrong, outcomes = failures(case, range(6))
    assert outcomes == {"wrong": 2, "read": 2}
    assert "MemoryError" in wrong[0]
    assert "allocate memory" in wrong[1]
    assert "case 2: the process ended with -26" in wrong[2]
    assert "case 3: the process ended with -14" in wrong[3]
    assert len(wrong) == 4
