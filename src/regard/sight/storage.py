"""Save and load sightings: .safetensors holds everything, .json a summary; HTML and figures are written by `views`."""

from __future__ import annotations

import dataclasses
import json
from collections import namedtuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..choices import Softmax
from ..files import DamagedFile, as_object, write_atomic, write_text
from ..kernels.request import Request
from ..masks import from_spans
from ..readings import NormWeighted, Profile, Top
from .proof import Proof
from .sighting import Kept, Missed, Seen, Sighting
from .summary import finite, summary

if TYPE_CHECKING:
    from ..masks import Mask

FORMAT = "regard sighting 1"
_TUPLES: dict[str, Any] = {kind.__name__: kind for kind in (Top, Profile, NormWeighted)}
_PICTURES = (".html", ".svg", ".png", ".pdf")


def save(sighting: Sighting, path: Path, *, kept: bool = True) -> None:
    """Write a sighting in the format of the file name's ending."""
    ending = path.suffix.lower()
    if ending == ".safetensors":
        write_atomic(path, lambda draft: _write_tensors(sighting, draft, kept))
    elif ending == ".json":
        text = json.dumps(as_json(sighting), ensure_ascii=False, indent=1, allow_nan=False)
        write_text(path, text + "\n")
    elif ending == ".html":
        from .views.report import write_reports

        write_reports(sighting, path)
    elif ending in _PICTURES:
        from .views.figures import write_figure

        write_figure(sighting, path)
    else:
        raise ValueError(
            f"{path.name}: unknown file type {path.suffix!r}; use one of the endings .safetensors, .json, {', '.join(_PICTURES)}"
        )


def as_json(sighting: Sighting) -> dict[str, Any]:
    """Return the model, tokens, missed attention, the proof of every call and the summary table as plain JSON values."""
    return {
        "format": FORMAT,
        "model": sighting.model,
        "tokens": sighting.tokens,
        "source_tokens": sighting.source_tokens,
        "missed": [missed._asdict() for missed in sighting.missed],
        "calls": [_header(seen) for seen in sighting],
        "heads": [{k: finite(v) if isinstance(v, float) else v for k, v in row.items()} for row in summary(sighting)],
    }


def _header(seen: Seen) -> dict[str, Any]:
    """Return the fields of one call that are not tensors."""
    proof = {k: finite(v) if isinstance(v, float) else v for k, v in dataclasses.asdict(seen.proof).items()}
    labels = None if seen.labels is None else {str(head): pairs for head, pairs in seen.labels.items()}
    return {
        "layer": seen.layer, "call": seen.call, "name": seen.name, "kind": seen.kind, "head_ids": list(seen.head_ids),
        "query_pos": [seen.query_pos.start, seen.query_pos.stop], "key_pos": [seen.key_pos.start, seen.key_pos.stop],
        "proof": proof, "labels": labels,
    }  # fmt: skip


def _write_tensors(sighting: Sighting, path: Path, kept: bool) -> None:
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {}
    calls = []
    for number, seen in enumerate(sighting):
        header = _header(seen)
        header["readings"] = {name: _store(value, f"{number}.{name}", tensors) for name, value in seen.readings.items()}
        header["mask"] = _store_mask(seen, number, tensors)
        header["kept"] = _store_kept(seen, number, tensors) if kept else None
        calls.append(header)
    metadata = {name: getattr(sighting, name) for name in ("model", "tokens", "source_tokens")}
    metadata |= {"missed": [missed._asdict() for missed in sighting.missed], "calls": calls}
    save_file(tensors, path, metadata={"format": FORMAT, "sighting": json.dumps(metadata, ensure_ascii=False, allow_nan=False)})


def _store(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Add a reading's tensors to those of the file; returns the JSON description that `_restore` reads."""
    if isinstance(value, Tensor):
        tensors[name] = value.detach().clone(memory_format=torch.contiguous_format)
        return {"tensor": name}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = {field: _store(part, f"{name}.{field}", tensors) for field, part in zip(value._fields, value, strict=True)}
        return {"tuple": type(value).__name__, "fields": fields}
    return {"plain": value}


def _store_mask(seen: Seen, number: int, tensors: dict[str, Tensor]) -> bool | None:
    """Add the mask as key ranges; returns None without a mask, False for a mask that needs too many ranges and is not saved."""
    if seen.mask is None:
        return None
    spans = seen.mask.spans(len(seen.query_pos), len(seen.key_pos))
    if spans is None:
        return False
    tensors[f"{number}.mask"] = spans.clone(memory_format=torch.contiguous_format)  # a copy: layers may share one tensor
    return True


def _store_kept(seen: Seen, number: int, tensors: dict[str, Tensor]) -> dict[str, Any] | None:
    """Add queries, keys and lse of a softmax over dot products whose mask is in the file; None for any other attention."""
    kept = seen.kept
    if kept is None or kept.lse is None or kept.spec.score is not None or type(kept.spec.choice) is not Softmax:
        return None
    spec = kept.spec
    if (spec.mask is not None and f"{number}.mask" not in tensors) or not isinstance(spec.bias, Tensor | None):
        return None
    parts = {"query": spec.query, "key": spec.key, "lse": kept.lse, "bias": spec.bias, "key_bias": spec.key_bias}
    parts["beta"] = spec.beta if isinstance(spec.beta, Tensor) else None
    tensors |= {f"{number}.kept.{name}": x.detach().contiguous().clone() for name, x in parts.items() if x is not None}
    return {"scale": spec.scale, "cap": spec.cap, "beta": None if isinstance(spec.beta, Tensor) else spec.beta}


def load(path: Path) -> Sighting:
    """Load a sighting from a .safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if metadata.get("format") != FORMAT:
            raise ValueError(f"{path} is not a saved sighting: its format is {metadata.get('format')!r}, expected {FORMAT!r}")
        header = as_object(metadata["sighting"], path)
        _check_types(header)
        missed = tuple(Missed(m["name"], tuple(m["shape"]), m["advice"]) for m in header["missed"])
        calls = [_restore_seen(number, call, tensors) for number, call in enumerate(header["calls"])]
        return Sighting(header["model"], header["tokens"], header["source_tokens"], missed, calls)
    except (SafetensorError, KeyError, TypeError, IndexError, AttributeError, RuntimeError) as error:
        raise DamagedFile(f"{path} is not a saved sighting, or is damaged ({type(error).__name__}: {error})") from error


def _check_types(header: dict[str, Any]) -> None:
    """Raise TypeError if a field of a saved sighting is not of the type it was written with."""
    rows = [header["tokens"], header["source_tokens"]]
    texts = [header["model"], *(token for lines in rows if lines is not None for line in lines for token in line)]
    wholes: list[Any] = []
    numbers: list[Any] = []
    for call in header["calls"]:
        proof, labels = call["proof"], call["labels"] or {}
        texts += [call["name"], call["kind"], proof["kernel"], proof["mask"], *(label for pairs in labels.values() for label, _ in pairs)]
        wholes += [call["layer"], call["call"], *call["head_ids"], *call["query_pos"], *call["key_pos"], proof["rows_checked"]]
        numbers += [proof["row_sum_error"], proof["output_error"], *(score for pairs in labels.values() for _, score in pairs)]
    for values, kind in ((texts, str), (wholes, int), (numbers, (int, float, type(None)))):
        if wrong := [value for value in values if not isinstance(value, kind)]:
            raise TypeError(f"{str(wrong[0])[:80]!r} is of another type than was written")


def _restore_seen(number: int, header: dict[str, Any], tensors: dict[str, Tensor]) -> Seen:
    """Build one call from its header and the tensors of the file."""
    mask = from_spans(tensors[f"{number}.mask"]) if header["mask"] else None
    labels = header["labels"]
    proof: dict[str, Any] = {k: float("nan") if v is None else v for k, v in header["proof"].items()}
    return Seen(
        layer=header["layer"],
        call=header["call"],
        name=header["name"],
        kind=header["kind"],
        heads=len(header["head_ids"]),
        query_pos=range(*header["query_pos"]),
        key_pos=range(*header["key_pos"]),
        mask=mask,
        readings={name: _restore(value, tensors) for name, value in header["readings"].items()},
        proof=Proof(**proof),
        kept=None if header["kept"] is None else _restore_kept(number, header["kept"], mask, tensors),
        labels=None if labels is None else {int(head): [(label, score) for label, score in pairs] for head, pairs in labels.items()},
        head_ids=tuple(header["head_ids"]),
    )


def _restore(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Build a reading from the description that `_store` returned."""
    if "tensor" in value:
        return tensors[value["tensor"]]
    if "tuple" in value:
        fields = {name: _restore(part, tensors) for name, part in value["fields"].items()}
        for start, end in fields["offsets"] if value["tuple"] == "Profile" else ():
            range(start, end)  # both are whole numbers
        kind = _TUPLES.get(value["tuple"]) or namedtuple(value["tuple"], fields)
        return kind(**fields)
    plain = value["plain"]
    parts = [part for item in plain for part in (item if isinstance(item, list) else [item])] if isinstance(plain, list) else []
    if not all(isinstance(part, (int, float, str)) for part in parts):
        raise TypeError(f"{str(plain)[:80]!r} is of another type than was written")
    return tuple(tuple(x) if isinstance(x, list) else x for x in plain) if isinstance(plain, list) else plain


def _restore_kept(number: int, header: dict[str, Any], mask: Mask | None, tensors: dict[str, Tensor]) -> Kept:
    def stored(name: str) -> Tensor | None:
        return tensors.get(f"{number}.kept.{name}")

    query, key, beta = tensors[f"{number}.kept.query"], tensors[f"{number}.kept.key"], stored("beta")
    spec = Request(
        query, key, key[..., :0], Softmax(), scale=header["scale"], cap=header["cap"], key_bias=stored("key_bias"), mask=mask,
        bias=stored("bias"), beta=header["beta"] if beta is None else beta,
    )  # fmt: skip
    return Kept(spec, tensors[f"{number}.kept.lse"])
