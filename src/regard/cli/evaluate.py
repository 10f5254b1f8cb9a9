"""`regard evaluate TASK RUN`: how good is a trained model on a test set, in numbers others can compare."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..training.tasks import TASKS, Evaluation, find_task


def evaluate(
    task: Annotated[str, typer.Argument(help=f"{', '.join(TASKS[:-1])} or {TASKS[-1]}")],
    model: Annotated[str, typer.Argument(help="the folder of a `regard train` run, or a name of `regard models`", metavar="RUN")],
    test: Annotated[list[Path], typer.Option("--test", help="the test file; twice for two parallel files", exists=True)],
    against: Annotated[list[str] | None, typer.Option("--against", help="another translator to score beside it; may be repeated")] = None,
    figure: Annotated[Path | None, typer.Option("--figure", help="draw BLEU by source length: .svg, .png or .pdf")] = None,
    beam: Annotated[int | None, typer.Option("--beam", help="how many prefixes the search keeps; 1 is greedy", min=1)] = None,
    out: Annotated[Path | None, typer.Option("--out", help="write the translations here, one a line")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="everything as one JSON object")] = False,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, mps")] = "cpu",
) -> None:
    """Score a model: BLEU cased and lowercased with their signatures, chrF, the score by length; or perplexity; or accuracy."""
    if task not in TASKS:
        raise typer.BadParameter(f"task is {task!r}; what can be evaluated: {', '.join(TASKS)}")
    chosen = find_task(task)
    if not chosen.by_length and (against or figure):
        raise typer.BadParameter(f"--against and --figure compare translators; the task is {task}")
    from ..zoo import locate

    try:
        if figure:
            from ..plotting import figure_file

            figure_file(figure)  # before the work, not after it
        result = chosen.evaluate(Evaluation(locate(model), test, device, beam, out))
        others = {name: chosen.evaluate(Evaluation(locate(name), test, device, beam)) for name in against or ()}
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
