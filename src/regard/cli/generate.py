"""`regard generate PROMPT`: continue a prompt with a language model."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .boundary import wrong_arguments
from .options import LARGEST, LARGEST_SEED, Device, check_finite, within
from .text_input import text_of

if TYPE_CHECKING:
    from ..training.opened import Prefix


def generate(
    prompt: Annotated[str, typer.Argument(help='the text to continue; "-" reads it from standard input')],
    model: Annotated[
        str,
        typer.Option("--model", "-m", help="a name from `regard models`, the folder of a run or of Hugging Face weights, or a .gguf file"),
    ] = "shakespeare",
    max_new: Annotated[int, typer.Option("--max-new", help="how many tokens to generate", callback=within(1, LARGEST))] = 200,
    temperature: Annotated[
        float,
        typer.Option(
            "--temperature",
            help="0: always the most likely token; 1: the model's own distribution",
            callback=within(0, 10**6),
        ),
    ] = 0.8,
    top_k: Annotated[int | None, typer.Option("--top-k", help="sample from the k most likely tokens", callback=within(1, LARGEST))] = None,
    top_p: Annotated[
        float | None,
        typer.Option("--top-p", help="sample from the most likely tokens whose probabilities add up to p", callback=check_finite),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="seed of the sampling, for repeatable output", callback=within(0, LARGEST_SEED))
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="PROMPT is a message: print the model's reply, in the chat template it was published with")
    ] = False,
    prefixes: Annotated[
        bool, typer.Option("--prefixes", help="print the most likely next tokens after every prefix of PROMPT, from one pass")
    ] = False,
    top: Annotated[int, typer.Option("--top", help="with --prefixes: how many candidates to print", callback=within(1, LARGEST))] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="print the prompt and the text as JSON")] = False,
    device: Device = "cpu",
) -> None:
    """Continue PROMPT with a language model."""
    if chat and prefixes:
        raise typer.BadParameter("--chat prints a reply, --prefixes the candidates after every prefix; give one of them")
    from ..zoo import open as open_model

    with wrong_arguments():
        prompt = text_of(prompt)
        opened = open_model(model, device=device)
        if not hasattr(opened, "generate"):
            raise ValueError(f"{model} is not a language model; `regard models` lists the task of each model")
        _warn_about_unread(opened, prompt)
        if prefixes:
            _print_prefixes(opened.prefixes(prompt, top=top), as_json)
            return
        if chat:
            options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
            text = _reply(opened, model, prompt, max_new, options)
            sys.stdout.write((json.dumps({"prompt": prompt, "reply": text}, ensure_ascii=False) if as_json else text) + "\n")
            return
        text = opened.generate(prompt, max_new=max_new, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    sys.stdout.write((json.dumps({"prompt": prompt, "text": text}, ensure_ascii=False) if as_json else text) + "\n")


def _reply(opened: Any, model: str, prompt: str, max_new: int, options: dict[str, Any]) -> str:
    if not hasattr(opened, "reply"):
        raise ValueError(f"{model} has no chat template; it continues text and was not trained to reply (smollm2 was)")
    return str(opened.reply([{"role": "user", "content": prompt}], max_new=max_new, **options))


def _print_prefixes(prefixes: list[Prefix], as_json: bool) -> None:
    """Print one line per prefix: its last token, and the candidates for the next with their probabilities."""
    from ..sight.views.token_display import display_tokens
    from ..terminal import columns, pad

    if as_json:
        for prefix in prefixes:
            sys.stdout.write(json.dumps(asdict(prefix), ensure_ascii=False) + "\n")
        return
    shown = [piece.text if piece.text.strip() else "␣" for piece in display_tokens(prefixes[-1].tokens)]
    width = max(map(columns, shown))
    for token, prefix in zip(shown, prefixes, strict=True):
        names = [piece.text if piece.text.strip() else "␣" for piece in display_tokens([name for name, _ in prefix.candidates])]
        candidates = zip(names, prefix.candidates, strict=True)
        sys.stdout.write(f"{pad(token, width)}  →  {'  '.join(f'{name} {p:.2f}' for name, (_, p) in candidates)}\n")


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
