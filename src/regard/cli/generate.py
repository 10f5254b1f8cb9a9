"""`regard generate PROMPT`: go on writing where a prompt ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def generate(
    prompt: Annotated[str, typer.Argument(help='the beginning; "-" reads it from standard input')],
    model: Annotated[Path | None, typer.Option("--model", "-m", help="the folder of a `regard train lm` run")] = None,
    max_new: Annotated[int, typer.Option("--max-new", help="how many tokens to add", min=1)] = 200,
    temperature: Annotated[float, typer.Option("--temperature", help="0: the likeliest token; 1: as the model says", min=0.0)] = 0.8,
    top_k: Annotated[int | None, typer.Option("--top-k", help="only the k likeliest tokens", min=1)] = None,
    top_p: Annotated[float | None, typer.Option("--top-p", help="only the fewest tokens that reach this probability")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="makes it repeatable")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="the prompt and the text as JSON")] = False,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, mps")] = "cpu",
) -> None:
    """Write on from PROMPT with a language model."""
    if model is None:
        raise typer.BadParameter("no model: give --model with the folder of a `regard train lm` run", param_hint="--model")
    from ..training.tasks.lm import LanguageModel

    if prompt == "-":
        prompt = sys.stdin.read()
    try:
        opened = LanguageModel.open(model, device=device)
        text = opened.generate(prompt, max_new=max_new, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    sys.stdout.write((json.dumps({"prompt": prompt, "text": text}, ensure_ascii=False) if as_json else text) + "\n")
