"""The tests of a source package, taken with the mirror and the keys of this machine's own apt configuration.

Nothing of the machine's apt is changed: lists and archives go into a folder of their own.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

RELEASE = "trixie"  # the Debian release whose pytorch (2.6) still collects on the torch that is installed here


def unpack_tests(package: str, folder: Path) -> Path:
    """Download the package's source into folder and unpack its test/ directory; raises a LookupError that says why it cannot."""
    if shutil.which("apt-get") is None:
        raise LookupError("there is no apt here to take a source package from")
    listed = _run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian", "Component: main")
    if not listed:
        raise LookupError("apt is configured without a Debian archive, or `apt-get update` was never run")
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (folder / "sources.list").write_text(f"deb-src {listed.splitlines()[0]} {RELEASE} main\n", encoding="utf-8")
    settings = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder,
        "APT::Sandbox::User": "root",
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    _run("apt-get", "-qq", *options, "update")
    _run("apt-get", "-qq", *options, "source", "--download-only", package, cwd=folder)
    archive = next(folder.glob(f"{package}_*.orig.tar.*"), None)
    if archive is None:
        raise LookupError(f"apt gave no source of {package}")
    with tarfile.open(archive) as source:
        tests = [member for member in source if member.name.split("/")[1:2] == ["test"]]
        source.extractall(folder, tests, filter="data")
    return next(folder.glob("*/test"))


def _run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise LookupError(f"{command[0]} says: {' '.join(done.stderr.split())[-300:]}")
    return done.stdout.strip()


__all__ = ["unpack_tests"]
