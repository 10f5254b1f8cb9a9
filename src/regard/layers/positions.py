"""Position encodings: sinusoidal, learned, and rotary.

Axes: B batch, h heads, L tokens, d width. Tables are computed once in float64, shared by every layer and cast to the input's dtype.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor, nn

from regard.limits import check_fields

__all__ = ["Learned", "Rotary", "Sinusoidal"]

Scaling = Literal["none", "linear", "llama3", "yarn"]


@dataclass(frozen=True)
class Rotary:
    """Rotary positions: feature pair i of a query or key is rotated by position · base^(−2i/d), so dot products depend on distance only.

    Feature i is paired with i + d/2, as in Llama's published weights. `fraction` < 1 rotates only the first part of a head. `scaling`
    extends the trained context: "linear" divides every frequency by `factor`; "llama3" only the low ones, with a smooth transition
    between `low` and `high` turns per `original` tokens; "yarn" likewise between `slow` and `fast` turns, and also scales the scores;
    `divisors`, one per pair, divide the frequencies (as stored in some model files).

    Shapes: `turn(x, start)` maps (…, L, d) to (…, L, d); row 0 is at position `start`.

    base: the base of the frequencies.
    fraction: the share of a head's features that is rotated.
    scaling: "none", "linear", "llama3" or "yarn".
    factor: how much longer the context becomes.
    original: tokens of the context it was trained on; needed by "llama3" and "yarn".
    low, high: bounds of "llama3", in turns per `original` tokens.
    fast, slow: bounds of "yarn", likewise.
    sharpen: factor of queries and keys under "yarn"; None: 0.1 · ln(factor) + 1, as published.
    truncate: whether the bounds of "yarn" are rounded to whole pairs, as published.
    divisors: one number per pair by which its frequency is divided; () for none.

    Raises ValueError for a fraction outside (0, 1], or scaling without `original`.

    >>> q = torch.randn(2, 4, 10, 64)
    >>> turned = Rotary().turn(q)
    >>> torch.allclose(turned.norm(dim=-1), q.norm(dim=-1), atol=1e-5), torch.equal(turned[:, :, 0], q[:, :, 0])
    (True, True)

    Su et al. 2021, RoFormer; Peng et al. 2023, YaRN.
    """

    base: float = 10_000.0
    fraction: float = 1.0
    scaling: Scaling = "none"
    factor: float = 1.0
    original: int = 0
    low: float = 1.0
    high: float = 4.0
    fast: float = 32.0
    slow: float = 1.0
    sharpen: float | None = None
    truncate: bool = True
    divisors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, may_be_zero=("original",))
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction is {self.fraction}; expected the rotated part of a head, above 0 and at most 1")
        if self.scaling in ("llama3", "yarn") and self.original <= 0:
            raise ValueError(f"{self.scaling} scaling needs original=, the context length the model was first trained on")

    def width(self, head_dim: int) -> int:
        """How many features of a head are rotated."""
        width = int(head_dim * self.fraction)
        if width % 2 or width == 0:
            raise ValueError(
                f"rotary positions rotate pairs of features, but {width} of the head's {head_dim} would be rotated; make that number even"
            )
        return width

    def frequencies(self, width: int) -> Tensor:
        """Radians per token for each of the width/2 pairs, float64."""
        plain = self.base ** (-torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)
        if self.divisors:
            if len(self.divisors) != width // 2:
                raise ValueError(f"{len(self.divisors)} divisors for {width // 2} pairs of features; pass one per pair")
            plain = plain / torch.tensor(self.divisors, dtype=torch.float64, device="cpu")
        if self.scaling == "none":
            return plain
        if self.scaling == "linear":
            return plain / self.factor
        # kept: 1 where the plain frequency is used, 0 where it is divided by the factor.
        if self.scaling == "llama3":
            turns = self.original * plain / (2 * math.pi)
            kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        else:
            first, last = (
                width * math.log(self.original / (turns * 2 * math.pi)) / (2 * math.log(self.base)) for turns in (self.fast, self.slow)
            )
            if self.truncate:
                first, last = math.floor(first), math.ceil(last)
            first, last = max(first, 0), min(last, width - 1)
            last = last + 0.001 if last == first else last
            kept = 1 - ((torch.arange(width // 2, dtype=torch.float64, device="cpu") - first) / (last - first)).clamp(0, 1)
        return plain * kept + plain / self.factor * (1 - kept)

    def gain(self) -> float:
        """The factor on rotated queries and keys: 1 except for yarn."""
        if self.sharpen is not None:
            return self.sharpen
        return 0.1 * math.log(self.factor) + 1.0 if self.scaling == "yarn" and self.factor > 1 else 1.0

    def turn(self, x: Tensor, start: int = 0) -> Tensor:
        """Rotate x (…, L, d), whose row l is at position start + l."""
        length, head_dim = x.shape[-2:]
        width = self.width(head_dim)
        cos, sin = (part[start : start + length] for part in _rotary_table(self, width, _table_length(start + length), x.dtype, x.device))
        first, second = x[..., : width // 2], x[..., width // 2 : width]
        parts = [first * cos - second * sin, second * cos + first * sin]
        if width < head_dim:
            parts.append(x[..., width:])
        return torch.cat(parts, -1)


class Sinusoidal(nn.Module):
    """Add the Transformer's sinusoidal positions: feature 2i is sin(p / base^(2i/d)), feature 2i+1 the cosine of the same angle.

    Shapes: (…, L, d) to (…, L, d); row 0 is at position `start`. No parameters, any length.

    width: d, the width of a vector; even.
    base: the slowest wavelength is 2π · base.

    Raises ValueError for an odd width.

    >>> Sinusoidal(4)(torch.zeros(1, 4))
    tensor([[0., 1., 0., 1.]])

    Vaswani et al. 2017, section 3.5.
    """

    def __init__(self, width: int, *, base: float = 10_000.0) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"width is {width}; sinusoidal positions are sine–cosine pairs, so it must be even")
        self.width, self.base = width, base

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        end = start + x.shape[-2]
        return x + _wave_table(self.width, self.base, _table_length(end), x.dtype, x.device)[start:end]

    def extra_repr(self) -> str:
        return f"{self.width}, base={self.base}"


class Learned(nn.Module):
    """Add one learned vector per position, up to `context` positions.

    Shapes: (…, L, d) to (…, L, d); row 0 is at position `start`.

    context: number of positions.
    width: d, the width of a vector.

    >>> Learned(8, 4)(torch.zeros(2, 5, 4)).shape
    torch.Size([2, 5, 4])
    """

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(context, width))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        end = start + x.shape[-2]
        if end > self.weight.shape[0]:
            raise ValueError(f"position {end - 1} exceeds the table of {self.weight.shape[0]}; shorten the input or use rotary positions")
        return x + self.weight[start:end]

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"


def _table_length(length: int) -> int:
    # Rounded up to a power of two, so that a growing sequence needs few tables.
    return 1 << max(6, (length - 1).bit_length())


# Computed outside inference mode: a table first used in generation must also work in training.
@lru_cache(maxsize=16)
def _rotary_table(rotary: Rotary, width: int, length: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    with torch.inference_mode(False), torch.no_grad():
        angles = torch.arange(length, dtype=torch.float64, device="cpu")[:, None] * rotary.frequencies(width)
        gain = rotary.gain()
        return (angles.cos() * gain).to(dtype).to(device), (angles.sin() * gain).to(dtype).to(device)


@lru_cache(maxsize=16)
def _wave_table(width: int, base: float, length: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False), torch.no_grad():
        angles = torch.arange(length, dtype=torch.float64, device="cpu")[:, None] * Rotary(base).frequencies(width)
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(1).to(dtype).to(device)
