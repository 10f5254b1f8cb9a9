"""Open a model to look at a text with it: a transformers folder, a run or a saved model of ours, or a .gguf file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..models.reader import StoryBatch
from .effect import run


@dataclass(eq=False)
class Opened:
    """A model, and how it reads a text."""

    model: nn.Module
    name: str
    encode: Callable[[str], Any]  # what the model is called with
    tokens: Callable[[Any], tuple[list[list[str]] | None, list[list[str]] | None]]  # the pieces of inputs, and of their source
    limit: int | None = None  # how many tokens it reads

    @torch.no_grad()
    def __call__(self, inputs: Any) -> Any:
        return run(self.model, inputs)


def open_model(path: str | Path, *, device: str = "cpu", target: str | None = None) -> Opened:
    """The model in a folder or a .gguf file. `target` is what a translator is to have said; otherwise it says it itself."""
    path = Path(path)
    if path.suffix == ".gguf" and path.is_file():
        return _gguf(path, device)
    if (path / "run.json").is_file():
        return _run(path, device, target)
    if not (path / "config.json").is_file():
        kind = "has no config.json or run.json" if path.is_dir() else "is not there"
        raise ValueError(f"{path} {kind}; give the folder of a transformers model, of a `regard train` run, or a .gguf file")
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    return _ours(path, config, device) if "regard" in config else _transformers(path, device, target)


def _transformers(path: Path, device: str, target: str | None) -> Opened:
    try:
        import transformers
    except ImportError as error:
        raise ValueError(f"{path} is a transformers model: pip install transformers to open it") from error
    config = transformers.AutoConfig.from_pretrained(path, local_files_only=True)
    kind = next((getattr(transformers, name) for name in config.architectures or () if hasattr(transformers, name)), transformers.AutoModel)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"{path} has no tokenizer, so it cannot be given a text; for images or sound use `with regard.watch(model)` in Python"
        ) from error
    with _quiet(transformers.utils.logging):
        model = kind.from_pretrained(path, local_files_only=True).to(device).eval()
    limit = next((int(n) for name in ("max_position_embeddings", "n_positions") if (n := getattr(config, name, None))), None)

    def encode(text: str) -> dict[str, Tensor]:
        inputs = dict(tokenizer(text, return_tensors="pt", truncation=False).to(device))
        if config.is_encoder_decoder:
            made = tokenizer(text_target=target, return_tensors="pt").input_ids.to(device) if target else None
            made = model.generate(**inputs, max_new_tokens=64, do_sample=False) if made is None else made
            inputs["decoder_input_ids"] = made
        return inputs

    def tokens(inputs: dict[str, Tensor]) -> tuple[list[list[str]] | None, list[list[str]] | None]:
        def read(name: str) -> list[list[str]]:
            return [tokenizer.convert_ids_to_tokens(row) for row in inputs[name].tolist()]

        return (read("decoder_input_ids"), read("input_ids")) if config.is_encoder_decoder else (read("input_ids"), None)

    return Opened(model, path.resolve().name, encode, tokens, limit)


@contextmanager
def _quiet(logging: Any) -> Iterator[None]:
    """Without the bar transformers draws while it loads."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _gguf(path: Path, device: str) -> Opened:
    from ..zoo.published import Published

    opened = Published.open(path, device=device)
    return _ids(opened.model, path.stem, opened.encode, opened.pieces, device)


def _ours(path: Path, config: dict[str, Any], device: str) -> Opened:
    from ..models.bert import Bert
    from ..models.gpt import Gpt

    kinds: dict[str, Any] = {"Gpt": Gpt, "Bert": Bert}
    if config["regard"] not in kinds:
        raise ValueError(f"{path} holds a {config['regard']}; `regard look` opens {', '.join(kinds)}, runs, transformers folders and .gguf")
    if not (path / "tokenizer.json").is_file():
        raise ValueError(f"{path} has no tokenizer.json, so it cannot be given a text; give the run folder it came from, or use Python")
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    model = kinds[config["regard"]].from_folder(path, device=device)
    name = path.resolve().name
    return _ids(model, name, lambda text: tokenizer.encode(text).ids, lambda ids: [str(tokenizer.id_to_token(i)) for i in ids], device)


def _run(path: Path, device: str, target: str | None) -> Opened:
    task = json.loads((path / "run.json").read_text(encoding="utf-8"))["task"]
    name = path.resolve().name
    if task == "lm":
        from ..training.tasks.lm import LanguageModel

        lm = LanguageModel.open(path, device=device)
        words = lm.vocabulary
        return _ids(lm.model, name, words.encode, lambda ids: [words.piece(i) for i in ids], device)
    if task == "classify":
        from ..training.tasks.classify import Classifier
        from ..training.tasks.mlm import framed

        classifier = Classifier.open(path, device=device)
        names = classifier.vocabulary

        def frame(text: str) -> list[int]:
            return framed(names, [text], classifier.context)[0]

        return _ids(classifier.model, name, frame, lambda ids: [names.piece(i) for i in ids], device)
    if task == "translation":
        return _translator(path, name, device, target)
    if task == "reader":
        return _reader(path, name, device)
    raise ValueError(f"{path} is a run of {task!r}; `regard look` opens runs of lm, classify, translation and reader")


def _translator(path: Path, name: str, device: str, target: str | None) -> Opened:
    from ..text.vocabulary import BOS
    from ..training.tasks.translation import Translations

    opened = Translations.open(path, device=device)

    def encode(text: str) -> tuple[Tensor, Tensor, Tensor]:
        said = opened.translate([text], width=1)[0][0].text if target is None else target
        source = torch.tensor(opened.encode([text]), device=device)
        written = torch.tensor([[BOS, *opened.target.encode(said)]], device=device)
        return source, torch.tensor([source.shape[1]], device=device), written

    def tokens(inputs: tuple[Tensor, Tensor, Tensor]) -> tuple[list[list[str]] | None, list[list[str]] | None]:
        read, written = inputs[0][0].tolist(), inputs[2][0].tolist()
        return [[opened.target.piece(i) for i in written]], [[opened.source.piece(i) for i in read]]

    return Opened(opened.model.eval(), name, encode, tokens, opened.limit)


def _reader(path: Path, name: str, device: str) -> Opened:
    """A reader: the last sentence of the text is the question, and what it looks at are the sentences before it."""
    from ..text.sentences import split_sentences
    from ..text.stories import Story
    from ..training.tasks.reader import StoryReader

    opened = StoryReader.open(path, device=device)
    told: list[str] = []

    def encode(text: str) -> StoryBatch:
        told[:] = split_sentences(text)
        if len(told) < 2:
            raise ValueError(f"{name} reads a story and a question about it: give at least two sentences, the question last")
        return opened.page([Story(tuple(told[:-1]), told[-1], "")]).to(torch.device(device))

    return Opened(opened.model.eval(), name, encode, lambda page: ([told[-1:]], [told[:-1]]))


def _ids(model: nn.Module, name: str, encode: Callable[[str], Any], pieces: Callable[[list[int]], list[str]], device: str) -> Opened:
    """A model of ours that is called with ids (1, L)."""

    def ids(text: str) -> Tensor:
        found = encode(text)
        found = found["input_ids"] if hasattr(found, "keys") else found
        if not len(found):
            raise ValueError("the text has no tokens; give at least one word")
        return torch.tensor([found], device=device)

    config = getattr(model, "config", getattr(getattr(model, "bert", None), "config", None))
    limit = getattr(config, "context", None) if getattr(config, "positions", None) == "learned" else None
    return Opened(model.eval(), name, ids, lambda inputs: ([pieces(inputs[0].tolist())], None), limit)


def cut(inputs: Any, length: int) -> Any:
    """The first `length` tokens of inputs; of a story, which is looked at by the sentence, the first sentences."""
    if isinstance(inputs, StoryBatch):
        return StoryBatch(inputs.sentences[:, :length], inputs.counts.clamp(max=length), inputs.questions)
    if isinstance(inputs, Tensor):
        return inputs[:, :length]
    if isinstance(inputs, dict):
        whole = inputs["input_ids"].shape[1]
        return {k: v[:, :length] if isinstance(v, Tensor) and v.dim() == 2 and v.shape[1] == whole else v for k, v in inputs.items()}
    source, lengths, target = inputs
    return source[:, :length], lengths.clamp(max=length), target


def length_of(inputs: Any) -> int:
    """How many tokens inputs have; of a story, how many sentences."""
    if isinstance(inputs, StoryBatch):
        return int(inputs.sentences.shape[1])
    if isinstance(inputs, dict):
        return int(inputs["input_ids"].shape[1])
    return int((inputs if isinstance(inputs, Tensor) else inputs[0]).shape[1])
