"""Cost: what a model costs, each number with its formula; and this machine's own curves beside the predicted ones."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ...page import Endpoint, Page, ProgramEndpoint, RequestBody
from ...refusal import Refusal

CONTEXTS = tuple(2**power for power in range(6, 18))  # 64 … 131,072


class PlanRequest(RequestBody):
    """A preset's name or the fields of a config.json, and what the model is asked to do."""

    preset: Annotated[str, Field(max_length=60)] = "gpt3"
    config: dict[str, Any] | None = None
    batch: Annotated[int, Field(ge=1, le=100_000)] = 1
    context: Annotated[int, Field(ge=0, le=100_000_000)] = 0
    dtype: Literal["fp64", "fp32", "bf16", "fp16", "fp8", "int8", "int4"] = "bf16"
    mode: Literal["infer", "train"] = "infer"


def presets() -> dict[str, Any]:
    from ....cost import presets as known

    return {"presets": known()}


def plan(asked: PlanRequest) -> dict[str, Any]:
    """Everything `regard plan` counts, and how cache and activations grow with the context."""
    from ....cost import ConfigError
    from ....cost import plan as count
    from ....cost.model.sources import architecture

    try:
        _known(asked)
        a = architecture(asked.config if asked.config is not None else asked.preset)
        costs = count(a, _work(asked, asked.context)).to_dict()
        return {"plan": costs, "growth": _growth(a, asked)}
    except ConfigError as error:
        raise Refusal("invalid", str(error)) from error
    except (ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError, OverflowError) as error:
        raise Refusal("invalid", f"this config cannot be read ({type(error).__name__}: {error}); paste a model's config.json") from error


def _known(asked: PlanRequest) -> None:
    """A preset is a name of the list and nothing else: never a path."""
    from ....cost import presets as known

    if asked.config is None and asked.preset not in known():
        raise Refusal("invalid", f"no preset is called {asked.preset!r}; choose one of the list, or paste a config.json", name=asked.preset)
    if asked.config is not None:
        sizes = [v for v in asked.config.values() if isinstance(v, int | float) and not isinstance(v, bool)]
        if len(asked.config) > 400 or any(abs(v) > 10**12 for v in sizes):
            raise Refusal("invalid", "the config has more than 400 fields or a number above 10¹²; paste a model's config.json")
        deep = [
            v
            for name in ("num_hidden_layers", "n_layer", "num_layers", "layers", "n_layers")
            if isinstance(v := asked.config.get(name), int)
        ]
        if any(v > 10_000 for v in deep):
            raise Refusal("invalid", f"{max(deep):,} layers are more than the 10,000 this page counts")


def _work(asked: PlanRequest, context: int) -> Any:
    from ....cost import Workload

    return Workload(batch=asked.batch, context=context, dtype=asked.dtype, mode=asked.mode)


def _growth(a: Any, asked: PlanRequest) -> dict[str, Any]:
    """Bytes and FLOPs by context length; a model with learned positions is drawn as far as they reach."""
    from ....cost import ConfigError
    from ....cost import plan as count

    limit = a.positions if a.position == "learned" and a.positions else CONTEXTS[-1]
    rows = []
    for context in sorted({min(n, limit) for n in CONTEXTS}):
        try:
            costs = count(a, _work(asked, context))
        except ConfigError:
            continue
        step = next(iter(costs.steps.values()))
        dense, streamed = (
            sum(float(part.value) for name, part in costs.memory[kind].items() if name.startswith("activations"))
            for kind in ("dense", "streamed")
        )
        cache = sum(float(part.value) for part in costs.cache.values())
        rows.append([context, cache, dense, streamed, float(step.flops.value)])
    names = ("context", "cache", "dense", "streamed", "flops")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def initial_results() -> dict[str, Any]:
    """GPT-3's costs, and the names of the other presets."""
    return {**plan(PlanRequest()), **presets()}


PAGE = Page(
    name="cost",
    order=5,
    endpoints=(
        Endpoint("/presets", presets, "Models known by name"),
        Endpoint("/plan", plan, "Parameters, FLOPs and bytes, with formulas", PlanRequest),
        ProgramEndpoint(
            "/measure",
            ("plan", "measure", "--json", "--seconds", "3"),
            "Measure this machine",
            "Time and memory of projections, dense attention and ours over N, fitted and predicted; kept until asked for `again`.",
            seconds=900,
        ),
    ),
    initial_results=initial_results,
)
