"""Watch one model and compare what was caught with what the model itself says of its attention."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.sight import change, watch

ATTENTION = re.compile(r"(attention|attn)(v\d+|\d+|1d|2d)?$", re.IGNORECASE)
NOT_OVER_TOKENS = re.compile(r"channel|spatialatt|gate|external|largekernel", re.IGNORECASE)


def check(model: nn.Module, run: Callable[[nn.Module], Any], *, eager: Callable[[nn.Module], Any] | None = None) -> dict[str, Any]:
    """Return what was caught of a model's attention, how far weights and outputs are from its own, and whether what-if acts on it.

    run: calls the model. eager: calls it so that it returns its attentions, for models that can.
    """
    model.eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with attention_modules(model) as ran:
            plain = run(model)
        expected = [] if eager is None else list(eager_weights(model, eager))
        with warnings.catch_warnings(record=True) as problems, watch(model, keep=True) as seen:
            warnings.simplefilter("always")
            watched = run(model)
        with watch(model, kernel="own") as own:
            same = outputs(run(model))
        result = {
            "layers": seen.layers,
            "seen": len(seen),
            "modules": len(ran),
            "unseen": [name for name in ran if not any(is_inside(s.name, name) for s in seen)],
            "missed": [[m.name, m.advice] for m in seen.missed],
            "output": largest_difference(outputs(plain), outputs(watched)),
            "own": all(torch.equal(a, b) or not bool(torch.isfinite(a).all()) for a, b in zip(outputs(plain), same, strict=True)),
            "own seen": len(own),
            "expected": len(expected),
            "weights": weights_difference(seen, expected, len(seen.missed)),
            "unmatched": sum(not any(fits(s, w) for s in seen) for w in expected),
            "proof": all(s.proof.holds for s in seen),
            "problems": sorted({str(w.message)[:200] for w in problems if "proof" in str(w.message)}),
            "from": sorted({s.proof.kernel.split("recomputed from ")[-1] if "recomputed" in s.proof.kernel else "interface" for s in seen}),
        }
        result["what-if"] = what_if(model, run, outputs(plain)) if len(seen) else None
    return result


def is_inside(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".") or not module


@contextmanager
def attention_modules(model: nn.Module) -> Iterator[list[str]]:
    """Collect the names of the innermost modules that are named attention and run inside the block."""
    ran: list[str] = []
    hooks = []
    for name, module in model.named_modules():
        kind = type(module).__name__
        if ATTENTION.search(kind) and not NOT_OVER_TOKENS.search(kind) and name:
            hooks.append(module.register_forward_pre_hook(lambda m, a, name=name: ran.append(name)))
    collected: list[str] = []
    try:
        yield collected
    finally:
        for hook in hooks:
            hook.remove()
        unique = list(dict.fromkeys(ran))
        collected += [name for name in unique if not any(other != name and other.startswith(name + ".") for other in unique)]


def eager_weights(model: nn.Module, run: Callable[[nn.Module], Any]) -> Iterator[Tensor]:
    """Run a model with its eager attention and yield every tensor of weights that it returns."""
    before = model.config._attn_implementation
    try:
        model.set_attn_implementation("eager")
        found = run(model)
    except Exception:
        return
    finally:
        model.set_attn_implementation(before)
    for name, value in found.items() if hasattr(found, "items") else ():
        if "attention" in name and isinstance(value, tuple | list):
            yield from (x.detach() for x in value if isinstance(x, Tensor) and x.dim() == 4 and x.is_floating_point())


def fits(seen: Any, weights: Tensor) -> bool:
    """Return whether a recorded attention may be the one that a model returned; CPM-Ant leaves out its prompt, at the beginning."""
    B, h, L, S = seen.shape
    return (B, h) == tuple(weights.shape[:2]) and L - weights.shape[2] == S - weights.shape[3] >= 0 and seen.kept is not None


def weights_difference(seen: Any, expected: list[Tensor], missed: int) -> float | None:
    """Return the largest difference of an expected tensor of weights from the recorded one nearest to it.

    missed: how many layers gave no weights; what those return (MiniMax's linear attention) is left out, as the farthest.
    """
    errors = []
    for weights in expected:
        candidates = [s for s in seen if fits(s, weights)]
        if candidates:
            errors.append(min(difference(s.weights().to(weights.dtype), weights) for s in candidates))
    errors = sorted(errors)[: len(expected) - missed]
    return max(errors) if errors else None


def difference(recorded: Tensor, returned: Tensor) -> float:
    """Return the largest difference of recorded weights from those a model returned.

    Not compared are rows that the model returned wrongly: with BigBird, a random block that a row sees already counts twice in its output
    and once in what it returns, so that the row does not sum to 1. A model with sinks may return its weights before these.
    """
    whole = recorded.sum(-1, keepdim=True)
    L, S = returned.shape[-2:]
    errors = []
    for weights in (recorded, recorded / whole.clamp(min=1e-9)):
        error = (weights[..., -L:, -S:] - returned).abs().amax(-1)
        partial = (weights.sum(-1) - 1).abs()[..., -L:] < 1e-3
        lost = partial & ((returned.sum(-1) - 1).abs() > 1e-3) if returned.shape == recorded.shape else torch.zeros_like(partial)
        errors.append(float(error.masked_fill(lost, 0).max()) if not bool(lost.all()) else float("inf"))
    return min(errors)


def outputs(found: Any) -> list[Tensor]:
    """Return the floating-point tensors of a model's output."""
    if isinstance(found, Tensor):
        return [found] if found.is_floating_point() else []
    values = found.values() if hasattr(found, "values") else found if isinstance(found, tuple | list) else vars(found).values()
    return [x for value in values if isinstance(value, Tensor | tuple | list | dict) for x in outputs(value)]


def largest_difference(first: list[Tensor], second: list[Tensor]) -> float:
    """Return the largest difference of two outputs, relative to the largest number in them if that is over 1."""
    largest = 0.0
    for a, b in zip(first, second, strict=True):
        if a.numel() and a.shape == b.shape:
            a, b = a.double(), b.double()
            both = torch.isfinite(a) & torch.isfinite(b)
            largest = max(
                largest, float(((a - b).abs() * both).nan_to_num(0).max()) / max(1.0, float(a[both].abs().max() if both.any() else 1))
            )
        elif a.shape != b.shape:
            return float("inf")
    return largest


def what_if(model: nn.Module, run: Callable[[nn.Module], Any], plain: list[Tensor]) -> dict[str, Any]:
    """Mute every head of the first layer: the output must change; a temperature of 1 everywhere must leave it as it is.

    Weights made without a softmax have no temperature: there it is a window wider than the text.
    """
    with change(model) as c:
        c.layer(0).mute()
        muted = largest_difference(plain, outputs(run(model)))
        c.clear()
        with c.paused():
            run(model)
        for layer in range(len(c._layers)):
            c.layer(layer).temperature(1.0)
        try:
            changed = run(model)
        except ValueError as refusal:
            if "without a softmax" not in str(refusal):
                raise
            c.clear()
            for layer in range(len(c._layers)):
                c.layer(layer).window(1 << 20)
            changed = run(model)
        neutral = largest_difference(plain, outputs(changed))
    return {"muted": muted, "neutral": neutral}
