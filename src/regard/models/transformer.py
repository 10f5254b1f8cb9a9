"""The Transformer that translates: an encoder reads the source, a decoder writes the target looking back at it.

Axes: B batch, S source tokens, T target tokens, D model width, V target vocabulary.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.choices import Softmax
from regard.layers.cache import Cache
from regard.layers.dropout import dropout
from regard.layers.multihead import Projected
from regard.masks import Mask, padding
from regard.models.block import Block, BlockConfig, Watcher, causal_mask, normalise, position_table
from regard.models.translator import Step
from regard.readings import Rows

__all__ = ["Transformer", "TransformerConfig", "TransformerMemory", "TransformerState"]

_COLD = 1e-4  # the temperature of hard attention: its weights are one-hot to the last digit shown


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BlockConfig):
    """An encoder–decoder's shape: the block's options, how many of each, over which vocabularies.

    shared: source and target words have one embedding (the vocabularies must be the same). tied: the target embedding also reads words out.
    align_layer: the decoder layer whose cross-attention is returned as the alignment, counted as in a list (−2: the last but one).
    """

    source_vocabulary: int
    target_vocabulary: int
    encoder_layers: int = 3
    decoder_layers: int = 3
    context: int = 512
    shared: bool = False
    tied: bool = True
    align_layer: int = -2
    activation: Literal["gelu", "gelu_tanh", "relu", "swiglu"] = "relu"
    positions: Literal["learned", "sinusoidal", "rotary", "none"] = "sinusoidal"
    dropout: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared and self.source_vocabulary != self.target_vocabulary:
            sizes = f"{self.source_vocabulary} and {self.target_vocabulary}"
            raise ValueError(
                f"shared=True needs one vocabulary for both sides, but they have {sizes} words; make one of both or use shared=False"
            )


@dataclass(frozen=True, eq=False)
class TransformerMemory:
    """A source as the encoder read it: hidden (B, S, D) and lengths (B,)."""

    hidden: Tensor
    lengths: Tensor


@dataclass(frozen=True, eq=False)
class TransformerState:
    """Where the decoder stands: keys and values of the words written (`cache`) and of the source, a pair a layer.

    `source` has one row a sentence; `rows` (B,) says whose each row of the beam is, and `cross` and `mask` are laid out by it.
    """

    cache: Cache
    source: tuple[Projected, ...]
    lengths: Tensor
    rows: Tensor
    cross: tuple[Projected, ...]
    mask: Mask

    def select(self, index: Tensor) -> "TransformerState":
        """Rows `index` (N,): repeated, dropped or reordered. Reordering the beam of one sentence copies nothing of the source."""
        rows, cache = self.rows[index], self.cache.select(index)
        if torch.equal(rows, self.rows):
            return replace(self, cache=cache)
        cross = tuple(each.select(rows) for each in self.source)
        return TransformerState(cache, self.source, self.lengths, rows, cross, padding(self.lengths[rows]))


class Transformer(nn.Module):
    """Encoder and decoder of the same blocks; the decoder's also look at the encoder's output.

    Shapes: source (B, S) int64, lengths (B,), target (B, T) beginning with <s>, to logits (B, T, V).

    >>> model = Transformer(TransformerConfig(source_vocabulary=20, target_vocabulary=30, d_model=16, heads=2)).eval()
    >>> source, lengths = torch.tensor([[4, 5, 6], [7, 8, 0]]), torch.tensor([3, 2])
    >>> model(source, lengths, torch.tensor([[1, 4], [1, 5]])).shape
    torch.Size([2, 2, 30])
    >>> step = model.step(model.start(model.encode(source, lengths)), torch.tensor([1, 1]))
    >>> step.logits.shape, step.alignment.shape
    (torch.Size([2, 30]), torch.Size([2, 3]))

    Vaswani et al. 2017.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.source_tokens = nn.Embedding(config.source_vocabulary, config.d_model)
        self.target_tokens = self.source_tokens if config.shared else nn.Embedding(config.target_vocabulary, config.d_model)
        self.source_positions = position_table(config, config.context)
        self.target_positions = position_table(config, config.context)
        self.encoder = nn.ModuleList(Block(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(Block(config, cross=True) for _ in range(config.decoder_layers))
        final = config.placement == "pre"
        self.encoder_norm = normalise(config) if final else nn.Identity()
        self.decoder_norm = normalise(config) if final else nn.Identity()
        self.head = None if config.tied else nn.Linear(config.d_model, config.target_vocabulary, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform maps and zero biases; embeddings of spread 1/√D, which √D brings back to 1 at the entrance."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)

    @classmethod
    def from_folder(cls, path: str | Path, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> "Transformer":
        """Read a folder of `save_folder`."""
        from regard.models.loading import load_transformer

        return load_transformer(path, dtype=dtype, device=device)

    def save_folder(self, path: str | Path) -> None:
        """Write config.json and model.safetensors, whole or not at all."""
        from regard.models.loading import save_folder

        save_folder(self, path)

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor, *, keep: Tensor | None = None) -> Tensor:
        """Teacher forcing: logits (B, T, V) after every prefix of the target at once; with `keep` (B, T), those it marks: (N, V)."""
        hidden = self.hidden(source, lengths, target)
        return self.unembed(hidden if keep is None else hidden[keep])

    def hidden(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """The vectors (B, T, D) the logits are read from."""
        memory = self.encode(source, lengths)
        x = self._embed(target, self.target_tokens, self.target_positions, 0)
        mask, memory_mask = causal_mask(target.shape[1], self.config.window, cached=False), padding(lengths)
        for block in self.decoder:
            x = block(x, mask=mask, memory=memory.hidden, memory_mask=memory_mask)
        return self.decoder_norm(x)  # type: ignore[no-any-return]

    def unembed(self, hidden: Tensor) -> Tensor:
        """Logits (…, V) of hidden vectors (…, D)."""
        return F.linear(hidden, self.target_tokens.weight if self.head is None else self.head.weight)

    def loss(
        self, source: Tensor, lengths: Tensor, target: Tensor, wanted: Tensor, *, ignore: int = -100, smoothing: float = 0.0
    ) -> Tensor:
        """Mean cross-entropy of the words `wanted` (B, T); words marked `ignore` (padding) are not even read out."""
        keep = wanted != ignore
        return F.cross_entropy(self(source, lengths, target, keep=keep), wanted[keep], label_smoothing=smoothing)

    def encode(self, source: Tensor, lengths: Tensor) -> TransformerMemory:
        """Read source (B, S), of which `lengths` (B,) tokens are real."""
        x, mask = self._embed(source, self.source_tokens, self.source_positions, 0), padding(lengths)
        for block in self.encoder:
            x = block(x, mask=mask)
        return TransformerMemory(self.encoder_norm(x), lengths)

    def start(self, memory: TransformerMemory) -> TransformerState:
        """The state before the first word; the source's keys and values are computed here, once."""
        config = self.config
        source = tuple(block.cross.project(memory.hidden) for block in self.decoder)  # type: ignore[union-attr, operator]
        cache = Cache(config.decoder_layers, window=config.window)
        rows = torch.arange(len(memory.lengths), device=memory.lengths.device)
        return TransformerState(cache, source, memory.lengths, rows, source, padding(memory.lengths))

    def step(self, state: TransformerState, token: Tensor) -> Step:
        """Read the word `token` (B,), predict the next. The state given stays as it was; the one returned has read the word."""
        cache = state.cache.fork()
        x = self._embed(token[:, None], self.target_tokens, self.target_positions, cache.length)
        watcher = Watcher([Rows([0])])
        look = range(len(self.decoder))[max(self.config.align_layer, -len(self.decoder))]
        for layer, block in enumerate(self.decoder):
            x = block(
                x,
                cache=cache[layer],
                memory=state.cross[layer],
                memory_mask=state.mask,
                cross_watcher=watcher if layer == look else None,
            )
        logits = self.unembed(self.decoder_norm(x)[:, 0])
        alignment = watcher.seen[0].readings["rows"][:, :, 0].mean(1)  # over heads: (B, S)
        return Step(logits, replace(state, cache=cache), alignment)

    @contextmanager
    def hard_attention(self) -> Iterator[None]:
        """Within this, each head of the decoder reads only the source position with the largest weight, as a softmax grown very cold."""
        layers = [block.cross for block in self.decoder if isinstance(block, Block) and block.cross is not None]
        before = [layer.choice for layer in layers]
        try:
            for layer in layers:
                layer.choice = Softmax(temperature=_COLD)
            yield
        finally:
            for layer, choice in zip(layers, before, strict=True):
                layer.choice = choice

    def _embed(self, ids: Tensor, tokens: nn.Embedding, positions: nn.Module | None, start: int) -> Tensor:
        x = tokens(ids) * self.config.d_model**0.5
        if positions is not None:
            x = positions(x, start)
        return dropout(x, self.config.dropout, self.training)
