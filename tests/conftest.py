"""One thread a test process (tests that need more ask for them), the folder of shared test material on the path, and the build to test."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

_BFLOAT16_PRODUCT = "import torch; torch.nn.Linear(512, 512, dtype=torch.bfloat16)(torch.ones(300, 512, dtype=torch.bfloat16))"


def _avoid_amx_that_crashes() -> None:
    """Keep torch from AMX instructions where the processor lists them but a virtual machine does not run them (illegal instruction)."""
    cpuinfo = Path("/proc/cpuinfo")
    if "ONEDNN_MAX_CPU_ISA" in os.environ or not cpuinfo.is_file() or "amx_tile" not in cpuinfo.read_text(encoding="utf-8"):
        return
    if subprocess.run([sys.executable, "-c", _BFLOAT16_PRODUCT], capture_output=True, check=False).returncode < 0:
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_FP16"


def _use_other_build(path: str) -> None:
    """Let `regard._native` be the extension module at this path instead of the installed one (`make test-clang`)."""
    spec = importlib.util.spec_from_file_location("regard._native", path)
    assert spec is not None, path
    assert spec.loader is not None, path
    sys.modules["regard._native"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["regard._native"])


if "PYTEST_XDIST_WORKER" not in os.environ:  # workers inherit the environment
    _avoid_amx_that_crashes()
if "REGARD_TEST_NATIVE" in os.environ:
    _use_other_build(os.environ["REGARD_TEST_NATIVE"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests an hour; the others have the `timeout` of pyproject.toml."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(3600))
