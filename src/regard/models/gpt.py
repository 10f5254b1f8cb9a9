"""GPT: a Transformer decoder that predicts the next token from the tokens before it.

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
from regard.models.block import Block, BlockConfig, Recorder, causal_mask, init_weights, norm_layer, position_table
from regard.models.sampling import next_token
from regard.readings import Reading

__all__ = ["Gpt", "GptConfig"]


@dataclass(frozen=True, kw_only=True)
class GptConfig(BlockConfig):
    """Options of a decoder, added to those of its blocks.

    vocabulary: number of tokens.
    layers: number of blocks.
    context: the sequence length it is trained on, and the number of learned positions.
    tied: whether the output projection shares the weights of the token embedding.
    others: as in :class:`BlockConfig`.

    >>> GptConfig(vocabulary=50).layers
    4
    """

    vocabulary: int
    layers: int = 4
    context: int = 1024
    tied: bool = True


class Gpt(nn.Module):
    """Embedding, causal blocks, a final norm, and the logits of the next token after every prefix.

    Shapes: ids (B, L) int64 to logits (B, L, V).

    config: its sizes and options, a :class:`GptConfig`.

    >>> model = Gpt(GptConfig(vocabulary=50, d_model=32, heads=2, layers=2, context=16))
    >>> model(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 50])
    >>> model.generate(torch.tensor([[1, 2, 3]]), max_new=4, temperature=0).shape
    torch.Size([1, 7])

    Radford et al. 2019, section 2.3 (GPT-2); Touvron et al. 2023 (Llama) with other options.
    """

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.d_model)
        self.positions = position_table(config, config.context)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = norm_layer(config) if config.placement == "pre" else nn.Identity()
        self.head = None if config.tied else nn.Linear(config.d_model, config.vocabulary, bias=False)
        init_weights(self, std=0.02, layers=config.layers)

    @classmethod
    def from_folder(cls, path: str | Path, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> "Gpt":
        """Load a folder written by `save_folder`, a published gpt2, llama, mistral or qwen2 folder, or a .gguf file.

        path: the folder or file.
        dtype: of the weights.
        device: where they are loaded.
        """
        from regard.models.model_folder import load_gpt

        return load_gpt(path, dtype=dtype, device=device)

    def save_folder(self, path: str | Path) -> None:
        """Write config.json and model.safetensors; a write that fails leaves the old files."""
        from regard.models.model_folder import save_folder

        save_folder(self, path)

    def forward(self, ids: Tensor, cache: Cache | None = None) -> Tensor:
        """Compute logits (B, L, V). With a cache, ids continue the sequence in it and are appended to it."""
        return self.unembed(self.hidden(ids, cache))

    def hidden(self, ids: Tensor, cache: Cache | None = None, *, recorder: Recorder | None = None) -> Tensor:
        """Compute the last hidden vectors (B, L, D), those the logits are computed from.

        ids: tokens (B, L).
        cache: keys and values of the tokens before them.
        recorder: collects readings; see `observe`.
        """
        config = self.config
        x = self.tokens(ids)
        if self.positions is not None:
            x = self.positions(x, 0 if cache is None else cache.length)
        x = dropout(x, config.dropout, self.training)
        masks = {size: causal_mask(ids.shape[1], size, cached=cache is not None) for size in {config.window, None}}
        for layer, block in enumerate(self.blocks):
            layer_cache = None if cache is None else cache[layer]
            x = block(x, mask=masks[config.window_of(layer)], cache=layer_cache, recorder=recorder)
        return self.norm(x)  # type: ignore[no-any-return]

    def unembed(self, hidden: Tensor) -> Tensor:
        """Compute logits (…, V) of hidden vectors (…, D)."""
        return F.linear(hidden, self.tokens.weight if self.head is None else self.head.weight)

    def loss(self, ids: Tensor, targets: Tensor, *, ignore: int = -100) -> Tensor:
        """Return the mean cross-entropy of targets (B, L) after ids (B, L); no logits are computed where a target is `ignore`."""
        hidden, targets = self.hidden(ids).flatten(0, 1), targets.flatten()
        keep = targets != ignore
        if not bool(keep.all()):
            hidden, targets = hidden[keep], targets[keep]
        return F.cross_entropy(self.unembed(hidden), targets)

    def observe(self, ids: Tensor, *, readings: Sequence[Reading] = ()) -> tuple[Tensor, list[Attended]]:
        """Compute logits (B, L, V) of ids (B, L), and the readings of every attention layer."""
        recorder = Recorder(readings)
        return self.unembed(self.hidden(ids, recorder=recorder)), recorder.attended

    def new_cache(self, *, room: int = 0) -> Cache:
        """Return an empty key-value cache for this model; memory for `room` tokens is allocated at its first use."""
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
        """Continue ids (B, L) by n ≤ max_new sampled tokens: (B, L + n).

        A row that produced a `stop` token repeats it; generation ends when every row has stopped. Where learned positions run out, the
        newest half of the context is encoded again from position 0.

        temperature, top_k, top_p, generator: as in :func:`next_token`.
        """
        if ids.dim() != 2 or ids.shape[1] == 0:
            raise ValueError(f"ids have shape {tuple(ids.shape)}; expected (batch, tokens) with at least one token")
        stops = torch.tensor(sorted({stop} if isinstance(stop, int) else set(stop or ())), device=ids.device, dtype=ids.dtype)
        limit = self.config.context if self.config.positions == "learned" else None
        end = ids.shape[1]
        text = torch.cat([ids, ids.new_empty(ids.shape[0], max_new)], 1)
        done = torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)
        cache = self.new_cache(room=end + max_new if limit is None else limit)
        pending = ids if limit is None else ids[:, -limit:]
        was_training = self.training
        self.eval()
        try:
            for _ in range(max_new):
                if limit is not None and cache.length + pending.shape[1] > limit:
                    cache, pending = self.new_cache(room=limit), text[:, end - max(1, limit // 2) : end]
                logits = self.unembed(self.hidden(pending, cache)[:, -1])
                token = next_token(logits, temperature=temperature, top_k=top_k, top_p=top_p, generator=generator)
                token = torch.where(done, text[:, end - 1], token)
                text[:, end] = token
                end, pending = end + 1, token[:, None]
                if len(stops):
                    done = done | torch.isin(token, stops)
                    if bool(done.all()):
                        break
        finally:
            self.train(was_training)
        return text[:, :end]
