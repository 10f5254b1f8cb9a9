"""Memory a step frees stays with the process."""

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys, torch
from regard.training.loop.allocation import keep_memory
if sys.argv[1] == "keep" and not keep_memory():
    sys.exit(3)
def step():
    return float(torch.zeros(12_000_000).sum())
for _ in range(10):  # glibc's aligned allocation does not always fit into the block just freed, so the heap grows for some steps
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(30):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_no_page_is_asked_for_twice() -> None:
    def faults(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode == 3:
            pytest.skip("not glibc")
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    assert faults("keep") < faults("give back") / 4
