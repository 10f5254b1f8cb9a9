"""Package a finished run: its best weights in half precision, the files needed to load it, and its card."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..files import write_record, write_text
from ..training.loop import checkpoints
from ..training.runs import read_run_json
from .card import FILE, PAGE, Card, hashes, markdown

WEIGHTS = "model.safetensors"
# The files of a run beside its weights and run.json that opening it needs.
_KEPT = ("*.vocabulary.json", "answers.json", "labels.json", "model.json", "tokenizer.json")


def pack(run: str | Path, folder: str | Path, about: Mapping[str, Any], *, scores: Mapping[str, dict[str, Any]] | None = None) -> Card:
    """Write the model of a run to `folder` atomically and return its card.

    about   the fields of the card that are not measured: about, languages, licence, data, command, limits
    scores  test set → the output of `regard evaluate --json` on the packed weights

    The same run gives the same bytes. Paths of the machine it was trained on are removed.
    """
    run, folder = Path(run), Path(folder)
    best = run / "best.safetensors"
    if not best.is_file():
        raise ValueError(f"{run} has no best.safetensors; give the folder of a run that was evaluated at least once")
    tensors, note = checkpoints.read(best)
    run_json = read_run_json(run)
    run_json["config"] = _without_paths(run_json["config"], folder.name)
    draft = folder.with_name(f".{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        checkpoints.write(draft / WEIGHTS, {name: _half(name, tensor) for name, tensor in tensors.items()}, note)
        write_record(draft / "run.json", run_json)
        for file in sorted(file for pattern in _KEPT for file in run.glob(pattern)):
            shutil.copyfile(file, draft / file.name)
        card = Card(
            name=folder.name,
            task=run_json["task"],
            files=hashes(draft, [file.name for file in draft.iterdir()]),
            parameters=sum(tensor.numel() for tensor in tensors.values()),
            seed=run_json["config"]["training"]["seed"],
            **about,
        )
        write_card(draft, dataclasses.replace(card, scores=dict(scores or {})))
        shutil.rmtree(folder, ignore_errors=True)
        draft.replace(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return card


def write_card(folder: Path, card: Card) -> None:
    """Write card.json and MODEL.md into a model's folder."""
    write_text(folder / FILE, card.to_json())
    write_text(folder / PAGE, markdown(card))


def _half(name: str, tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    half = tensor.to(torch.float16)
    if not torch.isfinite(half).all():
        raise ValueError(f"{name} reaches {float(tensor.abs().max()):.3g}, which half precision cannot represent (at most 65504)")
    return half


def _without_paths(config: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a config with the folders removed from its file names."""

    def file_name(value: Any) -> Any:
        if isinstance(value, list):
            return [file_name(item) for item in value]
        return Path(value).name if isinstance(value, str) and "/" in value else value

    return {**config, "out": name, "data": {key: file_name(value) for key, value in config["data"].items()}}
