"""The tasks a model can be trained for, one entry each: `regard train`, `regard evaluate` and `regard.zoo.open` find them here.

A new task is a file (or a folder) here with `TASK = Task(...)`, its explained config in ../manuals/NAME.toml, and its name in `TASKS`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..loop.sharding import ShardedLoss
    from ..loop.trainer import Trainable
    from ..opened import OpenedModel

TASKS = ("translation", "lm", "mlm", "classify", "reader")  # each the name of a module here; imported when it is first asked for


@dataclass(frozen=True)
class Evaluation:
    """What is to be measured: the run in a folder, on test files; for tasks that write text, with which beam, and where outputs go."""

    run: Path
    test: Sequence[Path]
    device: str = "cpu"
    beam: int | None = None
    out: Path | None = None


@dataclass(frozen=True)
class Task:
    """Everything there is to know of a task.

    name          what it is called in commands and in run.json
    config        the dataclass its TOML file is read into; `files()` names its data, `out` its folder, `training` its settings
    build         (config, folder of the config file, folder of the run) → what the trainer trains
    open          (folder of a run, device=…) → the best model of the run, ready to use and to look at
    evaluate      scores of a run on test files, as plain values
    data          the kind of file it can be started from without a config; "" where it needs one
    adapt         (manual, data file) → the manual with settings chosen for the data
    sharded_loss  the loss of a rank's part of a batch, where its sequences can be shared by several processes
    by_length     whether its scores are also given by source length ("by_length"), so that models can be compared by it
    """

    name: str
    config: type[Any]
    build: Callable[[Any, Path, Path], Trainable]
    open: Callable[..., OpenedModel]
    evaluate: Callable[[Evaluation], dict[str, Any]]
    data: str = ""
    adapt: Callable[[str, Path], str] = lambda manual, data: manual
    sharded_loss: ShardedLoss | None = None
    by_length: bool = False

    @property
    def manual(self) -> str:
        """The task's TOML file with every key explained."""
        return (files("regard.training") / "manuals" / f"{self.name}.toml").read_text(encoding="utf-8")


def find_task(name: str) -> Task:
    """The task registered as `name`; an error names the nearest one."""
    if name not in TASKS:
        near = difflib.get_close_matches(name, TASKS, n=1)
        raise ValueError(f"there is no task {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(TASKS)}"))
    task: Task = import_module(f"{__name__}.{name}").TASK
    return task


__all__ = ["TASKS", "Evaluation", "Task", "find_task"]
