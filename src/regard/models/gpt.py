"""A decoder: every token predicts the next from what came before it.

Axes: B batch, L tokens, D model width, V vocabulary.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attended
from regard.layers.cache import Cache
from regard.layers.dropout import dropout
from regard.models.block import Block, BlockConfig, Watcher, causal_mask, initialise, normalise, position_table
from regard.models.sampling import next_token
from regard.readings import Reading

__all__ = ["Gpt", "GptConfig"]


@dataclass(frozen=True, kw_only=True)
class GptConfig(BlockConfig):
    """A decoder's shape: the block's options and how many, over which vocabulary, how far.

    tied: the matrix that reads tokens in also reads them out. context: how many tokens it was, or will be, trained on at once.
    """

    vocabulary: int
    layers: int = 4
    context: int = 1024
    tied: bool = True


class Gpt(nn.Module):
    """Embedding, blocks under a causal mask, a final norm, and logits for the next token after every prefix at once.

    Shapes: ids (B, L) int64 to logits (B, L, V).

    >>> model = Gpt(GptConfig(vocabulary=50, d_model=32, heads=2, layers=2, context=16))
    >>> model(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 50])
    >>> model.generate(torch.tensor([[1, 2, 3]]), max_new=4, temperature=0).shape
    torch.Size([1, 7])

    Radford et al. 2019, section 2.3 (GPT-2); Touvron et al. 2023 (Llama) by other options.
    """

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.d_model)
        self.positions = position_table(config, config.context)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = normalise(config) if config.placement == "pre" else nn.Identity()
        self.head = None if config.tied else nn.Linear(config.d_model, config.vocabulary, bias=False)
        initialise(self, std=0.02, layers=config.layers)

    @classmethod
    def from_folder(cls, path: str | Path, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> "Gpt":
        """Read a folder of `save_folder`, a published gpt2, llama, mistral or qwen2 folder, or a .gguf file."""
        from regard.models.loading import load_gpt

        return load_gpt(path, dtype=dtype, device=device)

    def save_folder(self, path: str | Path) -> None:
        """Write config.json and model.safetensors, whole or not at all."""
        from regard.models.loading import save_folder

        save_folder(self, path)

    def forward(self, ids: Tensor, cache: Cache | None = None) -> Tensor:
        """Logits (B, L, V). With a cache, ids go on after what it holds, and it then holds them too."""
        return self.unembed(self.hidden(ids, cache))

    def hidden(self, ids: Tensor, cache: Cache | None = None, *, watcher: Watcher | None = None) -> Tensor:
        """The vectors (B, L, D) the logits are read from."""
        config = self.config
        x = self.tokens(ids)
        if self.positions is not None:
            x = self.positions(x, 0 if cache is None else cache.length)
        x = dropout(x, config.dropout, self.training)
        masks = {reach: causal_mask(ids.shape[1], reach, cached=cache is not None) for reach in {config.window, None}}
        for layer, block in enumerate(self.blocks):
            held = None if cache is None else cache[layer]
            x = block(x, mask=masks[config.window_of(layer)], cache=held, watcher=watcher)
        return self.norm(x)  # type: ignore[no-any-return]

    def unembed(self, hidden: Tensor) -> Tensor:
        """Logits (…, V) of hidden vectors (…, D)."""
        return F.linear(hidden, self.tokens.weight if self.head is None else self.head.weight)

    def loss(self, ids: Tensor, targets: Tensor, *, ignore: int = -100) -> Tensor:
        """Mean cross-entropy of targets (B, L) after each prefix; positions marked `ignore` are not even read out."""
        hidden, wanted = self.hidden(ids).flatten(0, 1), targets.flatten()
        keep = wanted != ignore
        if not bool(keep.all()):
            hidden, wanted = hidden[keep], wanted[keep]
        return F.cross_entropy(self.unembed(hidden), wanted)

    def observe(self, ids: Tensor, *, readings: Sequence[Reading] = ()) -> tuple[Tensor, list[Attended]]:
        """Logits (B, L, V) and, layer by layer, what the readings read off the attention."""
        watcher = Watcher(readings)
        return self.unembed(self.hidden(ids, watcher=watcher)), watcher.seen

    def new_cache(self, *, room: int = 0) -> Cache:
        """An empty cache for this model; `room` tokens are reserved at the first use."""
        return Cache(self.config.layers, window=[self.config.window_of(layer) for layer in range(self.config.layers)], room=room)

    @torch.no_grad()
    def generate(
        self,
        ids: Tensor,
        *,
        max_new: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        generator: torch.Generator | None = None,
        stop: int | Iterable[int] | None = None,
    ) -> Tensor:
        """Go on from ids (B, L): (B, L + n), n ≤ max_new.

        A row that produced a `stop` token repeats it; all rows stopped ends it. Where learned positions run out, the newest half of the
        context is read afresh.
        """
        if ids.dim() != 2 or ids.shape[1] == 0:
            raise ValueError(f"ids must be (batch, tokens) with at least one token; they are {tuple(ids.shape)}")
        stops = torch.tensor(sorted({stop} if isinstance(stop, int) else set(stop or ())), device=ids.device, dtype=ids.dtype)
        limit = self.config.context if self.config.positions == "learned" else None
        end = ids.shape[1]
        text = torch.cat([ids, ids.new_empty(ids.shape[0], max_new)], 1)
        done = torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)
        cache = self.new_cache(room=end + max_new if limit is None else limit)
        unread = ids if limit is None else ids[:, -limit:]
        was_training = self.training
        self.eval()
        try:
            for _ in range(max_new):
                if limit is not None and cache.length + unread.shape[1] > limit:
                    cache, unread = self.new_cache(room=limit), text[:, end - max(1, limit // 2) : end]
                logits = self.unembed(self.hidden(unread, cache)[:, -1])
                token = next_token(logits, temperature=temperature, top_k=top_k, top_p=top_p, generator=generator)
                token = torch.where(done, text[:, end - 1], token)
                text[:, end] = token
                end, unread = end + 1, token[:, None]
                if len(stops):
                    done = done | torch.isin(token, stops)
                    if bool(done.all()):
                        break
        finally:
            self.train(was_training)
        return text[:, :end]
