"""A run as it learns: its log, and its attention on a few held-out sentences at any checkpoint.

Axes: T target words, S source words.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ....files import parse_line, read_bytes, read_json
from ...request_error import RequestError
from ...runs_folder import run_path
from ...worker_state import WorkerState
from .task_files import write_files

if TYPE_CHECKING:
    from ....text.pairs import Pair
    from ....training.tasks.translation import Translations

SENTENCES = 3  # held-out pairs whose attention is shown
POINTS = 400  # of the loss curve


def run_state(name: str) -> dict[str, Any]:
    """Losses, scores and checkpoints so far, and how many steps there will be."""
    from ....training.loop.checkpoints import steps_in

    folder = _folder(name)
    events = _events(folder / "log.jsonl")
    losses = [[e["step"], e["loss"]] for e in events if e["event"] == "step"]
    # "average" is another model at the last step: on the curve it would be a jump.
    scores = [{k: e.get(k) for k in ("step", "loss", "bleu", "exact", "perplexity")} for e in events if e["event"] == "evaluation"]
    run = _read_json(folder / "run.json")
    config = run.get("config", {})
    steps = max((e["step"] for e in events), default=0)
    total = config.get("training", {}).get("steps") or 0
    return {
        "run": name, "task": run.get("task", "translation"), "model": config.get("model", {}), "total": total, "step": steps,
        "losses": losses[:: max(1, len(losses) // POINTS)], "scores": scores, "checkpoints": steps_in(folder / "checkpoints"),
        "finished": bool(total) and steps >= total, "config": (folder / "config.toml").is_file(),
        "samples": next((e["samples"] for e in reversed(events) if e.get("samples")), ""),
    }  # fmt: skip


def alignment(state: WorkerState, run: str, step: int | None = None) -> dict[str, Any]:
    """The attention at a checkpoint on held-out pairs, while the target is given word by word; and the model's own translation."""
    from ....training.loop.checkpoints import steps_in
    from ....training.runs import load_step, run_config
    from ....training.tasks.translation import Translations
    from ....training.tasks.translation.config import TranslationConfig

    folder = _folder(run)
    steps = steps_in(folder / "checkpoints")
    if not steps:
        raise RequestError("no_checkpoint", f"{run} has no checkpoint yet; wait a moment", name=run)
    chosen = min(steps, key=lambda one: abs(one - (steps[-1] if step is None else step)))
    state.set_threads(1)
    try:
        opened = state.cached(f"run {run}", lambda: Translations.open(folder))
        config = run_config(folder, "translation", TranslationConfig)
        pairs = config.data.read(_config_folder(folder, config.out))[1][:SENTENCES]
        load_step(opened.model, folder, chosen)
    except FileNotFoundError as error:  # the run or its data was moved, or the checkpoint has just been removed
        raise RequestError("invalid", f"{error.filename} is not there: the attention is shown on pairs held out of it") from error
    except (ValueError, OSError) as error:  # not a translation run
        raise RequestError("invalid", str(error)) from error
    return {"run": run, "step": chosen, "sentences": _aligned(opened, pairs)}


def untrained(state: WorkerState, **options: Any) -> dict[str, Any]:
    """The attention before the first step: of the model that a run with these switches begins with, on its held-out pairs."""
    import torch

    from ....training.config import read_config
    from ....training.tasks.translation.config import TranslationConfig
    from ....training.tasks.translation.training import TrainableTranslator

    state.set_threads(1)
    with TemporaryDirectory() as name, torch.random.fork_rng():  # build sets the seed
        folder = Path(name)
        write_files(folder, options["task"], options)
        try:
            trained = TrainableTranslator.build(read_config(folder / "config.toml", TranslationConfig), folder, folder)
        except ValueError as error:  # pairs that cannot be trained on
            raise RequestError("invalid", str(error)) from error
    trained.model.eval()
    return {"step": 0, "sentences": _aligned(trained.translations, trained.valid[:SENTENCES])}


def _aligned(opened: Translations, pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    sentences = []
    for pair in pairs:
        source, target, weights = opened.align(pair.source, pair.target)
        got = opened.translate(pair.source, width=1, align=False).text
        rows = None if weights is None else [[round(float(w), 4) for w in row] for row in weights]
        sentences.append({"source": source, "target": target, "weights": rows, "text": pair.source, "wanted": pair.target, "got": got})
    return sentences


def _folder(name: str) -> Path:
    folder = run_path(name)
    if folder is None:
        raise RequestError("unknown_run", f"no run is called {name[:80]!r}", name=name[:80])
    return folder


def _config_folder(folder: Path, out: str) -> Path:
    """The folder of the config that a run was trained with, to which its paths are relative: `folder` without `out` at its end.

    >>> _config_folder(Path("/home/me/runs/my"), "runs/my").as_posix(), _config_folder(Path("/home/me/runs/my"), ".").as_posix()
    ('/home/me', '/home/me/runs/my')
    """
    for part in reversed(Path(out).parts):
        if folder.name == part:
            folder = folder.parent
    return folder


def _events(path: Path) -> list[dict[str, Any]]:
    """The lines of a log; the last one may be half written."""
    events = []
    for line in read_bytes(path).decode("utf-8", "replace").splitlines() if path.is_file() else []:
        event = parse_line(f"{line}\n".encode())
        if event is not None and "event" in event and "step" in event:
            events.append(event)
    return events


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except (OSError, ValueError):
        return {}
