"""The Train page: small tasks that learn in half a minute, or a file of pairs; `regard train` runs on disk, watched as they learn."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ...page import Endpoint, Page, RequestBody, WorkerEndpoint
from .run_state import alignment, run_state, untrained
from .small import SmallRequest, small
from .task_files import TASKS, write_run
from .trainings import TRAININGS

Run = Annotated[str, Field(max_length=120)]


class StartRequest(RequestBody):
    """A task and the switches of its model; `pairs` is the text of a file of pairs, for the task "own"."""

    task: Literal["reverse", "adjectives", "own"] = "reverse"
    model: Literal["bahdanau", "fixed", "transformer"] = "bahdanau"
    score: Literal["additive", "scaled-dot", "dot"] = "additive"
    heads: Literal[1, 2, 4] = 1
    positions: Literal["sinusoidal", "none"] = "sinusoidal"
    mask: Literal["causal", "none"] = "causal"
    scaled: bool = True
    steps: Annotated[int, Field(ge=20, le=20_000)] = 300
    pairs: Annotated[str, Field(max_length=1_500_000)] | None = None

    @model_validator(mode="after")
    def _check(self) -> StartRequest:
        if (self.task == "own") != (self.pairs is not None):
            raise ValueError('pairs belong to the task "own": one pair a line, source and target separated by a tab')
        return self


class RunRequest(RequestBody):
    """The name of a run: runs/<folder>."""

    run: Run


class AlignmentRequest(RunRequest):
    """A run and a step that has a checkpoint (default: the newest)."""

    step: Annotated[int, Field(ge=0, le=10**9)] | None = None


def start(request: StartRequest) -> dict[str, Any]:
    """Write a run's config and data into its folder and start training it."""
    TRAININGS.check_free()
    name = write_run(request.task, request.model_dump())
    TRAININGS.start(name)
    return {"run": name}


def resume(request: RunRequest) -> dict[str, Any]:
    """Continue a run of the studio from its newest checkpoint."""
    TRAININGS.check_free()
    TRAININGS.start(request.run)
    return {"run": request.run}


def stop(request: RunRequest) -> dict[str, Any]:
    """Stop a run after its current step; it writes a checkpoint and can be resumed."""
    TRAININGS.stop(request.run)
    return {"run": request.run}


def state(request: RunRequest) -> dict[str, Any]:
    """The losses and scores of a run so far, its checkpoints, and whether it is running."""
    return {**run_state(request.run), **TRAININGS.state(request.run)}


def tasks() -> dict[str, Any]:
    """The tasks and the runs there are."""
    from ...runs_folder import run_names

    return {"tasks": list(TASKS), "runs": run_names()}


PAGE = Page(
    name="train",
    order=6,
    endpoints=(
        Endpoint("/tasks", tasks, "Tasks and runs"),
        Endpoint("/start", start, "Start a run", StartRequest),
        Endpoint("/resume", resume, "Resume a run", RunRequest),
        Endpoint("/stop", stop, "Stop a run", RunRequest),
        Endpoint("/state", state, "Losses, scores and checkpoints of a run", RunRequest),
        WorkerEndpoint("/small", small, "A training of a second, with its weights at every step", SmallRequest, seconds=60),
        WorkerEndpoint("/untrained", untrained, "The attention of a model before its first step", StartRequest, seconds=60),
        WorkerEndpoint("/alignment", alignment, "The attention of a run at a step", AlignmentRequest, seconds=60),
    ),
)
