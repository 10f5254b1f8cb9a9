"""`regard doctor`: versions, threads, instruction set, and which kernels can run here and why."""

from __future__ import annotations

import importlib.util
import json
import platform
from typing import Annotated, Any

import typer

EXTRAS = {  # the extras of pyproject.toml and the modules each one installs
    "text": ("tokenizers",),
    "models": ("regard_models",),
    "train": ("accelerate", "sacrebleu"),
    "regression": ("sklearn",),
    "pictures": ("matplotlib",),
    "weights": ("gguf",),
    "tables": ("pandas",),
    "chinese": ("opencc",),
    "studio": ("fastapi", "uvicorn", "sklearn"),
}


def examine() -> dict[str, Any]:
    """Return everything `regard doctor` prints, as JSON-compatible data."""
    import torch

    import regard
    from regard.kernels import KERNELS
    from regard.kernels.native import instruction_set, missing_reason

    q = torch.randn(1, 8, 1024, 64)
    kernels = {}
    for name in KERNELS:
        try:
            plan = regard.explain(q, q, q, mask=regard.causal(), kernel=name)
            kernels[name] = {"available": True, "why": plan.reason, "bytes": plan.bytes}
        except ValueError as error:
            kernels[name] = {"available": False, "why": str(error)}
    from regard.zoo.catalog import shipped_folder

    extras = {extra: all(importlib.util.find_spec(module) for module in modules) for extra, modules in EXTRAS.items()}
    extras["models"] = shipped_folder() is not None  # a source tree has them without the package
    return {
        "regard": regard.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {platform.system()}",
        "threads": torch.get_num_threads(),
        "instruction_set": instruction_set(),
        "compiled_kernels_missing": missing_reason(),
        "devices": ["cpu", *(name for name in ("cuda", "mps") if getattr(torch, name).is_available())],
        "kernels": kernels,
        "picked": regard.explain(q, q, q, mask=regard.causal()).kernel,
        "extras": extras,
    }


def doctor(as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of a table")] = False) -> None:
    """Show what this installation can do: versions, threads, instruction set, kernels, extras."""
    report = examine()
    if as_json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"regard {report['regard']} · torch {report['torch']} · Python {report['python']} · {report['machine']}")
    console.print(f"threads {report['threads']} · devices {', '.join(report['devices'])}")
    missing = report["compiled_kernels_missing"]
    console.print(f"compiled kernels: {report['instruction_set'] if missing is None else f'[red]{escape(missing)}[/]'}")
    if missing is not None:
        console.print("  attention runs on plain torch, slower; with a C++ compiler installed, reinstall regard:")
        console.print("  pip install --force-reinstall --no-deps --no-cache-dir regard  (or the folder it was installed from)")
    table = Table("kernel", "", "causal attention, 8 heads, 1,024 tokens, 64 wide, float32", box=None, pad_edge=False)
    for name, kernel in report["kernels"].items():
        mark = "[green]✓[/]" if kernel["available"] else "[red]✗[/]"
        table.add_row(f"[bold]{name}[/]" if name == report["picked"] else name, mark, kernel["why"])
    console.print(table)
    installed = [extra for extra, present in report["extras"].items() if present]
    absent = [extra for extra, present in report["extras"].items() if not present]
    console.print(f"extras  {', '.join(installed) or 'none'}" + (f" · not installed: {', '.join(absent)}" if absent else ""))
