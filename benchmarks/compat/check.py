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
            "weights": weights_difference(seen, expected),
            "unmatched": sum(not any(same_shape(s, w) for s in seen) for w in expected),
            "proof": all(s.proof.holds for s in seen),
            "problems": sorted({str(w.message)[:200] for w in problems if "proof" in str(w.message)}),
            "from": sorted({s.proof.kernel.split("recomputed from ")[-1] if "recomputed" in s.proof.kernel else "interface" for s in seen}),
        }
        try:
            result["what-if"] = what_if(model, run, outputs(plain)) if len(seen) else None
        except NotImplementedError as refusal:  # attention in blocks
            result["what-if"] = str(refusal)
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


def same_shape(seen: Any, weights: Tensor) -> bool:
    return seen.shape == tuple(weights.shape)


def weights_difference(seen: Any, expected: list[Tensor]) -> float | None:
    """Return the largest difference of an expected tensor of weights from the recorded one nearest to it."""
    largest = None
    for weights in expected:
        candidates = [s for s in seen if same_shape(s, weights) and s.kept is not None]
        if candidates:
            nearest = min(float((s.weights().to(weights.dtype) - weights).abs().max()) for s in candidates)
            largest = nearest if largest is None else max(largest, nearest)
    return largest


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
    """Mute every head of the first layer: the output must change; a temperature of 1 everywhere must leave it as it is."""
    with change(model) as c:
        c.layer(0).mute()
        muted = largest_difference(plain, outputs(run(model)))
        c.clear()
        with c.paused():
            run(model)
        for layer in range(len(c._layers)):
            c.layer(layer).temperature(1.0)
        neutral = largest_difference(plain, outputs(run(model)))
    return {"muted": muted, "neutral": neutral}
