"""BERT: a Transformer encoder, whose tokens all see each other.

Axes: B batch, L tokens, D model width, V vocabulary, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attended
from regard.layers.dropout import dropout
from regard.masks import Mask, padding
from regard.models.block import Block, BlockConfig, Recorder, init_weights, norm_layer, position_table
from regard.readings import Reading

__all__ = ["Bert", "BertClassifier", "BertConfig", "hide_tokens", "mean_pooled"]


@dataclass(frozen=True, kw_only=True)
class BertConfig(BlockConfig):
    """Options of an encoder, added to those of its blocks.

    vocabulary: number of tokens.
    layers: number of blocks.
    context: the longest text, in tokens; number of learned positions.
    types: number of segment types (question, answer), 0 for no segment embedding.
    pooled: whether it has the pooling layer.
    masked: whether it has the masked-token head.
    others: as in :class:`BlockConfig`.

    >>> BertConfig(vocabulary=50).d_model
    128
    """

    vocabulary: int
    layers: int = 4
    context: int = 512
    types: int = 2
    pooled: bool = True
    masked: bool = True
    placement: Literal["pre", "post"] = "post"
    eps: float = 1e-12
    dropout: float = 0.1


class Bert(nn.Module):
    """Token, position and segment embeddings, blocks without a causal mask, a pooling layer and a masked-token head.

    Shapes: ids (B, L) int64 to hidden vectors (B, L, D); `lengths` (B,) is the number of tokens of each row before the padding.

    config: its sizes and options, a :class:`BertConfig`.

    >>> model = Bert(BertConfig(vocabulary=50, d_model=32, heads=2, layers=2, context=16)).eval()
    >>> hidden = model(torch.tensor([[1, 2, 3, 0]]), torch.tensor([3]))
    >>> model.unmask(hidden).shape, model.pool(hidden).shape
    (torch.Size([1, 4, 50]), torch.Size([1, 32]))

    Devlin et al. 2019, sections 3 and 3.1.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.d_model)
        self.positions = position_table(config, config.context)
        self.types = nn.Embedding(config.types, config.d_model) if config.types else None
        self.embedding_norm = norm_layer(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = norm_layer(config) if config.placement == "pre" else nn.Identity()
        self.pooler = nn.Linear(config.d_model, config.d_model) if config.pooled else None
        self.head = _MaskedHead(config) if config.masked else None
        init_weights(self, std=0.02)

    @classmethod
    def from_folder(cls, path: str | Path, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> "Bert":
        """Load a folder written by `save_folder`, or a published bert folder.

        path: the folder.
        dtype: of the weights.
        device: where they are loaded.
        """
        from regard.models.model_folder import load_bert

        return load_bert(path, dtype=dtype, device=device)

    def save_folder(self, path: str | Path) -> None:
        """Write config.json and model.safetensors; a write that fails leaves the old files."""
        from regard.models.model_folder import save_folder

        save_folder(self, path)

    def forward(
        self,
        ids: Tensor,
        lengths: Tensor | None = None,
        types: Tensor | None = None,
        *,
        mask: Mask | None = None,
        recorder: Recorder | None = None,
    ) -> Tensor:
        """Compute hidden vectors (B, L, D).

        ids: tokens (B, L).
        lengths: tokens of each row before its padding, (B,); None: all.
        types: each token's segment, (B, L); None: all 0.
        mask: restricts the visible tokens.
        recorder: collects readings; see `observe`.
        """
        x = self.tokens(ids)
        if self.positions is not None:
            x = self.positions(x)
        if self.types is not None:
            x = x + (self.types.weight[0] if types is None else self.types(types))
        elif types is not None:
            raise ValueError("types were given, but this model has no segment embedding; set types=2 in its config, or pass none")
        x = dropout(self.embedding_norm(x), self.config.dropout, self.training)
        if lengths is not None:
            mask = padding(lengths) if mask is None else mask & padding(lengths)
        for block in self.blocks:
            x = block(x, mask=mask, recorder=recorder)
        return self.norm(x)  # type: ignore[no-any-return]

    def observe(
        self, ids: Tensor, lengths: Tensor | None = None, types: Tensor | None = None, *, readings: Sequence[Reading] = ()
    ) -> tuple[Tensor, list[Attended]]:
        """Compute hidden vectors (B, L, D) and the readings of every attention layer.

        Arguments as in `forward`; readings: statistics of the weights.
        """
        recorder = Recorder(readings)
        return self(ids, lengths, types, recorder=recorder), recorder.attended

    def pool(self, hidden: Tensor) -> Tensor:
        """Return one vector per row, (B, D), computed from its first token."""
        if self.pooler is None:
            raise ValueError("this model has no pooling layer (pooled=False, or a folder without its weights); average the hidden vectors")
        return torch.tanh(self.pooler(hidden[:, 0]))

    def unmask(self, hidden: Tensor) -> Tensor:
        """Compute logits (…, V) of the original token at each hidden vector (…, D)."""
        if self.head is None:
            raise ValueError("this model has no masked-token head (masked=False, or a folder without its weights); use masked=True")
        return self.head(hidden, self.tokens.weight)  # type: ignore[no-any-return]

    def loss(self, ids: Tensor, targets: Tensor, lengths: Tensor | None = None, *, ignore: int = -100) -> Tensor:
        """Return the mean cross-entropy of the masked tokens; logits are computed only where `targets` (B, L) is not `ignore`.

        ids: tokens (B, L), some of them masked.
        lengths: tokens of each row before its padding, (B,); None: all.
        """
        keep = targets != ignore
        return F.cross_entropy(self.unmask(self(ids, lengths)[keep]), targets[keep])


class BertClassifier(nn.Module):
    """A BERT with a linear classifier on one vector per text, for fine-tuning.

    bert: the encoder.
    classes: number of classes, C.
    dropout: before the classifier; None: that of the encoder.
    pooling: "first", the pooling layer's vector of the first token, as BERT was published; or "mean", the mean of the hidden vectors,
        better where the first token was not trained to stand for the text.

    Raises ValueError for another pooling.

    Shapes: ids (B, L) to logits (B, C).

    >>> bert = Bert(BertConfig(vocabulary=50, d_model=32, heads=2, layers=2, context=16, masked=False))
    >>> BertClassifier(bert, classes=3)(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3])

    Devlin et al. 2019, section 4.1.
    """

    def __init__(self, bert: Bert, classes: int, *, dropout: float | None = None, pooling: Literal["first", "mean"] = "first") -> None:
        super().__init__()
        if pooling not in ("first", "mean"):
            raise ValueError(f'pooling is {pooling!r}; expected "first" or "mean"')
        self.bert = bert
        self.pooling = pooling
        self.dropout = bert.config.dropout if dropout is None else dropout
        self.output = nn.Linear(bert.config.d_model, classes)
        nn.init.normal_(self.output.weight, std=0.02)
        nn.init.zeros_(self.output.bias)

    @classmethod
    def from_folder(cls, path: str | Path, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> "BertClassifier":
        """Load a folder written by `save_folder`, or a published bert folder with a sequence classifier.

        path: the folder.
        dtype: of the weights.
        device: where they are loaded.
        """
        from regard.models.model_folder import load_classifier

        return load_classifier(path, dtype=dtype, device=device)

    def save_folder(self, path: str | Path) -> None:
        """Write config.json and model.safetensors; a write that fails leaves the old files."""
        from regard.models.model_folder import save_folder

        save_folder(self, path)

    def forward(self, ids: Tensor, lengths: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        hidden = self.bert(ids, lengths, types)
        pooled = self.bert.pool(hidden) if self.pooling == "first" else mean_pooled(hidden, lengths)
        return self.output(dropout(pooled, self.dropout, self.training))  # type: ignore[no-any-return]


def mean_pooled(hidden: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Return the mean (B, D) of the hidden vectors (B, L, D) before the padding.

    >>> mean_pooled(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([2]))
    tensor([[2.]])
    """
    if lengths is None:
        return hidden.mean(1)
    real = torch.arange(hidden.shape[1], device=hidden.device) < lengths[:, None]  # (B, L)
    return hidden.masked_fill(~real[..., None], 0.0).sum(1) / lengths[:, None].to(hidden.dtype)


class _MaskedHead(nn.Module):
    """Compute logits over the vocabulary from hidden vectors, with the transposed token embedding as the last layer."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        if config.activation == "swiglu":
            raise ValueError("the masked-token head uses the block's activation, and swiglu needs two inputs; use gelu or masked=False")
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.norm = norm_layer(config)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        self.activation = config.activation

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        x = self.dense(hidden)
        x = F.relu(x) if self.activation == "relu" else F.gelu(x, approximate="tanh" if self.activation == "gelu_tanh" else "none")
        return F.linear(self.norm(x), embedding, self.bias)


def hide_tokens(
    ids: Tensor,
    *,
    mask_id: int,
    vocabulary: int,
    lengths: Tensor | None = None,
    special: Sequence[int] = (),
    rate: float = 0.15,
    generator: torch.Generator | None = None,
    ignore: int = -100,
) -> tuple[Tensor, Tensor]:
    """Mask a share of the tokens for masked-token training.

    Of the masked tokens 80 % become `mask_id`, 10 % a random token, 10 % stay; targets are the originals there and `ignore` elsewhere.
    Padding is never masked.

    ids: tokens (B, L).
    mask_id: the id of the mask token.
    vocabulary: number of tokens, of which the random ones are drawn.
    lengths: tokens of each row before its padding, (B,); None: all.
    special: ids that are never masked.
    rate: the share that is masked.
    generator: source of the random numbers.
    ignore: the target of tokens that were not masked.

    Returns (inputs, targets), both (B, L).

    >>> inputs, targets = hide_tokens(torch.arange(5, 10)[None], mask_id=4, vocabulary=10, rate=1.0)
    >>> targets
    tensor([[5, 6, 7, 8, 9]])

    Devlin et al. 2019, section 3.1.
    """
    maskable = torch.ones_like(ids, dtype=torch.bool)
    if lengths is not None:
        maskable &= torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
    if special:
        maskable &= ~torch.isin(ids, torch.tensor(list(special), device=ids.device, dtype=ids.dtype))
    draw = torch.rand(ids.shape, generator=generator, device=ids.device)
    replacement = torch.rand(ids.shape, generator=generator, device=ids.device)
    random_ids = torch.randint(vocabulary, ids.shape, generator=generator, device=ids.device, dtype=ids.dtype)
    masked = maskable & (draw < rate)
    inputs = torch.where(masked & (replacement < 0.8), torch.full_like(ids, mask_id), ids)
    inputs = torch.where(masked & (replacement >= 0.9), random_ids, inputs)
    return inputs, ids.masked_fill(~masked, ignore)
