"""`regard doctor`: versions, threads, instruction set, and which kernels are available and why."""

from __future__ import annotations

import importlib.util
import json
import platform
from typing import Annotated, Any

import typer

PARTS = {
    "text": ("tokenizers",),
    "train": ("accelerate", "sacrebleu"),
    "regression": ("sklearn",),
    "pictures": ("matplotlib",),
    "weights": ("gguf",),
    "tables": ("pandas",),
    "studio": ("fastapi", "uvicorn"),
}


def examine() -> dict[str, Any]:
    """Everything the doctor prints, as plain data."""
    import torch

    import regard
    from regard.kernels import KERNELS
    from regard.kernels.native import instruction_set

    q = torch.randn(1, 8, 1024, 64)
    kernels = {}
    for name in KERNELS:
        try:
            plan = regard.explain(q, q, q, mask=regard.causal(), kernel=name)
            kernels[name] = {"available": True, "why": plan.reason, "bytes": plan.bytes}
        except ValueError as error:
            kernels[name] = {"available": False, "why": str(error)}
    return {
        "regard": regard.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {platform.system()}",
        "threads": torch.get_num_threads(),
        "instruction_set": instruction_set(),
        "devices": ["cpu", *(name for name in ("cuda", "mps") if getattr(torch, name).is_available())],
        "kernels": kernels,
        "picked": regard.explain(q, q, q, mask=regard.causal()).kernel,
        "extras": {part: all(importlib.util.find_spec(module) for module in modules) for part, modules in PARTS.items()},
    }


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False) -> None:
    """Say what this installation can do: versions, threads, instruction set, kernels, extras."""
    found = examine()
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"regard {found['regard']} · torch {found['torch']} · Python {found['python']} · {found['machine']}")
    compiled = (
        found["instruction_set"] or "none: installed without a C++ compiler, so tiles run in plain torch (reinstall with one to speed up)"
    )
    console.print(f"threads {found['threads']} · devices {', '.join(found['devices'])} · compiled kernels {compiled}")
    table = Table("kernel", "", "causal attention, 8 heads, 1,024 tokens, 64 wide, float32", box=None, pad_edge=False)
    for name, kernel in found["kernels"].items():
        mark = "[green]✓[/]" if kernel["available"] else "[red]✗[/]"
        table.add_row(f"[bold]{name}[/]" if name == found["picked"] else name, mark, kernel["why"])
    console.print(table)
    missing = [part for part, there in found["extras"].items() if not there]
    there = [part for part, present in found["extras"].items() if present]
    console.print(f"extras  {', '.join(there) or 'none'}" + (f" · not installed: {', '.join(missing)}" if missing else ""))
