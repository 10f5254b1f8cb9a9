"""`regard generate PROMPT`: continue a prompt with a language model."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from .device import Device
from .text_input import text_of


def generate(
    prompt: Annotated[str, typer.Argument(help='the text to continue; "-" reads it from standard input')],
    model: Annotated[
        str,
        typer.Option("--model", "-m", help="a name from `regard models`, the folder of a run or of Hugging Face weights, or a .gguf file"),
    ] = "shakespeare",
    max_new: Annotated[int, typer.Option("--max-new", help="how many tokens to generate", min=1)] = 200,
    temperature: Annotated[
        float, typer.Option("--temperature", help="0: always the most likely token; 1: the model's own distribution", min=0.0)
    ] = 0.8,
    top_k: Annotated[int | None, typer.Option("--top-k", help="sample from the k most likely tokens", min=1)] = None,
    top_p: Annotated[
        float | None, typer.Option("--top-p", help="sample from the most likely tokens whose probabilities add up to p")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="seed of the sampling, for repeatable output")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the prompt and the text as JSON")] = False,
    device: Device = "cpu",
) -> None:
    """Continue PROMPT with a language model."""
    from ..zoo import open as open_model

    try:
        prompt = text_of(prompt)
        opened = open_model(model, device=device)
        if not hasattr(opened, "generate"):
            raise ValueError(f"{model} is not a language model; `regard models` lists the task of each model")
        _warn_about_unread(opened, prompt)
        text = opened.generate(prompt, max_new=max_new, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    except (ValueError, OSError, ImportError) as error:
        raise typer.BadParameter(str(error)) from error
    sys.stdout.write((json.dumps({"prompt": prompt, "text": text}, ensure_ascii=False) if as_json else text) + "\n")


def _warn_about_unread(opened: Any, prompt: str) -> None:
    """Warn about characters outside the vocabulary (an error if they are most of the prompt) and about a prompt longer than the context."""
    ids = opened.encode(prompt)
    vocabulary = getattr(opened, "vocabulary", None)
    if vocabulary is not None:
        unknown, share = vocabulary.unknown_characters(prompt)
        if share > 0.5:
            raise ValueError(f"most of the prompt is in characters outside the model's vocabulary ({' '.join(unknown[:20])})")
        if unknown:
            sys.stderr.write(f"not in the model's vocabulary, read as unknown: {' '.join(unknown[:20])}\n")
    config = opened.model.config
    if len(ids) > config.context:
        reads = "reads only the last" if config.positions == "learned" else "was trained on"
        sys.stderr.write(f"the prompt has {len(ids):,} tokens; the model {reads} {config.context:,}\n")
