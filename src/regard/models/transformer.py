"""The Transformer for translation: an encoder of the source and a decoder with cross-attention to it.

Axes: B batch, S source tokens, T target tokens, D model width, V target vocabulary.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.choices import Argmax
from regard.layers.cache import Cache
from regard.layers.dropout import dropout
from regard.layers.multihead import Projected
from regard.masks import Mask, padding
from regard.models.block import Block, BlockConfig, Recorder, causal_mask, norm_layer, position_table
from regard.models.copying import Copying, attention_weights
from regard.models.decoder_step import PlainBlock
from regard.models.translator import Step
from regard.readings import Rows
from regard.scores import Dot, ScaledDot

__all__ = ["Transformer", "TransformerConfig", "TransformerMemory", "TransformerState"]


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BlockConfig):
    """Options of an encoder–decoder, added to those of its blocks.

    source_vocabulary, target_vocabulary: number of tokens of each.
    encoder_layers, decoder_layers: number of blocks of each.
    context: the longest text, in tokens, where positions are learned.
    shared: whether source and target words have one embedding (the vocabularies must be the same).
    tied: whether the output projection shares the weights of the target embedding.
    causal: False leaves the decoder without a mask, so that in training it sees the words it has to predict (shows what the mask is for).
    scaled: False leaves out the division of the scores by √d, so that softmax saturates early and learns little (shows what √d is for).
    copy: whether source words may be copied by a pointer, an attention head on the encoder's output (needs `shared`).
    align_layer: the decoder layer whose cross-attention is returned as the alignment, as a list index (−2: the last but one).
    others: as in :class:`BlockConfig`.

    Raises ValueError for options that contradict one another.

    >>> TransformerConfig(source_vocabulary=20, target_vocabulary=30).decoder_layers
    3
    """

    source_vocabulary: int
    target_vocabulary: int
    encoder_layers: int = 3
    decoder_layers: int = 3
    context: int = 512
    shared: bool = False
    tied: bool = True
    causal: bool = True
    scaled: bool = True
    copy: bool = False
    align_layer: int = -2
    activation: Literal["gelu", "gelu_tanh", "relu", "swiglu"] = "relu"
    positions: Literal["learned", "sinusoidal", "rotary", "none"] = "sinusoidal"
    dropout: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared and self.source_vocabulary != self.target_vocabulary:
            sizes = f"{self.source_vocabulary} and {self.target_vocabulary}"
            raise ValueError(
                f"shared=True needs one vocabulary of source and target, but they have {sizes} words; build a joint one or use shared=False"
            )
        if self.copy and not self.shared:
            raise ValueError("copy=True copies words of the source into the target and needs one vocabulary of both; use shared=True")


@dataclass(frozen=True, eq=False)
class TransformerMemory:
    """An encoded source: hidden (B, S, D), lengths (B,) and ids (B, S)."""

    hidden: Tensor
    lengths: Tensor
    ids: Tensor

    def select(self, index: Tensor) -> "TransformerMemory":
        """Return rows `index` of every tensor."""
        return TransformerMemory(self.hidden[index], self.lengths[index], self.ids[index])


@dataclass(frozen=True, eq=False)
class TransformerState:
    """The state of the decoder: keys and values of the words decoded so far (`cache`) and of the source, one pair per layer.

    `source` has one row per sentence; `rows` (B,) is the sentence of each hypothesis, and `cross` and `mask` have one row per hypothesis.
    `memory` is the encoded source, one row per sentence, which a pointer copies from. `plain` are the blocks that may run without their
    modules.
    """

    cache: Cache
    source: tuple[Projected, ...]
    memory: TransformerMemory
    rows: Tensor
    cross: tuple[Projected, ...]
    mask: Mask | None  # None: no source is padded
    plain: tuple[PlainBlock | None, ...]

    def select(self, index: Tensor) -> "TransformerState":
        """Return rows `index` (N,), repeated, dropped or reordered. Reordering hypotheses of the same sentence does not copy the source."""
        rows, cache = self.rows[index], self.cache.select(index)
        if torch.equal(rows, self.rows):
            return replace(self, cache=cache)
        cross = tuple(projected.select(rows) for projected in self.source)
        mask = _padding(self.memory.lengths[rows], cross[0].key.shape[2])
        return replace(self, cache=cache, rows=rows, cross=cross, mask=mask)


class Pointer(nn.Module):
    """One attention head from the decoder's last hidden vectors to the encoder's, whose weights say which source word to copy."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.copying = Copying(width)

    def forward(
        self, hidden: Tensor, unembed: Callable[[Tensor], Tensor], memory: TransformerMemory, *, keep: Tensor | None = None
    ) -> Tensor:
        """Compute log-probabilities (B, T, V) of hidden (B, T, D), or (N, V) of the N positions where `keep` (B, T) is True."""
        weights = attention_weights(self.query(hidden), self.key(memory.hidden), score=ScaledDot(), mask=padding(memory.lengths))
        if keep is None:
            return self.copying(unembed(hidden), hidden, weights, memory.ids)  # type: ignore[no-any-return]
        hidden, weights, source = hidden[keep][:, None], weights[keep][:, None], memory.ids[keep.nonzero()[:, 0]]
        return self.copying(unembed(hidden), hidden, weights, source)[:, 0]  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Encoder and decoder built from the same block; those of the decoder also attend to the encoder's output.

    Shapes: source (B, S) int64, lengths (B,), target (B, T) beginning with <s>, to logits (B, T, V).

    config: its sizes and options, a :class:`TransformerConfig`.

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
        if not config.scaled:
            for layer in (part for block in (*self.encoder, *self.decoder) for part in (block.attention, block.cross) if part is not None):
                layer.score = Dot()
        final = config.placement == "pre"
        self.encoder_norm = norm_layer(config) if final else nn.Identity()
        self.decoder_norm = norm_layer(config) if final else nn.Identity()
        self.head = None if config.tied else nn.Linear(config.d_model, config.target_vocabulary, bias=False)
        self.pointer = Pointer(config.d_model) if config.copy else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise linear layers Xavier-uniform with zero biases, embeddings with std 1/√D (`_embed` multiplies them by √D)."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)

    @classmethod
    def from_folder(cls, path: str | Path, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> "Transformer":
        """Load a folder written by `save_folder`.

        path: the folder.
        dtype: of the weights.
        device: where they are loaded.
        """
        from regard.models.model_folder import load_transformer

        return load_transformer(path, dtype=dtype, device=device)

    def save_folder(self, path: str | Path) -> None:
        """Write config.json and model.safetensors; a write that fails leaves the old files."""
        from regard.models.model_folder import save_folder

        save_folder(self, path)

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor, *, keep: Tensor | None = None) -> Tensor:
        """Compute logits with teacher forcing: (B, T, V), or (N, V) for the N positions where `keep` (B, T) is True.

        source: (B, S); lengths: (B,), of the sources; target: (B, T), beginning with <s>.
        """
        memory = self.encode(source, lengths)
        hidden = self._decode(memory, target)
        if self.pointer is not None:
            return self.pointer(hidden, self.unembed, memory, keep=keep)  # type: ignore[no-any-return]
        return self.unembed(hidden if keep is None else hidden[keep])

    def hidden(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Compute the last hidden vectors (B, T, D), those the logits are computed from.

        source: (B, S); lengths: (B,), of the sources; target: (B, T), beginning with <s>.
        """
        return self._decode(self.encode(source, lengths), target)

    def _decode(self, memory: TransformerMemory, target: Tensor) -> Tensor:
        x = self._embed(target, self.target_tokens, self.target_positions, 0)
        mask = causal_mask(target.shape[1], self.config.window, cached=False) if self.config.causal else None
        memory_mask = padding(memory.lengths)
        for block in self.decoder:
            x = block(x, mask=mask, memory=memory.hidden, memory_mask=memory_mask)
        return self.decoder_norm(x)  # type: ignore[no-any-return]

    def unembed(self, hidden: Tensor) -> Tensor:
        """Compute logits (…, V) of hidden vectors (…, D)."""
        return F.linear(hidden, self.target_tokens.weight if self.head is None else self.head.weight)

    def loss(
        self, source: Tensor, lengths: Tensor, target: Tensor, labels: Tensor, *, ignore: int = -100, smoothing: float = 0.0
    ) -> Tensor:
        """Return the mean cross-entropy of the words `labels` (B, T); no logits are computed where a word is `ignore` (padding).

        source: (B, S); lengths: (B,), of the sources; target: (B, T), beginning with <s>.
        smoothing: label smoothing, the share of probability spread over all words.
        """
        keep = labels != ignore
        return F.cross_entropy(self(source, lengths, target, keep=keep), labels[keep], label_smoothing=smoothing)

    def encode(self, source: Tensor, lengths: Tensor) -> TransformerMemory:
        """Encode source (B, S); `lengths` (B,) is the number of tokens of each row before the padding."""
        x, mask = self._embed(source, self.source_tokens, self.source_positions, 0), padding(lengths)
        for block in self.encoder:
            x = block(x, mask=mask)
        return TransformerMemory(self.encoder_norm(x), lengths, source)

    def start(self, memory: TransformerMemory) -> TransformerState:
        """Return the state before the first word; the source's keys and values are computed here, once."""
        config = self.config
        source = tuple(block.cross.project(memory.hidden) for block in self.decoder)  # type: ignore[union-attr, operator]
        cache = Cache(config.decoder_layers, window=config.window)
        rows = torch.arange(len(memory.lengths), device=memory.lengths.device)
        mask, plain = _padding(memory.lengths, memory.hidden.shape[1]), tuple(PlainBlock.of(block) for block in self.decoder)
        return TransformerState(cache, source, memory, rows, source, mask, plain)

    def step(self, state: TransformerState, token: Tensor, *, align: bool = True) -> Step:
        """Append the word `token` (B,) and predict the next one. `state` is not modified; the new state is returned in the `Step`.

        align: whether the alignment is needed.
        """
        cache = state.cache.fork()
        x = self._embed(token[:, None], self.target_tokens, self.target_positions, cache.length)
        recorder = Recorder([Rows([0])])
        align_layer = range(len(self.decoder))[max(self.config.align_layer, -len(self.decoder))] if align else None
        for layer, (block, plain) in enumerate(zip(self.decoder, state.plain, strict=True)):
            if plain is not None and layer != align_layer and plain.ready():
                x = plain.step(x, cache[layer], state.cross[layer], state.mask)
                continue
            x = block(
                x,
                cache=cache[layer],
                memory=state.cross[layer],
                memory_mask=state.mask,
                cross_recorder=recorder if layer == align_layer else None,
            )
        hidden = self.decoder_norm(x)
        if self.pointer is None:
            logits = self.unembed(hidden[:, 0])
        else:
            memory, rows = state.memory, state.rows
            logits = self.pointer(hidden, self.unembed, TransformerMemory(memory.hidden[rows], memory.lengths[rows], memory.ids[rows]))[
                :, 0
            ]
        alignment = recorder.attended[0].readings["rows"][:, :, 0].mean(1) if align else None  # over heads: (B, S)
        return Step(logits, replace(state, cache=cache), alignment)

    @contextmanager
    def hard_attention(self) -> Iterator[None]:
        """Within this context, each cross-attention head puts all weight on its largest one.

        The alignment of `step` is the mean over the heads, so a row may have several positions, one a head.
        """
        layers = [block.cross for block in self.decoder if isinstance(block, Block) and block.cross is not None]
        before = [layer.choice for layer in layers]
        try:
            for layer in layers:
                layer.choice = Argmax()
            yield
        finally:
            for layer, choice in zip(layers, before, strict=True):
                layer.choice = choice

    def _embed(self, ids: Tensor, tokens: nn.Embedding, positions: nn.Module | None, start: int) -> Tensor:
        x = tokens(ids) * self.config.d_model**0.5
        if positions is not None:
            x = positions(x, start)
        return dropout(x, self.config.dropout, self.training)


def _padding(lengths: Tensor, longest: int) -> Mask | None:
    """The mask of padded sources; None where none is shorter than the longest."""
    return padding(lengths) if len(lengths) and int(lengths.min()) < longest else None
