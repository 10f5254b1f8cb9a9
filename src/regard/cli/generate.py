"""`regard generate PROMPT`: go on writing where a prompt ends."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from .text_input import text_of


def generate(
    prompt: Annotated[str, typer.Argument(help='the beginning; "-" reads it from standard input')],
    model: Annotated[
        str, typer.Option("--model", "-m", help="a name of `regard models`, the folder of a run or of published weights, or a .gguf file")
    ] = "shakespeare",
    max_new: Annotated[int, typer.Option("--max-new", help="how many tokens to add", min=1)] = 200,
    temperature: Annotated[float, typer.Option("--temperature", help="0: the likeliest token; 1: as the model says", min=0.0)] = 0.8,
    top_k: Annotated[int | None, typer.Option("--top-k", help="only the k likeliest tokens", min=1)] = None,
    top_p: Annotated[float | None, typer.Option("--top-p", help="only the fewest tokens that reach this probability")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="makes it repeatable")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="the prompt and the text as JSON")] = False,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, mps")] = "cpu",
) -> None:
    """Write on from PROMPT with a language model."""
    from ..zoo import open as open_model

    try:
        prompt = text_of(prompt)
        opened = open_model(model, device=device)
        if not hasattr(opened, "generate"):
            raise ValueError(f"{model} is not a language model; `regard models` says what each model is for")
        _say_what_is_not_read(opened, prompt)
        text = opened.generate(prompt, max_new=max_new, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    except (ValueError, OSError, ImportError) as error:
        raise typer.BadParameter(str(error)) from error
    sys.stdout.write((json.dumps({"prompt": prompt, "text": text}, ensure_ascii=False) if as_json else text) + "\n")


def _say_what_is_not_read(opened: Any, prompt: str) -> None:
    """Characters the model never saw, all of them an error; and how much of a long prompt it looks back on."""
    ids = opened.encode(prompt)
    words = getattr(opened, "vocabulary", None)
    if words is not None:
        strange, share = words.unknown_characters(prompt)
        if share > 0.5:
            raise ValueError(f"most of the prompt is in characters the model never saw ({' '.join(strange[:20])})")
        if strange:
            sys.stderr.write(f"read as unknown, since the model never saw them: {' '.join(strange[:20])}\n")
    config = opened.model.config
    if len(ids) > config.context:
        reads = "looks back on the last" if config.positions == "learned" else "was trained on"
        sys.stderr.write(f"the prompt has {len(ids):,} tokens; the model {reads} {config.context:,}\n")
