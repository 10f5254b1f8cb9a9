"""The log of a training run: its losses and scores as a table, a figure and data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..html_table import html_table
from ..terminal import table
from .loop.log import read_log

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 18  # rows of the printed table, which should fit a screen


@dataclass(frozen=True, eq=False, repr=False)
class TrainingLog:
    """The events of `log.jsonl`, each a dictionary.

    folder: the folder of the run.
    steps: mean losses while training: step, epoch, loss, rate, norm, tokens, time.
    evaluations: scores on held-out data: step, its scores (loss, bleu, accuracy … by task), time.

    >>> TrainingLog(Path("runs/my"), [{"step": 100, "loss": 2.5}], [])
    TrainingLog(my: 100 steps, loss 2.5, 0 evaluations)
    """

    folder: Path
    steps: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]

    @classmethod
    def read(cls, folder: str | Path) -> TrainingLog:
        """Read the log of a finished or running training."""
        folder = Path(folder)
        file = folder / "log.jsonl"
        if not file.is_file():
            raise ValueError(f"{folder} has no log.jsonl; give the `out` folder of a training that has begun")
        events = [event for event in read_log(file) if isinstance(event.get("step"), int)]
        steps = [event for event in events if event.get("event") == "step"]
        return cls(folder, steps, [event for event in events if event.get("event") == "evaluation"])

    def scores(self) -> list[str]:
        """Return the names of the scores that evaluations compute."""
        names = dict.fromkeys(name for event in self.evaluations for name, value in event.items() if isinstance(value, float))
        return [name for name in names if name not in ("time", "rate")]

    def to_pandas(self) -> Any:
        """Return all events as a DataFrame, in the order of the steps."""
        import pandas

        return pandas.DataFrame(sorted((*self.steps, *self.evaluations), key=lambda event: event["step"]))

    def figure(self) -> Figure:
        """Draw the losses over the steps, while training and on held-out data."""
        from ..colours import HEADS, hexadecimal
        from ..plotting import blank, figure_style

        with figure_style([]):
            figure = blank(4.2, 2.4)
            axes = figure.subplots()
            for name, events, colour in (("training", self.steps, HEADS[0]), ("held out", self.evaluations, HEADS[1])):
                points = [(event["step"], event["loss"]) for event in events if "loss" in event]
                if points:
                    axes.plot(
                        *zip(*points, strict=True), label=name, color=hexadecimal(colour), lw=1.2, marker="o" if len(points) < 9 else ""
                    )
            axes.set(xlabel="step", ylabel="loss")
            axes.legend(frameon=False)
        return figure

    def save(self, path: str | Path) -> Path:
        """Write the figure as .svg, .pdf or .png."""
        from ..plotting import save_figure

        return save_figure(self.figure(), path)

    def _texts(self) -> tuple[list[list[str]], str]:
        """The last evaluations, or before the first one the last losses, as rows; and what is said about them."""
        events, names = (self.evaluations, self.scores()) if self.evaluations else (self.steps, ["loss"])
        rows = [[f"{event['step']:,}", *(f"{event[name]:.4g}" if name in event else "" for name in names)] for event in events[-_SHOWN:]]
        kind = "scores on held-out data" if self.evaluations else "losses while training; no evaluation yet" if self.steps else "empty"
        rest = f"; {len(events) - _SHOWN:,} earlier ones: .to_pandas() has all" if len(events) > _SHOWN else ""
        return [["step", *names], *rows], kind + rest

    def __repr__(self) -> str:
        last = max((event["step"] for event in (*self.steps, *self.evaluations)), default=0)
        loss = f", loss {self.steps[-1]['loss']:.4g}" if self.steps else ""
        count = len(self.evaluations)
        return f"TrainingLog({self.folder.name}: {last:,} steps{loss}, {count} {'evaluation' if count == 1 else 'evaluations'})"

    def __str__(self) -> str:
        rows, note = self._texts()
        return f"{self!r}\n{table(rows)}\n{note}"

    def _repr_html_(self) -> str:
        rows, note = self._texts()
        return html_table(rows, title=repr(self), note=note)
