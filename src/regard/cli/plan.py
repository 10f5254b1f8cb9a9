"""`regard plan`: exact parameters, FLOPs and memory of a model, and bounds on its run time on a machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from .boundary import wrong_arguments
from .options import LARGEST, Command, Group, within

if TYPE_CHECKING:
    from regard.cost import Costs, Machine, Workload
    from regard.cost.count.ranks import Spread
    from regard.cost.model.weight_headers import StoredWeights


class _ShowByDefault(Group):
    """Makes `regard plan NAME` mean `regard plan show NAME`: a first word that is not a subcommand is a model."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ShowByDefault, no_args_is_help=True, help="Count what a model costs: `regard plan NAME`, or a path to its config or weights."
)

_Name = Annotated[str, typer.Argument(help="a preset (see `regard plan list`), a config.json, a folder, a .safetensors or a .gguf file")]
_Context = Annotated[int, typer.Option(callback=within(0, LARGEST), help="sequence length in tokens; 0: the model's own limit, or 2,048")]
_Batch = Annotated[int, typer.Option(callback=within(1, LARGEST), help="batch size")]
_Generate = Annotated[int, typer.Option(callback=within(0, LARGEST), help="how many tokens of the context the model generates itself")]
_Source = Annotated[
    int, typer.Option(callback=within(0, LARGEST), help="source length of an encoder-decoder, in tokens; 0: the same as the context")
]
_Dtype = Annotated[str, typer.Option(help="dtype of weights and activations: fp64, fp32, bf16, fp16, fp8, int8 or int4")]
_CacheDtype = Annotated[str, typer.Option(help="dtype of the key-value cache; empty: the same as --dtype")]
_Train = Annotated[bool, typer.Option("--train", help="count a training step instead of inference")]
_Checkpointing = Annotated[
    bool, typer.Option("--checkpointing", help="activation checkpointing: layers are recomputed in the backward pass")
]
_Optimiser = Annotated[str, typer.Option("--optimiser", "--optimizer", help="adamw, adam, rmsprop, adagrad, momentum or sgd")]
_Master = Annotated[str, typer.Option(help="dtype of weights, gradients and optimiser states in training")]
_Explain = Annotated[bool, typer.Option("--explain", help="show every number with its formula, filled in")]
_Json = Annotated[bool, typer.Option("--json", help="print JSON instead of tables")]
_Picture = Annotated[Path | None, typer.Option(help="draw how the cost grows with the sequence length N: .svg, .png or .pdf")]
_Tflops = Annotated[float | None, typer.Option(callback=within(0, 10**9), help="peak arithmetic in TFLOP/s, instead of this machine's")]
_Bandwidth = Annotated[float | None, typer.Option(callback=within(0, 10**9), help="memory bandwidth in GB/s, instead of this machine's")]
_Ranks = Annotated[
    int,
    typer.Option(callback=within(1, LARGEST), help="predict time, traffic and memory with each sequence split over this many processes"),
]
_Link = Annotated[float | None, typer.Option(callback=within(0, 10**9), help="with --ranks: what a process can send, in GB/s")]
_Fsdp = Annotated[bool, typer.Option("--fsdp", help="with --ranks: weights and optimiser states are sharded too")]
_Roofline = Annotated[
    bool | None,
    typer.Option(
        "--roofline/--no-roofline", help="the lower bound on the run time, from this machine's speed, measured now (a few seconds)"
    ),
]


@app.command(cls=Command)
def show(
    name: _Name,
    context: _Context = 0,
    batch: _Batch = 1,
    generate: _Generate = 0,
    source: _Source = 0,
    dtype: _Dtype = "bf16",
    cache_dtype: _CacheDtype = "",
    train: _Train = False,
    checkpointing: _Checkpointing = False,
    optimiser: _Optimiser = "adamw",
    master: _Master = "fp32",
    explain: _Explain = False,
    as_json: _Json = False,
    picture: _Picture = None,
    peak_tflops: _Tflops = None,
    bandwidth: _Bandwidth = None,
    roofline: _Roofline = None,
    ranks: _Ranks = 1,
    link: _Link = None,
    fsdp: _Fsdp = False,
) -> None:
    """Count parameters, FLOPs, cache and memory of a model, and compute a lower bound on its run time. The word `show` may be left out."""
    from regard.cost import ConfigError, Workload, plan
    from regard.cost.model.sources import find

    try:
        work = Workload(
            batch=batch,
            context=context,
            generate=0 if train else generate,
            source=source,
            dtype=dtype,
            cache_dtype=cache_dtype,
            mode="train" if train else "infer",
            checkpointing=checkpointing,
            optimiser=optimiser,
            master=master,
        )
        architecture, stored = find(name)
        costs = plan(architecture, work, machine=_machine(work, peak_tflops, bandwidth, ranks > 1 if roofline is None else roofline))
        spreads = _spreads(costs, ranks, link, fsdp)
    except ConfigError as error:
        _fail(str(error))
    if as_json:
        _print_json(_to_json(costs, spreads, stored))
    else:
        _print(costs, spreads, stored, explain)
    if picture is not None:
        _draw(lambda path: _draw_plan(costs, path), picture)
    if stored is not None and stored.parameter_count(architecture) != costs.total.value:
        raise typer.Exit(1)


def _to_json(costs: Costs, spreads: list[Spread], stored: StoredWeights | None) -> dict[str, Any]:
    """The data that `--json` prints."""
    data = costs.to_dict()
    if spreads:
        data["ranks"] = [one.to_dict() for one in spreads]
    if stored is not None:
        others = {reason: sum(t.count for t in tensors) for reason, tensors in stored.not_parameters(costs.architecture).items()}
        sizes = {"count": stored.count, "bytes": stored.bytes, "dtypes": stored.dtypes(), "no_parameters": others}
        equal = stored.parameter_count(costs.architecture) == costs.total.value
        data["file"] = {"path": str(stored.path), **sizes, "equal": equal}
    return data


def _spreads(costs: Costs, ranks: int, link: float | None, fsdp: bool) -> list[Spread]:
    """The predictions for 1, 2, 4 … up to `ranks` processes; empty for one process."""
    from regard.cost import ConfigError
    from regard.cost.count.ranks import spread

    if ranks == 1:
        return []
    if not link or costs.machine is None:
        raise ConfigError("--ranks needs --link (GB/s a process can send), and a roofline (leave --no-roofline out)")
    counts = [1 << i for i in range(ranks.bit_length()) if 1 << i < ranks]
    return [
        spread(costs.architecture, costs.workload, machine=costs.machine, ranks=count, link=link * 1e9, fully_sharded=fsdp)
        for count in (*counts, ranks)
    ]


def _print(costs: Costs, spreads: list[Spread], stored: StoredWeights | None, explain: bool) -> None:
    from regard.cost.display import tables

    console = _console()
    if explain:
        tables.explain(costs, console)
        if stored is not None:
            tables.show_stored(costs, stored, console)
    else:
        tables.show(costs, console, stored)
        if costs.machine is None:
            console.print(
                "run time: add --roofline for this machine, --peak-tflops and --bandwidth for another",
                style="dim",
                soft_wrap=True,
            )
    if spreads:
        tables.show_ranks(costs, spreads, console, explain=explain)


def _draw_plan(costs: Costs, path: Path) -> None:
    from regard.cost.display.picture import draw_plan

    draw_plan(costs.architecture, costs.workload, costs.machine, path)


@app.command(cls=Command)
def compare(
    first: _Name,
    second: _Name,
    context: _Context = 0,
    batch: _Batch = 1,
    dtype: _Dtype = "bf16",
    train: _Train = False,
    as_json: _Json = False,
) -> None:
    """Compare two models under the same workload."""
    from regard.cost import ConfigError, Workload, plan
    from regard.cost.display import tables

    try:
        work = Workload(batch=batch, context=context, dtype=dtype, mode="train" if train else "infer")
        left, right = plan(first, work), plan(second, work)
    except ConfigError as error:
        _fail(str(error))
    if as_json:
        rows = tables.comparison(left, right)
        names = (left.architecture.name, right.architecture.name)
        _print_json(
            {what.strip(): {"unit": unit, **dict(zip(("first", "second"), (a, b), strict=True))} for what, (a, b, unit) in rows.items()}
            | {"names": list(names)}
        )
        return
    tables.compare(left, right, _console())


@app.command(cls=Command)
def measure(
    seconds: Annotated[float, typer.Option(callback=within(1, 10**6), help="about how long the measurement may take, in seconds")] = 20.0,
    sizes: Annotated[str, typer.Option(help="the sequence lengths N to measure, in rising order")] = "256,512,1024,2048",
    heads: Annotated[int, typer.Option(callback=within(1, LARGEST), help="number of heads")] = 8,
    head_dim: Annotated[int, typer.Option(callback=within(1, LARGEST), help="width of a head")] = 64,
    threads: Annotated[int, typer.Option(callback=within(0, 1024), help="0: as many as torch uses; 1 is steadier on a busy machine")] = 0,
    as_json: _Json = False,
    picture: _Picture = None,
) -> None:
    """Measure attention on this machine at several sequence lengths, beside the predicted time and bytes."""
    from regard.cost.measure.growth import measure as run

    try:
        lengths = [int(n) for n in sizes.split(",")]
    except ValueError:
        lengths = []
    if len(lengths) < 3 or sorted(set(lengths)) != lengths or lengths[0] < 1 or lengths[-1] > 10**12:
        _fail(f"--sizes is {sizes[:80]!r}; expected three or more rising whole numbers, such as 256,512,1024")
    growth = run(sizes=lengths, heads=heads, head_dim=head_dim, budget=seconds, threads=threads)
    if as_json:
        import dataclasses

        data = dataclasses.asdict(growth)
        data["formulas"] = {name: str(count) for name, count in growth.formulas.items()}
        for curve, curve_data in zip((*growth.times, *growth.bytes), (*data["times"], *data["bytes"]), strict=True):
            for point, row in zip(curve.points, curve_data["points"], strict=True):
                row["ratio"] = point.ratio
        _print_json(data)
    else:
        from regard.cost.display.tables import show_growth

        show_growth(growth, _console())
    if picture is not None:
        from regard.cost.display.picture import draw_growth

        _draw(lambda path: draw_growth(growth, path), picture)


@app.command("list", cls=Command)
def list_presets(as_json: _Json = False) -> None:
    """List the preset models with their number of parameters."""
    from regard.cost.count.parameters import parameter_total
    from regard.cost.model.presets import preset, presets

    counts = {name: int(parameter_total(preset(name)).value) for name in presets()}
    if as_json:
        _print_json(counts)
        return
    width = max(map(len, counts))
    for name, count in counts.items():
        print(f"{name:<{width}}  {count:>19,}")


def _machine(work: Workload, tflops: float | None, bandwidth: float | None, roofline: bool) -> Machine | None:
    from regard.cost import ConfigError, Machine

    if tflops is None and bandwidth is None:
        if not roofline:
            return None
        from regard.cost import this_machine  # imports torch

        return this_machine(work.dtype)
    if not tflops or not bandwidth:
        raise ConfigError("a roofline of your own needs both --peak-tflops and --bandwidth (GB/s), each more than 0")
    return Machine("given", tflops * 1e12, bandwidth * 10**9)


def _draw(draw: Any, path: Path) -> None:
    with wrong_arguments("--picture"):
        draw(path)
    print(f"wrote {path}", file=sys.stderr)


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False)


def _print_json(data: Any) -> None:
    print(json.dumps(data, ensure_ascii=False, indent=2))


def _fail(message: str) -> NoReturn:
    print(f"regard plan: {message}", file=sys.stderr)
    raise typer.Exit(2)
