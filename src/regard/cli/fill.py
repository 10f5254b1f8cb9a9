"""`regard fill TEXT`: predict the masked tokens of a text with an encoder, and show which words each mask attended to."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from ..terminal import weights_text
from .boundary import wrong_arguments
from .options import LARGEST, Device, within
from .text_input import text_of


def fill(
    text: Annotated[str, typer.Argument(help='a text with [MASK] where a token is missing; "-" reads it from standard input')],
    model: Annotated[
        str, typer.Option("--model", "-m", help="a name from `regard models`, the folder of an mlm run or of a published BERT")
    ] = "bert-small",
    top: Annotated[int, typer.Option("--top", help="how many candidates to print for each mask", callback=within(1, LARGEST))] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per mask")] = False,
    device: Device = "cpu",
) -> None:
    """Predict each [MASK] of TEXT: a Chinese character, or a word or part of a word.

    Below the candidates and their probabilities are the words the mask attended to in the last layer, averaged over its heads.
    """
    from ..zoo import open as open_model

    with wrong_arguments():
        content = text_of(text)
        opened = masked_model(open_model(model, device=device), model)
        candidates, looked = opened.fill(content, top=top), opened.mask_looked_at(content)
    for number, (row, words) in enumerate(zip(candidates, looked, strict=True), 1):
        if as_json:
            fillings = [{"text": c.text, "probability": c.probability} for c in row]
            attended = [{"word": word, "weight": weight} for word, weight in words]
            sys.stdout.write(json.dumps({"mask": number, "candidates": fillings, "attended": attended}, ensure_ascii=False) + "\n")
            continue
        if len(candidates) > 1:
            sys.stdout.write(f"mask {number}\n")
        sys.stdout.write("".join(f"  {c.probability:6.1%}  {c.text}\n" for c in row))
        sys.stdout.write(f"  attended to  {weights_text(words)}\n")


def masked_model(opened: Any, name: str) -> Any:
    """Return what fills masks: the opened mlm run, or published BERT weights with their masked-token head."""
    from ..training.encoder_text import TokenizerText
    from ..training.tasks.mlm import MaskedModel

    if isinstance(opened, MaskedModel):
        return opened
    config = getattr(opened.model, "config", None)
    if hasattr(opened, "tokenizer") and hasattr(opened.model, "unmask"):
        if opened.model.head is None:
            raise ValueError(f"{name} was published without a masked-token head, so it cannot predict masked tokens; use bert-small")
        return MaskedModel(opened.model, TokenizerText(opened.tokenizer), config.context)  # type: ignore[union-attr]
    raise ValueError(f"{name} is not a masked-token model; give an mlm run or a published BERT (`regard models` lists the task of each)")
