"""Published weights with their tokenizer: a Hugging Face folder or a .gguf file, read by our models."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from ..models.bert import Bert
    from ..models.gpt import Gpt


class Published:
    """A `Gpt` or `Bert` with the tokenizer it was published with; text in, text or vectors out."""

    def __init__(self, model: Gpt | Bert, tokenizer: Tokenizer, stops: Collection[int] = ()) -> None:
        self.model, self.tokenizer, self.stops = model, tokenizer, frozenset(stops)

    @classmethod
    def open(cls, path: str | Path, *, device: str = "cpu") -> Published:
        """Read a .gguf file, or a folder with config.json, safetensors and tokenizer.json."""
        path = Path(path)
        return cls._gguf(path, device) if path.suffix == ".gguf" else cls._folder(path, device)

    @classmethod
    def _gguf(cls, path: Path, device: str) -> Published:
        from ..models.gguf_file import read_gguf
        from ..models.gpt import Gpt
        from ..models.loading import assemble

        config, recipes, file = read_gguf(path)
        tokenizer, ends = file.tokenizer()
        return cls(assemble(lambda: Gpt(config), recipes, file, (), torch.float32, device), tokenizer, ends)

    @classmethod
    def _folder(cls, path: Path, device: str) -> Published:
        from ..models.bert import Bert
        from ..models.gpt import Gpt

        if not (path / "tokenizer.json").is_file():
            raise ValueError(f"{path} has no tokenizer.json, so it cannot be given a text; save its tokenizer there")
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        kind = Bert if (config.get("model_type") == "bert" or config.get("regard") == "Bert") else Gpt
        model = kind.from_folder(path, device=device)
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        ends = config.get("eos_token_id")
        return cls(model, tokenizer, ends if isinstance(ends, list) else [] if ends is None else [ends])

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text).ids
        return ids

    def pieces(self, ids: list[int]) -> list[str]:
        """Each token as it is stored."""
        return [str(self.tokenizer.id_to_token(i)) for i in ids]

    def generate(
        self,
        prompt: str,
        *,
        max_new: int = 200,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> str:
        """The prompt and what follows it, up to the token that ends a text."""
        if not hasattr(self.model, "generate"):
            raise ValueError(f"a {type(self.model).__name__} reads in both directions and cannot write on; use a language model")
        model: Any = self.model
        device = next(model.parameters()).device
        ids = torch.tensor([self.encode(prompt)], device=device)
        generator = None if seed is None else torch.Generator(device).manual_seed(seed)
        out = model.generate(
            ids, max_new=max_new, temperature=temperature, top_k=top_k, top_p=top_p, generator=generator, stop=self.stops or None
        )
        new = out[0, ids.shape[1] :].tolist()
        return prompt + str(self.tokenizer.decode(new, skip_special_tokens=True))
