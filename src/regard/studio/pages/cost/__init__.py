"""The Cost page: parameters, FLOPs and bytes of a model with their formulas, and measurements on this machine."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ...page import Endpoint, Page, ProgramEndpoint, RequestBody
from ...request_error import RequestError

CONTEXTS = tuple(2**power for power in range(6, 18))  # 64 … 131,072


class PlanRequest(RequestBody):
    """The name of a preset or the fields of a config.json, and the workload."""

    preset: Annotated[str, Field(max_length=60)] = "gpt3"
    config: dict[str, Any] | None = None
    batch: Annotated[int, Field(ge=1, le=100_000)] = 1
    context: Annotated[int, Field(ge=0, le=100_000_000)] = 0
    dtype: Literal["fp64", "fp32", "bf16", "fp16", "fp8", "int8", "int4"] = "bf16"
    mode: Literal["infer", "train"] = "infer"
    counting: Literal["textbook", "stored"] = Field(
        "stored", description="what all numbers count: weight matrices only, or all that is stored"
    )


def presets() -> dict[str, Any]:
    from ....cost import presets as preset_names

    return {"presets": preset_names()}


def plan(request: PlanRequest) -> dict[str, Any]:
    """The counts of `regard plan`, and how cache and activations grow with the context."""
    from ....cost import ConfigError
    from ....cost import plan as count
    from ....cost.model.sources import architecture

    try:
        _check(request)
        a = architecture(request.config if request.config is not None else request.preset)
        if request.counting == "textbook":
            a = a.textbook()
        costs = count(a, _work(request, request.context)).to_dict()
        return {"plan": costs, "growth": _growth(a, request)}
    except ConfigError as error:
        raise RequestError("invalid", str(error)) from error
    except (ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError, OverflowError) as error:
        raise RequestError(
            "invalid", f"this config cannot be read ({type(error).__name__}: {error}); paste a model's config.json"
        ) from error


def _check(request: PlanRequest) -> None:
    """Raise RequestError for an unknown preset since a path is never accepted. The counts of a config have limits of their own."""
    from ....cost import presets as preset_names

    if request.config is None and request.preset not in preset_names():
        raise RequestError(
            "invalid", f"no preset is called {request.preset!r}; choose one from the list, or paste a config.json", name=request.preset
        )


def _work(request: PlanRequest, context: int) -> Any:
    from ....cost import Workload

    return Workload(batch=request.batch, context=context, dtype=request.dtype, mode=request.mode)


def _growth(a: Any, request: PlanRequest) -> dict[str, Any]:
    """Bytes and FLOPs by context length, up to the number of positions for a model with learned positions."""
    from ....cost import ConfigError
    from ....cost import plan as count

    limit = a.positions if a.position == "learned" and a.positions else CONTEXTS[-1]
    rows = []
    for context in sorted({min(n, limit) for n in CONTEXTS}):
        try:
            costs = count(a, _work(request, context))
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
    """The costs of GPT-3 and the names of all presets."""
    return {**plan(PlanRequest(counting="textbook")), **presets()}


PAGE = Page(
    name="cost",
    order=8,
    endpoints=(
        Endpoint("/presets", presets, "The preset models"),
        Endpoint("/plan", plan, "Parameters, FLOPs and bytes, with formulas", PlanRequest),
        ProgramEndpoint(
            "/measure",
            ("plan", "measure", "--json", "--seconds", "3"),
            "Measure this machine",
            "Time and memory of projections and of attention over N, measured and predicted. The result is cached; `again` repeats it.",
            seconds=900,
        ),
    ),
    initial_results=initial_results,
)
