"""Tables of costs for the terminal. Needs rich (extra `cli`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from regard.cost.count.memory import summed
from regard.cost.count.parameters import grouped
from regard.cost.quantity import Quantity, digits, short

if TYPE_CHECKING:
    from regard.cost.costs import Costs, StepCost
    from regard.cost.count.ranks import Spread
    from regard.cost.measure.growth import Curve, Growth
    from regard.cost.model.weight_headers import StoredWeights


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", header_style="dim")
    return table


def show(costs: Costs, console: Console, stored: StoredWeights | None = None) -> None:
    """Print all tables of a plan."""
    a, work = costs.architecture, costs.workload
    console.print(f"[bold]{escape(a.name)}[/]  {a.shape_text()}", soft_wrap=True)
    for note in a.notes:
        console.print(f"note: {escape(note)}", soft_wrap=True)
    _print(console, "parameters", _parameters(costs))
    if stored is not None:
        show_stored(costs, stored, console)
    for step in costs.steps.values():
        _print(console, step.title, _flops(step))
        if step.roof is not None and costs.machine is not None:
            roof, machine = step.roof, costs.machine
            origin = f"measured, {machine.threads} threads" if machine.threads else "given"
            console.print(
                f"at least {short(roof.seconds, 's')}, bound by {roof.bound}: {digits(roof.intensity.value)} FLOPs per byte; "
                f"peak {short(machine.flops, 'FLOP/s')} and {short(machine.bandwidth, 'B/s')} ({origin})",
                soft_wrap=True,
            )
    if costs.cache and costs.cache_token is not None:
        _print(console, f"key-value cache, {digits(costs.cache_token.value)} numbers per token and layer", _cache(costs))
    _print(console, f"memory, batch {work.batch:,}, {work.tokens(a):,} tokens, {work.dtype}", _memory(costs))


def _print(console: Console, title: str, table: Table) -> None:
    console.print(f"[bold]{escape(title)}[/]", soft_wrap=True)
    console.print(table)


def _parameters(costs: Costs) -> Table:
    stored, textbook = grouped(costs.parameters), grouped(costs.textbook)
    style = "GPT-2-style" if costs.architecture.family == "gpt2" else "as built"
    table = _table("part", f"{style}: everything stored", "textbook: weight matrices only")
    for group in dict.fromkeys((*stored, *textbook)):
        table.add_row(group, *(f"{parts[group].value:,}" if group in parts else "" for parts in (stored, textbook)))
        members = [part for part in costs.parameters if group in grouped({part: costs.parameters[part]})]
        for part in members if len(members) > 1 else []:
            counts = (parts[part].value if part in parts else 0 for parts in (costs.parameters, costs.textbook))
            table.add_row(f"  {part}", *(f"{count:,}" if count else "" for count in counts), style="dim")
    table.add_row("total", f"{costs.total.value:,}", f"{costs.textbook_total.value:,}", style="bold")
    if costs.active.value != costs.total.value:
        table.add_row("active per token", f"{costs.active.value:,}", "")
    return table


def show_stored(costs: Costs, stored: StoredWeights, console: Console) -> None:
    """Print what the weight file holds, and whether it agrees with the config."""
    dtypes = ", ".join(f"{count:,} {dtype}" for dtype, count in stored.dtypes().items())
    console.print(
        f"the file holds {stored.count:,} numbers in {len(stored.tensors):,} tensors, {short(stored.bytes, 'B')} ({dtypes})",
        soft_wrap=True,
    )
    for reason, tensors in stored.not_parameters(costs.architecture).items():
        console.print(f"  {sum(t.count for t in tensors):,} of them are not parameters: {reason} ({tensors[0].name} …)", soft_wrap=True)
    difference = stored.parameter_count(costs.architecture) - costs.total.value
    if difference == 0:
        console.print(f"the config has {costs.total.value:,} parameters: equal", style="green", soft_wrap=True)
    else:
        comparison = "more" if difference > 0 else "fewer"
        message = f"the config has {costs.total.value:,} parameters: the file has {abs(difference):,} {comparison}"
        console.print(message, style="bold magenta", soft_wrap=True)


def _flops(step: StepCost) -> Table:
    table = _table("part", "FLOPs needed", "FLOPs of a dense kernel")
    for part in dict.fromkeys((*step.needed, *step.dense)):
        table.add_row(part, *(short(parts[part].value) if part in parts else "" for parts in (step.needed, step.dense)))
    table.add_row("total", *(short(summed(parts).value) for parts in (step.needed, step.dense)), style="bold")
    if step.moved:
        table.add_row("bytes moved, at least", short(summed(step.moved).value, "B"), "")
    return table


def _cache(costs: Costs) -> Table:
    table = _table("layers", "transformers", "ring buffer")
    for kind, count in costs.cache.items():
        table.add_row(kind, short(count.value, "B"), short(costs.ring_cache[kind].value, "B"))
    if len(costs.cache) > 1:
        table.add_row("total", *(short(summed(parts).value, "B") for parts in (costs.cache, costs.ring_cache)), style="bold")
    return table


def _memory(costs: Costs) -> Table:
    table = _table("part", "dense attention", "streamed attention")
    for part in dict.fromkeys(part for parts in costs.memory.values() for part in parts):
        table.add_row(part, *(short(costs.memory[kind][part].value, "B") for kind in ("dense", "streamed")))
    table.add_row("peak", *(short(costs.peak(kind).value, "B") for kind in ("dense", "streamed")), style="bold")
    return table


def explain(costs: Costs, console: Console) -> None:
    """Print every number with its formula and the substituted formula."""
    style = "GPT-2-style" if costs.architecture.family == "gpt2" else "as built"
    sections: dict[str, dict[str, Quantity]] = {
        "parameters, textbook (weight matrices only, embedding and unembedding counted separately)": {
            **costs.pieces,
            **costs.textbook,
            **grouped(costs.textbook),
            "total": costs.textbook_total,
        },
        f"parameters, {style} (everything stored)": {**costs.parameters, **grouped(costs.parameters), "total": costs.total},
    }
    if costs.active.value != costs.total.value:
        sections["parameters that one token uses"] = {"active": costs.active}
    for step in costs.steps.values():
        name = step.title
        sections[f"{name}, FLOPs needed"] = {**step.needed, "total": summed(step.needed)}
        dense = {part: count for part, count in step.dense.items() if part not in step.needed or count.value != step.needed[part].value}
        if dense:
            sections[f"{name}, FLOPs of a dense kernel, where they differ"] = {**dense, "total": summed(step.dense)}
        if step.moved:
            sections[f"{name}, bytes moved, at least"] = {**step.moved, "total": summed(step.moved)}
        if step.roof is not None:
            sections[f"{name}, roofline"] = {
                "FLOPs per byte": step.roof.intensity,
                "seconds of arithmetic": step.roof.arithmetic,
                "seconds of memory": step.roof.memory,
            }
    if costs.cache and costs.cache_token is not None:
        sections["key-value cache, numbers per token and layer"] = {"cached": costs.cache_token}
        sections["key-value cache, bytes"] = {**costs.cache, **({"total": summed(costs.cache)} if len(costs.cache) > 1 else {})}
    for kind, parts in costs.memory.items():
        sections[f"memory with {kind} attention, bytes"] = {**parts, "peak": summed(parts)}
    for title, rows in sections.items():
        console.print(f"[bold]{title}[/]")
        width = max(len(name) for name in rows)
        for name, count in rows.items():
            console.print(f"  {name:<{width}}   {count}", soft_wrap=True, highlight=False, markup=False)


def show_ranks(costs: Costs, spreads: Sequence[Spread], console: Console, *, explain: bool = False) -> None:
    """Print the cost of a step for each number of ranks; with explain=True also the bytes of the last one by part."""
    last, work = spreads[-1], costs.workload
    step = "training step" if work.mode == "train" else "forward pass"
    weights = "weights sharded" if last.fully_sharded else "weights on every rank"
    title = f"predicted {step} of {work.tokens(costs.architecture):,} tokens over ranks, {weights}, {short(last.link, 'B/s')} per link"
    table = _table("ranks", "tokens per rank", "time", "waiting", "sent per rank", "overlap", "efficiency", "memory per rank")
    for spread in spreads:
        table.add_row(
            f"{spread.ranks:,}",
            f"{spread.tokens:,}",
            short(spread.seconds, "s"),
            short(spread.waiting, "s"),
            short(spread.bytes_sent.value, "B"),
            f"{spread.overlap:.0%}" if spread.ranks > 1 else "",
            f"{spreads[0].seconds / spread.seconds / spread.ranks:.0%}",
            short(spread.peak.value, "B"),
        )
    _print(console, title, table)
    for name, parts in (("sent", last.sent), ("memory", last.memory)) if explain else ():
        console.print(f"[bold]{name} per rank with {last.ranks:,} ranks, bytes[/]")
        width = max(map(len, parts))
        for part, count in parts.items():
            console.print(f"  {part:<{width}}   {count}", soft_wrap=True, highlight=False, markup=False)


def compare(first: Costs, second: Costs, console: Console) -> None:
    """Print two models under the same workload side by side, with ratios."""
    table = _table("cost", first.architecture.name, second.architecture.name, "ratio")
    for name, (left, right, unit) in comparison(first, second).items():
        ratio = f"{right / left:.3g}" if left and right else ""
        table.add_row(name, *(short(value, unit) if value else "none" for value in (left, right)), ratio)
    console.print(table)


def comparison(first: Costs, second: Costs) -> dict[str, tuple[float, float, str]]:
    """Return the rows of `compare`: (first, second, unit) by name, for every cost that either model has."""
    both = (first, second)
    rows: dict[str, tuple[float, float, str]] = {"parameters": (first.total.value, second.total.value, "")}
    if any(costs.active.value != costs.total.value for costs in both):
        rows["active per token"] = (first.active.value, second.active.value, "")
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
    """Print the result of `measure`."""
    m = growth.machine
    console.print(
        f"peak {short(m.flops, 'FLOP/s')} and {short(m.bandwidth, 'B/s')} on {m.threads} threads, float32; "
        f"{growth.heads} heads of {growth.head_dim}; regard.attend runs on the {growth.kernel} kernel",
        soft_wrap=True,
    )
    console.print("[bold]formulas for one layer and one sequence[/]")
    width = max(len(name) for name in growth.formulas)
    for name, count in growth.formulas.items():
        console.print(f"  {name:<{width}}   {count}", soft_wrap=True, highlight=False, markup=False)
    for curve in (*growth.times, *growth.bytes):
        kind = "bytes" if curve.unit == "bytes" else "time"
        _print(console, f"{curve.name}, {kind}: {curve.law}; measured exponent {curve.exponent:.2f}", _curve(curve))
    if not growth.bytes:
        console.print("memory was not measured: this system does not report a process's peak memory, or it took too long")
    c, r = growth.crossing, growth.recurrence
    console.print(
        f"at N = 2d = {c['tokens']:,.0f} projections and dense attention both need {short(c['FLOPs of projections'])}FLOPs: "
        f"projections took {short(c['seconds of projections'], 's')}, dense attention {short(c['seconds of dense attention'], 's')}",
        soft_wrap=True,
    )
    console.print(
        f"{r['tokens']:,.0f} products of a row and a matrix: {short(r['seconds at once'], 's')} at once, as in attention; "
        f"{short(r['seconds in turn'], 's')} one after another, as in a recurrence: {r['times slower']:.3g} times slower",
        soft_wrap=True,
    )
    load = "" if growth.load is None else f"; load before it began: {growth.load:.1f}"
    console.print(f"measured in {growth.seconds:.1f} s{load}", style="dim")


def _curve(curve: Curve) -> Table:
    is_time = curve.unit == "s"
    table = _table("N", "predicted", "measured", "ratio", *(("at peak rate", "") if is_time else ()))
    for point in curve.points:
        unit = "s" if is_time else "B"
        predicted = "" if point.predicted is None else short(point.predicted, unit)
        ratio = "" if point.ratio is None else f"{point.ratio:.2f}"
        least = (short(point.least or 0.0, "s"), "not used in the fit" if point.held_out else "") if is_time else ()
        table.add_row(f"{point.tokens:,}", predicted, short(point.measured, unit), ratio, *least)
    return table
