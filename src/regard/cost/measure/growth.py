"""Time and memory of attention as N grows, predicted and measured on this machine.

Projections cost 8·N·d² FLOPs, scores and weighted sum 4·N²·d: equal at N = 2d. Dense attention needs h·N² numbers, ours O(N·d).
Also measured: the same products for all positions at once, as in attention, and one after another, as in a recurrence.
"""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from regard.cost.count.activations import attention_bytes
from regard.cost.count.flops import Step
from regard.cost.count.roofline import Machine
from regard.cost.measure.machine import best_time, this_machine
from regard.cost.measure.peak import Call, dense, measurable, peaks_in_new_process
from regard.cost.quantity import Quantity, symbol

MEMORY_TIMEOUT = 600.0  # seconds, at least, before measuring memory is given up; a busy machine only takes longer


@dataclass(frozen=True)
class Point:
    """One measurement at N tokens, with the value that the fitted curve or the formula predicts."""

    tokens: int
    measured: float
    predicted: float | None
    held_out: bool = False  # not used in the fit
    least: float | None = None  # the least seconds, at the machine's peak rate

    @property
    def ratio(self) -> float | None:
        """Predicted divided by measured; None if the measured value is 0 (a peak below the system's resolution)."""
        return self.predicted / self.measured if self.predicted is not None and self.measured > 0 else None


@dataclass(frozen=True)
class Curve:
    """How time or memory grows: coefficients of c₀ + c₁·N + c₂·N², the slope of log value over log N, and the measured points."""

    name: str
    unit: str
    law: str
    coefficients: tuple[float, float, float]
    exponent: float
    points: tuple[Point, ...]


@dataclass(frozen=True, repr=False)
class Growth:
    """The result of `regard plan measure`."""

    machine: Machine
    heads: int
    head_dim: int
    kernel: str  # the one `attend` selects by default
    formulas: dict[str, Quantity]
    times: tuple[Curve, ...]
    bytes: tuple[Curve, ...]  # empty where peak memory cannot be measured or took too long
    crossing: dict[str, float]  # at N = 2d: FLOPs and seconds of projections and of attention
    recurrence: dict[str, float]  # seconds of N products at once, and one after another
    seconds: float
    load: float | None  # processes that wanted a core before it began (mean of the last minute); None where the system does not say

    def __repr__(self) -> str:
        curves = ", ".join(f"{curve.name} {curve.unit} ~ N^{curve.exponent:.2f}" for curve in (*self.times, *self.bytes))
        return f"Growth({self.heads} heads of {self.head_dim}, {self.kernel} kernel: {curves})"


def formulas(tokens: int, heads: int, head_dim: int) -> dict[str, Quantity]:
    """Return the formulas of FLOPs and memory for one layer and one sequence.

    >>> print(formulas(1024, 8, 64)["projections"])
    8 · N · d_model · d_model = 8 · 1,024 · 512 · 512 = 2,147,483,648
    >>> both = formulas(1024, 8, 64)
    >>> both["projections"].value == both["scores and values"].value  # N = 2 · d_model
    True
    """
    n, d, h = symbol("N", tokens), symbol("d_model", heads * head_dim), symbol("heads", heads)
    return {
        "projections": 8 * n * d * d,
        "scores and values": 4 * n * n * d,
        "crossover at N": 2 * d,
        "dense attention, elements stored": h * n * n,
        "streamed attention, elements stored": 4 * n * d + n * h,
    }


def fit(sizes: Sequence[int], values: Sequence[float], powers: tuple[int, ...]) -> tuple[float, float, float]:
    """Fit non-negative c₀, c₁, c₂ of Σ cᵢ·Nⁱ over the given powers, by least squares of the relative error.

    >>> [round(c, 6) for c in fit([10, 20, 40], [5 + 3 * n * n for n in (10, 20, 40)], (0, 2))]
    [5.0, 0.0, 3.0]
    """
    active = list(powers)
    n, y = torch.tensor(sizes, dtype=torch.float64), torch.tensor(values, dtype=torch.float64)
    while True:
        columns = torch.stack([n**power / y for power in active], 1)
        solution = torch.linalg.lstsq(columns, torch.ones(len(sizes), 1, dtype=torch.float64)).solution.flatten().tolist()
        if min(solution) >= 0 or len(active) == 1:
            break
        del active[solution.index(min(solution))]  # a negative coefficient means that the data does not show this term
    coefficients = dict(zip(active, solution, strict=True))
    return coefficients.get(0, 0.0), coefficients.get(1, 0.0), coefficients.get(2, 0.0)


def time_curve(
    name: str, law: str, sizes: Sequence[int], seconds: Sequence[float], power: int, least: Callable[[int], float] = lambda n: 0.0
) -> Curve:
    """Fit c₀ + c·N^power to all sizes but the last, and predict the time of each size."""
    fitted = max(2, len(sizes) - 1)
    c = fit(sizes[:fitted], seconds[:fitted], (0, power))
    points = tuple(
        Point(n, measured, c[0] + c[1] * n + c[2] * n * n, index >= fitted, least(n))
        for index, (n, measured) in enumerate(zip(sizes, seconds, strict=True))
    )
    return Curve(name, "s", law, c, exponent(sizes, seconds), points)


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of log value over log N for the larger half of the sizes: 1 for linear growth, 2 for quadratic.

    >>> round(exponent([1, 2, 4, 8], [3, 12, 48, 192]), 6)
    2.0
    """
    half = max(2, (len(sizes) + 1) // 2)
    points = [(n, value) for n, value in zip(sizes, values, strict=True) if value > 0][-half:]
    if len(points) < 2:
        return 0.0
    x, y = [math.log(n) for n, _ in points], [math.log(value) for _, value in points]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)


def measure(
    *, sizes: Sequence[int] = (256, 512, 1024, 2048), heads: int = 8, head_dim: int = 64, budget: float = 20.0, threads: int = 0
) -> Growth:
    """Measure time and memory of projections, dense attention and regard's attention over N on this machine.

    budget: about how many seconds it may take. threads: 0 for as many as torch uses; 1 varies less on a busy machine.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        return _measure(sizes, heads, head_dim, budget)
    finally:
        torch.set_num_threads(before)


def _measure(sizes: Sequence[int], heads: int, head_dim: int, budget: float) -> Growth:
    from regard import causal, explain

    begin, load = time.perf_counter(), os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    machine = this_machine("fp32", min(0.5, budget / 30), torch.get_num_threads())
    share = budget / 3 / (3 * len(sizes) + 3)  # seconds per measurement
    times = _time_curves(sizes, heads, head_dim, machine, share, end=begin + budget / 4)
    sizes = [point.tokens for point in times[0].points]
    crossing = _crossing(heads, head_dim, share)
    memory = _memory_curves(sizes, heads, head_dim, timeout=max(MEMORY_TIMEOUT, 4 * budget)) if measurable() else ()
    probe = torch.zeros(1, heads, 16, head_dim)
    return Growth(
        machine=machine,
        heads=heads,
        head_dim=head_dim,
        kernel=explain(probe, probe, probe, mask=causal()).kernel,
        formulas=formulas(sizes[-1], heads, head_dim),
        times=times,
        bytes=memory,
        crossing=crossing,
        recurrence=_recurrence(sizes[-1], heads * head_dim, share),
        seconds=time.perf_counter() - begin,
        load=load,
    )


def _time_curves(sizes: Sequence[int], heads: int, head_dim: int, machine: Machine, share: float, *, end: float) -> tuple[Curve, ...]:
    """Time projections, dense attention and regard's attention over N; after three sizes, stop when the clock has reached `end`."""
    measured: dict[str, list[float]] = {"projections": [], "dense": [], "ours": []}
    for index, n in enumerate(sizes):
        if index >= 3 and time.perf_counter() > end:
            sizes = sizes[:index]  # a slow or busy machine: fewer sizes rather than a longer wait
            break
        runs = _runs(n, heads, head_dim)
        for name, seconds in measured.items():
            seconds.append(best_time(runs[name], share))
    peak, d = machine.flops, heads * head_dim
    causal_law = "O(N²·d), half as many FLOPs with a causal mask"
    return (
        time_curve("projections", "O(N·d²)", sizes, measured["projections"], 1, lambda n: 8 * n * d * d / peak),
        time_curve("dense attention", "O(N²·d)", sizes, measured["dense"], 2, lambda n: 4 * n * n * d / peak),
        time_curve("regard.attend", causal_law, sizes, measured["ours"], 2, lambda n: 2 * n * (n + 1) * d / peak),
    )


def _crossing(heads: int, head_dim: int, share: float) -> dict[str, float]:
    """Measure projections and dense attention at N = 2d, where their FLOPs are equal."""
    tokens = 2 * heads * head_dim
    runs, law = _runs(tokens, heads, head_dim), formulas(tokens, heads, head_dim)
    return {
        "tokens": float(tokens),
        "FLOPs of projections": float(law["projections"].value),
        "FLOPs of scores and values": float(law["scores and values"].value),
        "seconds of projections": best_time(runs["projections"], share),
        "seconds of dense attention": best_time(runs["dense"], share),
    }


def _runs(tokens: int, heads: int, head_dim: int) -> dict[str, Callable[[], object]]:
    """Return the functions that are timed, by name."""
    from regard import attend, causal

    width, generator = heads * head_dim, torch.Generator().manual_seed(0)
    x, weight = torch.randn(tokens, width, generator=generator), torch.randn(width, 4 * width, generator=generator)
    q, k, v = (torch.randn(1, heads, tokens, head_dim, generator=generator) for _ in range(3))
    out = torch.empty(tokens, 4 * width)
    visible, mask = torch.ones(tokens, tokens, dtype=torch.bool).tril(), causal()
    return {
        "projections": lambda: torch.mm(x, weight, out=out),  # query, key, value and output projection in one product
        "dense": lambda: dense(q, k, v, visible),
        "ours": lambda: attend(q, k, v, mask=mask),
    }


def _memory_curves(sizes: Sequence[int], heads: int, head_dim: int, *, timeout: float) -> tuple[Curve, ...]:
    """Measure peak memory, with the formulas' predictions (no fit, so no point is held out); empty if it takes too long."""
    calls = [Call(kernel, 1, heads, n, head_dim) for kernel in ("dense", "streamed") for n in sizes]
    try:
        peaks = dict(zip(calls, peaks_in_new_process(calls, timeout=timeout), strict=True))
    except subprocess.TimeoutExpired:
        return ()
    curves = []
    kinds: tuple[tuple[Literal["dense", "streamed"], str, str], ...] = (
        ("dense", "dense attention", "O(h·N²)"),
        ("streamed", "regard.attend, streamed", "O(N·d) and a few tiles"),
    )
    for kernel, name, law in kinds:
        measured = [(call, float(peak)) for call, peak in peaks.items() if call.kernel == kernel]
        points = tuple(
            Point(call.tokens, peak, float(attention_bytes(kernel, Step(1, call.tokens, call.tokens, 0), heads, head_dim).value))
            for call, peak in measured
        )
        curves.append(Curve(name, "bytes", law, (0.0, 0.0, 0.0), exponent(sizes, [peak for _, peak in measured]), points))
    return tuple(curves)


def _recurrence(tokens: int, width: int, share: float) -> dict[str, float]:
    """Time N products of a row and a d×d matrix: all rows at once, and one after another as in a recurrence.

    A recurrence needs h(t−1) to compute h(t); attention computes all rows independently.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(tokens, width, generator=generator)
    weight = torch.randn(width, width, generator=generator) / width**0.5

    def in_turn() -> None:
        state = torch.zeros(1, width)
        for row in x.split(1):
            state = torch.tanh(row + state @ weight)

    at_once, one_by_one = best_time(lambda: torch.tanh(x @ weight), share), best_time(in_turn, share)
    return {
        "tokens": float(tokens),
        "seconds at once": at_once,
        "seconds in turn": one_by_one,
        "times slower": one_by_one / at_once,
    }
