"""Everything a model costs under a workload, in one object."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from regard.cost.count.activations import Attention, inference_activations, training_activations
from regard.cost.count.flops import Kernel, Step, flops, training_flops
from regard.cost.count.memory import cache_bytes, cache_per_token, summed, training_bytes, weight_bytes
from regard.cost.count.parameters import active_total, attention_pieces, parameter_total, parameters
from regard.cost.count.roofline import Machine, Roof, roof, traffic, training_traffic
from regard.cost.model.sources import architecture
from regard.cost.quantity import Parts, Quantity
from regard.cost.workload import Workload
from regard.models.published.architecture import Architecture, ConfigError


@dataclass(frozen=True)
class StepCost:
    """One kind of step: FLOPs by part (what is needed, what a dense kernel does), bytes moved at the least, the roofline."""

    title: str
    needed: Parts
    dense: Parts
    moved: Parts
    roof: Roof | None

    @property
    def flops(self) -> Quantity:
        return summed(self.needed)


@dataclass(frozen=True)
class Costs:
    """What `plan` returns. Every number is a Quantity: `.value`, `.formula`, `.numbers`, and all three when printed."""

    architecture: Architecture
    workload: Workload
    machine: Machine | None
    parameters: Parts
    textbook: Parts
    pieces: Parts
    total: Quantity
    textbook_total: Quantity
    active: Quantity
    steps: dict[str, StepCost]
    cache_token: Quantity | None
    cache: Parts
    ring_cache: Parts
    memory: dict[str, Parts]  # by attention: dense, streamed

    def peak(self, attention: str) -> Quantity:
        """Bytes at the fullest moment."""
        return summed(self.memory[attention])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: each quantity as its value, formula and substituted formula."""

        def plain(value: Any) -> Any:
            if isinstance(value, Quantity):
                return value.to_dict()
            if isinstance(value, Roof):
                shown = {name: plain(getattr(value, name)) for name in ("intensity", "arithmetic", "memory")}
                return {**shown, "seconds": value.seconds, "bound": value.bound}
            if dataclasses.is_dataclass(value) and not isinstance(value, type):
                return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
            if isinstance(value, dict):
                return {key: plain(item) for key, item in value.items()}
            if isinstance(value, (frozenset, set)):
                return sorted(value)
            return list(value) if isinstance(value, tuple) else value

        found: dict[str, Any] = plain(self)
        return found


def plan(source: object, workload: Workload | None = None, *, machine: Machine | None = None) -> Costs:
    """Count what a model costs.

    source: a preset's name, a path (config.json, folder, .safetensors, .gguf), a config as mapping or object, a model.
    machine: peak rates for the roofline; `this_machine()` measures them.

    >>> costs = plan("gpt3")
    >>> costs.total.value, costs.textbook_total.value
    (174604259328, 175181291520)
    >>> print(costs.textbook["query"])
    d_model · d_head · heads · layers = 12,288 · 128 · 96 · 96 = 14,495,514,624
    """
    a, work = architecture(source), workload or Workload()
    bare = a.textbook()
    return Costs(
        architecture=a,
        workload=work,
        machine=machine,
        parameters=parameters(a),
        textbook=parameters(bare),
        pieces=attention_pieces(bare),
        total=parameter_total(a),
        textbook_total=parameter_total(bare),
        active=active_total(a),
        steps=_steps(a, work, machine),
        cache_token=cache_per_token(a) if a.causal else None,
        cache=cache_bytes(a, work) if work.mode == "infer" else {},
        ring_cache=cache_bytes(a, work, "ring") if work.mode == "infer" else {},
        memory={kind: _memory(a, work, kind) for kind in ("dense", "streamed")},
    )


def _steps(a: Architecture, work: Workload, machine: Machine | None) -> dict[str, StepCost]:
    tokens, batch = work.tokens(a), work.batch
    source = (work.source or tokens) if a.encoder_layers else 0
    of = f"batch {batch:,}, {work.dtype}"
    if work.mode == "train":
        step = Step(batch, tokens, tokens, tokens, source, source)
        kinds: tuple[Kernel, Kernel] = ("needed", "dense")
        needed, dense = (training_flops(a, step, kind, checkpointing=work.checkpointing) for kind in kinds)
        moved = training_traffic(a, work)
        return {"train": _cost(f"training step over {tokens:,} tokens, {of}", needed, dense, moved, machine)}
    if not a.causal:
        return {"forward": _run(f"forward over {tokens:,} tokens, {of}", a, work, Step(batch, tokens, tokens, tokens), machine)}
    prompt = tokens - work.generate
    if prompt < 1:
        raise ConfigError(f"generate is {work.generate}; expected fewer than the {tokens} tokens of the context, which include the prompt")
    return {
        "prefill": _run(f"prefill of {prompt:,} tokens, {of}", a, work, Step(batch, prompt, prompt, 1, source, source), machine),
        "decode": _run(f"decode of one token, {tokens:,} in sight, {of}", a, work, Step(batch, 1, tokens, 1, 0, source), machine),
    }


def _run(title: str, a: Architecture, work: Workload, step: Step, machine: Machine | None) -> StepCost:
    return _cost(title, flops(a, step, "needed"), flops(a, step, "dense"), traffic(a, work, step), machine)


def _cost(title: str, needed: Parts, dense: Parts, moved: Parts, machine: Machine | None) -> StepCost:
    return StepCost(title, needed, dense, moved, roof(summed(needed), summed(moved), machine) if machine else None)


def _memory(a: Architecture, work: Workload, attention: Attention) -> Parts:
    if work.mode == "train":
        return {**training_bytes(a, work), **{f"activations {k}": v for k, v in training_activations(a, work, attention).items()}}
    found = {"weights": weight_bytes(a, work.dtype)}
    if a.causal:
        found["key-value cache"] = summed(cache_bytes(a, work))
    return {**found, "activations": inference_activations(a, work, attention)}
