"""Published weights with their tokenizer: a Hugging Face folder or a .gguf file, loaded as a `Gpt` or `Bert`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..files import read_json
from ..text.vocabulary import read_tokenizer
from ..training.opened import TextGenerator
from .chat import render, template_in

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from ..models.bert import Bert
    from ..models.gpt import Gpt


class Published(TextGenerator):
    """A `Gpt` or `Bert` with the tokenizer it was published with."""

    def __init__(
        self,
        model: Gpt | Bert,
        tokenizer: Tokenizer,
        stops: Collection[int] = (),
        *,
        template: str | None = None,
        special: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model)
        self.tokenizer, self.stops, self.template, self.special = tokenizer, frozenset(stops), template, dict(special or {})

    @classmethod
    def open(cls, path: str | Path, *, device: str = "cpu") -> Published:
        """Load a .gguf file, or a folder with config.json, safetensors and tokenizer.json."""
        path = Path(path)
        opened = cls._gguf(path, device) if path.suffix == ".gguf" else cls._folder(path, device)
        opened.model.eval()
        return opened

    @classmethod
    def _gguf(cls, path: Path, device: str) -> Published:
        from ..models.gpt import Gpt
        from ..models.model_folder import build_from_tensors
        from ..models.published.gguf_file import read_gguf

        config, tensor_map, file = read_gguf(path)
        tokenizer, stops = file.tokenizer()
        model = build_from_tensors(lambda: Gpt(config), tensor_map, file, (), torch.float32, device)
        return cls(model, tokenizer, stops, template=file.chat_template)

    @classmethod
    def _folder(cls, path: Path, device: str) -> Published:
        from ..models.bert import Bert
        from ..models.gpt import Gpt

        if not (path / "tokenizer.json").is_file():
            raise ValueError(f"{path} has no tokenizer.json, so it cannot process a text; save its tokenizer there")
        config = read_json(path / "config.json")
        kind = Bert if (config.get("model_type") == "bert" or config.get("regard") == "Bert") else Gpt
        model = kind.from_folder(path, device=device)
        tokenizer = read_tokenizer(path / "tokenizer.json")
        tokenizer.no_padding()
        tokenizer.no_truncation()
        stops = config.get("eos_token_id")
        template, special = template_in(path)
        ends = stops if isinstance(stops, list) else [] if stops is None else [stops]
        return cls(model, tokenizer, ends, template=template, special=special)

    def reply(self, messages: Sequence[Mapping[str, str]], *, max_new: int = 200, **options: Any) -> str:
        """Return the model's reply to a conversation in its own chat template; each message has a "role" and a "content"."""
        if self.template is None:
            raise ValueError("this model has no chat template: it continues text and was not trained to reply; generate without --chat")
        ids = self.encode(render(self.template, messages, self.special))
        if len(ids) > self.model.config.context:
            raise ValueError(f"the conversation has {len(ids):,} tokens; the model reads {self.model.config.context:,}; shorten it")
        return str(self.tokenizer.decode(self.extend(ids, max_new=max_new, **options), skip_special_tokens=True)).strip()

    def encode(self, text: str) -> list[int]:
        try:
            ids: list[int] = self.tokenizer.encode(text).ids
        except Exception as error:  # tokenizers raises nothing more specific
            raise ValueError(f"the model's tokenizer cannot read {text[:40]!r} ({error})") from error
        return ids

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        return [str(self.tokenizer.id_to_token(i)) for i in ids]

    def text(self, prompt: str, ids: list[int], new: list[int]) -> str:
        return prompt + str(self.tokenizer.decode(new, skip_special_tokens=True))
