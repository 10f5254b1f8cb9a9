"""How long does a command take that computes nothing?

The limit is half a second; `import torch` alone is timed beside it.
    python benchmarks/startup.py
"""

from __future__ import annotations

import subprocess
import sys

from timing import Row, Table, alternate

LIMIT = 0.5
COMMANDS = {
    "regard --help": ["--help"],
    "regard models": ["models"],
    "regard plan list": ["plan", "list"],
    "regard plan gpt3": ["plan", "gpt3"],
}


def run(*words: str) -> None:
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    table = Table("startup", "How long does a command take that computes nothing?")
    for name, words in COMMANDS.items():
        times = alternate(
            {name: lambda words=words: run("-m", "regard", *words), "import torch": lambda: run("-c", "import torch")}, rounds=5
        )
        table.add(Row(name, f"{LIMIT} s", times[name], LIMIT, 1.0, at_most=True))
        table.add(Row(name, "import torch alone", times[name], times["import torch"]))
    table.write()


if __name__ == "__main__":
    main()
