"""Random attention problems, a function of one integer: shapes, strides, masks, scores, choices, dtypes, scales, empty rows."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import regard


@dataclass
class Case:
    seed: int
    query: Tensor
    key: Tensor
    value: Tensor
    options: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        shapes = "×".join(str(tuple(x.shape)) for x in (self.query, self.key, self.value))
        options = {k: f"tensor{tuple(v.shape)}" if isinstance(v, Tensor) else v for k, v in self.options.items()}
        return f"Case({self.seed}: {shapes} {self.query.dtype} {options})"

    def tensors(self) -> list[Tensor]:
        """Everything a gradient may flow to."""
        results = [self.query, self.key, self.value]
        for part in self.options.values():
            if isinstance(part, nn.Module):
                results += [p for p in part.parameters() if p.requires_grad]
            elif isinstance(part, Tensor) and part.requires_grad:
                results.append(part)
        return results

    def double(self) -> Case:
        """The same problem in float64, exactly (every number carries over)."""
        import copy

        options = {}
        for name, part in self.options.items():
            if isinstance(part, nn.Module):
                options[name] = copy.deepcopy(part).double()
            elif isinstance(part, Tensor):
                options[name] = part.detach().double().requires_grad_(part.requires_grad)
            else:
                options[name] = part
        q, k, v = (x.detach().double().requires_grad_() for x in (self.query, self.key, self.value))
        return Case(self.seed, q, k, v, options)

    def run(self, kernel: str, **more: Any) -> regard.Attended:
        generator = torch.Generator().manual_seed(self.seed)
        if kernel == "fused":  # gives the output alone
            return regard.Attended(regard.attend(self.query, self.key, self.value, kernel=kernel, **self.options))
        return regard.observe(self.query, self.key, self.value, kernel=kernel, generator=generator, **self.options, **more)


def _tensor(r: random.Random, g: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, scale: float) -> Tensor:
    """Random numbers in a random memory layout."""
    layout = r.choice(["plain", "plain", "heads last", "padded", "reversed"])
    x = torch.randn(shape, generator=g, dtype=torch.float64) * scale
    x = x.to(dtype)
    if layout == "heads last" and len(shape) == 4:
        x = x.transpose(1, 2).contiguous().transpose(1, 2)
    elif layout == "padded":
        x = torch.cat([x, torch.full_like(x, 7.0)], -1)[..., : shape[-1]]
    elif layout == "reversed":
        x = x.mT.contiguous().mT
    return x.requires_grad_()


def random_mask(r: random.Random, g: torch.Generator, B: int, h: int, L: int, S: int, depth: int = 2) -> regard.Mask:
    if depth and r.random() < 0.5:
        a = random_mask(r, g, B, h, L, S, depth - 1)
        how = r.choice("&|~")
        if how == "~":
            return ~a
        b = random_mask(r, g, B, h, L, S, depth - 1)
        return a & b if how == "&" else a | b
    kind = r.choice(["causal", "start", "window", "padding", "keep", "documents", "prefix", "global", "dense", "blocks"])
    if kind == "causal":
        return regard.causal()
    if kind == "start":
        return regard.causal(align="start")
    if kind == "window":
        return regard.window(r.randint(0, S), r.choice([0, r.randint(0, S)]))
    if kind == "padding":
        return regard.padding(torch.randint(0, S + 1, (B,), generator=g), side=r.choice(["left", "right"]))
    if kind == "keep":
        return regard.padding(torch.rand(B, S, generator=g) < 0.7)
    if kind == "documents":
        ids = torch.randint(0, 3, (max(L, S),), generator=g)
        ids = ids if r.random() < 0.5 else ids.sort().values
        return regard.documents(ids[-L:] if L else ids[:0], ids[-S:] if S else ids[:0])
    if kind == "prefix":
        return regard.prefix(r.randint(0, S))
    if kind == "global":
        return regard.global_tokens([r.randrange(S)] if S else [])
    if kind == "blocks":
        block = r.choice([1, 3, 16])
        return regard.block_sparse(torch.rand(-(-L // block), -(-S // block), generator=g) < 0.6, block)
    shape = r.choice([(L, S), (B, 1, L, S), (B, h, L, S)])
    return regard.dense(torch.rand(shape, generator=g) < r.choice([0.1, 0.7]))


def make(seed: int, *, dtype: torch.dtype | None = None, small: bool = False, plain: bool = False) -> Case:
    """Problem number ``seed``. ``plain`` ones are what torch's SDPA can do: scaled dot, softmax, no mask or a causal one."""
    r = random.Random(seed)
    g = torch.Generator().manual_seed(seed)
    dtype = dtype or r.choice([torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16])
    top = 9 if small else r.choice([5, 40, 40, 150])
    B, k, group = r.randint(1, 3), r.randint(1, 3), r.choice([1, 1, 2, 3])
    h = k * group
    L, S = r.randint(0 if r.random() < 0.1 else 1, top), r.randint(0 if r.random() < 0.1 else 1, top)
    if r.random() < 0.4:
        S = L
    d = r.choice([1, 3, 8, 16, 33, 64])
    dv = d if r.random() < 0.6 else r.choice([1, 5, 16, 64])
    scale = r.choice([0.1, 1.0, 1.0, 1.0, 10.0])
    q, kk = _tensor(r, g, (B, h, L, d), dtype, scale), _tensor(r, g, (B, k, S, d), dtype, scale)
    v = _tensor(r, g, (B, k, S, dv), dtype, 1.0)
    options: dict[str, Any] = {}
    torch.manual_seed(seed)
    if plain:
        v = _tensor(r, g, (B, k, S, d), dtype, 1.0)
        options = {"score": regard.ScaledDot(r.choice([None, 0.3])), "choice": regard.Softmax(r.choice([1.0, 0.5]))}
        if (mask := r.choice([None, regard.causal(), regard.causal(align="start")])) is not None:
            options["mask"] = mask
        return Case(seed, q, kk, v, options)
    score = r.choice(["scaled", "scaled", "scaled", "dot", "capped", "additive", "bilinear", "factored", "gaussian", "gaussian each"])
    if small and scale > 1:
        score = "scaled"
    options["score"] = {
        "scaled": lambda: regard.ScaledDot(r.choice([None, 0.3])),
        "dot": lambda: regard.Dot(),
        "capped": lambda: regard.ScaledDot(cap=5.0),
        "additive": lambda: regard.Additive(d, d, hidden=r.choice([1, 7, 16])),
        "bilinear": lambda: regard.Bilinear(d, d),
        "factored": lambda: regard.Bilinear(d, d, rank=2),
        "gaussian": lambda: regard.Gaussian(r.choice([0.3, 1.0, 3.0]), learn=True),
        "gaussian each": lambda: regard.Gaussian(torch.rand(d, generator=g) + 0.1, learn=True),
    }[score]().to(dtype)
    choice = r.choice(["softmax"] * 6 + ["sinks", "temperature", "per head", "sparsemax", "entmax"])
    options["choice"] = {
        "softmax": lambda: regard.Softmax(r.choice([1.0, 1.0, 0.5])),
        "sinks": lambda: regard.Softmax(sinks=nn.Parameter(torch.randn(h, generator=g).to(dtype))),
        "temperature": lambda: regard.Softmax(temperature=nn.Parameter(torch.tensor(1.7, dtype=dtype))),
        "per head": lambda: regard.Softmax(temperature=nn.Parameter((torch.rand(h, generator=g) + 0.5).to(dtype))),
        "sparsemax": lambda: regard.Sparsemax(r.choice([1.0, 2.0])),
        "entmax": lambda: regard.Entmax15(),
    }[choice]()
    if r.random() < 0.7:
        options["mask"] = random_mask(r, g, B, h, L, S)
    bias = r.choice(["none"] * 5 + ["tensor", "row", "alibi", "relative"])
    if bias == "tensor":
        options["bias"] = torch.randn(1, h, L, S, generator=g).to(dtype).requires_grad_()
    elif bias == "row":
        options["bias"] = torch.randn(B, 1, 1, S, generator=g).to(dtype).requires_grad_()
    elif bias == "alibi":
        options["bias"] = regard.Alibi(h)
    elif bias == "relative":
        options["bias"] = regard.RelativeBias(h, buckets=8, max_distance=20)
        nn.init.normal_(options["bias"].table)
    if r.random() < 0.2:
        options["dropout"] = 0.3
    return Case(seed, q, kk, v, options)
