"""One rank of four: models, regression and the small print of a ring against one process. Prints errors and facts as JSON."""

import traceback

import numpy as np
import torch
import torch.distributed as dist
from ranks import join, say

import regard
from regard import parallel
from regard.masks import causal, window
from regard.models import Bert, BertConfig, Gpt, GptConfig
from regard.models.kernel_regression import NadarayaWatson
from regard.parallel.attention import make_ring
from regard.parallel.regression import ShardedNadarayaWatson
from regard.parallel.sequence import sharded
from regard.readings import Entropy, Received


def part(x: torch.Tensor, dim: int = 2, **how: object) -> torch.Tensor:
    return parallel.shard(x, dim, **how)


def round_trip() -> dict:
    """Every position lands on one rank and comes back to its place, whatever the layout and however uneven."""
    results = {}
    for layout in ("zigzag", "straight"):
        for n in (1, 3, 8, 13, 64):
            x = torch.arange(2 * n * 3).view(2, n, 3)
            results[f"{layout} {n}"] = bool(torch.equal(parallel.unshard(part(x, 1, layout=layout), 1, layout=layout), x))
    return results


def fewer_positions_than_ranks() -> dict:
    q = torch.randn(1, 2, 3, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole, mine = regard.attend(q, q, q, mask=causal()), part(q)
    return {"error": float((parallel.unshard(parallel.attend(mine, mine, mine, mask=causal())) - whole).abs().max())}


def half_precision() -> dict:
    q, k, v = (torch.randn(1, 2, 40, 16, generator=torch.Generator().manual_seed(s)) for s in range(3))
    whole = regard.attend(q.double(), k.double(), v.double(), mask=causal())
    mine = [part(x).bfloat16().requires_grad_() for x in (q, k, v)]
    out = parallel.attend(*mine, mask=causal())
    out.float().sum().backward()
    ok = out.dtype == torch.bfloat16 and all(x.grad.isfinite().all() for x in mine)
    return {"error": float((part(whole) - out.double()).abs().max()), "kept": bool(ok)}


def dropout() -> dict:
    """The output is linear in the values, so ⟨dO, O⟩ = ⟨v, dv⟩ only if backward drops what forward dropped."""
    chance = torch.Generator().manual_seed(5)
    q, k, v, up = (torch.randn(2, 3, 32, 8, generator=chance, dtype=torch.float64) for _ in range(4))
    mine = [part(x).requires_grad_() for x in (q, k, v)]
    outs = [parallel.attend(*mine, mask=causal(), dropout=0.4, generator=torch.Generator().manual_seed(7)) for _ in range(2)]
    plain = parallel.attend(*mine, mask=causal())
    (outs[0] * part(up)).sum().backward()
    sides = torch.stack([(outs[0] * part(up)).sum().detach(), (mine[2] * mine[2].grad).sum().detach()])
    dist.all_reduce(sides)
    return {
        "same": bool(torch.equal(outs[0], outs[1])),
        "drops": bool((outs[0] != plain).any()),
        "gap": float((sides[0] - sides[1]).abs()),
    }


def what_is_sent() -> dict:
    """How many blocks leave this rank, by mask and layout."""
    q = torch.randn(1, 1, 16, 4)
    results = {}
    for name, mask, layout in (
        ("none", None, "zigzag"),
        ("causal zigzag", causal(), "zigzag"),
        ("causal straight", causal(), "straight"),
        ("window straight", causal() & window(3, 0), "straight"),
        ("own only", window(0, 0), "zigzag"),
    ):
        ring = make_ring(q, q, q, mask=mask, layout=layout, timeout=60.0)
        ring.forward()
        results[name] = ring.exchange.sent_bytes / (2 * q.nbytes)
    return results


def _model(model: torch.nn.Module, run: object, ids: torch.Tensor) -> dict:
    """Outputs and gradients of a sharded model against the whole one."""
    whole = run(model, ids)
    whole.square().sum().backward()
    wanted = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    with sharded(model, ids.shape[1]):
        mine = run(model, part(ids, 1))
    mine.square().sum().backward()
    worst = 0.0
    for name, p in model.named_parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            worst = max(worst, float((p.grad - wanted[name]).abs().max() / (1 + wanted[name].abs().max())))
    return {"error": float((mine - part(whole, 1)).abs().max()), "gradient": worst, "restored": type(model).__name__ in ("Gpt", "Bert")}


def gpts() -> dict:
    results = {}
    ids = torch.randint(0, 50, (2, 21), generator=torch.Generator().manual_seed(1))
    for positions in ("learned", "sinusoidal", "rotary", "none"):
        torch.manual_seed(2)
        config = GptConfig(vocabulary=50, d_model=32, heads=4, kv_heads=2, layers=2, context=21, positions=positions, window=6)
        results[positions] = _model(Gpt(config).double(), lambda model, x: model(x), ids)
    model = Gpt(config).double()
    _, whole = model.observe(ids, readings=[Entropy(), Received()])
    with sharded(model, 21):
        _, seen = model.observe(part(ids, 1), readings=[Entropy(), Received()])
    results["readings"] = {
        "error": max(float((a.readings[n] - b.readings[n]).abs().max()) for a, b in zip(whole, seen, strict=True) for n in a.readings)
    }
    before = model(ids)
    names = sorted({type(module).__name__ for module in model.modules()})
    results["whole again"] = {"error": float((model(ids) - before).abs().max()), "names": names}
    return results


def berts() -> dict:
    ids = torch.randint(0, 50, (3, 19), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([19, 4, 11])
    results = {}
    for positions in ("learned", "rotary"):
        torch.manual_seed(2)
        config = BertConfig(vocabulary=50, d_model=32, heads=4, layers=2, context=19, positions=positions, types=0, dropout=0.0)
        results[positions] = _model(Bert(config).double(), lambda model, x: model.unmask(model(x, lengths)), ids)
    return results


def regression() -> dict:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chance = np.random.default_rng(0)
    results = {}
    for dtype in (np.float64, np.float32):
        X = chance.uniform(-3, 3, (4001, 2)).astype(dtype)
        y = np.stack([np.sin(X[:, 0]), X[:, 1] ** 2], 1).astype(dtype) + chance.normal(0, 0.1, (4001, 2)).astype(dtype)
        weight = chance.uniform(0, 2, 4001).astype(dtype)
        asked = chance.uniform(-4, 9, (300, 2)).astype(dtype)  # also far from every point
        for name, w, sample_weight in (("plain", 5.0, None), ("weighted", [3.0, 8.0], weight), ("flat", 0.0, None)):
            one = NadarayaWatson(width=w).fit(X, y, sample_weight).predict(asked)
            mine = slice(rank, None, ranks) if name != "weighted" else slice(rank * 1000, (rank + 1) * 1000 + (rank == 3))
            model = ShardedNadarayaWatson(width=w).fit(X[mine], y[mine], None if sample_weight is None else sample_weight[mine])
            many = model.predict(asked)
            results[f"{name} {np.dtype(dtype).name}"] = {"error": float(np.abs(one - many).max()), "points": model.points_}
    try:
        ShardedNadarayaWatson().fit(np.zeros((3, 2 if rank else 1)), np.zeros(3))
    except parallel.RingError as error:
        results["misfit"] = str(error)
    return results


def main() -> None:
    join()
    torch.set_default_dtype(torch.float32)
    results = {}
    for job in (round_trip, fewer_positions_than_ranks, half_precision, dropout, what_is_sent, gpts, berts, regression):
        try:
            results[job.__name__] = job()
        except Exception:
            results[job.__name__] = traceback.format_exc()
    say(results)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
