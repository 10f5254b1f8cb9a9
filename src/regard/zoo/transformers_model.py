"""A Hugging Face folder loaded and run by transformers, of any architecture that takes text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ..files import read_json
from ..limits import check_counts
from ..training.opened import OpenedModel, TokenRows


class TransformersModel(OpenedModel):
    """A transformers model with its tokenizer; `inputs` is the dictionary of its keyword arguments."""

    def __init__(self, model: nn.Module, tokenizer: Any, config: Any) -> None:
        self.model, self.tokenizer, self.config = model, tokenizer, config
        sizes = (getattr(config, name, None) for name in ("max_position_embeddings", "n_positions"))
        self.limit = next((int(size) for size in sizes if size), None)

    @classmethod
    def open(cls, path: Path, *, device: str = "cpu") -> TransformersModel:
        """Load a folder with config.json, safetensors and a tokenizer; nothing is downloaded."""
        try:
            import transformers
        except ImportError as error:
            raise ValueError(f"{path} needs the transformers package: pip install transformers") from error
        check_counts(read_json(path / "config.json"))
        with _one_line_errors(path):
            config = transformers.AutoConfig.from_pretrained(path, local_files_only=True)
        kind = _model_class(transformers, config)
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
        except Exception as error:  # of a damaged tokenizer: almost any
            raise ValueError(
                f"{path} has no tokenizer, so it cannot process a text; for images or sound use `with regard.watch(model)` in Python"
            ) from error
        with _no_progress_bar(transformers.utils.logging), _one_line_errors(path):
            model = kind.from_pretrained(path, local_files_only=True, use_safetensors=True).to(device).eval()
        return cls(model, tokenizer, config)

    def inputs(self, text: str, *, target: str | None = None) -> dict[str, Tensor]:
        inputs = dict(self.tokenizer(text, return_tensors="pt", truncation=False).to(self.device))
        if self.config.is_encoder_decoder:
            if target:
                target_ids = self.tokenizer(text_target=target, return_tensors="pt").input_ids.to(self.device)
            else:
                model: Any = self.model
                target_ids = model.generate(**inputs, max_new_tokens=64, do_sample=False)
            inputs["decoder_input_ids"] = target_ids
        return inputs

    def tokens(self, inputs: dict[str, Tensor]) -> tuple[TokenRows, TokenRows]:
        if self.config.is_encoder_decoder:
            return self._token_texts(inputs["decoder_input_ids"]), self._token_texts(inputs["input_ids"])
        return self._token_texts(inputs["input_ids"]), None

    def _token_texts(self, ids: Tensor) -> list[list[str]]:
        return [self.tokenizer.convert_ids_to_tokens(row) for row in ids.tolist()]

    def cut(self, inputs: dict[str, Tensor], length: int) -> dict[str, Tensor]:
        """Return inputs with input_ids, and tensors of the same length, cut to `length`; decoder_input_ids are not cut."""
        full = inputs["input_ids"].shape[1]
        return {k: v[:, :length] if isinstance(v, Tensor) and v.dim() == 2 and v.shape[1] == full else v for k, v in inputs.items()}

    def length(self, inputs: dict[str, Tensor]) -> int:
        return int(inputs["input_ids"].shape[1])


def _model_class(transformers: Any, config: Any) -> Any:
    """The class of transformers that the config names, AutoModel if it names none."""
    named = [getattr(transformers, name, None) for name in config.architectures or () if isinstance(name, str)]
    return next((kind for kind in named if isinstance(kind, type) and issubclass(kind, nn.Module)), transformers.AutoModel)


@contextmanager
def _one_line_errors(path: Path) -> Iterator[None]:
    """Make whatever transformers raises for a damaged folder a ValueError that names it."""
    try:
        yield
    except (OSError, MemoryError):
        raise
    except Exception as error:
        raise ValueError(f"{path} cannot be opened by transformers ({type(error).__name__}: {str(error)[:400]})") from error


@contextmanager
def _no_progress_bar(logging: Any) -> Iterator[None]:
    """Within this context, transformers shows no progress bar while it loads."""
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()
