"""One rank of three: calls that do not fit together, ranks that are late, silent or gone. Prints what each scenario raised."""

import os
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from ranks import join, say

from regard import parallel
from regard.choices import Softmax
from regard.masks import causal, padding, window
from regard.scores import Gaussian

SHORT = 2.0  # seconds


def inputs(n: int = 4, d: int = 8, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [torch.randn(1, 2, n, d, dtype=dtype, requires_grad=True) for _ in range(3)]


def late(group: dist.ProcessGroup, rank: int, *, check: bool) -> None:
    if rank == 1:
        time.sleep(3 * SHORT)
    parallel.attend(*inputs(), group=group, timeout=SHORT, check=check)


def silent(group: dist.ProcessGroup, rank: int) -> None:
    """Everyone goes forward, one does not come back."""
    out = parallel.attend(*inputs(), group=group, timeout=SHORT)
    if rank == 1:
        time.sleep(3 * SHORT)
    else:
        out.sum().backward()


def gone(group: dist.ProcessGroup, rank: int) -> None:
    if rank == 1:
        os._exit(7)
    parallel.attend(*inputs(), group=group, timeout=60.0, check=False)


flags = torch.ones(1, 12, dtype=torch.bool)
other_flags = flags.clone()
other_flags[0, 3] = False
SCENARIOS: dict[str, Callable[[dist.ProcessGroup, int], object]] = {
    "width": lambda g, r: parallel.attend(*inputs(d=6 if r == 1 else 8), group=g),
    "length": lambda g, r: parallel.attend(*inputs(n=5 if r == 2 else 4), group=g),
    "dtype": lambda g, r: parallel.attend(*inputs(dtype=torch.float64 if r == 0 else torch.float32), group=g),
    "mask": lambda g, r: parallel.attend(*inputs(), mask=window(3, 0) if r == 1 else causal(), group=g),
    "mask tensor": lambda g, r: parallel.attend(*inputs(), mask=padding(other_flags if r == 1 else flags), group=g),
    "mask of one rank": lambda g, r: parallel.attend(*inputs(), mask=causal() if r else None, group=g),
    "score": lambda g, r: parallel.attend(*inputs(), score=Gaussian(1.0 + r), group=g),
    "sinks": lambda g, r: parallel.attend(*inputs(), choice=Softmax(sinks=torch.full((2,), float(r))), group=g),
    "layout": lambda g, r: parallel.attend(*inputs(), layout="straight" if r else "zigzag", group=g),
    "late": lambda g, r: late(g, r, check=True),
    "late, unchecked": lambda g, r: late(g, r, check=False),
    "silent": silent,
    "gone": gone,
}


def main() -> None:
    rank, ranks = join()
    groups = {name: dist.new_group(list(range(ranks))) for name in SCENARIOS}
    results = {}
    for name, scenario in SCENARIOS.items():
        dist.barrier()
        try:
            scenario(groups[name], rank)
            results[name] = "nothing"
        except Exception as error:
            results[name] = f"{type(error).__name__}: {error}"
    say(results)
    os._exit(0)  # some groups are broken on purpose: no farewells


if __name__ == "__main__":
    main()
