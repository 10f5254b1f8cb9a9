"""Make a shipped model again from its data: the commands on its card, one after the other, then its packing.

    python recipes/remake.py zh-en-transformer --data DATA
    python recipes/remake.py zh-en-transformer --data DATA --dry-run     # only print them

DATA is the folder that holds the corpora (see the commands' own files for what is looked for there); data/ and runs/ are written beside
recipes/. Each training resumes when interrupted, so the same command goes on. The packed model is written to made/.
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
    """The card's commands with DATA filled in, and the packing; `python` and `regard` are those that run this."""
    cards = tomllib.loads((HERE / "cards.toml").read_text(encoding="utf-8"))
    if name == "data" or name not in cards:
        sys.exit(f"there is no model {name!r} in cards.toml; it has {', '.join(key for key in cards if key != 'data')}")
    steps = [shlex.split(line) for line in cards[name]["command"]]
    steps.append(["python", "recipes/package.py", name, f"runs/{name}", "--out", "made"])
    own = {"python": [sys.executable], "regard": [sys.executable, "-m", "regard"]}
    return [own.get(words[0], words[:1]) + [word.replace("DATA", str(data)) for word in words[1:]] for words in steps]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args()
    for words in commands(given.name, given.data.resolve()):
        print("$", shlex.join(words), flush=True)
        if not given.dry_run:
            subprocess.run(words, cwd=HERE.parent, check=True)


if __name__ == "__main__":
    main()
