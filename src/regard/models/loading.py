"""Read published weights into our models, and write and read our own: config.json beside safetensors, never a pickle."""

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.files import write_atomic, write_text
from regard.layers.positions import Rotary
from regard.models.bert import Bert, BertClassifier, BertConfig
from regard.models.gpt import Gpt, GptConfig
from regard.models.published.families import GPT_FAMILIES, bert_from_config, gpt_from_config
from regard.models.published.fields import read_json
from regard.models.published.tensors import BERT_UNUSED, GPT_UNUSED, Recipe, pair
from regard.models.transformer import Transformer, TransformerConfig

__all__ = ["config_from_dict", "load_bert", "load_classifier", "load_gpt", "load_transformer", "save_folder"]

_Config = TypeVar("_Config")
_Model = TypeVar("_Model", bound=nn.Module)
_WEIGHTS, _INDEX, _CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"


class Tensors(Protocol):
    """Named tensors on disk, read one at a time."""

    names: Collection[str]
    where: str

    def get(self, name: str) -> Tensor: ...


class SafetensorsFolder:
    """The tensors of a folder, in one file or several; opened when asked for."""

    def __init__(self, folder: Path) -> None:
        self.where = str(folder)
        self._files: dict[str, tuple[Path, str]] = {}
        for path in _weight_files(folder):
            with _read(path) as file:
                # The oldest BERT files call a norm's weight gamma and its bias beta.
                self._files |= {name.replace(".gamma", ".weight").replace(".beta", ".bias"): (path, name) for name in file.keys()}  # noqa: SIM118
        self.names: Collection[str] = set(self._files)

    def get(self, name: str) -> Tensor:
        path, stored = self._files[name]
        with _read(path) as file:
            return file.get_tensor(stored)  # type: ignore[no-any-return]


def load_gpt(path: str | Path, *, dtype: torch.dtype, device: torch.device | str) -> Gpt:
    path = Path(path)
    if path.suffix == ".gguf":
        from regard.models.gguf_file import read_gguf

        gguf_config, gguf_recipes, gguf_tensors = read_gguf(path)
        return assemble(lambda: Gpt(gguf_config), gguf_recipes, gguf_tensors, (), dtype, device)
    config, tensors = _open(path)
    if _ours(config) == "Gpt":
        return _load_own(lambda: Gpt(config_from_dict(GptConfig, config["config"])), tensors, dtype, device)
    if config.get("model_type") not in GPT_FAMILIES:
        known = ", ".join([*GPT_FAMILIES, "folders of Gpt.save_folder and .gguf files"])
        hint = "; use Bert.from_folder for it" if config.get("model_type") == "bert" else ""
        raise ValueError(f"{path} holds a model of type {_type(config)!r}; Gpt reads {known}{hint}")
    ours, recipes = gpt_from_config(config, tensors.names)
    unused = (*GPT_UNUSED, "lm_head.weight") if ours.tied else GPT_UNUSED
    return assemble(lambda: Gpt(ours), recipes, tensors, unused, dtype, device)


def load_bert(path: str | Path, *, dtype: torch.dtype, device: torch.device | str) -> Bert:
    config, tensors = _open(Path(path))
    if _ours(config) == "Bert":
        return _load_own(lambda: Bert(config_from_dict(BertConfig, config["config"])), tensors, dtype, device)
    ours, recipes = _bert(Path(path), config, tensors)
    return assemble(lambda: Bert(ours), recipes, tensors, BERT_UNUSED, dtype, device)


def load_classifier(path: str | Path, *, dtype: torch.dtype, device: torch.device | str) -> BertClassifier:
    config, tensors = _open(Path(path))
    if _ours(config) == "BertClassifier":
        inner = config_from_dict(BertConfig, config["config"])
        return _load_own(lambda: BertClassifier(Bert(inner), config["classes"], dropout=config["dropout"]), tensors, dtype, device)
    ours, recipes = _bert(Path(path), config, tensors)
    if "classifier.weight" not in tensors.names:
        raise ValueError(f"{path} has no classifier weights; read Bert.from_folder and build BertClassifier(bert, classes) to train them")
    recipes = {f"bert.{name}": recipe for name, recipe in recipes.items()} | pair("output", "classifier")
    classes, dropout = tensors.get("classifier.weight").shape[0], config.get("classifier_dropout")
    return assemble(lambda: BertClassifier(Bert(ours), classes, dropout=dropout), recipes, tensors, BERT_UNUSED, dtype, device)


def load_transformer(path: str | Path, *, dtype: torch.dtype, device: torch.device | str) -> Transformer:
    config, tensors = _open(Path(path))
    if _ours(config) != "Transformer":
        raise ValueError(f"{path} holds a model of type {_type(config)!r}; Transformer reads folders of Transformer.save_folder")
    return _load_own(lambda: Transformer(config_from_dict(TransformerConfig, config["config"])), tensors, dtype, device)


def save_folder(model: nn.Module, path: str | Path) -> None:
    """Write the model's config.json and model.safetensors; each file is there whole or not at all."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    inner = model.bert if isinstance(model, BertClassifier) else model
    about: dict[str, Any] = {"regard": type(model).__name__, "config": dataclasses.asdict(inner.config)}  # type: ignore[call-overload]
    if isinstance(model, BertClassifier):
        about |= {"classes": model.output.out_features, "dropout": model.dropout}
    state = {name: tensor.detach().contiguous() for name, tensor in _stored(model).items()}
    write_atomic(folder / _WEIGHTS, lambda draft: save_file(state, draft, metadata={"format": "pt"}))
    text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
    write_text(folder / _CONFIG, text)


def config_from_dict(kind: type[_Config], given: Mapping[str, Any]) -> _Config:
    """A config dataclass from what JSON made of it."""
    fields = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(given.keys() - fields)
    if unknown:
        raise ValueError(f"{kind.__name__} has no option {', '.join(unknown)}; it has {', '.join(sorted(fields))}")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if isinstance(given.get("rotary"), Mapping):
        values["rotary"] = config_from_dict(Rotary, given["rotary"])
    return kind(**values)


def assemble(
    build: Callable[[], _Model],
    recipes: Mapping[str, Recipe],
    tensors: Tensors,
    spare: Sequence[str],
    dtype: torch.dtype,
    device: torch.device | str,
) -> _Model:
    """Build a model without memory, then give it its tensors one at a time."""
    with torch.device("meta"):
        model = build()
    wanted = _stored(model)
    _check_names(wanted.keys(), recipes, tensors, spare)
    state: dict[str, Tensor] = {}
    for name, place in wanted.items():
        parts = [tensors.get(source) for source in recipes[name].sources]
        parts = [part.t() for part in parts] if recipes[name].transpose else parts
        tensor = parts[0] if len(parts) == 1 else torch.cat(parts)
        if tensor.shape != place.shape:
            sources = " + ".join(f"{source} {tuple(part.shape)}" for source, part in zip(recipes[name].sources, parts, strict=True))
            raise ValueError(
                f"{tensors.where}: {sources} should make {name} {tuple(place.shape)}; the config does not belong to these weights"
            )
        state[name] = tensor.to(device=device, dtype=dtype).contiguous()
    model.load_state_dict(state, strict=False, assign=True)
    return model.eval()


def _load_own(build: Callable[[], _Model], tensors: Tensors, dtype: torch.dtype, device: torch.device | str) -> _Model:
    with torch.device("meta"):
        names = _stored(build())
    return assemble(build, {name: Recipe((name,)) for name in names}, tensors, (), dtype, device)


def _check_names(ours: Collection[str], recipes: Mapping[str, Recipe], tensors: Tensors, spare: Sequence[str]) -> None:
    used = {source for name in ours for source in recipes[name].sources}
    missing = sorted(used - set(tensors.names))
    if missing:
        raise ValueError(f"{tensors.where} lacks {_some(missing)}; is a shard missing, or the config.json of another model?")
    extra = sorted(name for name in set(tensors.names) - used if not any(part in name for part in spare))
    if extra:
        raise ValueError(
            f"{tensors.where} has tensors with no place in this model: {_some(extra)}; it is not the architecture its config names"
        )


def _stored(model: nn.Module) -> dict[str, Tensor]:
    """The model's tensors, a shared one once."""
    names = {name for name, _ in model.named_parameters()} | {name for name, _ in model.named_buffers()}
    return {name: tensor for name, tensor in model.state_dict(keep_vars=True).items() if name in names}


def _bert(path: Path, config: Mapping[str, Any], tensors: Tensors) -> tuple[BertConfig, dict[str, Recipe]]:
    if config.get("model_type") != "bert":
        hint = "; use Gpt.from_folder for it" if config.get("model_type") in GPT_FAMILIES else ""
        raise ValueError(f"{path} holds a model of type {_type(config)!r}; Bert reads bert and folders of save_folder{hint}")
    return bert_from_config(config, tensors.names)


def _open(folder: Path) -> tuple[dict[str, Any], SafetensorsFolder]:
    if not folder.is_dir():
        kind = "is a file" if folder.is_file() else "does not exist"
        raise FileNotFoundError(f"{folder} {kind}; give a folder with {_CONFIG} and {_WEIGHTS}, or (Gpt) a .gguf file")
    if not (folder / _CONFIG).is_file():
        raise FileNotFoundError(f"{folder} has no {_CONFIG}; give the folder a model was downloaded or saved to")
    config = read_json(folder / _CONFIG)
    if "quantization_config" in config:
        method = config["quantization_config"].get("quant_method", "unknown")
        raise ValueError(f"{folder} is quantised ({method}); read the unquantised weights, or a .gguf file")
    return config, SafetensorsFolder(folder)


def _read(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file, or not a whole one ({error}); download it again") from error


def _weight_files(folder: Path) -> list[Path]:
    if (folder / _INDEX).is_file():
        index = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
        files = [folder / name for name in sorted(set(index["weight_map"].values()))]
        lost = [file.name for file in files if not file.is_file()]
        if lost:
            raise FileNotFoundError(f"{folder} lacks {_some(lost)}, named by {_INDEX}; download the rest")
        return files
    if (folder / _WEIGHTS).is_file():
        return [folder / _WEIGHTS]
    pickles = sorted(file.name for file in folder.iterdir() if file.suffix in (".bin", ".pt", ".pth", ".ckpt", ".pkl"))
    if pickles:
        raise ValueError(
            f"{folder} has only pickles ({_some(pickles)}), and reading a pickle can run any code; convert them where they are trusted: "
            "AutoModel.from_pretrained(folder).save_pretrained(new_folder) of transformers writes safetensors"
        )
    raise FileNotFoundError(f"{folder} has no {_WEIGHTS} nor {_INDEX}")


def _ours(config: Mapping[str, Any]) -> str | None:
    return config.get("regard")


def _type(config: Mapping[str, Any]) -> str:
    return str(_ours(config) or config.get("model_type", "none given"))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
