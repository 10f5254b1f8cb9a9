"""The `[training]` table of every config; manuals/translation.toml explains its keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .schedules import Schedule


@dataclass(frozen=True)
class Training:
    """The `[training]` table of every config."""

    steps: int = 0
    epochs: int = 0
    rate: float = 1e-3
    warmup: int = 0
    schedule: Schedule = "constant"
    floor: float = 0.0
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float = 1.0
    smoothing: float = 0.0
    accumulate: int = 1
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    evaluate_every: int = 500
    checkpoint_every: int = 500
    log_every: int = 50
    keep: int = 3
    metric: str = "loss"
    patience: int = 0
    average: int = 0
    seed: int = 0
    deterministic: bool = True

    def __post_init__(self) -> None:
        if self.steps <= 0 and self.epochs <= 0:
            raise ValueError("steps and epochs are both 0; give the length of the training as one of them")
        for name in ("accumulate", "evaluate_every", "checkpoint_every", "log_every", "keep"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected 1 or more")
        if self.average > self.keep:
            raise ValueError(f"average is {self.average}, but only {self.keep} checkpoints are kept; raise keep")
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing is {self.smoothing}; expected a number in [0, 1)")
