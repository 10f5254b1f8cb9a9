"""An encoder: every token sees every other, in both directions.

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
from regard.models.block import Block, BlockConfig, Watcher, initialise, normalise, position_table
from regard.readings import Reading

__all__ = ["Bert", "BertClassifier", "BertConfig", "hide_tokens"]


@dataclass(frozen=True, kw_only=True)
class BertConfig(BlockConfig):
    """An encoder's shape: the block's options, how many, over which vocabulary.

    types: kinds of segment (question, answer), 0 for none. pooled, masked: has the pooled vector and the masked-token head.
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
    """Embeddings of token, position and segment; blocks that look both ways; a pooled vector and a head that fills masked tokens.

    Shapes: ids (B, L) int64 to hidden vectors (B, L, D); `lengths` (B,) says how many tokens of a row are real, the rest is padding.

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
        self.embedding_norm = normalise(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = normalise(config) if config.placement == "pre" else nn.Identity()
        self.pooler = nn.Linear(config.d_model, config.d_model) if config.pooled else None
        self.head = _MaskedHead(config) if config.masked else None
        initialise(self, std=0.02)

    @classmethod
    def from_folder(cls, path: str | Path, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> "Bert":
        """Read a folder of `save_folder` or a published bert folder."""
        from regard.models.loading import load_bert

        return load_bert(path, dtype=dtype, device=device)

    def save_folder(self, path: str | Path) -> None:
        """Write config.json and model.safetensors, whole or not at all."""
        from regard.models.loading import save_folder

        save_folder(self, path)

    def forward(
        self,
        ids: Tensor,
        lengths: Tensor | None = None,
        types: Tensor | None = None,
        *,
        mask: Mask | None = None,
        watcher: Watcher | None = None,
    ) -> Tensor:
        """Hidden vectors (B, L, D). `types` (B, L) names each token's segment (all 0 if not given); `mask` narrows who sees whom."""
        x = self.tokens(ids)
        if self.positions is not None:
            x = self.positions(x)
        if self.types is not None:
            x = x + (self.types.weight[0] if types is None else self.types(types))
        elif types is not None:
            raise ValueError("types were given, but this model has no segment embedding; make its config with types=2 or leave them out")
        x = dropout(self.embedding_norm(x), self.config.dropout, self.training)
        if lengths is not None:
            mask = padding(lengths) if mask is None else mask & padding(lengths)
        for block in self.blocks:
            x = block(x, mask=mask, watcher=watcher)
        return self.norm(x)  # type: ignore[no-any-return]

    def observe(
        self, ids: Tensor, lengths: Tensor | None = None, types: Tensor | None = None, *, readings: Sequence[Reading] = ()
    ) -> tuple[Tensor, list[Attended]]:
        """Hidden vectors (B, L, D) and, layer by layer, what the readings read off the attention."""
        watcher = Watcher(readings)
        return self(ids, lengths, types, watcher=watcher), watcher.seen

    def pool(self, hidden: Tensor) -> Tensor:
        """One vector a row, (B, D), from its first token."""
        if self.pooler is None:
            raise ValueError("this model has no pooled vector (pooled=False, or a folder without its weights); average the hidden vectors")
        return torch.tanh(self.pooler(hidden[:, 0]))

    def unmask(self, hidden: Tensor) -> Tensor:
        """Logits (…, V) for the token behind each hidden vector (…, D)."""
        if self.head is None:
            raise ValueError("this model has no masked-token head (masked=False, or a folder without its weights)")
        return self.head(hidden, self.tokens.weight)  # type: ignore[no-any-return]

    def loss(self, ids: Tensor, targets: Tensor, lengths: Tensor | None = None, *, ignore: int = -100) -> Tensor:
        """Mean cross-entropy of the hidden tokens; `targets` (B, L) is `ignore` where nothing was hidden, and nothing is computed there."""
        keep = targets != ignore
        return F.cross_entropy(self.unmask(self(ids, lengths)[keep]), targets[keep])


class BertClassifier(nn.Module):
    """A BERT with a linear map from its pooled vector to classes, fine-tuned as a whole.

    Shapes: ids (B, L) to logits (B, C).

    >>> bert = Bert(BertConfig(vocabulary=50, d_model=32, heads=2, layers=2, context=16, masked=False))
    >>> BertClassifier(bert, classes=3)(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3])

    Devlin et al. 2019, section 4.1.
    """

    def __init__(self, bert: Bert, classes: int, *, dropout: float | None = None) -> None:
        super().__init__()
        self.bert = bert
        self.dropout = bert.config.dropout if dropout is None else dropout
        self.output = nn.Linear(bert.config.d_model, classes)
        nn.init.normal_(self.output.weight, std=0.02)
        nn.init.zeros_(self.output.bias)

    @classmethod
    def from_folder(cls, path: str | Path, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> "BertClassifier":
        """Read a folder of `save_folder` or a published bert folder with a sequence classifier."""
        from regard.models.loading import load_classifier

        return load_classifier(path, dtype=dtype, device=device)

    def save_folder(self, path: str | Path) -> None:
        """Write config.json and model.safetensors, whole or not at all."""
        from regard.models.loading import save_folder

        save_folder(self, path)

    def forward(self, ids: Tensor, lengths: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        pooled = self.bert.pool(self.bert(ids, lengths, types))
        return self.output(dropout(pooled, self.dropout, self.training))  # type: ignore[no-any-return]


class _MaskedHead(nn.Module):
    """Hidden vector to logits over the vocabulary, read out with the embedding itself."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        if config.activation == "swiglu":
            raise ValueError(
                "the masked-token head bends with the block's activation, and swiglu takes two inputs; use gelu or masked=False"
            )
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.norm = normalise(config)
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
    """Hide a share of the tokens for masked-token training: (inputs, targets), both (B, L).

    Of the hidden tokens 80 % become `mask_id`, 10 % a random token, 10 % stay; targets are the originals there and `ignore` elsewhere.
    Padding (beyond `lengths`) and `special` ids are never hidden.

    >>> inputs, targets = hide_tokens(torch.arange(5, 10)[None], mask_id=4, vocabulary=10, rate=1.0)
    >>> targets
    tensor([[5, 6, 7, 8, 9]])

    Devlin et al. 2019, section 3.1.
    """
    may = torch.ones_like(ids, dtype=torch.bool)
    if lengths is not None:
        may &= torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
    if special:
        may &= ~torch.isin(ids, torch.tensor(list(special), device=ids.device, dtype=ids.dtype))
    draw = torch.rand(ids.shape, generator=generator, device=ids.device)
    fate = torch.rand(ids.shape, generator=generator, device=ids.device)
    other = torch.randint(vocabulary, ids.shape, generator=generator, device=ids.device, dtype=ids.dtype)
    hidden = may & (draw < rate)
    inputs = torch.where(hidden & (fate < 0.8), torch.full_like(ids, mask_id), ids)
    inputs = torch.where(hidden & (fate >= 0.9), other, inputs)
    return inputs, ids.masked_fill(~hidden, ignore)
