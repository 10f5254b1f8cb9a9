"""How many tokens a second does training read, beside the loop of a textbook?

The same small GPT (tiny Shakespeare's: 4 layers, 4 heads, 128 wide, context 64, batch 12) is trained by `regard`'s trainer, in float32 and
in bfloat16, and by a plain loop over torch modules, once with the dense form of attention and once with SDPA. Rounds alternate, the best of
each counts.
    python benchmarks/training.py [--threads 1] [--steps 20] [--rounds 5]
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models import Gpt, GptConfig
from regard.training.loop.settings import Training
from regard.training.loop.trainer import Trainer

VOCABULARY, WIDTH, HEADS, LAYERS, CONTEXT, BATCH = 65, 128, 4, 4, 64, 12


class TextbookBlock(nn.Module):
    """Attention and MLP as a course writes them."""

    def __init__(self, dense: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH, bias=False) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH, bias=False))
        self.dense = dense

    def forward(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        q, k, v = (part.view(B, T, HEADS, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(WIDTH, dim=2))
        if self.dense:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).tril().logical_not(), -torch.inf)
            y = scores.softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, WIDTH))
        return x + self.mlp(self.norm2(x))  # type: ignore[no-any-return]


class Textbook(nn.Module):
    def __init__(self, dense: bool) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(TextbookBlock(dense) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


class RandomText:
    """A task of one text's windows; what is read does not matter, only how fast."""

    def __init__(self, model: nn.Module, steps: int) -> None:
        self.model, self.steps = model, steps

    def batches(self, epoch: int) -> list[Tensor]:
        torch.manual_seed(epoch)
        return [torch.randint(VOCABULARY, (BATCH, CONTEXT + 1)) for _ in range(self.steps)]

    def loss(self, model: nn.Module, batch: Tensor) -> tuple[Tensor, int]:
        logits = model(batch[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten(), reduction="sum"), BATCH * CONTEXT

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return {"loss": 0.0}

    def samples(self, model: nn.Module) -> str:
        return ""


def textbook(dense: bool, steps: int) -> Callable[[], float]:
    model = Textbook(dense)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def round() -> float:
        batches = RandomText(model, steps).batches(0)
        start = time.perf_counter()
        for batch in batches:
            loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            loss.item()
        return time.perf_counter() - start

    return round


def ours(precision: str, steps: int) -> Callable[[], float]:
    """A whole epoch of `Trainer`, its log included."""
    model = Gpt(GptConfig(vocabulary=VOCABULARY, d_model=WIDTH, heads=HEADS, layers=LAYERS, context=CONTEXT, bias=False))
    settings = Training(steps=10**9, evaluate_every=10**9, checkpoint_every=10**9, precision=precision)  # type: ignore[arg-type]

    def round() -> float:
        marks: list[float] = []

        def watch(progress: object) -> None:
            marks.append(time.perf_counter())
            if len(marks) == steps + 1:
                trainer._stop = True

        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(RandomText(model, steps + 1), settings, Path(folder), watch=watch)
            trainer.run()
        return marks[-1] - marks[0]

    return round


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    works = {
        "textbook loop, dense": textbook(True, given.steps),
        "textbook loop, SDPA": textbook(False, given.steps),
        "regard, float32": ours("float32", given.steps),
        "regard, bfloat16": ours("bfloat16", given.steps),
    }
    best = dict.fromkeys(works, math.inf)
    for _ in range(given.rounds):
        for name, work in works.items():
            best[name] = min(best[name], work())
    fastest = min(best["textbook loop, dense"], best["textbook loop, SDPA"])
    print(f"{given.threads} thread(s), {BATCH} × {CONTEXT} tokens a step, best of {given.rounds}")
    for name, seconds in best.items():
        print(f"{name:22} {BATCH * CONTEXT * given.steps / seconds:10,.0f} tokens/s   {fastest / seconds:.2f} × the faster textbook loop")


if __name__ == "__main__":
    main()
