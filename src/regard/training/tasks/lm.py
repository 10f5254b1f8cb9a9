"""Language modelling: a decoder trained to predict the next token of plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...text.batches import order_of
from ...text.pairs import read_lines
from ...text.vocabulary import EOS, Kind, Vocabulary
from ..loop.sharding import Sharding
from ..metrics import perplexity
from ..opened import TextGenerator
from ..tables import TEXT_VOCABULARY, TextConfig, TransformerTable, VocabularyTable, load_text_run
from . import Evaluation, Task


@dataclass(frozen=True)
class Data:
    """The `[data]` table. Without `valid`, the last share `held_out` of the training text is held out."""

    train: str
    valid: str | None = None
    held_out: float = 0.1
    batch: int = 16

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1:
            raise ValueError(f"held_out is {self.held_out}; expected a share between 0 and 1")

    def files(self) -> list[str]:
        return [self.train, *([self.valid] if self.valid else [])]


@dataclass(frozen=True)
class Words(VocabularyTable):
    """The `[vocabulary]` table. "char" keeps the text unchanged; the other kinds encode it line by line, each line ended by </s>."""

    kind: Kind = "char"


@dataclass(frozen=True)
class GptModel(TransformerTable):
    """The `[model]` table: the options of `regard.models.GptConfig`."""

    context: int = 64
    activation: Literal["gelu", "gelu_tanh", "relu", "swiglu"] = "gelu"
    kv_heads: int | None = None
    bias: bool = True
    window: int | None = None
    tied: bool = True

    def build(self, vocabulary: int) -> nn.Module:
        from ...models.gpt import Gpt, GptConfig

        return Gpt(GptConfig(vocabulary=vocabulary, **vars(self)))


@dataclass(frozen=True)
class Regularisation:
    """The `[regularisation]` table. A token's loss is reduced by `entropy` times the mean entropy of the attention weights, in nats."""

    entropy: float = 0.0


@dataclass(frozen=True)
class LanguageConfig(TextConfig):
    """A language-model config."""

    data: Data
    model: GptModel
    vocabulary: Words = Words()
    regularisation: Regularisation = Regularisation()


class Excerpts(Sequence[Tensor]):
    """Batches (B, context + 1) of random excerpts of the ids; those of batch i depend only on (seed, epoch, i)."""

    def __init__(self, ids: Tensor, *, batch: int, context: int, seed: int, epoch: int) -> None:
        self.ids, self.batch, self.context, self.key = ids, batch, context, (seed, epoch)

    def __len__(self) -> int:
        return -(-len(self.ids) // (self.batch * self.context))

    def __getitem__(self, i: Any) -> Any:
        starts = order_of(*self.key, i).integers(0, len(self.ids) - self.context, size=self.batch)
        return self.ids[torch.from_numpy(starts)[:, None] + torch.arange(self.context + 1)]


class TrainableLanguageModel:
    """Trains a `Gpt` on excerpts of a text and measures it on all of the held-out text."""

    def __init__(self, config: LanguageConfig, model: nn.Module, vocabulary: Vocabulary, train: Tensor, valid: Tensor) -> None:
        context = config.model.context
        for name, ids in (("training", train), ("held-out", valid)):
            if len(ids) <= context + 1:
                raise ValueError(f"the {name} text has {len(ids)} tokens; model.context = {context} needs at least {context + 2}")
        self.config, self.model, self.vocabulary, self.train, self.valid = config, model, vocabulary, train, valid

    @classmethod
    def build(cls, config: LanguageConfig, root: Path, folder: Path) -> TrainableLanguageModel:
        """Read the text, train the vocabulary on its training part (or load that of the run), build the model."""
        lines = read_lines(root / config.data.train)
        if config.data.valid:
            held_out = read_lines(root / config.data.valid)
        elif config.vocabulary.kind == "char":  # split at a character, as nanoGPT does
            text = "\n".join(lines)
            split = int(len(text) * (1 - config.data.held_out))
            lines, held_out = text[:split].split("\n"), text[split:].split("\n")
        else:
            split = int(len(lines) * (1 - config.data.held_out))
            lines, held_out = lines[:split], lines[split:]
        vocabulary_lines = (line + "\n" for line in lines) if config.vocabulary.kind == "char" else lines
        vocabulary = config.vocabulary.load_or_learn(folder / TEXT_VOCABULARY, vocabulary_lines)
        torch.manual_seed(config.training.seed)
        model = config.model.build(len(vocabulary))
        return cls(config, model, vocabulary, encode_lines(vocabulary, lines), encode_lines(vocabulary, held_out))

    def batches(self, epoch: int) -> Excerpts:
        return Excerpts(
            self.train, batch=self.config.data.batch, context=self.config.model.context, seed=self.config.training.seed, epoch=epoch
        )

    def loss(self, model: nn.Module, batch: Tensor) -> tuple[Tensor, int]:
        return next_token_loss(
            model, batch, smoothing=self.config.training.smoothing, entropy=self.config.regularisation.entropy if model.training else 0.0
        )

    def sharded_loss(self, model: nn.Module, batch: Tensor, sharding: Sharding) -> tuple[Tensor, int]:
        if self.config.regularisation.entropy:
            raise ValueError("regularisation.entropy is computed in one process; remove it, or train without sharding")
        return next_token_loss(model, batch, smoothing=self.config.training.smoothing, sharding=sharding)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Compute loss and perplexity on the whole held-out text."""
        loss = held_out_loss(model, self.valid, self.config.model.context)
        return {"loss": loss, "perplexity": perplexity(loss)}

    def samples(self, model: nn.Module) -> str:
        """Return a short continuation of the beginning of the held-out text."""
        prompt = self.valid[:8].tolist()
        opened = LanguageModel(model, self.vocabulary)
        return opened.text("", prompt, opened.extend(prompt, max_new=120, temperature=0.8, seed=0))


def encode_lines(vocabulary: Vocabulary, lines: Sequence[str]) -> Tensor:
    """Return a text's ids (N,): characters with their line breaks, or each line's tokens and </s>."""
    if vocabulary.kind == "char":
        rows = vocabulary.encode_all([line + "\n" for line in lines[:-1]] + list(lines[-1:]))
    else:
        rows = [[*ids, EOS] for ids in vocabulary.encode_all(lines)]
    return torch.tensor([id for row in rows for id in row], dtype=torch.int64)


def next_token_loss(
    model: nn.Module, batch: Tensor, *, smoothing: float = 0.0, sharding: Sharding | None = None, entropy: float = 0.0
) -> tuple[Tensor, int]:
    """Compute the summed loss of batch (B, L + 1), every token predicted from those before it, and the number of predicted tokens.

    entropy: the loss of each token is reduced by this times the mean entropy of the attention weights over layers, heads and rows.
    """
    batch = batch.to(next(model.parameters()).device, non_blocking=True)
    ids, targets = batch[:, :-1], batch[:, 1:]
    reward: Tensor | float = 0.0
    if entropy:
        logits, reward = _with_entropy(model, ids)
    else:
        logits = model(ids) if sharding is None else sharding.run(model, ids)
    targets = (targets if sharding is None else sharding.part(targets)).flatten()
    loss = F.cross_entropy(logits.flatten(0, 1).float(), targets, reduction="sum", label_smoothing=smoothing)
    return loss - entropy * len(targets) * reward, len(targets)


def _with_entropy(model: nn.Module, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Logits, and the mean entropy of all attention weights, differentiable."""
    from ...models.gpt import Gpt
    from ...readings import Entropy

    if not isinstance(model, Gpt):
        raise ValueError(
            f"regularisation.entropy needs the model itself, and training has wrapped it in {type(model).__name__}; use one process"
        )
    logits, attended = model.observe(ids, readings=[Entropy(grad=True)])
    return logits, torch.stack([layer.readings["entropy"].mean() for layer in attended]).mean()


@torch.no_grad()
def held_out_loss(model: nn.Module, ids: Tensor, context: int) -> float:
    """Compute the mean loss over all of `ids` (N,), split into consecutive segments of `context` tokens."""
    total, count = 0.0, 0
    count_full = (len(ids) - 1) // context
    grid = ids[torch.arange(count_full)[:, None] * context + torch.arange(context + 1)]  # (full segments, context + 1)
    for batch in (*torch.split(grid, max(4096 // context, 1)), ids[count_full * context :][None]):
        if len(batch) and batch.shape[1] > 1:
            loss, n = next_token_loss(model, batch)
            total, count = total + float(loss), count + n
    return total / max(count, 1)


class LanguageModel(TextGenerator):
    """A trained language model with its vocabulary; continues a prompt.

    model: a `Gpt`.
    vocabulary: its tokens.

    >>> import regard
    >>> regard.open("shakespeare").generate("ROMEO:", max_new=20, temperature=0).startswith("ROMEO:")
    True
    """

    def __init__(self, model: Any, vocabulary: Vocabulary) -> None:
        super().__init__(model)
        self.vocabulary = vocabulary
        self.stops = frozenset() if vocabulary.kind == "char" else frozenset({EOS})

    @classmethod
    def open(cls, folder: str | Path, *, device: str = "cpu") -> LanguageModel:
        """Load the best model of a finished or running training.

        folder: of the run.
        device: where the weights are loaded.
        """
        _, vocabulary, model = load_text_run(folder, "lm", LanguageConfig)
        return cls(model.to(device), vocabulary)

    def encode(self, text: str) -> list[int]:
        return self.vocabulary.encode(text)

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        return [self.vocabulary.piece(id) for id in ids]

    def text(self, prompt: str, ids: list[int], new: list[int]) -> str:
        return self.vocabulary.decode([*ids, *new])

    def extend(self, ids: Sequence[int], *, max_new: int, seed: int | None = None, **options: Any) -> list[int]:
        """Return the ids generated after `ids`; if `ids` is empty, those at the beginning of a text.

        Other arguments as in `generate`: max_new, seed and the options of sampling.
        """
        return super().extend(ids or [EOS], max_new=max_new, seed=seed, **options)


def evaluate(request: Evaluation) -> dict[str, Any]:
    """Compute loss and perplexity a token on the text of the test files, and bits a character, which compare across vocabularies."""
    opened = LanguageModel.open(request.run, device=request.device)
    lines = [line for file in request.test for line in read_lines(file)]
    ids, characters = encode_lines(opened.vocabulary, lines), sum(len(line) + 1 for line in lines)  # a line end counts as one
    if len(ids) < 2:
        raise ValueError(f"{', '.join(map(str, request.test))}: {len(ids)} tokens; at least 2 are needed, to predict one from the other")
    loss = held_out_loss(opened.model, ids, opened.model.config.context)
    bits = loss * (len(ids) - 1) / math.log(2) / max(characters - 1, 1)
    return {"tokens": len(ids), "loss": loss, "perplexity": perplexity(loss), "bits_per_character": bits}


TASK = Task(
    name="lm",
    config=LanguageConfig,
    build=TrainableLanguageModel.build,
    open=LanguageModel.open,
    evaluate=evaluate,
    data="plain text",
    sharded_loss=TrainableLanguageModel.sharded_loss,
)
