"""Estimates the memory that inspecting a text needs, and compares it with the free memory before the work starts.

Axes: N tokens, d width, h heads, V vocabulary.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .request_error import RequestError

SHARE = 0.8  # of the free memory that one job may use


def free_bytes() -> int:
    """The memory available without swapping, or within this process's control group if that is less."""
    free = 1 << 62
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free = 1024 * int(lines["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        import os

        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    try:
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            free = min(free, int(limit) - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass
    return max(free, 0)


def check_memory(free: int, needed: int, what: str) -> None:
    """Raise RequestError if `needed` bytes are more than SHARE of the free memory.

    >>> check_memory(1_000_000_000, 5_300_000_000, "this text")
    Traceback (most recent call last):
    ...
    regard.studio.request_error.RequestError: this text needs about 5.3 GB and 0.8 GB may be used (1.0 GB are free); shorten it
    """
    if needed > SHARE * free:
        values = {"needed": f"{needed / 1e9:.1f}", "allowed": f"{SHARE * free / 1e9:.1f}", "free": f"{free / 1e9:.1f}"}
        raise RequestError(
            "memory",
            f"{what} needs about {values['needed']} GB and {values['allowed']} GB may be used ({values['free']} GB are free); shorten it",
            **values,
        )


def inspection_bytes(model: Any, tokens: int) -> int:
    """About how many bytes watching a model on that many tokens takes, without its weights.

    Counted are the largest activations of a layer, the logits of every token, and what is kept of every head: readings, queries and keys.
    Attention itself is streamed, so nothing here grows with N².
    """
    from ..sight.watch import KEEP_BYTES

    widths = [int(p.shape[0]) for name, p in model.named_parameters() if p.dim() == 2]
    d = min(widths, default=64)
    config = getattr(model, "config", None)
    names = ("d_model", "hidden_size", "n_embd")
    d = next((int(v) for name in names if isinstance(v := getattr(config, name, None), int)), d)
    layers = sum(1 for name, _ in model.named_modules() if name.rsplit(".", 1)[-1].isdigit()) or 2
    heads = next((int(v) for name in ("heads", "num_attention_heads", "n_head") if isinstance(v := getattr(config, name, None), int)), 8)
    vocabulary = max((int(p.shape[0]) for p in model.parameters() if p.dim() == 2), default=d)
    widest = 16 * d  # the residual stream, its norm, query, key, value, and the MLP's two sides
    kept = min(KEEP_BYTES, 8 * tokens * d * layers)
    readings = tokens * heads * layers * 80  # ten numbers per row, some of them copied once
    return 4 * tokens * widest + 4 * tokens * 2 * vocabulary + kept + readings + 100_000_000
