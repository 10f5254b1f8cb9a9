"""What a model is asked to do: how many tokens, in which dtype, to answer or to learn."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

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
OPTIMISERS = {"adamw": 2, "adam": 2, "rmsprop": 1, "adagrad": 1, "momentum": 1, "sgd": 0}  # states a parameter, in torch.optim


def dtype_bytes(name: str) -> Fraction:
    """Bytes of one number.

    >>> dtype_bytes("bfloat16"), dtype_bytes("int4")
    (Fraction(2, 1), Fraction(1, 2))
    """
    plain = ALIASES.get(name.removeprefix("torch."), name)
    if plain not in DTYPES:
        raise ConfigError(f"unknown dtype {name!r}{nearest(name, [*DTYPES, *ALIASES]) or '; known are ' + ', '.join(DTYPES)}")
    return DTYPES[plain]


@dataclass(frozen=True)
class Workload:
    """Batch, tokens and numbers.

    `context` counts all tokens of a sequence, `generate` those of them the model writes itself after the prompt; 0 for
    context is the model's own limit, or 2,048. `source` is what an encoder reads (0: as many as the context). In training the
    weights, gradients and optimiser states are in `master`, everything else in `dtype`.
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
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"{name} is {value!r}; expected a whole number, {least} or more")
        for dtype in (self.dtype, self.master, *([self.cache_dtype] if self.cache_dtype else [])):
            dtype_bytes(dtype)
        if self.optimiser not in OPTIMISERS:
            known = "; known are " + ", ".join(OPTIMISERS)
            raise ConfigError(f"unknown optimiser {self.optimiser!r}{nearest(self.optimiser, OPTIMISERS) or known}")
        if self.mode not in ("infer", "train"):
            raise ConfigError(f"mode is {self.mode!r}; expected infer or train")
        if self.context and self.generate and self.generate >= self.context:
            raise ConfigError(
                f"generate is {self.generate}; expected fewer than the context's {self.context} tokens, which include the prompt"
            )

    def tokens(self, a: Architecture) -> int:
        """The length of a sequence for this model."""
        if self.context and a.position == "learned" and a.positions and self.context > a.positions:
            raise ConfigError(f"context is {self.context:,}; {a.name} has learned positions for {a.positions:,} only")
        return self.context or a.positions or 2048
