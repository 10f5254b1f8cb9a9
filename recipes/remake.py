"""Train a shipped model again from its data: run the commands on its card, then package it.

    python recipes/remake.py zh-en-transformer --data DATA
    python recipes/remake.py zh-en-transformer --data DATA --dry-run     # only print them

DATA is the folder of the corpora (recipes/pairs.py and recipes/stories.py list the files they need); data/ and runs/ are written next to
recipes/. An interrupted training is resumed by the same command. The packaged model is written to made/.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent


def commands(name: str, data: Path) -> list[list[str]]:
    """Return the card's commands with DATA filled in, and the packaging; `python` is the interpreter that runs this."""
    cards = tomllib.loads((HERE / "cards.toml").read_text(encoding="utf-8"))
    if name == "data" or name not in cards:
        sys.exit(f"there is no model {name!r} in cards.toml; it has {', '.join(key for key in cards if key != 'data')}")
    steps = [shlex.split(line) for line in cards[name]["command"]]
    steps.append(["python", "recipes/package.py", name, f"runs/{name}", "--out", "made"])
    executables = {"python": [sys.executable], "regard": [sys.executable, "-m", "regard"]}
    return [executables.get(words[0], words[:1]) + [word.replace("DATA", str(data)) for word in words[1:]] for words in steps]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--dry-run", action="store_true")
    arguments = parser.parse_args()
    for words in commands(arguments.name, arguments.data.resolve()):
        print("$", shlex.join(words), flush=True)
        if not arguments.dry_run:
            subprocess.run(words, cwd=HERE.parent, check=True)


if __name__ == "__main__":
    main()
