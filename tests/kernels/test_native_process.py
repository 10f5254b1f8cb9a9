"""What the compiled kernels are to the process around them: interruptible, safe to fork, honest about their instructions."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType

import pytest
import torch

from compiled_kernels import compiled
from regard.kernels.native.dot import DotArguments

ROOT = Path(__file__).parents[2]


def run(n: int, heads: int = 4) -> torch.Tensor:
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, heads, n, 16, generator=g) for _ in range(3))
    return DotArguments(q, k, v, None, None, None, None, None, 0.25, 0.0, 1.0).forward()[0]


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_a_signal_stops_a_kernel_of_many_minutes(threads: int) -> None:
    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            run(500_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert run(64).isfinite().all()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_fork(threads: int) -> None:
    """Neither torch's threads nor the pool's exist in a child: it must make its own, not wait for them."""
    want = run(300)
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.equal(run(300), want) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_many_callers_at_once(threads: int) -> None:
    want = run(400)
    found: list[bool] = []
    callers = [threading.Thread(target=lambda: found.extend(torch.equal(run(400), want) for _ in range(5))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == [True] * 20


@pytest.mark.skipif(
    not Path("/proc/self/task").exists() or not hasattr(ctypes.CDLL(None), "GOMP_parallel"), reason="torch brings no OpenMP threads here"
)
def test_torchs_threads_do_the_work() -> None:
    """Threads of our own beside torch's would share the cores with them: its threads spin between calls."""
    code = """
import os, torch
from regard.kernels.native.dot import DotArguments
torch.set_num_threads(3)
(torch.ones(1 << 22) + 1).sum()
before = len(os.listdir("/proc/self/task"))
q = torch.ones(1, 4, 300, 16)
DotArguments(q, q, q, None, None, None, None, None, 0.25, 0.0, 1.0).forward()
print(before, len(os.listdir("/proc/self/task")))
"""
    before, after = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert int(before) >= 3
    assert before == after


def test_the_environment_picks_the_set() -> None:
    code = "import regard._native as n; print(n.instruction_set())"
    for name in compiled.instruction_sets():
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "REGARD_ISA": name}, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == name


def objects(name: str) -> list[Path]:
    return sorted((ROOT / "build").glob(f"**/kernels_{name}.dir/**/*.o"))


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is missing: install binutils")
def test_no_set_uses_wider_instructions() -> None:
    """The baseline must run on any x86-64: no AVX at all; AVX2 has no zmm or mask register; code is shared with no other set."""
    if not objects("baseline"):
        pytest.skip("no object files under build/: this is not a build in the source tree; run `make setup`")
    forbidden = {"baseline": r"%[yz]mm|\tv[a-z]", "avx2": r"%zmm|%k[0-7]|%[xy]mm(1[6-9]|2\d|3[01])", "avx512": r"vdpbf16ps|vcvtne"}
    for name, pattern in forbidden.items():
        for path in objects(name):
            text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(path)], capture_output=True, text=True, check=True).stdout
            found = re.search(pattern, text)
            assert found is None, f"{path.name} of {name} holds {found.group()!r}"  # type: ignore[union-attr]
            symbols = subprocess.run(["nm", "-C", str(path)], capture_output=True, text=True, check=True).stdout
            shared = [line for line in symbols.splitlines() if re.search(r"^\S+ [Wu] ", line)]
            assert not shared, f"{path.name} of {name} could be merged with another set's code: {shared[0]}"


def test_subnormal_numbers_are_numbers_again_after_a_call(threads: int) -> None:
    """Within a kernel they count as zero; torch's operations on the same threads must not notice."""
    tiny = torch.full((1 << 20,), 1e-40)
    run(600)
    assert (tiny * 1.0 > 0).all()


def test_another_build_can_be_tested(tmp_path: Path) -> None:
    """`make test-clang` names a module that is not installed: the tests must not use the installed one in silence."""
    other = shutil.copy(str(compiled.__file__), tmp_path)
    code = "import conftest; from regard.kernels.native.extension import compiled; print(compiled.__file__)"
    path = os.pathsep.join([str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_XDIST_WORKER": "gw0", "REGARD_TEST_NATIVE": str(other)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(other)
