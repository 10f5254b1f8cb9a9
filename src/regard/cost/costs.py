"""All costs of a model under a workload, in one object."""

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
from regard.cost.quantity import Parts, Quantity, digits, short, total
from regard.cost.workload import Workload
from regard.html_table import html_table
from regard.models.published.architecture import Architecture, ConfigError
from regard.terminal import table


@dataclass(frozen=True, repr=False)
class StepCost:
    """The cost of one kind of step.

    needed, dense: FLOPs by part, those that a causal mask or window requires and those of a dense kernel. moved: the fewest bytes it can
    move, by part. roof: the roofline bound on its time, if a machine is given.
    """

    title: str
    needed: Parts
    dense: Parts
    moved: Parts
    roof: Roof | None

    @property
    def flops(self) -> Quantity:
        """Total FLOPs needed."""
        return summed(self.needed)

    def __repr__(self) -> str:
        bound = "" if self.roof is None else f", at least {short(self.roof.seconds, 's')}"
        return f"StepCost({self.title}: {short(self.flops.value)}FLOPs, {short(summed(self.moved).value, 'B')} moved{bound})"


@dataclass(frozen=True, repr=False)
class Costs:
    """The result of `plan`. Every number is a Quantity: `.value`, `.formula`, `.numbers`, and all three when printed.

    >>> costs = plan("gpt2")
    >>> costs.total.value
    124439808
    """

    architecture: Architecture  # the sizes that were counted
    workload: Workload  # batch size, tokens and dtypes
    machine: Machine | None  # for the roofline bound
    parameters: Parts  # all that the model stores, by part
    textbook: Parts  # weight matrices only, embedding and unembedding counted separately
    pieces: Parts  # of one attention head and one layer
    total: Quantity  # of `parameters`
    textbook_total: Quantity  # of `textbook`
    active: Quantity  # parameters that one token uses; fewer than the total in a mixture of experts
    steps: dict[str, StepCost]  # "prefill" and "decode", "forward" or "train"
    cache_token: Quantity | None  # numbers cached per token and layer
    cache: Parts  # bytes of the key-value cache as transformers allocates it, by kind of layer
    ring_cache: Parts  # the same in a ring buffer
    memory: dict[str, Parts]  # bytes at the peak, by attention ("dense", "streamed") and part

    def peak(self, attention: str) -> Quantity:
        """Return the peak memory in bytes with "dense" or "streamed" attention."""
        return summed(self.memory[attention])

    def rows(self) -> list[list[str]]:
        """Return the main costs as texts, (cost, amount, formula): what a notebook and print() show. `regard plan` prints more."""
        sums = [("parameters", self.total), ("textbook count: weight matrices only", self.textbook_total)]
        if self.active.value != self.total.value:
            sums.append(("active per token", self.active))
        rows = [[name, digits(quantity.value), _short_formula(quantity.formula)] for name, quantity in sums]
        for step in self.steps.values():
            rows.append([step.title, f"{short(step.flops.value)}FLOPs", _short_formula(step.flops.formula)])
            if step.roof is not None:
                rows.append(["  time, at least", short(step.roof.seconds, "s"), f"bound by {step.roof.bound}"])
        if self.cache:
            cache = total(self.cache.values())
            rows.append(["key-value cache", short(cache.value, "B"), _short_formula(cache.formula)])
        for kind in self.memory:
            rows.append([f"peak memory, {kind} attention", short(self.peak(kind).value, "B"), _short_formula(self.peak(kind).formula)])
        return rows

    def __repr__(self) -> str:
        work, a = self.workload, self.architecture
        peak = short(self.peak("streamed").value, "B")
        return f"Costs({a.name}: {self.total.value:,} parameters; {work.mode}, {work.tokens(a):,} tokens, {work.dtype}: peak {peak})"

    def __str__(self) -> str:
        return f"{self.architecture!r}\n" + table([["cost", "amount"], *(row[:2] for row in self.rows())])

    def _repr_html_(self) -> str:
        note = "costs.to_dict() has every part; `regard plan NAME --explain` prints each with its formula"
        title = repr(self.architecture).removeprefix("Architecture(").removesuffix(")")
        return html_table([["cost", "amount", "formula"], *self.rows()], title=title, note=note)

    def to_dict(self) -> dict[str, Any]:
        """Return all costs for JSON: each quantity as its value, formula and substituted formula."""

        def plain(value: Any) -> Any:
            if isinstance(value, Quantity):
                return value.to_dict()
            if isinstance(value, Roof):
                quantities = {name: plain(getattr(value, name)) for name in ("intensity", "arithmetic", "memory")}
                return {**quantities, "seconds": value.seconds, "bound": value.bound}
            if dataclasses.is_dataclass(value) and not isinstance(value, type):
                return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
            if isinstance(value, dict):
                return {key: plain(item) for key, item in value.items()}
            if isinstance(value, (frozenset, set)):
                return sorted(value)
            return list(value) if isinstance(value, tuple) else value

        costs: dict[str, Any] = plain(self)
        return costs


def _short_formula(formula: str) -> str:
    """The formula, or "" if it would make a table too wide."""
    return formula if len(formula) <= 90 else ""


def plan(source: object, workload: Workload | None = None, *, machine: Machine | None = None) -> Costs:
    """Count parameters, FLOPs and memory of a model.

    source: the name of a preset, a path (config.json, folder, .safetensors, .gguf), a config as mapping or object, or a model.
    workload: batch size, tokens and dtypes; the model's own context by default.
    machine: peak rates for the roofline bound; `this_machine()` measures them.

    Returns :class:`Costs`. Raises :class:`ConfigError` for a config that cannot be read, with what was expected.

    >>> costs = plan("gpt3")
    >>> costs.total.value, costs.textbook_total.value
    (174604259328, 175181291520)
    >>> print(costs.textbook["query"])
    d_model · d_head · heads · layers = 12,288 · 128 · 96 · 96 = 14,495,514,624
    """
    a, work = architecture(source), workload or Workload()
    textbook = a.textbook()
    return Costs(
        architecture=a,
        workload=work,
        machine=machine,
        parameters=parameters(a),
        textbook=parameters(textbook),
        pieces=attention_pieces(textbook),
        total=parameter_total(a),
        textbook_total=parameter_total(textbook),
        active=active_total(a),
        steps=_steps(a, work, machine),
        cache_token=cache_per_token(a) if a.causal else None,
        cache=cache_bytes(a, work) if work.mode == "infer" else {},
        ring_cache=cache_bytes(a, work, "ring") if work.mode == "infer" else {},
        memory={kind: _memory(a, work, kind) for kind in ("dense", "streamed")},
    )


def _steps(a: Architecture, work: Workload, machine: Machine | None) -> dict[str, StepCost]:
    """Return the steps of a workload: one training step, one forward pass of an encoder, or prefill and decode."""
    tokens, batch = work.tokens(a), work.batch
    source = (work.source or tokens) if a.encoder_layers else 0
    suffix = f"batch {batch:,}, {work.dtype}"
    if work.mode == "train":
        step = Step(batch, tokens, tokens, tokens, source, source)
        kinds: tuple[Kernel, Kernel] = ("needed", "dense")
        needed, dense = (training_flops(a, step, kind, checkpointing=work.checkpointing) for kind in kinds)
        moved = training_traffic(a, work)
        return {"train": _step_cost(f"training step over {tokens:,} tokens, {suffix}", needed, dense, moved, machine)}
    if not a.causal:
        forward = Step(batch, tokens, tokens, tokens)
        return {"forward": _inference_cost(f"forward over {tokens:,} tokens, {suffix}", a, work, forward, machine)}
    prompt = tokens - work.generate
    if prompt < 1:
        raise ConfigError(f"generate is {work.generate}; expected fewer than the {tokens} tokens of the context, which include the prompt")
    prefill, decode = Step(batch, prompt, prompt, 1, source, source), Step(batch, 1, tokens, 1, 0, source)
    return {
        "prefill": _inference_cost(f"prefill of {prompt:,} tokens, {suffix}", a, work, prefill, machine),
        "decode": _inference_cost(f"decode of one token, {tokens:,} visible, {suffix}", a, work, decode, machine),
    }


def _inference_cost(title: str, a: Architecture, work: Workload, step: Step, machine: Machine | None) -> StepCost:
    return _step_cost(title, flops(a, step, "needed"), flops(a, step, "dense"), traffic(a, work, step), machine)


def _step_cost(title: str, needed: Parts, dense: Parts, moved: Parts, machine: Machine | None) -> StepCost:
    return StepCost(title, needed, dense, moved, roof(summed(needed), summed(moved), machine) if machine else None)


def _memory(a: Architecture, work: Workload, attention: Attention) -> Parts:
    """Return the bytes in memory at the peak, by part."""
    if work.mode == "train":
        return {**training_bytes(a, work), **{f"activations {k}": v for k, v in training_activations(a, work, attention).items()}}
    parts = {"weights": weight_bytes(a, work.dtype)}
    if a.causal:
        parts["key-value cache"] = total(cache_bytes(a, work).values())
    return {**parts, "activations": inference_activations(a, work, attention)}
