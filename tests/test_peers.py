"""A quick slice of other projects' own tests (peers/README.md), in a process of its own: its adapters replace functions of torch."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parent.parent / "peers" / "run.py"


@pytest.mark.skipif(importlib.util.find_spec("expecttest") is None, reason="torch's samples need expecttest: pip install -e .[peers]")
def test_torch_samples_of_attention() -> None:
    done = subprocess.run([sys.executable, str(RUN), "--quick", "--only", "samples"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "171 passed" in done.stdout
