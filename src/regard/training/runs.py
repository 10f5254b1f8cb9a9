"""A run's folder: what was trained, from what, with which weights; made when training begins, opened when the model is used.

run.json            the task, its config, a fingerprint of the data
*.vocabulary.json   the vocabularies
log.jsonl, checkpoints/, best.safetensors     the trainer's
model.safetensors   in a packed run (`regard.zoo.packing`): the best weights alone, in half precision
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from ..files import write_text
from .config import from_dict, read_config
from .loop import checkpoints
from .loop.trainer import STATE_KEY, Progress, Trainer, TrainState
from .tasks import TASKS, find_task

T = TypeVar("T")

# What may change between two runs of the same command without making it another run. As many batches a step on another number of
# processes means another `accumulate`.
_FREE = ("out", "training.accumulate", "training.steps", "training.epochs", "training.patience", "training.keep", "training.log_every")


def train(
    name: str,
    path: str | Path,
    *,
    watch: Callable[[Progress], None] | None = None,
    context_parallel: int = 1,
    fully_sharded: bool = False,
) -> tuple[TrainState, Path]:
    """Train the task `name` as the TOML file `path` says, or go on where the last time ended. Returns where it stands and its folder.

    Paths in the file are relative to the file. Over several processes (torchrun), `context_parallel` of them share each batch, every one
    a part of its sequences; weights and optimiser states are copied or, with `fully_sharded`, sharded. A run may resume with other numbers.
    """
    task = find_task(name)
    path = Path(path)
    config = read_config(path, task.config)
    root = path.resolve().parent
    folder = root / config.out
    folder.mkdir(parents=True, exist_ok=True)
    from accelerate import PartialState

    if not torch.accelerator.is_available() and "TORCHELASTIC_RESTART_COUNT" in os.environ:
        from ..parallel.torchrun_init import init_from_torchrun

        init_from_torchrun()
    process = PartialState(cpu=not torch.accelerator.is_available())
    with process.main_process_first():  # one process writes what a run begins with, the others read it
        _same_run(folder, name, config, fingerprint(root / file for file in config.files()), write=process.is_main_process)
        trained = task.build(config, root, folder)
    if context_parallel != 1:
        from .loop.sharding import ShardedTask

        if task.sharded_loss is None:
            able = ", ".join(other for other in TASKS if find_task(other).sharded_loss is not None)
            raise ValueError(f"{name} has no sharded form; context parallelism is for the tasks {able}")
        trained = ShardedTask(trained, task.sharded_loss, context_parallel)
    trainer = Trainer(trained, config.training, folder, watch=watch, fully_sharded=fully_sharded)
    return trainer.run(), folder


def _same_run(folder: Path, name: str, config: Any, data: str, *, write: bool) -> None:
    """Begin a run in `folder`, or make sure the one there is this one."""
    file = folder / "run.json"
    now = {"regard": "run", "task": name, "config": dataclasses.asdict(config), "data": data}
    now = json.loads(json.dumps(now))  # as it will be read back
    if file.exists():
        was = _read_run(folder)
        if was["task"] != name:
            raise ValueError(f"{folder} is a run of {was['task']!r}, not {name!r}; choose another `out`")
        then = from_dict(was["config"], type(config), origin=file)  # a key that is newer than the run has its default
        old, new = _flat(json.loads(json.dumps(dataclasses.asdict(then)))), _flat(now["config"])
        changed = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key) and key not in _FREE]
        if changed:
            told = ", ".join(f"{key} was {old.get(key)!r}, is {new.get(key)!r}" for key in changed[:3])
            raise ValueError(f"{folder} was begun with another config ({told}); change it back, choose another `out`, or remove the folder")
        if was["data"] != data:
            raise ValueError(f"{folder} was begun with other data (the files changed); choose another `out` or remove the folder")
    if write:
        write_text(file, json.dumps(now, indent=1, ensure_ascii=False))


def _flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def fingerprint(files: Iterable[Path]) -> str:
    """A hash of the files' contents, in order."""
    digest = hashlib.sha256()
    for file in files:
        if not file.exists():
            raise ValueError(f"{file}: no such file; paths in a config are relative to the config file")
        with file.open("rb") as handle:
            digest.update(hashlib.file_digest(handle, "sha256").digest())
    return digest.hexdigest()


def _read_run(folder: Path) -> dict[str, Any]:
    file = folder / "run.json"
    if not file.exists():
        raise ValueError(f"{folder} is not a run (no run.json in it); give the `out` folder of a training")
    run: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return run


def read_run(folder: str | Path, task: str) -> dict[str, Any]:
    """The config of the run in `folder`, which must be of `task`."""
    run = _read_run(Path(folder))
    if run["task"] != task:
        raise ValueError(f"{folder} is a run of {run['task']!r}, not {task!r}")
    config: dict[str, Any] = run["config"]
    return config


def run_config(folder: str | Path, task: str, form: type[T]) -> T:
    """The same as the config's dataclass."""
    return from_dict(read_run(folder, task), form, origin=Path(folder) / "run.json")


def load_best(model: nn.Module, folder: str | Path) -> dict[str, Any]:
    """Put a run's best weights into `model` (its newest checkpoint's while nothing was evaluated yet); returns what is noted of them."""
    folder = Path(folder)
    best = next((file for name in ("best", "model") if (file := folder / f"{name}.safetensors").exists()), None)
    if best is not None:
        tensors, note = checkpoints.read(best)
    else:
        steps = checkpoints.steps_in(folder / "checkpoints")
        if not steps:
            raise ValueError(f"{folder} has no weights yet; train until the first checkpoint")
        best = folder / "checkpoints" / checkpoints.name_of(steps[-1])
        tensors, noted = checkpoints.read(best)
        tensors = {name.removeprefix("model."): tensor for name, tensor in tensors.items() if name.startswith("model.")}
        note = {"step": noted[STATE_KEY]["step"]}
    checkpoints.load_weights(model, tensors, origin=best)
    model.eval()
    return note
