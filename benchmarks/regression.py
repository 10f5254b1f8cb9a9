"""How fast is exact Nadaraya–Watson regression with many points?

python benchmarks/regression.py
"""

from __future__ import annotations

import time

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

import regard
from timing import Row, Table, alternate, main

Array = np.ndarray


def chunked(X: Array, y: Array, Z: Array, w: float, size: int = 250) -> Array:
    """scikit-learn's rbf_kernel, a block of queries at a time (all at once would take gigabytes)."""
    from sklearn.metrics.pairwise import rbf_kernel

    blocks = []
    for i in range(0, len(Z), size):
        K = rbf_kernel(Z[i : i + size], X, gamma=0.5 * w * w)
        blocks.append(K @ y / K.sum(1))
    return np.concatenate(blocks)


def lowered(X: torch.Tensor, y: torch.Tensor, Z: torch.Tensor, w: float) -> torch.Tensor:
    """SDPA on the expanded square: w²q·k − ½w²‖k‖² as one dot product, values as wide as keys so that it stays linear in memory."""
    q = torch.cat([Z * w, torch.ones(len(Z), 1)], -1)
    k = torch.cat([X * w, -0.5 * w * w * X.square().sum(-1, keepdim=True)], -1)
    v = torch.nn.functional.pad(y.unsqueeze(-1), (0, q.shape[-1] - 1))
    return sdpa(q[None, None], k[None, None], v[None, None], scale=1.0)[0, 0, :, 0]


def keops(X: torch.Tensor, y: torch.Tensor, Z: torch.Tensor, w: float):  # type: ignore[no-untyped-def]
    from pykeops.torch import LazyTensor

    x, z = LazyTensor(X[None, :, :].contiguous()), LazyTensor(Z[:, None, :].contiguous())
    targets = LazyTensor(y.view(1, -1, 1))
    scores = -0.5 * w * w * ((z - x) ** 2).sum(-1)
    return lambda: scores.sumsoftmaxweight(targets, axis=1)[:, 0]


def rest() -> None:
    """Wait until scikit-learn's threads, which spin after their work, have gone to sleep."""
    time.sleep(0.2)


def regression(N: int = 100_000, M: int = 10_000, d: int = 8, w: float = 2.0) -> Table:
    table = Table("regression", "How fast is exact Nadaraya–Watson regression with many points?")
    torch.manual_seed(0)
    X, Z = torch.rand(N, d) * 4, torch.rand(M, d) * 4
    y = X.sin().sum(-1) + 0.1 * torch.randn(N)
    score = regard.Gaussian(w)

    def ours(M: int = M) -> torch.Tensor:
        return regard.attend(Z[:M], X, y.unsqueeze(-1), score=score)[:, 0]

    work = f"Nadaraya–Watson, {N:,} points, {M:,} queries, d={d}"
    plan = regard.explain(Z, X, y.unsqueeze(-1), score=score)
    table.notes.append(f"ours: kernel {plan.kernel}, {plan.reason}")
    with torch.no_grad():
        truth = chunked(X.double().numpy(), y.double().numpy(), Z[:200].double().numpy(), w)
        for name, result in (("ours", ours(200)), ("SDPA, lowered", lowered(X, y, Z[:200], w))):
            table.notes.append(f"largest error of {name} against float64 on 200 queries: {np.abs(result.numpy() - truth).max():.2g}")
        times = alternate({"ours": ours, "SDPA, lowered": lambda: lowered(X, y, Z, w)}, rounds=4)
        table.compare(work, times, {"SDPA, lowered": 3})
        best = times["ours"]
        a, b, c = (x.double().numpy() for x in (X, y, Z))
        peer = "scikit-learn rbf_kernel, chunks"
        times = alternate({"ours": ours, peer: lambda: chunked(a, b, c, w)}, rounds=5, seconds=25, between=rest)
        table.compare(work, times, {peer: 15})
        try:
            theirs = keops(X, y, Z, w)
            off = float((theirs() - ours()).abs().max())
            assert off < 1e-3, f"the two disagree by {off}"
            table.compare(work, alternate({"ours": ours, "KeOps": theirs}, rounds=3, seconds=20), {"KeOps": 15})
        except Exception as error:  # it compiles at run time, which needs more than a wheel
            table.add(Row(work, "KeOps", best, None, 15, note=f"failed here: {type(error).__name__}: {str(error)[:160]}"))
        statsmodels(table, X, y, Z, w)
    return table


def statsmodels(table: Table, X: torch.Tensor, y: torch.Tensor, Z: torch.Tensor, w: float) -> None:
    """Compare with KernelReg on a small problem: it loops in Python."""
    points, queries = 5_000, 100
    work = f"Nadaraya–Watson, {points:,} points, {queries} queries, d={X.shape[1]}"
    x, t, z = X[:points], y[:points], Z[:queries]
    try:
        from statsmodels.nonparametric.kernel_regression import KernelReg

        model = KernelReg(t.double().numpy(), x.double().numpy(), "c" * X.shape[1], reg_type="lc", bw=np.full(X.shape[1], 1 / w))
        ours = regard.Gaussian(w)
        table.compare(
            work,
            alternate(
                {
                    "ours": lambda: regard.attend(z, x, t.unsqueeze(-1), score=ours),
                    "statsmodels KernelReg lc": lambda: model.fit(z.double().numpy())[0],
                },
                rounds=2,
            ),
        )
    except ImportError as error:
        table.add(Row(work, "statsmodels KernelReg lc", 0.0, None, note=f"not installed: {error}"))


if __name__ == "__main__":
    main(regression)
