"""Save models as config.json and safetensors, and load them and published weights. Pickles are never read."""

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
from regard.limits import check_count
from regard.models.bert import Bert, BertClassifier, BertConfig
from regard.models.empty import empty_model
from regard.models.gpt import Gpt, GptConfig
from regard.models.published.families import GPT_FAMILIES, bert_from_config, gpt_from_config
from regard.models.published.fields import read_json, weight_file_names
from regard.models.published.tensors import BERT_UNUSED, GPT_UNUSED, TensorMap, TensorSource, weight_and_bias
from regard.models.transformer import Transformer, TransformerConfig

__all__ = ["config_from_dict", "load_bert", "load_classifier", "load_gpt", "load_transformer", "save_folder"]

_Config = TypeVar("_Config")
_Model = TypeVar("_Model", bound=nn.Module)
_WEIGHTS, _INDEX, _CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"


class Tensors(Protocol):
    """Named tensors in a file or folder, loaded one at a time. `where` is its path, for error messages."""

    names: Collection[str]
    where: str

    def get(self, name: str) -> Tensor: ...


class SafetensorsFolder:
    """The tensors of a folder's safetensors files; a file is opened when one of its tensors is loaded."""

    def __init__(self, folder: Path) -> None:
        self.where = str(folder)
        self._files: dict[str, tuple[Path, str]] = {}
        for path in _weight_files(folder):
            with _safe_open(path) as file:
                # In the oldest BERT files a norm's weight is called gamma and its bias beta.
                self._files |= {name.replace(".gamma", ".weight").replace(".beta", ".bias"): (path, name) for name in file.keys()}  # noqa: SIM118
        self.names: Collection[str] = set(self._files)

    def get(self, name: str) -> Tensor:
        path, stored = self._files[name]
        with _safe_open(path) as file:
            try:
                return file.get_tensor(stored)  # type: ignore[no-any-return]
            except (SafetensorError, RuntimeError, AttributeError, KeyError) as error:  # a dtype that torch does not have, a damaged shape
                raise ValueError(f"{path}: the tensor {stored} cannot be read ({error})") from error


def load_gpt(path: str | Path, *, dtype: torch.dtype, device: torch.device | str) -> Gpt:
    """Load a folder of `Gpt.save_folder`, a published folder of one of GPT_FAMILIES, or a .gguf file."""
    path = Path(path)
    if path.suffix == ".gguf":
        from regard.models.published.gguf_file import read_gguf

        gguf_config, gguf_map, gguf_tensors = read_gguf(path)
        return build_from_tensors(lambda: Gpt(gguf_config), gguf_map, gguf_tensors, (), dtype, device)
    config, tensors = _open(path)
    if _saved_class(config) == "Gpt":
        return _load_saved(lambda: Gpt(config_from_dict(GptConfig, config.get("config"))), tensors, dtype, device)
    if config.get("model_type") not in GPT_FAMILIES:
        readable = ", ".join([*GPT_FAMILIES, "folders of Gpt.save_folder and .gguf files"])
        hint = "; use Bert.from_folder for it" if config.get("model_type") == "bert" else ""
        raise ValueError(f"{path} holds a model of type {_type(config)!r}; Gpt reads {readable}{hint}")
    gpt_config, tensor_map = gpt_from_config(config, tensors.names)
    unused = (*GPT_UNUSED, "lm_head.weight") if gpt_config.tied else GPT_UNUSED
    return build_from_tensors(lambda: Gpt(gpt_config), tensor_map, tensors, unused, dtype, device)


def load_bert(path: str | Path, *, dtype: torch.dtype, device: torch.device | str) -> Bert:
    """Load a folder of `Bert.save_folder` or a published bert folder."""
    config, tensors = _open(Path(path))
    if _saved_class(config) == "Bert":
        return _load_saved(lambda: Bert(config_from_dict(BertConfig, config.get("config"))), tensors, dtype, device)
    bert_config, tensor_map = _published_bert(Path(path), config, tensors)
    return build_from_tensors(lambda: Bert(bert_config), tensor_map, tensors, BERT_UNUSED, dtype, device)


def load_classifier(path: str | Path, *, dtype: torch.dtype, device: torch.device | str) -> BertClassifier:
    """Load a folder of `BertClassifier.save_folder` or a published bert folder with a sequence classifier."""
    config, tensors = _open(Path(path))
    if _saved_class(config) == "BertClassifier":
        inner = config_from_dict(BertConfig, config.get("config"))
        check_count("classes", config.get("classes"), 1)
        options: dict[str, Any] = {"dropout": config.get("dropout"), "pooling": config.get("pooling", "first")}
        return _load_saved(lambda: BertClassifier(Bert(inner), config["classes"], **options), tensors, dtype, device)
    bert_config, tensor_map = _published_bert(Path(path), config, tensors)
    if "classifier.weight" not in tensors.names:
        raise ValueError(f"{path} has no classifier weights; load it with Bert.from_folder and train BertClassifier(bert, classes)")
    tensor_map = {f"bert.{name}": source for name, source in tensor_map.items()} | weight_and_bias("output", "classifier")
    classes, dropout = tensors.get("classifier.weight").shape[0], config.get("classifier_dropout")
    return build_from_tensors(
        lambda: BertClassifier(Bert(bert_config), classes, dropout=dropout), tensor_map, tensors, BERT_UNUSED, dtype, device
    )


def load_transformer(path: str | Path, *, dtype: torch.dtype, device: torch.device | str) -> Transformer:
    """Load a folder of `Transformer.save_folder`."""
    config, tensors = _open(Path(path))
    if _saved_class(config) != "Transformer":
        raise ValueError(f"{path} holds a model of type {_type(config)!r}; Transformer reads folders of Transformer.save_folder")
    return _load_saved(lambda: Transformer(config_from_dict(TransformerConfig, config.get("config"))), tensors, dtype, device)


def save_folder(model: nn.Module, path: str | Path) -> None:
    """Write the model's config.json and model.safetensors; a write that fails leaves the old file."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    inner = model.bert if isinstance(model, BertClassifier) else model
    content: dict[str, Any] = {"regard": type(model).__name__, "config": dataclasses.asdict(inner.config)}  # type: ignore[call-overload]
    if isinstance(model, BertClassifier):
        content |= {"classes": model.output.out_features, "dropout": model.dropout, "pooling": model.pooling}
    state = {name: tensor.detach().contiguous() for name, tensor in _unique_tensors(model).items()}
    write_atomic(folder / _WEIGHTS, lambda draft: save_file(state, draft, metadata={"format": "pt"}))
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_text(folder / _CONFIG, text)


def config_from_dict(kind: type[_Config], options: Any) -> _Config:
    """Build a config dataclass from its fields as JSON stores them (tuples as lists, Rotary as a mapping)."""
    if not isinstance(options, Mapping):
        raise ValueError(f"the config of {kind.__name__} is {str(options)[:80]!r}; expected a JSON object")
    fields = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(options.keys() - fields)
    if unknown:
        raise ValueError(f"{kind.__name__} has no option {', '.join(unknown)}; it has {', '.join(sorted(fields))}")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    if isinstance(options.get("rotary"), Mapping):
        values["rotary"] = config_from_dict(Rotary, options["rotary"])
    try:
        return kind(**values)
    except TypeError as error:  # a required field is missing
        raise ValueError(f"the config of {kind.__name__} cannot be read: {str(error).partition('() ')[2] or error}") from error


def build_from_tensors(
    build: Callable[[], _Model],
    tensor_map: Mapping[str, TensorSource],
    tensors: Tensors,
    unused: Sequence[str],
    dtype: torch.dtype,
    device: torch.device | str,
) -> _Model:
    """Build a model on the meta device, then load its tensors one at a time.

    tensor_map: for each tensor of the model, those it is made from. unused: parts of the names of tensors that may be left over.
    """
    model = empty_model(build, tensors.where)
    parameters = _unique_tensors(model)
    _check_names(parameters.keys(), tensor_map, tensors, unused)
    state: dict[str, Tensor] = {}
    for name, parameter in parameters.items():
        source = tensor_map[name]
        parts = [tensors.get(part) for part in source.names]
        parts = [part.t() for part in parts] if source.transpose else parts
        tensor = parts[0] if len(parts) == 1 else torch.cat(parts)
        if tensor.shape != parameter.shape:
            shapes = " + ".join(f"{part} {tuple(stored.shape)}" for part, stored in zip(source.names, parts, strict=True))
            raise ValueError(
                f"{tensors.where}: {shapes} should make {name} {tuple(parameter.shape)}; the config does not belong to these weights"
            )
        state[name] = tensor.to(device=device, dtype=dtype).contiguous()
    model.load_state_dict(state, strict=False, assign=True)
    return model.eval()


def _load_saved(build: Callable[[], _Model], tensors: Tensors, dtype: torch.dtype, device: torch.device | str) -> _Model:
    names = _unique_tensors(empty_model(build, tensors.where))
    return build_from_tensors(build, {name: TensorSource((name,)) for name in names}, tensors, (), dtype, device)


def _check_names(parameters: Collection[str], tensor_map: Mapping[str, TensorSource], tensors: Tensors, unused: Sequence[str]) -> None:
    used = {part for name in parameters for part in tensor_map[name].names}
    missing = sorted(used - set(tensors.names))
    if missing:
        raise ValueError(f"{tensors.where} lacks {_some(missing)}; is a shard missing, or the config.json of another model?")
    extra = sorted(name for name in set(tensors.names) - used if not any(part in name for part in unused))
    if extra:
        raise ValueError(
            f"{tensors.where} has tensors this model does not have: {_some(extra)}; the weights are not of the architecture in config.json"
        )


def _unique_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the model's tensors by name, a shared one only once."""
    names = {name for name, _ in model.named_parameters()} | {name for name, _ in model.named_buffers()}
    return {name: tensor for name, tensor in model.state_dict(keep_vars=True).items() if name in names}


def _published_bert(path: Path, config: Mapping[str, Any], tensors: Tensors) -> tuple[BertConfig, TensorMap]:
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
        details = config["quantization_config"]
        method = details.get("quant_method", "unknown") if isinstance(details, dict) else "unknown"
        raise ValueError(f"{folder} is quantised ({method}); read the unquantised weights, or a .gguf file")
    return config, SafetensorsFolder(folder)


def _safe_open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, UnicodeError) as error:
        raise ValueError(f"{path} is not a safetensors file or is incomplete ({error}); download it again") from error


def _weight_files(folder: Path) -> list[Path]:
    if (folder / _INDEX).is_file():
        names = weight_file_names(folder / _INDEX)
        files = [folder / name for name in names]
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            raise FileNotFoundError(f"{folder} lacks {_some(missing)}, listed in {_INDEX}; download them too")
        return files
    if (folder / _WEIGHTS).is_file():
        return [folder / _WEIGHTS]
    pickles = sorted(file.name for file in folder.iterdir() if file.suffix in (".bin", ".pt", ".pth", ".ckpt", ".pkl"))
    if pickles:
        raise ValueError(
            f"{folder} has only pickles ({_some(pickles)}), and loading a pickle can run any code; if you trust them, convert them: "
            "transformers' AutoModel.from_pretrained(folder).save_pretrained(new_folder) writes safetensors"
        )
    raise FileNotFoundError(f"{folder} has neither {_WEIGHTS} nor {_INDEX}; give the folder a model was downloaded or saved to")


def _saved_class(config: Mapping[str, Any]) -> str | None:
    """Return the name of the class `save_folder` wrote, or None if the folder is a published one."""
    return config.get("regard")


def _type(config: Mapping[str, Any]) -> str:
    return str(_saved_class(config) or config.get("model_type", "none given"))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
