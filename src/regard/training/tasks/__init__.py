"""The tasks a model can be trained for; `regard train`, `regard evaluate` and `regard.zoo.open` look them up here.

To add a task: a module (or package) here with `TASK = Task(...)`, its commented config in ../manuals/NAME.toml, its name in `TASKS`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..loop.sharding import ShardedLoss
    from ..loop.trainer import Trainable
    from ..opened import OpenedModel

TASKS = ("translation", "summarise", "lm", "mlm", "classify", "reader", "article")  # module names; a module is imported on first use


@dataclass(frozen=True)
class Evaluation:
    """The arguments of an evaluation: the folder of a run, test files; for translation, the beam width and a file for the outputs."""

    run: Path
    test: Sequence[Path]
    device: str = "cpu"
    beam: int | None = None
    out: Path | None = None


@dataclass(frozen=True)
class Task:
    """The description of a task.

    name          its name in commands and in run.json
    config        the dataclass of its TOML file, with `files()` (its data), `out` (its folder) and `training` (its settings)
    build         (config, folder of the config file, folder of the run) → the `Trainable` the trainer trains
    open          (folder of a run, device=…) → the best model of the run, as an `OpenedModel`
    evaluate      scores of a run on test files, as values for JSON
    data          the kind of data file it can be trained on without a config; "" if it needs one
    adapt         (manual, data file, names of the models there are) → the manual with settings chosen for the data
    sharded_loss  the loss of a rank's part of a batch; None if the task does not support context parallelism
    by_length     whether its scores include a table by source length, "by_length"
    """

    name: str
    config: type[Any]
    build: Callable[[Any, Path, Path], Trainable]
    open: Callable[..., OpenedModel]
    evaluate: Callable[[Evaluation], dict[str, Any]]
    data: str = ""
    adapt: Callable[[str, Path, Collection[str]], str] = lambda manual, data, models: manual
    sharded_loss: ShardedLoss | None = None
    by_length: bool = False

    @property
    def manual(self) -> str:
        """The task's commented example config."""
        return (files("regard.training") / "manuals" / f"{self.name}.toml").read_text(encoding="utf-8")


def find_task(name: str) -> Task:
    """Return the task called `name`; an error suggests the most similar name."""
    if name not in TASKS:
        similar = difflib.get_close_matches(name, TASKS, n=1)
        raise ValueError(f"there is no task {name!r}; " + (f"did you mean {similar[0]!r}?" if similar else f"known: {', '.join(TASKS)}"))
    task: Task = import_module(f"{__name__}.{name}").TASK
    return task


__all__ = ["TASKS", "Evaluation", "Task", "find_task"]
