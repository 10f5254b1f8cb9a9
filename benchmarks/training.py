"""How many tokens a second does training read, beside the loop of a textbook?

The same small GPT (tiny Shakespeare's: 4 layers, 4 heads, 128 wide, batch 12) is trained by `regard`'s trainer and by a plain loop over
torch modules with SDPA, each as it is and under torch.compile (`compile = true` in a config); the faster of the two counts. The ceiling is
the faster of the two loops without any attention. Contexts of 64 (nanoGPT's setting for a CPU) and 256, 1 and 2 threads.

python benchmarks/training.py
"""

from __future__ import annotations

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
from timing import Row, Table, main

VOCABULARY, WIDTH, HEADS, LAYERS, BATCH, STEPS, ROUNDS = 65, 128, 4, 4, 12, 12, 6
TARGETS = {64: 1.03, 256: 1.15}


class TextbookBlock(nn.Module):
    """Attention and MLP as a course writes them."""

    def __init__(self, attention: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH, bias=False) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH, bias=False))
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        q, k, v = (part.view(B, T, HEADS, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(WIDTH, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True) if self.attention else q + k + v
        x = x + self.out(y.transpose(1, 2).reshape(B, T, WIDTH))
        return x + self.mlp(self.norm2(x))  # type: ignore[no-any-return]


class Textbook(nn.Module):
    def __init__(self, context: int, *, attention: bool = True) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(context, WIDTH)
        self.blocks = nn.ModuleList(TextbookBlock(attention) for _ in range(LAYERS))
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

    def __init__(self, model: nn.Module, context: int, steps: int) -> None:
        self.model, self.context, self.steps = model, context, steps

    def batches(self, epoch: int) -> list[Tensor]:
        torch.manual_seed(epoch)
        return [torch.randint(VOCABULARY, (BATCH, self.context + 1)) for _ in range(self.steps)]

    def loss(self, model: nn.Module, batch: Tensor) -> tuple[Tensor, int]:
        logits = model(batch[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten(), reduction="sum"), BATCH * self.context

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return {"loss": 0.0}

    def samples(self, model: nn.Module) -> str:
        return ""


def textbook(model: nn.Module, context: int) -> Callable[[], float]:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def round() -> float:
        batches = RandomText(model, context, STEPS).batches(0)
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


def ours(context: int, *, compiled: bool) -> Callable[[], float]:
    """A whole epoch of `Trainer`, its log included."""
    model = Gpt(GptConfig(vocabulary=VOCABULARY, d_model=WIDTH, heads=HEADS, layers=LAYERS, context=context, bias=False))
    settings = Training(steps=10**9, evaluate_every=10**9, checkpoint_every=10**9, compile=compiled)

    def round() -> float:
        marks: list[float] = []

        def watch(progress: object) -> None:
            marks.append(time.perf_counter())
            if len(marks) == STEPS + 1:
                trainer._stop = True

        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(RandomText(model, context, STEPS + 1), settings, Path(folder), watch=watch)
            trainer.run()
        return marks[-1] - marks[0]

    return round


def training() -> Table:
    table = Table("training", "How fast is a training step?")
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for context, target in TARGETS.items():
            torch.manual_seed(0)
            works = {
                "regard": ours(context, compiled=False),
                "regard, compiled": ours(context, compiled=True),
                "SDPA": textbook(Textbook(context), context),
                "SDPA, compiled": textbook(torch.compile(Textbook(context)), context),  # type: ignore[arg-type]
                "no attention": textbook(Textbook(context, attention=False), context),
                "no attention, compiled": textbook(torch.compile(Textbook(context, attention=False)), context),  # type: ignore[arg-type]
            }
            best = dict.fromkeys(works, float("inf"))
            for turn in range(ROUNDS + 1):
                for name, work in works.items():
                    seconds = work()
                    best[name] = min(best[name], seconds) if turn else float("inf")
            regard, peer, ceiling = (min(name, f"{name}, compiled", key=best.__getitem__) for name in ("regard", "SDPA", "no attention"))
            work_name = f"training step, context {context}, {threads} thread{'s' * (threads > 1)}"
            note = f"{regard.partition(', ')[2] or 'not compiled'}; without any attention {best[peer] / best[ceiling]:.2f}×"
            table.add(Row(work_name, f"{peer} (the faster)", best[regard] / STEPS, best[peer] / STEPS, target, note=note))
    torch.set_num_threads(before)
    return table


if __name__ == "__main__":
    main(training)
