"""Watch one model and compare what was caught with what the model itself says of its attention."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.sight import change, watch

ATTENTION = re.compile(r"(attention|attn|deltanet|retention)(v\d+|\d+|1d|2d)?$", re.IGNORECASE)
EQUAL = 1e-5
NOT_OVER_TOKENS = re.compile(r"channel|spatialatt|gate(?!d)|mixergated|external|largekernel", re.IGNORECASE)


def check(
    model: nn.Module,
    run: Callable[[nn.Module], Any],
    *,
    eager: Callable[[nn.Module], Any] | None = None,
    precise: Callable[..., Any] | None = None,
) -> dict[str, Any]:
    """Return what was caught of a model's attention, how far weights and outputs are from its own, and whether what-if acts on it.

    run: calls the model. eager: calls it so that it returns its attentions, for models that can. precise: calls it with inputs in double
    precision, and further arguments; with it what differs is compared again, because some models enlarge rounding errors.
    """
    model.eval()
    run, eager = seeded(run), None if eager is None else seeded(eager)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with attention_modules(model) as ran:
            plain = run(model)
        returned = [] if eager is None else list(eager_weights(model, eager))
        expected = [weights for weights in returned if not bool(weights.isnan().all())]
        with warnings.catch_warnings(record=True) as problems, watch(model, keep=True) as seen:
            warnings.simplefilter("always")
            watched = run(model)
        with watch(model, kernel="own") as own:
            same = outputs(run(model))
        result = {
            "layers": seen.layers,
            "seen": len(seen),
            "modules": len(ran),
            "unseen": [name for name in ran if not any(is_inside(s.name, name) or is_part(model, name, s.name) for s in seen)],
            "missed": [[m.name, m.advice] for m in seen.missed],
            "output": largest_difference(outputs(plain), outputs(watched)),
            "own": all(same_bits(a, b) for a, b in zip(outputs(plain), same, strict=True)),
            "own seen": len(own),
            "expected": len(expected),
            "eager is nan": len(returned) - len(expected),
            "weights": weights_difference(seen, expected, prompt_length(model)),
            "unmatched": sum(not any(True for s in seen for _ in parts_of(s, w, prompt_length(model))) for w in expected),
            "proof": all(s.proof.holds for s in seen),
            "problems": sorted({str(w.message)[:200] for w in problems if "proof" in str(w.message)}),
            "from": sorted({s.proof.kernel.split("recomputed from ")[-1] if "recomputed" in s.proof.kernel else "interface" for s in seen}),
        }
        if eager is not None and (result["weights"] or 0) > EQUAL:
            other = in_eager_mode(model)
            if largest_difference(outputs(plain), outputs(run(other))) > EQUAL:  # ColPali's eager attention is causal, its SDPA is not
                with watch(other, keep=True) as in_eager:
                    run(other)
                result["weights"], result["eager"] = weights_difference(in_eager, expected, prompt_length(model)), True
        if eager is not None:
            result["in eager mode"] = watched_in_eager_mode(model, run)
        result["what-if"] = what_if(model, run, outputs(plain)) if len(seen) else None
        if precise is not None and max(result["output"], result["weights"] or 0.0, (result["what-if"] or {}).get("neutral", 0.0)) > EQUAL:
            result["single"] = max(result["output"], result["weights"] or 0.0, (result["what-if"] or {}).get("neutral", 0.0))
            result |= in_double_precision(model, precise, (result["weights"] or 0.0) > EQUAL)
    return result


def in_double_precision(model: nn.Module, precise_run: Callable[..., Any], weights_too: bool) -> dict[str, Any]:
    """Return the differences of outputs, and of weights if asked, in double precision; nothing if the model cannot run in it."""
    precise, run = copy.deepcopy(model).double(), seeded(precise_run)
    try:
        plain = outputs(run(precise))
    except RuntimeError:
        return {}
    with watch(precise, keep=weights_too) as seen:
        watched = outputs(run(precise))
    found: dict[str, Any] = {"output": largest_difference(plain, watched), "what-if": what_if(precise, run, plain), "double": True}
    if weights_too:
        expected = list(eager_weights(precise, seeded(lambda m: precise_run(m, output_attentions=True))))
        found |= {"weights": weights_difference(seen, expected, prompt_length(model)), "eager": False}
    return found


def seeded(run: Callable[[nn.Module], Any]) -> Callable[[nn.Module], Any]:
    """Let every run draw the same random numbers; ViT-MAE hides other patches each time."""

    def with_seed(model: nn.Module) -> Any:
        torch.manual_seed(0)
        return run(model)

    return with_seed


def is_inside(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".") or not module


def is_part(model: nn.Module, name: str, seen: str) -> bool:
    """Return whether a module is inside one that is named attention and was caught itself."""
    return bool(seen) and name.startswith(seen + ".") and bool(ATTENTION.search(type(model.get_submodule(seen)).__name__))


@contextmanager
def attention_modules(model: nn.Module) -> Iterator[list[str]]:
    """Collect the names of the innermost modules that are named attention and do something inside the block."""
    ran: list[str] = []
    hooks = []
    for name, module in model.named_modules():
        kind = type(module).__name__
        if ATTENTION.search(kind) and not NOT_OVER_TOKENS.search(kind) and name:

            def note(module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any, name: str = name) -> None:
                if not any(output is x for x in (*args, *kwargs.values())):
                    ran.append(name)

            hooks.append(module.register_forward_hook(note, with_kwargs=True))
    collected: list[str] = []
    try:
        yield collected
    finally:
        for hook in hooks:
            hook.remove()
        unique = list(dict.fromkeys(ran))
        collected += [name for name in unique if not any(other != name and other.startswith(name + ".") for other in unique)]


def in_eager_mode(model: nn.Module) -> nn.Module:
    """Return a copy of a transformers model that runs its eager attention."""
    other: Any = copy.deepcopy(model)
    other.set_attn_implementation("eager")
    if other.config._attn_implementation != "eager":  # Falcon chooses its attention when it is built
        other = type(other)._from_config(other.config, attn_implementation="eager").eval()
        other.load_state_dict(model.state_dict())
    return other


def watched_in_eager_mode(model: nn.Module, run: Callable[[nn.Module], Any]) -> float | None:
    """Return how far watching moves the output of a model with eager attention; None if it has none or does not run with it."""
    try:
        other = in_eager_mode(model)
        plain = outputs(run(other))
    except Exception:
        return None
    if any(bool(x.isnan().all()) for x in plain):  # it does not work unwatched
        return None
    with watch(other):
        return largest_difference(plain, outputs(run(other)))


def eager_weights(model: nn.Module, run: Callable[[nn.Module], Any]) -> Iterator[Tensor]:
    """Run a model with its eager attention and yield every tensor of weights that it returns."""
    try:
        returned = run(in_eager_mode(model))
    except Exception:
        return
    for name, value in returned.items() if hasattr(returned, "items") else ():
        if "attention" in name and isinstance(value, tuple | list):
            found = [x.detach() for x in value if isinstance(x, Tensor) and x.dim() == 4 and x.is_floating_point()]
            yield from (x if bool((x >= 0).all()) else x.softmax(-1) for x in found)  # SqueezeBERT returns its scores


def prompt_length(model: nn.Module) -> int:
    """Return how many first tokens a model leaves out of the weights that it returns, as CPM-Ant does."""
    return int(getattr(getattr(model, "config", None), "prompt_length", 0) or 0)


def parts_of(seen: Any, returned: Tensor, prompt: int) -> Iterator[Callable[[Tensor], Tensor]]:
    """Yield what of a recorded attention may be the weights that a model returned, as functions of its weights: all of it; the keys of
    the text or those of the source, where one attention has both (T5Gemma 2); all but a prompt.
    """
    (B, h, L, S), (l, s) = seen.shape, returned.shape[-2:]
    if (B, h) != tuple(returned.shape[:2]) or seen.kept is None:
        return
    if (l, s) == (L, S):
        yield lambda p: p
    elif l == L and s < S and bool(((returned.sum(-1) - 1).abs() > 1e-3).any()):  # not the windows of Longformer
        yield from (lambda p: p[..., :s], lambda p: p[..., -s:])
    elif prompt and L - l == S - s == prompt:
        yield lambda p: p[..., prompt:, prompt:]


def weights_difference(seen: Any, expected: list[Tensor], prompt: int) -> float | None:
    """Return the largest difference of an expected tensor of weights from the recorded one nearest to it.

    What missed layers return (MiniMax's linear attention) is no weights, and left out as the farthest.
    """
    errors = []
    for returned in expected:
        found = [difference(s.weights().to(returned.dtype), returned, part) for s in seen for part in parts_of(s, returned, prompt)]
        errors += [min(found)] if found else []
    errors = sorted(errors)[: len(expected) - len(seen.missed)]
    return max(errors) if errors else None


def difference(recorded: Tensor, returned: Tensor, part: Callable[[Tensor], Tensor]) -> float:
    """Return the largest difference of a part of recorded weights from those a model returned.

    BigBird's rows see the first block twice, as global and as random one: it counts twice in the output and once in what the model
    returns, so that the row does not sum to 1. There a weight may be half of the recorded one, if others of its row are equal. A model
    with sinks may return its weights before these. WavLM returns the mean of its heads for each of them, which is compared with the mean.
    """
    errors = []
    if recorded.shape[1] > 1 and bool((returned == returned[:, :1]).all()):
        recorded = recorded.mean(1, keepdim=True).expand_as(recorded)
    for weights in (recorded, recorded / recorded.sum(-1, keepdim=True).clamp(min=1e-9)):
        error = (part(weights) - returned).abs()
        if returned.shape == recorded.shape:
            wrong = ((weights.sum(-1) - 1).abs() < 1e-3) & ((returned.sum(-1) - 1).abs() > 1e-3)
            has_equal = ((error < EQUAL) & (returned > EQUAL)).any(-1)
            halved = torch.minimum(error, (weights / 2 - returned).abs())
            error = torch.where((wrong & has_equal).unsqueeze(-1), halved, error)
            sees_nothing = returned.isnan().all(-1) & (recorded.sum(-1) == 0)  # eager softmax of no keys is not a number
            error = error.masked_fill(sees_nothing.unsqueeze(-1), 0)
        errors.append(float(error.max()))
    return min(errors)


def outputs(found: Any) -> list[Tensor]:
    """Return the floating-point tensors of a model's output."""
    if isinstance(found, Tensor):
        return [found] if found.is_floating_point() else []
    values = found.values() if hasattr(found, "values") else found if isinstance(found, tuple | list) else vars(found).values()
    return [x for value in values if isinstance(value, Tensor | tuple | list | dict) for x in outputs(value)]


def same_bits(first: Tensor, second: Tensor) -> bool:
    """Return whether two tensors are equal to the bit, not-a-number included."""
    return first.shape == second.shape and bool(((first == second) | (first.isnan() & second.isnan())).all())


def largest_difference(first: list[Tensor], second: list[Tensor]) -> float:
    """Return the largest difference of two outputs, relative to the largest number in them if that is over 1."""
    largest = 0.0
    for a, b in zip(first, second, strict=True):
        if a.numel() and a.shape == b.shape:
            a, b = a.double(), b.double()
            both = torch.isfinite(a) & torch.isfinite(b)
            if bool((torch.isfinite(a) != torch.isfinite(b)).any()):
                return float("inf")
            largest = max(
                largest, float(((a - b).abs() * both).nan_to_num(0).max()) / max(1.0, float(a[both].abs().max() if both.any() else 1))
            )
        elif a.shape != b.shape:
            return float("inf")
    return largest


def what_if(model: nn.Module, run: Callable[[nn.Module], Any], plain: list[Tensor]) -> dict[str, Any]:
    """Mute every head of the first layer: the output must change; a temperature of 1 everywhere must leave it as it is.

    Where the first layer does not reach the output (that of BLT only cuts the text into patches), all layers are muted. Weights made
    without a softmax have no temperature: there it is a window wider than the text.
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
        if muted <= 4 * neutral:
            c.clear()
            for layer in range(len(c._layers)):
                c.layer(layer).mute()
            muted = largest_difference(plain, outputs(run(model)))
    return {"muted": muted, "neutral": neutral}
