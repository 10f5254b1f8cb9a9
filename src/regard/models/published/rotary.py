"""Rotary positions from a published config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from regard.models.published.architecture import ConfigError
from regard.models.published.fields import Fields

if TYPE_CHECKING:
    from regard.layers.positions import Rotary

__all__ = ["ROTARY", "rotary"]

ROTARY: dict[str, Any] = {"rope_parameters": None, "rope_scaling": None, "rope_theta": 10_000.0, "partial_rotary_factor": 1.0}


def rotary(c: Fields, context: int) -> Rotary:
    """Return rotary positions from `rope_parameters`, or from the older `rope_theta` and `rope_scaling`."""
    from regard.layers.positions import Rotary

    scaling: dict[str, Any] = {**c.mapping("rope_scaling"), **c.mapping("rope_parameters")}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    base: Any = scaling.get("rope_theta", c.number("rope_theta"))
    fraction: Any = scaling.get("partial_rotary_factor", c.number("partial_rotary_factor"))
    original = scaling.get("original_max_position_embeddings") or context
    if kind == "default":
        return Rotary(base, fraction)
    if kind == "linear":
        return Rotary(base, fraction, "linear", _required(scaling, "factor"))
    if kind == "llama3":
        low, high = _required(scaling, "low_freq_factor"), _required(scaling, "high_freq_factor")
        return Rotary(base, fraction, "llama3", _required(scaling, "factor"), original, low, high)
    if kind == "yarn" and not scaling.get("mscale") and not scaling.get("mscale_all_dim"):
        turns: dict[str, Any] = {"fast": scaling.get("beta_fast") or 32.0, "slow": scaling.get("beta_slow") or 1.0}
        sharpen, truncate = scaling.get("attention_factor"), scaling.get("truncate", True)
        return Rotary(base, fraction, "yarn", _required(scaling, "factor"), original, **turns, sharpen=sharpen, truncate=truncate)
    raise ConfigError(f"config.json has the rotary scaling {kind!r} ({scaling}); expected default, linear, llama3, or yarn without mscale")


def _required(scaling: Mapping[str, Any], key: str) -> Any:
    if scaling.get(key) is None:
        raise ConfigError(
            f"the rotary scaling in config.json ({dict(scaling)}) lacks {key!r}; use the config.json published with the weights"
        )
    return scaling[key]
