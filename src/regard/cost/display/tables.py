"""Costs as tables for a terminal. Needs rich (extra `cli`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from regard.cost.count.memory import summed
from regard.cost.count.parameters import grouped
from regard.cost.quantity import Quantity, digits

if TYPE_CHECKING:
    from regard.cost.costs import Costs, StepCost
    from regard.cost.count.ranks import Spread
    from regard.cost.measure.growth import Curve, Growth
    from regard.cost.model.weight_headers import StoredWeights
    from regard.models.published.architecture import Architecture

_UNITS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def short(value: float, unit: str = "") -> str:
    """A number with a unit's prefix, four digits.

    >>> short(57_982_058_496, "B"), short(12), short(0.00123, "s")
    ('57.98 GB', '12', '1.23 ms')
    >>> short(104_800, "s")
    '29.1 h'
    """
    if unit == "s" and 0 < value < 1:
        return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} µs"
    if unit == "s" and value >= 120:
        return next(f"{value / size:.3g} {name}" for size, name in ((86400, "days"), (3600, "h"), (60, "min")) if value >= 2 * size)
    for size, prefix in _UNITS:
        if abs(value) >= size:
            return f"{value / size:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}".strip()


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", header_style="dim")
    return table


def show(costs: Costs, console: Console, stored: StoredWeights | None = None) -> None:
    """All tables of a plan."""
    a, work = costs.architecture, costs.workload
    console.print(f"[bold]{escape(a.name)}[/]  {_shape(a)}", soft_wrap=True)
    for note in a.notes:
        console.print(f"note: {escape(note)}", soft_wrap=True)
    _print(console, "parameters", _parameters(costs))
    if stored is not None:
        show_stored(costs, stored, console)
    for step in costs.steps.values():
        _print(console, step.title, _work(step))
        if step.roof is not None and costs.machine is not None:
            roof, machine = step.roof, costs.machine
            how = f"measured, {machine.threads} threads" if machine.threads else "given"
            console.print(
                f"at least {short(roof.seconds, 's')}, bound by {roof.bound}: {digits(roof.intensity.value)} FLOPs a byte; "
                f"{short(machine.flops, 'FLOP/s')} and {short(machine.bandwidth, 'B/s')} ({how})",
                soft_wrap=True,
            )
    if costs.cache and costs.cache_token is not None:
        _print(console, f"key-value cache, {digits(costs.cache_token.value)} numbers a token and layer", _cache(costs))
    _print(console, f"memory, batch {work.batch:,}, {work.tokens(a):,} tokens, {work.dtype}", _memory(costs))


def _print(console: Console, title: str, table: Table) -> None:
    console.print(f"[bold]{escape(title)}[/]", soft_wrap=True)
    console.print(table)


def _shape(a: Architecture) -> str:
    layers = f"{a.encoder_layers} + {a.layers} layers" if a.encoder_layers else f"{a.layers} layers"
    heads = f"{a.heads} heads of {a.head_dim}" + (f", {a.kv_heads} key-value heads" if a.kv_heads != a.heads else "")
    return f"{layers}, width {a.width:,}, {heads}, vocabulary {a.vocabulary:,}"


def _parameters(costs: Costs) -> Table:
    built, bare = grouped(costs.parameters), grouped(costs.textbook)
    style = "GPT-2-style" if costs.architecture.family == "gpt2" else "as built"
    table = _table("part", f"{style}: all it stores", "textbook: weights only, embeddings apart")
    for group in dict.fromkeys((*built, *bare)):
        table.add_row(group, *(f"{parts[group].value:,}" if group in parts else "" for parts in (built, bare)))
        within = [part for part in costs.parameters if group in grouped({part: costs.parameters[part]})]
        for part in within if len(within) > 1 else []:
            shown = (parts[part].value if part in parts else 0 for parts in (costs.parameters, costs.textbook))
            table.add_row(f"  {part}", *(f"{count:,}" if count else "" for count in shown), style="dim")
    table.add_row("total", f"{costs.total.value:,}", f"{costs.textbook_total.value:,}", style="bold")
    if costs.active.value != costs.total.value:
        table.add_row("a token meets", f"{costs.active.value:,}", "")
    return table


def show_stored(costs: Costs, stored: StoredWeights, console: Console) -> None:
    """What the file holds against what the config says."""
    kinds = ", ".join(f"{count:,} {dtype}" for dtype, count in stored.dtypes().items())
    console.print(
        f"the file holds {stored.count:,} numbers in {len(stored.tensors):,} tensors, {short(stored.bytes, 'B')} ({kinds})",
        soft_wrap=True,
    )
    for why, tensors in stored.not_parameters(costs.architecture).items():
        console.print(f"  of them {sum(t.count for t in tensors):,} are no parameters: {why} ({tensors[0].name} …)", soft_wrap=True)
    missing = stored.parameter_count(costs.architecture) - costs.total.value
    if missing == 0:
        console.print(f"the config says {costs.total.value:,}: equal", style="green", soft_wrap=True)
    else:
        more = "more" if missing > 0 else "fewer"
        console.print(f"the config says {costs.total.value:,}: the file has {abs(missing):,} {more}", style="bold magenta", soft_wrap=True)


def _work(step: StepCost) -> Table:
    table = _table("part", "FLOPs needed", "a dense kernel does")
    for part in dict.fromkeys((*step.needed, *step.dense)):
        table.add_row(part, *(short(parts[part].value) if part in parts else "" for parts in (step.needed, step.dense)))
    table.add_row("total", *(short(summed(parts).value) for parts in (step.needed, step.dense)), style="bold")
    if step.moved:
        table.add_row("bytes moved at least", short(summed(step.moved).value, "B"), "")
    return table


def _cache(costs: Costs) -> Table:
    table = _table("layers", "transformers", "ring buffer")
    for kind, count in costs.cache.items():
        table.add_row(kind, short(count.value, "B"), short(costs.ring_cache[kind].value, "B"))
    if len(costs.cache) > 1:
        table.add_row("total", *(short(summed(parts).value, "B") for parts in (costs.cache, costs.ring_cache)), style="bold")
    return table


def _memory(costs: Costs) -> Table:
    table = _table("what", "dense attention", "streamed attention")
    for part in dict.fromkeys(part for parts in costs.memory.values() for part in parts):
        table.add_row(part, *(short(costs.memory[kind][part].value, "B") for kind in ("dense", "streamed")))
    table.add_row("at the peak", *(short(costs.peak(kind).value, "B") for kind in ("dense", "streamed")), style="bold")
    return table


def explain(costs: Costs, console: Console) -> None:
    """Every number with its formula and the numbers put in."""
    style = "GPT-2-style" if costs.architecture.family == "gpt2" else "as built"
    sections: dict[str, dict[str, Quantity]] = {
        "parameters, textbook (weights only, embedding and unembedding apart)": {
            **costs.pieces,
            **costs.textbook,
            **grouped(costs.textbook),
            "total": costs.textbook_total,
        },
        f"parameters, {style} (all it stores)": {**costs.parameters, **grouped(costs.parameters), "total": costs.total},
    }
    if costs.active.value != costs.total.value:
        sections["parameters a token meets"] = {"active": costs.active}
    for step in costs.steps.values():
        name = step.title
        sections[f"{name}, FLOPs needed"] = {**step.needed, "total": summed(step.needed)}
        dense = {part: count for part, count in step.dense.items() if part not in step.needed or count.value != step.needed[part].value}
        if dense:
            sections[f"{name}, FLOPs of a dense kernel where they differ"] = {**dense, "total": summed(step.dense)}
        if step.moved:
            sections[f"{name}, bytes moved at least"] = {**step.moved, "total": summed(step.moved)}
        if step.roof is not None:
            sections[f"{name}, roofline"] = {
                "FLOPs a byte": step.roof.intensity,
                "seconds of arithmetic": step.roof.arithmetic,
                "seconds of memory": step.roof.memory,
            }
    if costs.cache and costs.cache_token is not None:
        sections["key-value cache, numbers a token and layer"] = {"cached": costs.cache_token}
        sections["key-value cache, bytes"] = {**costs.cache, **({"total": summed(costs.cache)} if len(costs.cache) > 1 else {})}
    for kind, parts in costs.memory.items():
        sections[f"memory with {kind} attention, bytes"] = {**parts, "at the peak": summed(parts)}
    for title, rows in sections.items():
        console.print(f"[bold]{title}[/]")
        wide = max(len(name) for name in rows)
        for name, count in rows.items():
            console.print(f"  {name:<{wide}}   {count}", soft_wrap=True, highlight=False, markup=False)


def show_ranks(costs: Costs, spreads: Sequence[Spread], console: Console, *, explain: bool = False) -> None:
    """A step on more and more ranks; with every part of the last one's bytes if asked."""
    last, work = spreads[-1], costs.workload
    what = "training step" if work.mode == "train" else "forward pass"
    held = "weights dealt out" if last.fully_sharded else "weights on every rank"
    title = f"{what} of {work.tokens(costs.architecture):,} tokens over ranks, {held}, {short(last.link, 'B/s')} a link: predicted"
    table = _table("ranks", "tokens a rank", "time", "of it waiting", "sent a rank", "hidden", "efficiency", "memory a rank")
    for one in spreads:
        table.add_row(
            f"{one.ranks:,}",
            f"{one.tokens:,}",
            short(one.seconds, "s"),
            short(one.waiting, "s"),
            short(one.bytes_sent.value, "B"),
            f"{one.overlap:.0%}" if one.ranks > 1 else "",
            f"{spreads[0].seconds / one.seconds / one.ranks:.0%}",
            short(one.peak.value, "B"),
        )
    _print(console, title, table)
    for name, parts in (("sent", last.sent), ("memory", last.memory)) if explain else ():
        console.print(f"[bold]{name} a rank of {last.ranks:,}, bytes[/]")
        wide = max(map(len, parts))
        for part, count in parts.items():
            console.print(f"  {part:<{wide}}   {count}", soft_wrap=True, highlight=False, markup=False)


def compare(first: Costs, second: Costs, console: Console) -> None:
    """Two models under one workload, side by side, with the ratio."""
    table = _table("what", first.architecture.name, second.architecture.name, "ratio")
    for name, (left, right, unit) in comparison(first, second).items():
        ratio = f"{right / left:.3g}" if left and right else ""
        table.add_row(name, *(short(value, unit) if value else "none" for value in (left, right)), ratio)
    console.print(table)


def comparison(first: Costs, second: Costs) -> dict[str, tuple[float, float, str]]:
    """What `compare` shows: (left, right, unit) for each thing both or either has."""
    both = (first, second)
    rows: dict[str, tuple[float, float, str]] = {"parameters": (first.total.value, second.total.value, "")}
    if any(costs.active.value != costs.total.value for costs in both):
        rows["a token meets"] = (first.active.value, second.active.value, "")
    groups = [grouped(costs.parameters) for costs in both]
    for group in dict.fromkeys(name for parts in groups for name in parts):
        left, right = (parts[group].value if group in parts else 0 for parts in groups)
        rows[f"  {group}"] = (left, right, "")
    for step in dict.fromkeys(name for costs in both for name in costs.steps):
        left, right = (costs.steps[step].flops.value if step in costs.steps else 0 for costs in both)
        rows[f"{step}, FLOPs"] = (left, right, "")
    left, right = (summed(costs.cache).value for costs in both)
    if left or right:
        rows["key-value cache"] = (left, right, "B")
    for kind in ("dense", "streamed"):
        rows[f"peak memory, {kind}"] = (first.peak(kind).value, second.peak(kind).value, "B")
    return rows


def show_growth(growth: Growth, console: Console) -> None:
    """What `measure` found."""
    m = growth.machine
    console.print(
        f"{short(m.flops, 'FLOP/s')} and {short(m.bandwidth, 'B/s')} on {m.threads} threads, float32; "
        f"{growth.heads} heads of {growth.head_dim}; ours runs on the {growth.kernel} kernel",
        soft_wrap=True,
    )
    console.print("[bold]laws of growth, one layer, one sequence[/]")
    wide = max(len(name) for name in growth.formulas)
    for name, count in growth.formulas.items():
        console.print(f"  {name:<{wide}}   {count}", soft_wrap=True, highlight=False, markup=False)
    for curve in (*growth.times, *growth.bytes):
        kind = "bytes" if curve.unit == "bytes" else "time"
        _print(console, f"{curve.name}, {kind}: {curve.law}; measured exponent {curve.exponent:.2f}", _curve(curve))
    if not growth.bytes:
        console.print("memory was not measured: this system does not tell a process its own peak")
    c, r = growth.crossing, growth.recurrence
    console.print(
        f"at N = 2d = {c['tokens']:,.0f} both need {short(c['FLOPs of projections'])}FLOPs: "
        f"projections took {short(c['seconds of projections'], 's')}, dense attention {short(c['seconds of dense attention'], 's')}",
        soft_wrap=True,
    )
    console.print(
        f"the same {r['tokens']:,.0f} products of a row and a matrix: {short(r['seconds at once'], 's')} at once, as attention's maps can; "
        f"{short(r['seconds in turn'], 's')} one after another, as a recurrence must: {r['times slower']:.3g} times slower",
        soft_wrap=True,
    )
    console.print(f"measured in {growth.seconds:.1f} s", style="dim")


def _curve(curve: Curve) -> Table:
    timed = curve.unit == "s"
    table = _table("N", "predicted", "measured", "ratio", *(("at peak rate", "") if timed else ()))
    for point in curve.points:
        unit = "s" if timed else "B"
        predicted = "" if point.predicted is None else short(point.predicted, unit)
        ratio = "" if point.ratio is None else f"{point.ratio:.2f}"
        least = (short(point.least or 0.0, "s"), "not used in the fit" if point.held_out else "") if timed else ()
        table.add_row(f"{point.tokens:,}", predicted, short(point.measured, unit), ratio, *least)
    return table
