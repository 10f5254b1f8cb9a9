"""The workload of a cost estimate: batch size, tokens, dtypes, inference or training."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from regard.limits import check_count
from regard.models.published.architecture import Architecture, ConfigError, nearest

DTYPES: dict[str, Fraction] = {
    "fp64": Fraction(8),
    "fp32": Fraction(4),
    "bf16": Fraction(2),
    "fp16": Fraction(2),
    "fp8": Fraction(1),
    "int8": Fraction(1),
    "int4": Fraction(1, 2),
}
ALIASES = {"float64": "fp64", "float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float8": "fp8"}
OPTIMISERS = {"adamw": 2, "adam": 2, "rmsprop": 1, "adagrad": 1, "momentum": 1, "sgd": 0}  # states per parameter, as in torch.optim


def dtype_bytes(name: str) -> Fraction:
    """Return the bytes of one number of a dtype.

    >>> dtype_bytes("bfloat16"), dtype_bytes("int4")
    (Fraction(2, 1), Fraction(1, 2))
    """
    short_name = ALIASES.get(name.removeprefix("torch."), name)
    if short_name not in DTYPES:
        raise ConfigError(f"unknown dtype {name!r}{nearest(name, [*DTYPES, *ALIASES]) or '; use one of ' + ', '.join(DTYPES)}")
    return DTYPES[short_name]


@dataclass(frozen=True)
class Workload:
    """Batch size, tokens and dtypes of one step.

    batch: sequences.
    context: tokens of a sequence, prompt and generated ones (0: the model's own limit, or 2,048).
    generate: how many of them the model generates after the prompt.
    source: tokens an encoder reads (0: as many as the context).
    dtype: of weights and activations.
    cache_dtype: of the key-value cache (empty: as dtype).
    mode: "infer" or "train".
    checkpointing: recompute activations in the backward pass instead of keeping them.
    optimiser: in training: "adamw", "sgd" or another that `regard plan --help` lists.
    master: in training, the dtype of weights, gradients and optimiser states.

    Raises ConfigError for values that do not fit together.

    >>> Workload(batch=8, context=4096).dtype
    'bf16'
    """

    batch: int = 1
    context: int = 0
    generate: int = 0
    source: int = 0
    dtype: str = "bf16"
    cache_dtype: str = ""
    mode: Literal["infer", "train"] = "infer"
    checkpointing: bool = False
    optimiser: str = "adamw"
    master: str = "fp32"

    def __post_init__(self) -> None:
        for name in ("batch", "context", "generate", "source"):
            value, least = getattr(self, name), 1 if name == "batch" else 0
            try:
                check_count(name, value, least)
            except ValueError as error:
                raise ConfigError(str(error)) from error
        for dtype in (self.dtype, self.master, *([self.cache_dtype] if self.cache_dtype else [])):
            dtype_bytes(dtype)
        if self.optimiser not in OPTIMISERS:
            choices = "; use one of " + ", ".join(OPTIMISERS)
            raise ConfigError(f"unknown optimiser {self.optimiser!r}{nearest(self.optimiser, OPTIMISERS) or choices}")
        if self.mode not in ("infer", "train"):
            raise ConfigError(f"mode is {self.mode!r}; expected infer or train")
        if self.context and self.generate and self.generate >= self.context:
            raise ConfigError(
                f"generate is {self.generate}; expected fewer than the {self.context} tokens of the context, which include the prompt"
            )

    def tokens(self, a: Architecture) -> int:
        """Return the tokens of a sequence for this model."""
        if self.context and a.position == "learned" and a.positions and self.context > a.positions:
            raise ConfigError(f"context is {self.context:,}; {a.name} has learned positions for {a.positions:,} tokens only")
        return self.context or a.positions or 2048
