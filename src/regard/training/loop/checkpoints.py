"""Checkpoints: a safetensors file each, with the training state as JSON and a checksum in its header, written atomically. No pickles."""

from __future__ import annotations

import hashlib
import json
import random
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ...files import DamagedFile, as_object, write_atomic

_NAME = re.compile(r"step-(\d{9})\.safetensors")


def write(path: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Write tensors and a state (JSON values) to `path` atomically."""
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(state)
    # One entry, since safetensors writes several in any order: the same content must give the same bytes.
    metadata = {"regard": f"{text}\n{_digest(contiguous, text)}"}
    write_atomic(path, lambda draft: save_file(contiguous, draft, metadata=metadata))


def read(path: Path, *, device: str = "cpu") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the state that `write` wrote; raise DamagedFile if they are not the ones. Older files have no checksum."""
    try:
        with safe_open(path, framework="pt", device=device) as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, RuntimeError, UnicodeError, AttributeError, KeyError) as error:
        raise DamagedFile(f"{path}: not a safetensors file, or incomplete ({error})") from error
    text, _, checksum = metadata.get("regard", "{}").partition("\n")
    if metadata.keys() - {"regard", "format"} or (checksum and checksum != _digest(tensors, text)):
        raise DamagedFile(f"{path} is damaged: its checksum does not fit its content")
    try:
        return tensors, as_object(text, path)
    except ValueError as error:
        raise DamagedFile(f"{path} is damaged: {error}") from error


def _digest(tensors: dict[str, Tensor], state: str) -> str:
    """Return a hash of everything a checkpoint means: the state, and the name, dtype, shape and bytes of every tensor."""
    digest = hashlib.sha256(state.encode())
    for name in sorted(tensors):
        tensor = tensors[name].cpu()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        values: Any = tensor.reshape(-1).view(torch.uint8).numpy()
        digest.update(values)
    return digest.hexdigest()


def name_of(step: int) -> str:
    """Return the file name of a step's checkpoint."""
    return f"step-{step:09d}.safetensors"


def steps_in(folder: Path) -> list[int]:
    """Return the steps with a checkpoint in `folder`, oldest first; unfinished files of a killed run do not count."""
    if not folder.is_dir():
        return []
    return sorted(int(match[1]) for file in folder.iterdir() if (match := _NAME.fullmatch(file.name)))


def tidy(folder: Path, *, every: int, keep: int, finished: bool = False) -> None:
    """Remove all checkpoints but the newest and the `keep` newest at multiples of `every`, and unfinished files.

    Until the run is finished two are kept at least, so that a damaged one can be replaced by the one before it.
    """
    steps = steps_in(folder)
    kept = {*steps[-1:], *[step for step in steps if step % every == 0][-keep:]}
    kept |= set(steps[-2:]) if len(kept) < 2 and not finished else set()
    for step in steps:
        if step not in kept:
            (folder / name_of(step)).unlink()
    for draft in folder.glob(".*.draft"):
        draft.unlink()


def read_newest(folder: Path) -> tuple[Path, dict[str, Tensor], dict[str, Any]] | None:
    """Return the newest checkpoint that is whole, None if there is none at all. Damaged ones are renamed to ….damaged, with a warning.

    If all are damaged they stay where they are, and the newest one's DamagedFile is raised.
    """
    damaged: list[tuple[Path, DamagedFile]] = []
    for step in reversed(steps_in(folder)):
        path = folder / name_of(step)
        try:
            tensors, state = read(path)
        except DamagedFile as error:
            damaged.append((path, error))
            continue
        for other, reason in damaged:
            aside = other.with_name(f"{other.name}.damaged")
            other.replace(aside)
            warnings.warn(f"{reason}; it was kept as {aside.name}, and the training goes on from step {step:,}", stacklevel=2)
        return path, tensors, state
    if damaged:
        raise DamagedFile(f"{damaged[0][1]}, and no checkpoint before it is whole; remove {folder} to begin again")
    return None


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and persistent buffers by name, tied weights once (under their first name).

    Sharded tensors are gathered, so every rank must call this.
    """
    stored = model.state_dict().keys()
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in stored}
    return {**{name: gathered_tensor(parameter.detach()) for name, parameter in model.named_parameters()}, **buffers}


def gathered_tensor(x: Tensor) -> Tensor:
    """Gather a tensor that is sharded over ranks (every rank must call this); return any other unchanged."""
    full = getattr(x, "full_tensor", None)
    return x if full is None else full()


def _shard_like(x: Tensor, other: Tensor) -> Tensor:
    if getattr(other, "full_tensor", None) is None:
        return x
    from ...parallel.fully_sharded import shard_like

    return shard_like(x, other)


def shapes_in(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors in a safetensors file, without loading them."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, UnicodeError) as error:
        raise DamagedFile(f"{path}: not a safetensors file, or incomplete ({error})") from error


def check_shapes(model: nn.Module, shapes: Mapping[str, Sequence[int]], *, origin: str | Path = "the weights") -> None:
    """Raise ValueError if tensors of these shapes are not those of `model`; further names of tied weights may be missing."""
    parameters = {**dict(model.named_parameters()), **{name: x for name, x in model.named_buffers() if name in model.state_dict()}}
    missing, unknown = sorted(parameters.keys() - shapes.keys()), sorted(shapes.keys() - model.state_dict().keys())
    if missing or unknown:
        raise ValueError(f"{origin} do not fit the model: missing {missing[:3] or 'nothing'}, unknown {unknown[:3] or 'nothing'}")
    for name, tensor in parameters.items():
        if tuple(tensor.shape) != tuple(shapes[name]):
            raise ValueError(f"{origin}: {name} is {tuple(shapes[name])} but the model's is {tuple(tensor.shape)}")


def load_weights(model: nn.Module, tensors: dict[str, Tensor], *, origin: str | Path = "the weights") -> None:
    """Load `tensors` into `model`; every name must match except the further names of tied weights."""
    check_shapes(model, {name: tensor.shape for name, tensor in tensors.items()}, origin=origin)
    current = model.state_dict()
    model.load_state_dict({name: _shard_like(tensor, current[name]) for name, tensor in tensors.items()}, strict=False)


def average(files: Iterable[Path], *, prefix: str = "model.") -> dict[str, Tensor]:
    """Return the mean of the tensors under `prefix` over several checkpoints, summed in float64; integer tensors are those of the last."""
    sums: dict[str, Tensor] = {}
    last: dict[str, Tensor] = {}
    count = 0
    for file in files:
        tensors, _ = read(file)
        last = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        for name, tensor in last.items():
            sums[name] = sums[name] + tensor.double() if name in sums else tensor.double()
        count += 1
    if not count:
        raise ValueError("there are no checkpoints to average; give at least one")
    return {name: (sums[name] / count).to(tensor.dtype) if tensor.is_floating_point() else tensor for name, tensor in last.items()}


def optimiser_tensors(optimiser: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return the optimiser's state as tensors named `<parameter>/<entry>`, gathered as by `weights_of`."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        f"{names[id(parameter)]}/{entry}": gathered_tensor(torch.as_tensor(value))
        for parameter, state in optimiser.state.items()
        for entry, value in state.items()
    }


def load_optimiser(optimiser: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Load the output of `optimiser_tensors`: each entry goes to its parameter's device (step counts stay on the CPU)."""
    parameters = dict(model.named_parameters())
    for key, tensor in tensors.items():
        name, _, entry = key.rpartition("/")
        parameter = parameters[name]
        value = tensor.clone() if entry == "step" else _shard_like(tensor.to(parameter.device, copy=True), parameter)
        optimiser.state[parameter][entry] = value


def random_state() -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the state of torch's random generators as tensors, and of Python's and numpy's as JSON values."""
    tensors = {"torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors |= {f"cuda{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    numpy_state = [str(name), np.asarray(keys).tolist(), int(position), int(has_gauss), float(cached)]
    return tensors, {"python": [version, list(words), gauss], "numpy": numpy_state}


def set_random_state(tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Restore the output of `random_state`."""
    torch.set_rng_state(tensors["torch"])
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            if f"cuda{i}" in tensors:
                torch.cuda.set_rng_state(tensors[f"cuda{i}"], i)
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, np.asarray(keys, dtype=np.uint32), position, has_gauss, cached))
