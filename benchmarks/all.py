"""Every comparison in one run: what `make bench` prints. Each file can also be run alone.

python benchmarks/all.py [NAME ...]
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

from timing import RESULTS, Row, machine, markdown

NAMES = (
    "limits",
    "dense",
    "window",
    "documents",
    "short",
    "additive",
    "regression",
    "readings",
    "decode",
    "bfloat16",
    "startup",
    "biases",
    "choices",
    "half",
    "hugging_face",
    "training",
    "sentences",
)


def main() -> None:
    names = sys.argv[1:] or list(NAMES)
    if unknown := set(names) - set(NAMES):
        raise SystemExit(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    folder = Path(__file__).parent
    for name in names:  # a process each, so that memory and compiled graphs of one do not affect the next
        print(f"\n{(importlib.import_module(name).__doc__ or name).splitlines()[0]}", flush=True)
        if subprocess.run([sys.executable, str(folder / f"{name}.py")], check=False).returncode:
            print(f"{name} did not finish", flush=True)
    summary()


def summary() -> None:
    """All results found in docs/benchmarks as one table."""
    rows: list[Row] = []
    for name in NAMES:
        path = RESULTS / f"{name}.json"
        if path.exists():
            for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
                row.pop("ratio")
                rows.append(Row(**row))
    table = markdown(rows)
    legend = "Best of several alternating rounds. Above 1 is faster (or smaller); against a limit or a ceiling (≤) it is the share used."
    lines = ["# Comparison with other libraries", "", machine(), "", *table, "", legend, ""]
    if (missed := RESULTS / "missed.md").exists():  # written by hand: where the time of rows that miss their target goes
        lines.append(missed.read_text(encoding="utf-8"))
    (RESULTS / "README.md").write_text("\n".join(lines), encoding="utf-8")
    print("\n" + "\n".join(table))


if __name__ == "__main__":
    main()
