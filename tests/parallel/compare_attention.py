"""One rank of four: every case on groups of 2 and of 4, against one process that sees everything. Prints the largest errors as JSON."""

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from ranks import join, say

import regard
from regard import parallel
from regard.biases import Alibi, RelativeBias
from regard.choices import Softmax
from regard.masks import (
    Mask,
    block_sparse,
    causal,
    dense,
    documents,
    everything,
    from_spans,
    global_tokens,
    padding,
    per_head,
    prefix,
    window,
)
from regard.parallel import ring
from regard.parallel.layout import Layout
from regard.readings import At, Distance, Entropy, MaxLogit, Pooled, Received, Rows, Same, Sink, TopK, ValueNorm
from regard.scores import Additive, Bilinear, Dot, Gaussian, ScaledDot

B, H, N, D = 2, 4, 50, 8  # 50 positions on 4 ranks: pieces of 6 and 7


class Checkered(Mask):
    """A mask of a user's own: every third diagonal, and nothing for query 7."""

    def covers(self, r0, r1, c0, c1, L, S):
        return "none" if (r0, r1) == (7, 8) else None

    def fill(self, r0, r1, c0, c1, L, S, device):
        row, col = torch.arange(r0, r1, device=device)[:, None], torch.arange(c0, c1, device=device)
        return (((row + col) % 3 == 0) & (row != 7))[None, None]

    def key_ranges(self, L, S, device):
        return None


@dataclass
class Case:
    mask: Mask | None = None
    score: Callable[[], Any] = ScaledDot
    bias: Callable[[], Any] | None = None
    keys: int = N
    key_heads: int = H
    value_width: int = D
    sinks: bool = False
    temperature: bool = False
    layout: str = "zigzag"
    readings: tuple[Callable[[], Any], ...] = ()
    dtypes: tuple[torch.dtype, ...] = (torch.float64, torch.float32)
    scale: float = 1.0
    key_width: int = D
    short: int = 512  # positions below which a piece is not cut


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


flags = torch.rand(B, N, generator=_generator(1)) > 0.3
flags[1] = False  # a sequence that shows no key at all
numbers = torch.randint(0, 5, (B, N), generator=_generator(2))
pattern = torch.rand(B, H, N, N, generator=_generator(3)) > 0.6
layout = torch.rand(H, 7, 7, generator=_generator(4)) > 0.5
starts = torch.randint(0, N - 8, (1, 1, N, 2), generator=_generator(5)).sort(-1).values
spans = torch.stack((starts, starts + torch.tensor([2, 6])), -1)
ids = torch.arange(N) % 7

MASKS = {
    "none": None,
    "everything": everything(),
    "nothing": ~everything(),
    "causal": causal(),
    "causal from the start": causal(align="start"),
    "not causal": ~causal(),
    "window": window(5, 3),
    "causal window": causal() & window(4, 0),
    "one sided": window(None, 2),
    "prefix": causal() | prefix(9),
    "prefix each": causal() | prefix([3, 31]),
    "padding": padding([50, 17]),
    "padding to nothing": padding([0, 3]) & causal(),
    "padding left": padding([50, 17], side="left") & causal(),
    "flags": padding(flags),
    "longformer": window(3, 3) | global_tokens([0, 20, 49]),
    "global tokens each": window(2, 2) | global_tokens([[5, -1], [1, 44]]),
    "documents": documents([0] * 20 + [1] * 11 + [2] * 19) & causal(),
    "documents in pieces": documents(numbers),
    "documents of two": documents(numbers, numbers.flip(1)),
    "dense": dense(pattern),
    "block sparse": block_sparse(layout, 8),
    "spans": from_spans(spans),
    "per head": per_head([causal(), window(3, 3), everything(), padding([20, 30])]),
    "a user's own": Checkered(),
}
CASES: dict[str, Case] = {f"mask: {name}": Case(mask) for name, mask in MASKS.items()}
for name in ("none", "causal", "window", "causal window", "padding", "longformer", "documents", "per head"):
    CASES[f"straight: {name}"] = Case(MASKS[name], layout="straight")
for name in ("causal", "causal from the start", "window", "not causal", "padding to nothing"):
    mask = padding([0, 3]) & causal() if name.startswith("padding") else MASKS[name]
    CASES[f"more keys: {name}"] = Case(mask, keys=75)
    CASES[f"fewer keys: {name}"] = Case(mask, keys=31)
SCORES = {
    "dot": Dot,
    "scaled": lambda: ScaledDot(0.3),
    "capped": lambda: ScaledDot(cap=2.0),
    "bilinear": lambda: Bilinear(D, D),
    "factored": lambda: Bilinear(D, 5, rank=3),
    "gaussian": lambda: Gaussian(0.5, learn=True),
    "gaussian each": lambda: Gaussian(torch.linspace(0.2, 1.0, D), learn=True),
    "additive": lambda: Additive(D, D, hidden=6),
}
for name, score in SCORES.items():
    CASES[f"score: {name}"] = Case(causal(), score=score, key_width=5 if name == "factored" else D)
CASES |= {
    "bias: alibi": Case(causal(), bias=lambda: Alibi(H)),
    "bias: relative": Case(window(20, 9), bias=lambda: RelativeBias(H, buckets=8, max_distance=20)),
    "bias: of keys": Case(causal(), bias=lambda: torch.nn.Parameter(torch.randn(1, H, 1, N, generator=_generator(6)))),
    "bias: of rows": Case(causal(), bias=lambda: torch.nn.Parameter(torch.randn(1, 1, N, N, generator=_generator(7)))),
    "bias and additive": Case(None, score=SCORES["additive"], bias=lambda: RelativeBias(H, buckets=8, max_distance=20)),
    "grouped heads": Case(causal(), key_heads=2),
    "one key head": Case(window(9, 9), key_heads=1, score=SCORES["gaussian"]),
    "wide values": Case(causal(), value_width=13),
    "sinks": Case(causal() & padding([50, 3]), sinks=True),
    "sinks on nothing": Case(~everything(), sinks=True),
    "temperature": Case(causal(), temperature=True, sinks=True),
    "large scores": Case(causal(), scale=6.0, dtypes=(torch.float64,)),
}
for name in ("causal", "longformer", "documents"):
    CASES[f"cut: {name}"] = Case(MASKS[name], short=3)
READINGS = {
    "entropy": Entropy,
    "received": Received,
    "top": lambda: TopK(3),
    "distance": Distance,
    "at": lambda: At(torch.arange(N).flip(0)),
    "same": lambda: Same(ids),
    "pooled": lambda: Pooled(5, 7),
    "rows": lambda: Rows([0, 11, -1]),
    "max_logit": MaxLogit,
    "sink": lambda: Sink(3),
    "value_norm": ValueNorm,
}
for name in ("none", "causal", "window", "flags"):
    CASES[f"readings: {name}"] = Case(MASKS[name], readings=tuple(READINGS.values()))
CASES["readings: cut"] = Case(causal(), readings=tuple(READINGS.values()), short=3)
CASES["readings: gaussian"] = Case(causal(), score=SCORES["gaussian"], readings=tuple(READINGS.values()), key_heads=2)


def _error(mine: torch.Tensor, whole: torch.Tensor) -> float:
    """The largest difference, over one plus the largest number there is; infinities must agree."""
    if mine.shape != whole.shape:
        raise AssertionError(f"shapes differ: {tuple(mine.shape)} and {tuple(whole.shape)}")
    if not mine.numel():
        return 0.0
    if not mine.is_floating_point():
        return float((mine != whole).sum())
    largest = whole.abs().masked_fill(whole.isinf(), 0).max()
    return float(torch.where(mine == whole, 0.0, (mine - whole).abs()).max() / (1 + largest))


def _tensors(reading: Any) -> list[torch.Tensor]:
    return [reading] if isinstance(reading, torch.Tensor) else [x for x in reading if isinstance(x, torch.Tensor)]


class Problem:
    """The inputs of a case, and what one process makes of them."""

    def __init__(self, case: Case, dtype: torch.dtype) -> None:
        self.case = case
        chance = _generator(11)
        torch.manual_seed(12)
        shapes = ((B, H, N, D), (B, case.key_heads, case.keys, case.key_width), (B, case.key_heads, case.keys, case.value_width))
        self.inputs = [(torch.randn(shape, generator=chance) * case.scale).to(dtype).requires_grad_() for shape in shapes]
        self.upstream = [torch.randn(shape, generator=chance).to(dtype) for shape in ((B, H, N, case.value_width), (B, H, N))]
        score, bias = case.score().to(dtype), None if case.bias is None else case.bias()
        if isinstance(bias, torch.nn.Module):
            bias = bias.to(dtype)
            for parameter in bias.parameters():
                torch.nn.init.normal_(parameter, generator=chance)
        elif bias is not None:
            bias = bias.detach().to(dtype).requires_grad_()
        sinks = torch.randn(H, generator=chance).to(dtype).requires_grad_() if case.sinks else None
        temperature = (torch.rand(H, generator=chance) + 0.5).to(dtype).requires_grad_() if case.temperature else 1.0
        self.shared = {f"score {name}": p for name, p in score.named_parameters()}
        self.shared |= {f"bias {name}": p for name, p in bias.named_parameters()} if isinstance(bias, torch.nn.Module) else {}
        self.shared |= {name: x for name, x in (("sinks", sinks), ("temperature", temperature)) if isinstance(x, torch.Tensor)}
        self.bias = bias
        self.how = {"score": score, "mask": case.mask, "choice": Softmax(temperature, sinks)}
        self.seen = regard.observe(*self.inputs, bias=bias, readings=[r() for r in case.readings], **self.how)
        self.grads = self.differentiate(self.seen, self.inputs, bias, self.upstream)

    def differentiate(self, seen: regard.Attended, inputs: list, bias: Any, upstream: list) -> dict[str, torch.Tensor]:
        """Gradients by name of a sum over output and lse (where there is one)."""
        lse = seen.lse.masked_fill(seen.lse == -torch.inf, 0)
        named = {**dict(zip(("query", "key", "value"), inputs, strict=True)), **self.shared}
        named |= {"bias": bias} if isinstance(bias, torch.Tensor) else {}
        result = torch.autograd.grad((seen.output * upstream[0]).sum() + (lse * upstream[1]).sum(), list(named.values()))
        return dict(zip(named, result, strict=True))

    def compare(self, group: Any) -> dict[str, float]:
        """The largest errors of this rank."""
        case, rank, ranks = self.case, dist.get_rank(group), dist.get_world_size(group)
        rows, cols = Layout(N, ranks, case.layout), Layout(case.keys, ranks, case.layout)
        mine = [
            layout.part(x.detach(), 2, rank).clone().requires_grad_() for x, layout in zip(self.inputs, (rows, cols, cols), strict=True)
        ]
        bias, by_row = self.bias, isinstance(self.bias, torch.Tensor) and self.bias.shape[2] != 1
        if isinstance(bias, torch.Tensor):
            bias = (rows.part(bias.detach(), 2, rank) if by_row else bias.detach()).clone().requires_grad_()
        ring.MIN_PIECE = case.short
        got = parallel.observe(*mine, bias=bias, readings=[r() for r in case.readings], group=group, layout=case.layout, **self.how)
        errors = {name: _error(getattr(got, name), rows.part(getattr(self.seen, name), 2, rank)) for name in ("output", "lse")}
        grads = self.differentiate(got, mine, bias, [rows.part(x, 2, rank) for x in self.upstream])
        for name, expected in self.grads.items():
            grad = grads[name]
            if name in ("query", "key", "value") or (name == "bias" and by_row):
                expected = (cols if name in ("key", "value") else rows).part(expected, 2, rank)
            else:  # every rank holds it and has a share of its gradient
                grad = grad.clone()
                dist.all_reduce(grad, group=group)
            errors[f"d {name}"] = _error(grad, expected)
        for name, reading in self.seen.readings.items():
            pairs = zip(_tensors(got.readings[name]), _tensors(reading), strict=True)
            errors[f"reading {name}"] = max(_error(one, other) for one, other in pairs)
        return errors


def title(name: str, dtype: torch.dtype, size: int) -> str:
    return f"{name} / {size} ranks / {str(dtype).removeprefix('torch.')}"


def sweep_of(case: Case, dtype: torch.dtype, size: int) -> str:
    """Each case in both precisions and on both numbers of ranks; one of each in the quick sweep, the other two in the slow one."""
    return "quick" if (dtype, size) in ((torch.float64, 4), (torch.float32, 2)) else "slow"


def main() -> None:
    rank, _ = join()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    groups = {2: pairs[rank // 2], 4: dist.group.WORLD}
    results: dict[str, Any] = {}
    for name, case in CASES.items():
        for dtype in case.dtypes:
            problem = None
            for size, group in groups.items():
                if sys.argv[1] == sweep_of(case, dtype, size):
                    problem = problem or Problem(case, dtype)
                    try:
                        results[title(name, dtype, size)] = problem.compare(group)
                    except Exception:
                        results[title(name, dtype, size)] = traceback.format_exc()
    say(results)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
