"""`regard train TASK CONFIG`: train a model, or resume an interrupted training."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..training.tasks import TASKS, find_task
from .boundary import wrong_arguments
from .options import LARGEST, within

if TYPE_CHECKING:
    from rich.console import Console

    from ..training.loop.trainer import Progress

LINE_SECONDS = 30  # between two lines of progress, where there is no terminal
SETTLED_STEPS = 5  # steps after which the time left is predicted


def train(
    task: Annotated[str, typer.Argument(help=f"{', '.join(TASKS[:-1])} or {TASKS[-1]}")],
    config: Annotated[
        Path | None,
        typer.Argument(
            help="a TOML file with the settings; or a data file (.tsv or .jsonl pairs, text, stories): a TOML file is then written for it",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    example: Annotated[bool, typer.Option("--example", help="print a TOML file with every setting explained, and exit")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="print only the result, no progress and no samples")] = False,
    context_parallel: Annotated[
        int, typer.Option(callback=within(1, LARGEST), help="split each sequence over this many processes (lm, mlm), under torchrun")
    ] = 1,
    fsdp: Annotated[bool, typer.Option("--fsdp", help="shard the weights over the processes, under torchrun")] = False,
) -> None:
    """Train a model with the settings of CONFIG, or on a data file. Running the same command again resumes an interrupted training.

    To use several processes: torchrun --nproc-per-node N -m regard train TASK CONFIG.
    """
    try:
        from ..training.config_from_data import config_for
        from ..training.runs import train as run
        from ..zoo import locate, names
    except ImportError as error:
        raise ImportError(f'{error}; training needs: pip install "regard[train]"') from error

    from rich.console import Console

    console = Console(highlight=False, quiet=os.environ.get("RANK", "0") != "0")  # of several processes only the first prints
    if example:
        with wrong_arguments():
            print(find_task(task).manual, end="")
        return
    if config is None:
        raise typer.BadParameter(
            f"give a TOML file or a data file; `regard train {task} --example` prints a TOML file to start from", param_hint="CONFIG"
        )
    with wrong_arguments():
        if config.suffix.lower() != ".toml":
            config = config_for(task, config, Path(), names())
            console.print(f"settings in {config}; edit it and run again to train another model", soft_wrap=True)
    display = None if quiet else _ProgressDisplay(console)
    with wrong_arguments(), contextlib.closing(display) if display else contextlib.nullcontext():
        state, folder = run(task, config, watch=display, context_parallel=context_parallel, fully_sharded=fsdp, locate=locate)
    if state.finished:
        scores = "  ".join(f"{name} {value:.4g}" for name, value in state.metrics.items())
        console.print(f"done: {state.step:,} steps, best at step {state.best_step:,}: {scores}", soft_wrap=True)
    else:
        console.print(f"stopped at step {state.step:,}, saved; run the same command to resume", soft_wrap=True)
    console.print(str(folder), soft_wrap=True)
    if state.signal:
        raise typer.Exit(128 + state.signal)


class _ProgressDisplay:
    """A progress bar with loss, tokens per second and time left; scores and samples are printed above it.

    Where the output is not a terminal, a line of the same numbers is printed at the first step and then about every half minute.
    """

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bar

        self.console = console
        columns: list[Any] = [
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.3f}"),
            TextColumn("{task.fields[speed]:,.0f} tokens/s"),
            TextColumn("{task.fields[left]} left"),
        ]
        self.bar = Bar(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.task = self.bar.add_task("", total=None, epoch=0, loss=float("nan"), speed=0.0, left="?")
        self.loss: float | None = None
        self.steps = 0  # seen by this display: a resumed training begins at a later step
        self.next_line = 0.0  # when the next line is due, if there is no bar
        self.bar.start()

    def __call__(self, progress: Progress) -> None:
        if progress.metrics is not None:
            scores = "  ".join(f"{name} {value:.4g}" for name, value in progress.metrics.items())
            self.console.print(f"step {progress.step:,}  {scores}", markup=False, soft_wrap=True)
            if progress.samples:
                self.console.print(progress.samples, markup=False, soft_wrap=True, style="dim")
            return
        # The bar shows a running mean, since the loss of single batches is noisy.
        self.steps += 1
        # The first steps also set things up: counted alone they predict hours for a training of minutes.
        left = _duration(progress.seconds_left) if self.steps > SETTLED_STEPS else "?"
        self.loss = progress.loss if self.loss is None else 0.95 * self.loss + 0.05 * progress.loss
        self.bar.update(
            self.task,
            completed=progress.step,
            total=progress.total,
            epoch=progress.epoch,
            loss=self.loss,
            speed=progress.tokens_per_second,
            left=left,
        )
        if not self.console.is_terminal and time.monotonic() >= self.next_line:
            self.next_line = time.monotonic() + LINE_SECONDS
            self.console.print(
                f"step {progress.step:,} of {progress.total:,}  epoch {progress.epoch}  loss {self.loss:.3f}  "
                f"{progress.tokens_per_second:,.0f} tokens/s" + ("" if left == "?" else f"  {left} left"),
                markup=False,
                soft_wrap=True,
            )

    def close(self) -> None:
        self.bar.stop()


def _duration(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss.

    >>> _duration(3725), _duration(65.4)
    ('1:02:05', '1:05')
    """
    minutes, remaining_seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{remaining_seconds:02d}" if hours else f"{minutes}:{remaining_seconds:02d}"
