"""The folder of a training run: created when training begins, read when the model is used.

run.json            the task, its config, a hash of the data
*.vocabulary.json   the vocabularies
log.jsonl, checkpoints/, best.safetensors     written by the trainer
model.safetensors   only in a packed run (`regard.zoo.packing`): the best weights in half precision
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from ..files import hold_folder, read_bytes, read_record, write_record
from ..models.empty import empty_model
from .config import from_dict, read_config
from .loop import checkpoints
from .loop.trainer import STATE_KEY, Progress, Trainer, TrainState
from .tasks import TASKS, find_task

T = TypeVar("T")
M = TypeVar("M", bound=nn.Module)

RUN_KEYS = frozenset({"regard", "task", "config", "data"})  # of run.json, besides its checksum

# Config keys that may change when a run is resumed. `accumulate` changes with the number of processes at the same batches per step.
_CHANGEABLE = (
    "out",
    "training.accumulate",
    "training.steps",
    "training.epochs",
    "training.patience",
    "training.keep",
    "training.log_every",
)


def train(
    name: str,
    path: str | Path,
    *,
    watch: Callable[[Progress], None] | None = None,
    context_parallel: int = 1,
    fully_sharded: bool = False,
    locate: Callable[[str], Path] | None = None,
) -> tuple[TrainState, Path]:
    """Train the task `name` with the config in the TOML file `path`, resuming if its run exists. Return the final state and the folder.

    Paths in the file are relative to it. With several processes (torchrun), each batch is shared by `context_parallel` of them, which hold
    parts of its sequences; weights and optimiser states are replicated or, with `fully_sharded`, sharded. A run may be resumed with
    other numbers of processes. The folder is held while the training runs: a second one gets `FolderInUse`. `locate` finds the folder of a
    model that `start` names and that is not a path.
    """
    task = find_task(name)
    path = Path(path)
    config = read_config(path, task.config)
    root = path.resolve().parent
    folder = root / config.out
    is_new = not folder.exists()
    try:
        from accelerate import PartialState
    except ImportError as error:
        raise ImportError('training needs the package "accelerate": pip install "regard[train]"') from error
    folder.mkdir(parents=True, exist_ok=True)
    if not torch.accelerator.is_available() and "TORCHELASTIC_RESTART_COUNT" in os.environ:
        from ..parallel.torchrun_init import init_from_torchrun

        init_from_torchrun()
    process = PartialState(cpu=not torch.accelerator.is_available())
    with hold_folder(folder) if process.is_main_process else contextlib.nullcontext():
        with process.main_process_first(), _removed_on_error(folder if is_new and process.is_main_process else None):
            # one process writes run.json and the vocabularies, the others read them
            _same_run(folder, name, config, fingerprint(root / file for file in config.files()), write=process.is_main_process)
            trained = task.build(_with_start(config, root, locate), root, folder)
        if context_parallel != 1:
            from .loop.sharding import ShardedTask

            if task.sharded_loss is None:
                supported = ", ".join(other for other in TASKS if find_task(other).sharded_loss is not None)
                raise ValueError(f"{name} does not support context parallelism; the tasks {supported} do")
            trained = ShardedTask(trained, task.sharded_loss, context_parallel)
        trainer = Trainer(trained, config.training, folder, watch=watch, fully_sharded=fully_sharded)
        return trainer.run(), folder


@contextlib.contextmanager
def _removed_on_error(folder: Path | None) -> Iterator[None]:
    """Remove the folder of a new run if it cannot be built, so that the next try, with other data, does not meet the first one's."""
    try:
        yield
    except (ValueError, OSError):
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _with_start(config: T, root: Path, locate: Callable[[str], Path] | None) -> T:
    """Return the config with the folder of the model that `start` names, if it is not a path relative to `root`."""
    start: str | None = getattr(config, "start", None)
    if start is None or (root / start).exists():
        return config
    if locate is None:
        raise ValueError(f"start: {root / start} does not exist; give the folder of a run, relative to the config file")
    return dataclasses.replace(config, start=str(locate(start).resolve()))  # type: ignore[type-var]


def _same_run(folder: Path, name: str, config: Any, data: str, *, write: bool) -> None:
    """Write run.json, or check that the run in `folder` has the same task, config and data."""
    file = folder / "run.json"
    new_run = {"regard": "run", "task": name, "config": dataclasses.asdict(config), "data": data}
    new_run = json.loads(json.dumps(new_run))  # with lists for tuples, as it will be read
    if file.exists():
        old_run = read_run_json(folder)
        if old_run["task"] != name:
            raise ValueError(f"{folder} is a run of {old_run['task']!r}, not {name!r}; choose another `out`")
        old_config = from_dict(old_run["config"], type(config), origin=file)  # adds defaults of keys that are newer than the run
        old, new = _flat(json.loads(json.dumps(dataclasses.asdict(old_config)))), _flat(new_run["config"])
        changed = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key) and key not in _CHANGEABLE]
        if changed:
            changes = ", ".join(f"{key} was {old.get(key)!r}, is {new.get(key)!r}" for key in changed[:3])
            raise ValueError(
                f"{folder} was begun with another config ({changes}); change it back, choose another `out`, or remove the folder"
            )
        if old_run.get("data") != data:
            raise ValueError(f"{folder} was begun with other data (the files changed); choose another `out` or remove the folder")
    if write:
        write_record(file, new_run)


def _flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested tables as one dictionary with keys such as "training.rate"."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def fingerprint(files: Iterable[Path]) -> str:
    """Return a hash of the files' contents, in order."""
    digest = hashlib.sha256()
    for file in files:
        if not file.exists():
            raise ValueError(f"{file}: no such file; paths in a config are relative to the config file")
        if not file.is_file():  # a pipe or a device, which may have no end
            digest.update(hashlib.sha256(read_bytes(file)).digest())
            continue
        with file.open("rb") as handle:
            digest.update(hashlib.file_digest(handle, "sha256").digest())
    return digest.hexdigest()


def read_run_json(folder: Path) -> dict[str, Any]:
    """Return the content of run.json, verified."""
    file = folder / "run.json"
    if not file.exists():
        raise ValueError(f"{folder} is not a run (it has no run.json); give the `out` folder of a training")
    run = read_record(file, RUN_KEYS)
    if not isinstance(run.get("task"), str) or not isinstance(run.get("config"), dict):
        raise ValueError(f"{file} does not describe a run: it needs a text `task` and an object `config`; restore it from a copy")
    return run


def read_run(folder: str | Path, task: str) -> dict[str, Any]:
    """Return the config of the run in `folder` as a dictionary; raise ValueError if it is not a run of `task`."""
    run = read_run_json(Path(folder))
    if run["task"] != task:
        raise ValueError(f"{folder} is a run of {run['task']!r}, not {task!r}; `regard models` lists the task of each model")
    config: dict[str, Any] = run["config"]
    return config


def run_config(folder: str | Path, task: str, form: type[T]) -> T:
    """Return the config of the run in `folder` as the dataclass `form`."""
    return from_dict(read_run(folder, task), form, origin=Path(folder) / "run.json")


def load_step(model: nn.Module, folder: str | Path, step: int) -> None:
    """Load the weights of a run's checkpoint at `step` into `model`."""
    file = Path(folder) / "checkpoints" / checkpoints.name_of(step)
    if not file.exists():
        steps = checkpoints.steps_in(file.parent)
        raise ValueError(f"{folder} has no checkpoint of step {step}; it has those of {', '.join(map(str, steps)) or 'none'}")
    checkpoints.load_weights(
        model, {name.removeprefix("model."): t for name, t in checkpoints.read(file)[0].items() if name.startswith("model.")}, origin=file
    )
    model.eval()


def _best_weights(folder: Path) -> tuple[Path, str]:
    """Return the file with a run's best weights, and what their names begin with in it."""
    best = next((file for name in ("best", "model") if (file := folder / f"{name}.safetensors").exists()), None)
    if best is not None:
        return best, ""
    steps = checkpoints.steps_in(folder / "checkpoints")
    if not steps:
        raise ValueError(f"{folder} has no weights yet; train until the first checkpoint")
    return folder / "checkpoints" / checkpoints.name_of(steps[-1]), "model."


def build_best(build: Callable[[], M], folder: str | Path) -> M:
    """Build a run's model and load its best weights. Memory is taken only for a model whose shapes are those of the file."""
    best, prefix = _best_weights(Path(folder))
    shapes = {name.removeprefix(prefix): shape for name, shape in checkpoints.shapes_in(best).items() if name.startswith(prefix)}
    checkpoints.check_shapes(empty_model(build, str(folder)), shapes, origin=best)
    model = build()
    load_best(model, folder)
    return model


def load_best(model: nn.Module, folder: str | Path) -> dict[str, Any]:
    """Load a run's best weights into `model`; return their metadata. Before the first evaluation they are those of its newest checkpoint,
    with a warning, because so short a training often gives empty results.
    """
    best, prefix = _best_weights(Path(folder))
    tensors, note = checkpoints.read(best)
    if prefix:
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        note = {"step": note[STATE_KEY]["step"]}
        warnings.warn(
            f"{folder} was trained for {note['step']:,} steps only and not evaluated yet: its results may be empty or wrong; "
            "train it further with the same `regard train` command",
            stacklevel=2,
        )
    checkpoints.load_weights(model, tensors, origin=best)
    model.eval()
    return note
