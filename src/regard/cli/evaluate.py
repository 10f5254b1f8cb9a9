"""`regard evaluate TASK RUN`: how good is a trained model on a test set, in numbers others can compare."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer


def evaluate(
    task: Annotated[str, typer.Argument(help="translation, lm, classify or reader")],
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
    jobs = {"translation": _translation, "lm": _lm, "classify": _classify, "reader": _reader}
    if task not in jobs:
        raise typer.BadParameter(f"task is {task!r}; what can be evaluated: {', '.join(jobs)}")
    if task != "translation" and (against or figure):
        raise typer.BadParameter(f"--against and --figure compare translators; the task is {task}")
    from ..zoo import locate

    try:
        if figure:
            from ..plotting import figure_file

            figure_file(figure)  # before the work, not after it
        result = jobs[task](locate(model), test, beam, out, device)
        others = {name: _translation(locate(name), test, beam, None, device) for name in against or ()}
        if figure:
            from ..training.curves import draw_by_length

            draw_by_length({model: result["by_length"], **{name: other["by_length"] for name, other in others.items()}}, figure)
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(str(error)) from error
    if as_json:
        sys.stdout.write(json.dumps({**result, **({"against": others} if others else {})}, ensure_ascii=False) + "\n")
        return
    sys.stdout.write(_table(result) + "\n" + "".join(f"\n{name}\n{_table(other)}\n" for name, other in others.items()))


def _translation(run: Path, test: list[Path], beam: int | None, out: Path | None, device: str) -> dict[str, Any]:
    from ..files import write_text
    from ..text.pairs import read_pairs
    from ..training import metrics
    from ..training.runs import read_run
    from ..training.tasks.translation import Translations

    data = read_run(run, "translation")["data"]
    files: Any = test[0] if len(test) == 1 else test
    pairs = read_pairs(files, columns=tuple(data["columns"]), keys=tuple(data["keys"]))
    opened = Translations.open(run, device=device)
    outputs = [found[0].text for found in opened.translate([p.source for p in pairs], width=beam)]
    if out:
        write_text(out, "".join(line + "\n" for line in outputs))
    references, tokenize = [p.target for p in pairs], opened.decoding.tokenize
    lengths = [len(ids) for ids in opened.encode([p.source for p in pairs])]
    scores = [
        metrics.bleu(outputs, references, tokenize=tokenize),
        metrics.bleu(outputs, references, lowercase=True, tokenize=tokenize),
        metrics.chrf(outputs, references),
    ]
    rows = metrics.by_length(outputs, references, lengths, lowercase=True, tokenize=tokenize)
    return {
        "sentences": len(pairs),
        "beam": opened.decoding.beam if beam is None else beam,
        "parameters": sum(p.numel() for p in opened.model.parameters()),
        "scores": [metrics.as_dict(score) for score in scores],
        "exact": metrics.exact(outputs, references),
        "by_length": [metrics.as_dict(row) for row in rows],
    }


def _lm(run: Path, test: list[Path], beam: int | None, out: Path | None, device: str) -> dict[str, Any]:
    from ..text.pairs import read_lines
    from ..training.tasks.lm import LanguageModel, encode_lines, held_out_loss

    opened = LanguageModel.open(run, device=device)
    ids = encode_lines(opened.vocabulary, [line for file in test for line in read_lines(file)])
    loss = held_out_loss(opened.model, ids, opened.model.config.context)
    from ..training.metrics import perplexity

    return {"tokens": len(ids), "loss": loss, "perplexity": perplexity(loss)}


def _classify(run: Path, test: list[Path], beam: int | None, out: Path | None, device: str) -> dict[str, Any]:
    from ..text.pairs import read_pairs
    from ..training.runs import read_run
    from ..training.tasks.classify import Classifier

    data = read_run(run, "classify")["data"]
    pairs = [pair for file in test for pair in read_pairs(file, columns=tuple(data["columns"]), keys=tuple(data["keys"]))]
    named = Classifier.open(run, device=device).classify([p.source for p in pairs])
    right = sum(label == p.target for (label, _), p in zip(named, pairs, strict=True))
    return {"texts": len(pairs), "accuracy": 100.0 * right / len(pairs)}


def _reader(run: Path, test: list[Path], beam: int | None, out: Path | None, device: str) -> dict[str, Any]:
    from ..text.stories import read_stories
    from ..training.tasks.reader import StoryReader

    stories = [story for file in test for story in read_stories(file)]
    return {"questions": len(stories), **StoryReader.open(run, device=device).measure(stories)}


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
