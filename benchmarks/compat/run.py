"""Which attention does `regard.watch` catch? Every family of transformers and models of other libraries, tiny, with random weights.

    python benchmarks/compat/run.py [--folder build/compat] [--library transformers …] [--only bert gpt2] [--chunk 40] [--again]

Models are checked in processes of `--chunk` models; each leaves a JSON file in the folder, and a run goes on where the last one stopped.
`make compat` makes an environment with the libraries, runs this, and writes docs/compatibility.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
LIBRARIES = [
    "transformers",
    "timm",
    "torchvision",
    "diffusers",
    "x_transformers",
    "vit_pytorch",
    "sentence_transformers",
    "written by hand",
]
SECONDS = 3600  # per process, which a model that hangs would stop


def names_of(library: str) -> list[str]:
    """Return the models of a library that are checked."""
    if library == "transformers":
        import families

        return families.names()
    import libraries

    return libraries.names(library)


def todo(folder: Path, library: str, again: bool, only: list[str]) -> list[str]:
    names = [name for name in names_of(library) if not only or name in only]
    return [name for name in names if again or not (folder / library / f"{name.replace('/', '-')}.json").exists()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/compat"))
    parser.add_argument("--library", nargs="*", default=LIBRARIES)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--chunk", type=int, default=40)
    parser.add_argument("--again", action="store_true", help="check models that have a result already")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no further process after this time")
    args = parser.parse_args()
    began = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "COMPAT_RUN": began}
    start = time.monotonic()
    for library in args.library:
        if library != "written by hand" and importlib.util.find_spec(library) is None:
            print(f"{library} is not installed here: skipped; `make compat` makes an environment that has it")
            continue
        names = todo(args.folder, library, args.again, args.only)
        while names and time.monotonic() - start < args.seconds:
            part = names[: args.chunk]
            command = [sys.executable, "-W", "ignore", str(HERE / "worker.py"), str(args.folder), library, *part]
            try:
                subprocess.run(command, env=environment, timeout=SECONDS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            except subprocess.TimeoutExpired:
                print(f"{library}: a process took over {SECONDS} s", flush=True)
            names = names[args.chunk :] if args.again else [n for n in todo(args.folder, library, False, args.only) if n in names]
            print(f"{library}: {len(names)} to do", flush=True)
    results = [json.loads(path.read_text()) for path in sorted(args.folder.glob("*/*.json"))]
    print(f"{len(results)} results in {args.folder}")


if __name__ == "__main__":
    main()
