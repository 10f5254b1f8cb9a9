"""`regard evaluate TASK RUN`: score a trained model on a test set with standard metrics."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..training.tasks import TASKS, Evaluation, find_task
from .boundary import wrong_arguments
from .options import LARGEST_BEAM, Device, within


def evaluate(
    task: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(TASKS)}; or alignment: whether a translator attends to the words that people linked to each other"
        ),
    ],
    model: Annotated[str, typer.Argument(help="the folder of a `regard train` run, or a name from `regard models`", metavar="RUN")],
    test: Annotated[
        list[Path] | None,
        typer.Option(
            "--test",
            metavar="<file>",
            help="the test file; give it twice for two parallel files (default for alignment: 100 zh–en pairs that come with regard)",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(
            "--train",
            help="for alignment: sentence pairs (.tsv) to fit a word-count baseline",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    against: Annotated[
        list[str] | None, typer.Option("--against", metavar="<str>", help="another translator to compare with; may be repeated")
    ] = None,
    figure: Annotated[Path | None, typer.Option("--figure", help="draw BLEU by source length: .svg, .png or .pdf")] = None,
    beam: Annotated[
        int | None,
        typer.Option("--beam", help="beam size of the search; 1 is greedy (default: the run's own)", callback=within(1, LARGEST_BEAM)),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="write the translations to this file, one per line")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object instead of a table")] = False,
    device: Device = "cpu",
) -> None:
    """Score a model on a test set: BLEU, chrF and BLEU by source length for translation; perplexity or accuracy for other tasks."""
    if task == "alignment":
        evaluate_alignment(model, against or [], test, train, as_json, device)
        return
    if task not in TASKS:
        raise typer.BadParameter(f"task is {task!r}; expected one of {', '.join(TASKS)}, alignment")
    if not test:
        raise typer.BadParameter("give the test file, such as --test pairs.tsv", param_hint="--test")
    if train is not None:
        raise typer.BadParameter("only `regard evaluate alignment` uses training pairs", param_hint="--train")
    entry = find_task(task)
    if not entry.by_length and (against or figure):
        raise typer.BadParameter(f"--against and --figure compare translators; the task is {task}")
    from ..zoo import locate

    with wrong_arguments():
        if figure:
            from ..plotting import figure_file

            figure_file(figure)  # an unknown file type must fail before the evaluation, not after it
        result = entry.evaluate(Evaluation(locate(model), test, device, beam, out))
        others = {name: entry.evaluate(Evaluation(locate(name), test, device, beam)) for name in against or ()}
        if figure:
            from ..training.curves import draw_by_length

            draw_by_length({model: result["by_length"], **{name: other["by_length"] for name, other in others.items()}}, figure)
    if as_json:
        sys.stdout.write(json.dumps({**result, **({"against": others} if others else {})}, ensure_ascii=False) + "\n")
        return
    sys.stdout.write(_table(result) + "\n" + "".join(f"\n{name}\n{_table(other)}\n" for name, other in others.items()))


def evaluate_alignment(model: str, against: list[str], test: list[Path] | None, train: Path | None, as_json: bool, device: str) -> None:
    """Print the alignment error rates (percent) of translators' attention and of baselines."""
    from ..text.links import CountedAlignment, diagonal, error_rate, read_alignments, words_of
    from ..text.pairs import read_pairs
    from ..training.tasks.translation.alignment_error import evaluate_alignment as rates_of
    from ..zoo import open as open_model

    with wrong_arguments():
        pairs = [pair for file in test or (None,) for pair in read_alignments(file)]
        rates = {"baseline: diagonal": error_rate([diagonal(pair) for pair in pairs], pairs)}
        if train is not None:
            counted = CountedAlignment((words_of(pair.source), words_of(pair.target)) for pair in read_pairs(train))
            rates["baseline: counts"] = error_rate([counted.links(pair.source, pair.target) for pair in pairs], pairs)
        for name in (model, *against):
            model_rates = rates_of(open_model(name, device=device, task="translation"), pairs)
            rates |= {f"{name}: {how}": rate for how, rate in model_rates.items()}
    if as_json:
        sys.stdout.write(json.dumps({"pairs": len(pairs), "error_rates": rates}, ensure_ascii=False) + "\n")
        return
    sys.stdout.write(f"{len(pairs)} pairs; alignment error rate in percent, lower is better\n")
    sys.stdout.write("".join(f"{100 * rate:6.1f}  {name}\n" for name, rate in rates.items()))


def _table(result: dict[str, Any]) -> str:
    """The scores as lines of text."""
    lines = []
    for name, value in result.items():
        if name == "scores":
            lines += [f"{score['name']:<12}{score['value']:8.2f}  {score['signature']}" for score in value]
        elif name == "by_length":
            lines.append("source tokens  sentences    bleu  exact")
            lines += [f"{r['least']:>6}–{r['most']:<6}  {r['sentences']:>9}  {r['bleu']:6.2f}  {r['exact']:5.1f}" for r in value]
        elif name == "baselines":
            lines += [f"{who}: " + ", ".join(f"{score} {number:.2f}" for score, number in scores.items()) for who, scores in value.items()]
        else:
            lines.append(f"{name:<12}{value:>8,.2f}" if isinstance(value, float) else f"{name:<12}{value:>8,}")
    return "\n".join(lines)
