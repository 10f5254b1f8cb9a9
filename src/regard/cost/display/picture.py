"""Figures of time and memory over N, dense attention against regard's. Needs matplotlib (extra `pictures`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cost.count.activations import inference_activations
from regard.cost.count.flops import Step, attention_flops
from regard.cost.workload import Workload
from regard.models.published.architecture import Architecture

if TYPE_CHECKING:
    from regard.cost.count.roofline import Machine
    from regard.cost.measure.growth import Growth

Line = tuple[str, Sequence[float], Sequence[float]]
Panel = tuple[str, str, Sequence[Line], Sequence[Line]]  # title, unit, predicted, measured


def draw_plan(a: Architecture, work: Workload, machine: Machine | None, path: Path) -> Path:
    """Draw attention's FLOPs (or seconds) and the activation memory of a prompt over the context length; writes SVG, PNG or PDF."""
    longest = max(work.tokens(a), 4096)
    sizes = [float(n) for n in (2**power for power in range(7, 22)) if n <= longest]
    sizes += [] if (longest & (longest - 1)) == 0 else [float(longest)]
    if a.position == "learned" and a.positions:
        sizes = [n for n in sizes if n <= a.positions] or [float(a.positions)]
    rate = machine.flops if machine else 1.0

    def arithmetic(kind: Any) -> list[float]:
        steps = [Step(work.batch, int(n), int(n), 1) for n in sizes]
        return [sum(q.value for q in attention_flops(a, step, kind).values()) / rate for step in steps]

    def memory(kind: Any) -> list[float]:
        workloads = [Workload(batch=work.batch, context=int(n), generate=0, dtype=work.dtype) for n in sizes]
        return [float(inference_activations(a, workload, kind).value) for workload in workloads]

    panels: list[Panel] = [
        (
            "attention of a prompt",
            "s" if machine else "FLOP",
            [("dense", sizes, arithmetic("dense")), ("needed", sizes, arithmetic("needed"))],
            [],
        ),
        ("activations", "B", [("dense", sizes, memory("dense")), ("streamed", sizes, memory("streamed"))], []),
    ]
    return _draw(f"{a.name}: cost by context length", panels, path)


def draw_growth(growth: Growth, path: Path) -> Path:
    """Draw the result of `measure`: predicted as lines, measured as points."""
    panels: list[Panel] = []
    for title, curves in (("time", growth.times), ("memory beside the inputs", growth.bytes)):
        lines = [(c.name, [float(p.tokens) for p in c.points], [p.predicted or p.measured for p in c.points]) for c in curves]
        marks = [(c.name, [float(p.tokens) for p in c.points], [p.measured for p in c.points]) for c in curves]
        if lines:
            panels.append((title, "s" if title == "time" else "B", lines, marks))
    return _draw(f"{growth.heads} heads of {growth.head_dim}, on this machine", panels, path)


def _draw(title: str, panels: Sequence[Panel], path: Path) -> Path:
    from regard.colours import HEADS, hexadecimal
    from regard.plotting import blank, figure_style, save_figure

    colours = {"projections": HEADS[6]}
    with figure_style([title]):
        from matplotlib.ticker import EngFormatter

        figure = blank(3.4 * len(panels), 2.6)
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, (label, unit, lines, marks) in zip(axes, panels, strict=True):
            for name, x, y in lines:
                colour = hexadecimal(colours.get(name, HEADS[1] if "dense" in name else HEADS[0]))
                axis.plot(x, y, color=colour, lw=1.2, label=name, ls="-" if "dense" in name or "projections" in name else "--")
            for name, x, y in marks:
                colour = hexadecimal(colours.get(name, HEADS[1] if "dense" in name else HEADS[0]))
                axis.plot(x, y, color=colour, ls="none", marker="o" if "dense" in name else "s", ms=3)
            axis.set(yscale="log", xlabel="N, tokens", title=label)
            axis.set_xscale("log", base=2)
            axis.xaxis.set_major_formatter(lambda n, _: f"{n:,.0f}")
            axis.yaxis.set_major_formatter(EngFormatter(unit, sep=" "))
            axis.minorticks_off()
            axis.legend(frameon=False, fontsize=6)
        figure.suptitle(title, x=0.02, ha="left")
        return save_figure(figure, path)
