"""The trainer of every task: steps, evaluation, checkpoints, and resuming after an interruption.

A run has one folder with `log.jsonl`, `checkpoints/step-….safetensors` and `best.safetensors`. Running it again resumes from the
newest checkpoint that is whole, truncates the log to it, and gives (on CPU) bit-identical results to a run without interruption.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ...files import DamagedFile
from . import checkpoints
from .allocation import keep_memory
from .determinism import deterministic, seed_all
from .log import Log
from .schedules import rate_at
from .settings import Training
from .signals import stopped_by_signals

__all__ = ["STATE_KEY", "Progress", "TrainState", "Trainable", "Trainer", "Training"]

STATE_KEY = "journey"  # the key of the TrainState in a checkpoint; the name the first versions used, so that their runs can be resumed


class Trainable(Protocol):
    """A task as the trainer uses it. Methods must depend only on their arguments and the random generators the trainer seeds."""

    @property
    def model(self) -> nn.Module:
        """The model, with its initial weights."""
        ...

    def batches(self, epoch: int) -> Sequence[Any]:
        """Return the batches of an epoch, the same ones at every call; a batch may be built when it is indexed."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, int]:
        """Compute the loss summed over a batch, and the number of tokens (or examples) in the sum."""
        ...

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Compute scores on held-out data; lower is better for "loss" and "perplexity", higher for all others."""
        ...

    def samples(self, model: nn.Module) -> str:
        """Return a few outputs as text, or ""."""
        ...


@dataclass(frozen=True)
class Progress:
    """The progress of a run, for a progress bar. `metrics` and `samples` are set after an evaluation."""

    step: int
    total: int
    epoch: int
    loss: float
    rate: float
    tokens_per_second: float
    seconds_left: float
    metrics: dict[str, float] | None = None
    samples: str = ""


@dataclass
class TrainState:
    """The part of a checkpoint that is not tensors: the position in the data, the best score, the length of the log."""

    step: int = 0
    epoch: int = 0
    group: int = 0
    best: float | None = None
    best_step: int = 0
    stale: int = 0
    loss_sum: float = 0.0
    loss_count: int = 0
    tokens: int = 0
    log_bytes: int = 0
    size: int = 0  # batches per step over all processes; `group` counts in this unit
    finished: bool = False
    metrics: dict[str, float] = field(default_factory=dict)
    signal: int = 0  # the number of the signal that stopped the run; not stored


class Trainer:
    """Train a task in a folder.

    folder  of the run; created if missing, resumed if it has checkpoints
    watch   called with a `Progress` after every step and evaluation (on the main process)
    fully_sharded   shard weights and optimiser state over the processes (FSDP) instead of replicating them (DDP)

    A task whose batches are shared by several processes has their number as `ranks_a_batch`.
    """

    def __init__(
        self,
        task: Trainable,
        settings: Training,
        folder: str | Path,
        *,
        watch: Callable[[Progress], None] | None = None,
        fully_sharded: bool = False,
    ) -> None:
        from accelerate import Accelerator
        from accelerate.utils import DataLoaderConfiguration

        self.task = task
        self.settings = settings
        self.folder = Path(folder)
        self.log = Log(self.folder / "log.jsonl")
        self.watch = watch
        self.accelerator = Accelerator(
            # Autocast is entered in `_step`: accelerate's own setting would apply to the whole process, later trainers included.
            mixed_precision="no",
            cpu=not torch.accelerator.is_available(),  # accelerate finds several CPU processes only if this is set
            # No example may be repeated to balance the processes; `_share` distributes the batches.
            dataloader_config=DataLoaderConfiguration(even_batches=False),
        )
        self.fully_sharded = fully_sharded and self.accelerator.num_processes > 1
        ranks = int(getattr(task, "ranks_a_batch", 1))
        self._parallel_batches = self.accelerator.num_processes // ranks  # batches processed at the same time
        self._batch_index = self.accelerator.process_index // ranks  # which of them this process works on
        self.state = TrainState()
        self._stop = False
        self._signal = 0
        self._since = (time.monotonic(), 0)  # start of the speed measurement, and tokens since then

    def run(self) -> TrainState:
        """Train to the end, or until SIGINT, SIGTERM or SIGHUP, after which a checkpoint is written; return the final state."""
        keep_memory()
        with deterministic(self.settings.deterministic), stopped_by_signals(self._request_stop):
            bare = self.task.model
            if self.fully_sharded:  # before the optimiser is created, because it replaces the parameters
                from ...parallel.fully_sharded import shard_parameters

                shard_parameters(bare, self.accelerator.device)
            decayed = [p for p in bare.parameters() if p.requires_grad and p.dim() >= 2]
            undecayed = [p for p in bare.parameters() if p.requires_grad and p.dim() < 2]
            groups = [{"params": decayed, "weight_decay": self.settings.weight_decay}, {"params": undecayed, "weight_decay": 0.0}]
            optimiser = torch.optim.AdamW([g for g in groups if g["params"]], lr=self.settings.rate, betas=self.settings.betas, fused=True)
            if self.settings.compile and "forward" not in vars(bare):
                bare.forward = torch.compile(bare.forward)  # in place: class, parameters and their names stay
            model, wrapped = (bare, optimiser) if self.fully_sharded else self.accelerator.prepare(bare, optimiser)
            seed_all(self.settings.seed + 7919 * self.accelerator.process_index)  # each process has its own dropout masks
            self._resume(bare, optimiser)
            state = self.state
            while not state.finished and not self._stop:
                if self._over():
                    self._finish(bare, optimiser)
                    break
                self._epoch(model, bare, wrapped, optimiser)
            state.signal = self._signal
            return state

    def _epoch(self, model: nn.Module, bare: nn.Module, wrapped: Any, optimiser: torch.optim.Optimizer) -> None:
        """Train to the end of the epoch, or until the run is stopped or over. `bare` is the model without a distributed wrapper."""
        settings, state = self.settings, self.state
        batches = self.task.batches(state.epoch)
        size = settings.accumulate * self._parallel_batches
        groups = -(-len(batches) // size)
        if not groups:
            raise ValueError("the task has no batches; the training data is empty")
        if state.size not in (0, size):  # the checkpoint is of a run with another number of batches per step
            state.group = state.group * state.size // size
        state.size = size
        total = settings.steps or settings.epochs * groups
        while state.group < groups:
            indices = range(state.group * size, min((state.group + 1) * size, len(batches)))
            share = [(batches[i], weight) for i, weight in self._share(indices)]
            loss, count, norm, rate = self._step(model, wrapped, optimiser, share, total)
            state.step += 1
            state.group += 1
            state.tokens += count
            state.loss_sum += loss
            state.loss_count += count
            if state.group == groups:
                state.epoch += 1
            self._report(loss / max(count, 1), count, rate, total)
            if state.step % settings.log_every == 0:
                mean = state.loss_sum / max(state.loss_count, 1)
                self._log("step", epoch=state.epoch, loss=mean, rate=rate, norm=norm, tokens=state.tokens)
                state.loss_sum, state.loss_count = 0.0, 0
            if state.step % settings.evaluate_every == 0:
                self._evaluate(bare, "evaluation", rate=rate, total=total)
            done = state.group == groups
            if done:
                state.group = 0
            if state.step % settings.checkpoint_every == 0 or self._stop:
                self._save(bare, optimiser)
            if done or self._stop or self._over():
                return

    def _share(self, indices: range) -> list[tuple[int, int]]:
        """Return this process's batches of a step as (index, weight).

        The weight is 1; a process without a batch computes the first one with weight 0, so that all take part in the reduction.
        """
        mine = list(indices)[self._batch_index :: self._parallel_batches]
        return [(i, 1) for i in mine] or [(indices[0], 0)]

    def _step(
        self, model: nn.Module, wrapped: Any, optimiser: torch.optim.Optimizer, batches: list[tuple[Any, int]], total: int
    ) -> tuple[float, int, float, float]:
        """Make one update of `total`; return the summed loss, the number of tokens, the gradient norm and the learning rate."""
        settings = self.settings
        model.train()
        sums, count = 0.0, 0
        for i, (batch, weight) in enumerate(batches):
            with self._without_sync(model) if i + 1 < len(batches) else contextlib.nullcontext():
                with torch.autocast(self.accelerator.device.type, torch.bfloat16, enabled=settings.precision == "bfloat16"):
                    loss, n = self.task.loss(model, batch)
                self.accelerator.backward(loss * weight)
            sums += float(loss.detach()) * weight
            count += n * weight
        if self.accelerator.num_processes > 1:  # all processes stop together, even if only one got the signal
            local = torch.tensor([sums, float(count), float(self._stop)], dtype=torch.float64, device=self.accelerator.device)
            sums, number, stop = self.accelerator.reduce(local).tolist()
            count, self._stop = int(number), stop > 0
        # The losses are sums, so that every token has the same weight in any batch or process: divide by their number here.
        scale = self.accelerator.num_processes / max(count, 1)
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        torch._foreach_mul_(gradients, scale)
        norm = self.accelerator.clip_grad_norm_(model.parameters(), settings.clip if settings.clip > 0 else float("inf"))
        rate = rate_at(
            self.state.step + 1,
            peak=settings.rate,
            warmup=settings.warmup,
            schedule=settings.schedule,
            total=total,
            floor=settings.floor,
        )
        for group in optimiser.param_groups:
            group["lr"] = rate
        wrapped.step()
        wrapped.zero_grad(set_to_none=True)
        return sums, count, float(checkpoints.gathered_tensor(norm)), rate

    def _without_sync(self, model: nn.Module) -> Any:
        """Return a context in which gradients are accumulated without exchanging them between processes."""
        if not self.fully_sharded:
            return self.accelerator.no_sync(model)
        from ...parallel.fully_sharded import without_gradient_sync

        return without_gradient_sync(model)

    def _over(self) -> bool:
        """Return whether the last step or epoch is reached, or patience has run out."""
        settings, state = self.settings, self.state
        return bool(
            (settings.steps and state.step >= settings.steps)
            or (settings.epochs and state.epoch >= settings.epochs)
            or (settings.patience and state.stale >= settings.patience)
        )

    def _evaluate(self, model: nn.Module, event: str, *, rate: float, total: int) -> None:
        """Evaluate the model, log the scores, and save its weights if they are the best so far. Random generators are restored.

        The main process evaluates and broadcasts the result, so that all stop at the same step; with sharded weights all evaluate.
        """
        if self.accelerator.is_main_process or self.fully_sharded:
            self._score(model, event, rate=rate, total=total)
        if self.accelerator.num_processes > 1:
            from accelerate.utils import broadcast

            state = self.state
            result = torch.tensor(
                [float("nan") if state.best is None else state.best, float(state.best_step), float(state.stale)],
                dtype=torch.float64,
                device=self.accelerator.device,
            )
            best, step, stale = broadcast(result).tolist()
            state.best, state.best_step, state.stale = None if best != best else best, int(step), int(stale)

    def _score(self, model: nn.Module, event: str, *, rate: float, total: int) -> None:
        state, settings = self.state, self.settings
        random_tensors, random_json = checkpoints.random_state()
        model.eval()
        with torch.no_grad(), self._gathered(model), _uncompiled(model):
            metrics = self.task.evaluate(model)
            samples = self.task.samples(model)
        checkpoints.set_random_state(random_tensors, random_json)
        if settings.metric not in metrics:
            raise ValueError(f"metric is {settings.metric!r}; expected one of this task's metrics: {', '.join(metrics)}")
        value = metrics[settings.metric]
        better = value == value and (state.best is None or (value - state.best) * _sign(settings.metric) > 0)
        if better:
            state.best, state.best_step, state.stale, state.metrics = value, state.step, 0, metrics
            note = {"step": state.step, "metrics": metrics, "from": event}
            weights = checkpoints.weights_of(model)
            if self.accelerator.is_main_process:
                checkpoints.write(self.folder / "best.safetensors", weights, note)
        else:
            state.stale += 1
        self._log(event, **metrics, best=better, **({"samples": samples} if samples else {}))
        if self.watch and self.accelerator.is_main_process:
            self.watch(Progress(state.step, total, state.epoch, float("nan"), rate, 0.0, float("nan"), metrics, samples))
        self._since = (time.monotonic(), 0)

    def _gathered(self, model: nn.Module) -> Any:
        """Return a context in which sharded weights are gathered, for methods other than the model's call."""
        if not self.fully_sharded:
            return contextlib.nullcontext()
        from ...parallel.fully_sharded import gathered

        return gathered(model)

    def _finish(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        """Evaluate a last time, then the average of the last checkpoints, which becomes the best weights if it scores higher."""
        settings, state = self.settings, self.state
        if state.step % settings.evaluate_every:
            self._evaluate(model, "evaluation", rate=0.0, total=state.step)
        folder = self.folder / "checkpoints"
        scheduled = [step for step in checkpoints.steps_in(folder) if step % settings.checkpoint_every == 0][-settings.average :]
        if settings.average > 1 and len(scheduled) > 1:
            last_weights = {name: tensor.clone() for name, tensor in checkpoints.weights_of(model).items()}
            checkpoints.load_weights(model, checkpoints.average(folder / checkpoints.name_of(step) for step in scheduled))
            self._evaluate(model, "average", rate=0.0, total=state.step)
            checkpoints.load_weights(model, last_weights)
        state.finished = True
        self._save(model, optimiser)

    def _save(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        main = self.accelerator.is_main_process
        if main or self.fully_sharded:  # gathering sharded tensors needs all ranks
            weights, states = checkpoints.weights_of(model), checkpoints.optimiser_tensors(optimiser, model)
        if main:
            self.state.log_bytes = self.log.flush()  # it must be on disk before the checkpoint that stores its length
            folder = self.folder / "checkpoints"
            random_tensors, random_json = checkpoints.random_state()
            tensors = {
                **{f"model.{name}": t for name, t in weights.items()},
                **{f"optimiser.{name}": t for name, t in states.items()},
                **{f"random.{name}": t for name, t in random_tensors.items()},
            }
            stored_state = {name: value for name, value in asdict(self.state).items() if name != "signal"}
            note = {STATE_KEY: stored_state, "random": random_json}
            checkpoints.write(folder / checkpoints.name_of(self.state.step), tensors, note)
            checkpoints.tidy(folder, every=self.settings.checkpoint_every, keep=self.settings.keep, finished=self.state.finished)
        self.accelerator.wait_for_everyone()

    def _resume(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        """Load the newest checkpoint that is whole, if there is one, and truncate the log to it."""
        folder = self.folder / "checkpoints"
        if self.accelerator.is_main_process:
            checkpoint = checkpoints.read_newest(folder)
            self._check_best()
        self.accelerator.wait_for_everyone()  # the first has put damaged files aside
        if not self.accelerator.is_main_process:
            checkpoint = checkpoints.read_newest(folder)
        if checkpoint is not None:
            path, tensors, note = checkpoint
            parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimiser": {}, "random": {}}
            for name, tensor in tensors.items():
                part, _, key = name.partition(".")
                parts.setdefault(part, {})[key] = tensor
            checkpoints.load_weights(model, parts["model"], origin=path)
            checkpoints.load_optimiser(optimiser, model, parts["optimiser"])
            if self.accelerator.is_main_process:
                checkpoints.set_random_state(parts["random"], note["random"])
            else:  # the generators of other processes are seeded anew
                seed_all(self.settings.seed + 7919 * self.accelerator.process_index + note[STATE_KEY]["step"])
            self.state = TrainState(**note[STATE_KEY])
            if self.state.finished and not self._over():
                self.state.finished = False  # the settings have more steps than last time
            if not (self.folder / "best.safetensors").exists():
                self.state.best = None  # it was damaged or deleted: the next evaluation writes it
        if self.accelerator.is_main_process:
            self.log.resume(self.state.log_bytes)

    def _check_best(self) -> None:
        """Put damaged best weights aside; until the next evaluation writes them anew, the newest weights stand for them."""
        best = self.folder / "best.safetensors"
        try:
            if best.exists():
                checkpoints.read(best)
        except DamagedFile as error:
            best.replace(best.with_name(f"{best.name}.damaged"))
            warnings.warn(f"{error}; it was kept as {best.name}.damaged; the next evaluation writes it anew", stacklevel=2)

    def _log(self, event: str, **values: Any) -> None:
        if self.accelerator.is_main_process:
            self.log.append({"event": event, "step": self.state.step, **values, "time": round(time.time(), 3)})

    def _report(self, loss: float, count: int, rate: float, total: int) -> None:
        if self.watch and self.accelerator.is_main_process:
            start, tokens = self._since
            self._since = (start, tokens + count)
            elapsed = max(time.monotonic() - start, 1e-9)
            speed = (tokens + count) / elapsed
            mean = self.state.tokens / max(self.state.step, 1)
            left = max(total - self.state.step, 0) * mean / speed
            self.watch(Progress(self.state.step, total, self.state.epoch, loss, rate, speed, left))

    def _request_stop(self, number: int) -> None:
        self._stop, self._signal = True, number

    @property
    def stopped(self) -> bool:
        """Whether a signal stopped the run before its end."""
        return self._stop


def _sign(metric: str) -> int:
    """Return +1 if higher is better, −1 if lower is."""
    return -1 if metric in ("loss", "perplexity") else 1


@contextlib.contextmanager
def _uncompiled(model: nn.Module) -> Iterator[None]:
    """Context manager: calls of the model run as written, since texts of every length would each be compiled."""
    compiled = vars(model).pop("forward", None)
    try:
        yield
    finally:
        if compiled is not None:
            model.forward = compiled
