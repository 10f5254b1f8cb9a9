"""`regard evaluate TASK RUN`: score a trained model on a test set with standard metrics."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..training.tasks import TASKS, Evaluation, find_task
from .device import Device


def evaluate(
    task: Annotated[str, typer.Argument(help=f"{', '.join(TASKS[:-1])} or {TASKS[-1]}")],
    model: Annotated[str, typer.Argument(help="the folder of a `regard train` run, or a name from `regard models`", metavar="RUN")],
    test: Annotated[list[Path], typer.Option("--test", help="the test file; give it twice for two parallel files", exists=True)],
    against: Annotated[list[str] | None, typer.Option("--against", help="another translator to compare with; may be repeated")] = None,
    figure: Annotated[Path | None, typer.Option("--figure", help="draw BLEU by source length: .svg, .png or .pdf")] = None,
    beam: Annotated[int | None, typer.Option("--beam", help="beam size of the search; 1 is greedy (default: the run's own)", min=1)] = None,
    out: Annotated[Path | None, typer.Option("--out", help="write the translations to this file, one per line")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object instead of a table")] = False,
    device: Device = "cpu",
) -> None:
    """Score a model on a test set: BLEU, chrF and BLEU by source length for translation; perplexity or accuracy for other tasks."""
    if task not in TASKS:
        raise typer.BadParameter(f"task is {task!r}; expected one of {', '.join(TASKS)}")
    entry = find_task(task)
    if not entry.by_length and (against or figure):
        raise typer.BadParameter(f"--against and --figure compare translators; the task is {task}")
    from ..zoo import locate

    try:
        if figure:
            from ..plotting import figure_file

            figure_file(figure)  # an unknown file type must fail before the evaluation, not after it
        result = entry.evaluate(Evaluation(locate(model), test, device, beam, out))
        others = {name: entry.evaluate(Evaluation(locate(name), test, device, beam)) for name in against or ()}
        if figure:
            from ..training.curves import draw_by_length

            draw_by_length({model: result["by_length"], **{name: other["by_length"] for name, other in others.items()}}, figure)
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(str(error)) from error
    if as_json:
        sys.stdout.write(json.dumps({**result, **({"against": others} if others else {})}, ensure_ascii=False) + "\n")
        return
    sys.stdout.write(_table(result) + "\n" + "".join(f"\n{name}\n{_table(other)}\n" for name, other in others.items()))


def _table(result: dict[str, Any]) -> str:
    """The scores as lines of text."""
    lines = []
    for name, value in result.items():
        if name == "scores":
            lines += [f"{score['name']:<12}{score['value']:8.2f}  {score['signature']}" for score in value]
        elif name == "by_length":
            lines.append("source tokens  sentences    bleu  exact")
            lines += [f"{r['least']:>6}–{r['most']:<6}  {r['sentences']:>9}  {r['bleu']:6.2f}  {r['exact']:5.1f}" for r in value]
        else:
            lines.append(f"{name:<12}{value:>8,.2f}" if isinstance(value, float) else f"{name:<12}{value:>8,}")
    return "\n".join(lines)
