"""regard.watch: see the attention of any PyTorch model, at any length, without the N×N matrix.

Axes: B batch, h heads, L queries, S keys.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..kernels.spec import Result, Spec
from ..readings import Distance, Entropy, MaxLogit, Pooled, Profile, Reading, Received, Sink, TopK, ValueNorm
from .catching import Caught, choose
from .lens import Lens, Place, ids_of
from .proof import prove
from .sighting import Kept, Seen, Sighting
from .tokens import pieces

KEEP_BYTES = 256_000_000
_CROSS = ("cross", "encoder_attn", "encdec", "enc_dec", "multihead_attn")


def default_readings() -> list[Reading]:
    """What is read when nothing else is asked for."""
    return [Entropy(), Received(), TopK(4), Distance(), Sink(), MaxLogit(), ValueNorm(), Pooled(64, 64)]


class watch(Lens):
    """See every attention a model makes inside the block: `with regard.watch(model) as seen: model(**inputs)`.

    Catches, without changes to the model: transformers models, anything that calls F.scaled_dot_product_attention,
    nn.MultiheadAttention and the nn.Transformer layers, and our own layers. Attention that cannot be seen is named in `seen.missed`.

    readings: what to read off the weights (default: entropy, received, top, distance, sink, max_logit, value_norm, pooled).
    layers, heads: numbers to look at; all by default. Layers are counted in the order they run.
    kernel: "auto" runs the model's attention on our kernels and reads on the way; "own" leaves the model's own kernel in place, so that
    outputs are the same to the bit, and reads beside it; or the name of one of our kernels. The fast path of nn.TransformerEncoderLayer
    is off inside the block either way, so its bits may differ from those of an unwatched fast path.
    proof: "sampled" checks 128 rows a head against the model's output in float64, "full" all of them.
    keep: how many bytes of queries and keys to keep for the exact zoom (True: all, False: none).
    tokenizer: of transformers, to write tokens as words; or pass `tokens`, one list per batch item.

    >>> layer = torch.nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()
    >>> with watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 5, 16))
    >>> seen[0].readings["entropy"].shape, seen[0].proof.holds
    (torch.Size([1, 2, 5]), True)
    >>> seen.head(0, 1).tile(rows=slice(0, 2)).shape
    torch.Size([2, 5])
    """

    def __init__(
        self,
        model: nn.Module,
        readings: Sequence[Reading] | None = None,
        *,
        layers: Iterable[int] | None = None,
        heads: Iterable[int] | None = None,
        kernel: str = "auto",
        proof: Literal["sampled", "full"] = "sampled",
        keep: bool | int = KEEP_BYTES,
        tokenizer: Any = None,
        tokens: list[list[str]] | None = None,
    ) -> None:
        super().__init__(model)
        if proof not in ("sampled", "full"):
            raise ValueError(f"proof is {proof!r}; pass 'sampled' (128 rows a head) or 'full' (every row)")
        self.borrows = kernel != "own"
        self._readings = list(default_readings() if readings is None else readings)
        names = [reading.name for reading in self._readings]
        if len(set(names)) < len(names):
            raise ValueError(f"two readings have one name ({', '.join(names)}); give the second another, e.g. reading.name = 'top8'")
        self._layers_wanted = None if layers is None else set(layers)
        self._heads_wanted = None if heads is None else sorted(set(heads))
        self._kernel, self._proof = kernel, proof
        self._room = int(keep) if not isinstance(keep, bool) else (1 << 62 if keep else 0)
        self._tokenizer = tokenizer
        self._passes: list[tuple[Tensor | None, Tensor | None, int]] = []  # ids, source ids, how many were seen before
        self._kinds: dict[int, str] = {}
        self.sighting = Sighting(model=type(model).__name__, tokens=tokens)
        self._given_tokens = tokens is not None

    def __enter__(self) -> Sighting:
        self.open()
        return self.sighting

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
        self.sighting.missed = self.missed
        if not self._given_tokens:
            self._write_tokens()

    def began(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids, source = ids_of(args, kwargs)
        self._passes.append((ids, source, len(self.sighting)))

    def see(self, caught: Caught, place: Place) -> Result | None:
        if self._layers_wanted is not None and place.layer not in self._layers_wanted:
            return None
        mass = _Mass()
        readings = (*(r for r in self._readings if not isinstance(r, Distance)), mass.distance)
        spec = dataclasses.replace(caught.spec, readings=readings, wants_lse=True)
        if self.borrows and not (caught.beside or caught.spec.readings):
            kernel = choose(spec, self._kernel)[0]
            result = looked = kernel.run(spec)
            name = kernel.name
        else:
            result = caught.run()
            spec = dataclasses.replace(spec, dropout=0.0)
            with torch.no_grad():
                kernel = choose(spec, "auto" if self._kernel == "own" else self._kernel)[0]
                looked = kernel.run(spec)
            name = f"{caught.own_name}, read beside it by {kernel.name}"
        self._record(caught, place, spec, looked, result.output.detach(), name, mass)
        return result if result is not looked else dataclasses.replace(result, readings={})

    def _record(self, caught: Caught, place: Place, spec: Spec, looked: Result, output: Tensor, kernel: str, mass: _Mass) -> None:
        lse = None if looked.lse is None else looked.lse.detach()
        assert mass.rows is not None
        spec = dataclasses.replace(spec, dropout=caught.spec.dropout)
        proof = prove(spec, lse=lse, mass=mass.rows, output=output, kernel=kernel, rows=self._proof)
        if not proof.holds:
            warnings.warn(f"the proof of layer {place.layer} ({place.name}) does not hold: {proof}", stacklevel=2)
        wanted = {r.name for r in self._readings}
        readings = {name: value for name, value in looked.readings.items() if name in wanted}
        B, h, L, S = spec.sizes
        chosen = tuple(range(h)) if self._heads_wanted is None else tuple(i for i in self._heads_wanted if i < h)
        if len(chosen) < h:
            readings = {name: _of_heads(value, chosen, (B, h)) for name, value in readings.items()}
        kind = self._kind(caught, place, spec)
        first = S - L if caught.query_at is None else caught.query_at - caught.key_at
        first = place.step if kind == "cross" else max(first, 0)
        seen = Seen(
            layer=place.layer,
            call=place.call,
            name=place.name,
            kind=kind,
            heads=len(chosen),
            query_pos=range(caught.key_at + first, caught.key_at + first + L),
            key_pos=range(caught.key_at, caught.key_at + S),
            mask=spec.mask,
            readings=readings,
            proof=proof,
            kept=self._keep(spec, lse),
            head_ids=chosen,
        )
        at = len(self.sighting)
        self.sighting._all.append(seen)
        if caught.beside:
            caught.checks.append(lambda error: self._amend(at, error))

    def _amend(self, at: int, error: float) -> None:
        """The layer's own output was made apart from what was looked at: the larger of the two errors counts."""
        seen = self.sighting[at]
        proof = dataclasses.replace(seen.proof, output_error=max(seen.proof.output_error, error))
        self.sighting._all[at] = dataclasses.replace(seen, proof=proof)

    def _keep(self, spec: Spec, lse: Tensor | None) -> Kept | None:
        parts = (spec.query, spec.key, spec.bias, lse)
        cost = sum(x.numel() * x.element_size() for x in parts if isinstance(x, Tensor))
        if cost > self._room:
            return None
        self._room -= cost
        return Kept.of(spec, lse)

    def _kind(self, caught: Caught, place: Place, spec: Spec) -> str:
        """What a layer is, decided by its first call: a later step of a generation has one query and no mask to tell it by."""
        if place.layer not in self._kinds:
            two = any("decoder" in name.lower() for name in self._names.values())
            self._kinds[place.layer] = _kind(caught, place.name, spec, two)
        return self._kinds[place.layer]

    def _write_tokens(self) -> None:
        """What the model read, pass by pass: a pass that looks back on more keys than it was given goes on with the text before."""
        text: Tensor | None = None
        source: Tensor | None = None
        for number, (ids, origin, first) in enumerate(self._passes):
            last = self._passes[number + 1][2] if number + 1 < len(self._passes) else len(self.sighting)
            source = origin if origin is not None else source
            if ids is None:
                continue
            keys = [seen.key_pos.stop for seen in self.sighting[first:last] if seen.kind in ("causal", "self")]
            goes_on = text is not None and keys and keys[0] == text.shape[1] + ids.shape[1] and text.shape[0] == ids.shape[0]
            text = torch.cat([text, ids], 1) if goes_on and text is not None else ids
        self.sighting.tokens = None if text is None else pieces(text, self._tokenizer)
        self.sighting.source_tokens = None if source is None else pieces(source, self._tokenizer)


class _Mass:
    """The Distance reading, keeping also the sum of each row, which it must know anyway."""

    def __init__(self) -> None:
        self.rows: Tensor | None = None
        self.distance = Distance()
        finish = self.distance.finish

        def keep(state: dict[str, Any]) -> Profile:
            self.rows = state["rows"]
            return finish(state)

        # The compiled pass knows readings by their exact type, so the instance is extended and not the class.
        self.distance.finish = keep  # type: ignore[method-assign]


def _kind(caught: Caught, name: str, spec: Spec, two: bool) -> str:
    _, _, L, S = spec.sizes
    low = name.lower()
    if caught.cross or (caught.cross is None and any(part in low for part in _CROSS)):
        return "cross"
    # One query before many keys: a step of a generation begun outside the block, unless the score compares a state with annotations
    # or one key is picked.
    if looks_back(spec) or caught.query_at is not None or (L == 1 and S > 1 and spec.score is None and not spec.choice.hard):
        return "causal"
    if caught.cross is None and L != S:
        return "cross"
    return "encoder" if two and "encoder" in low and "decoder" not in low else "self"


def looks_back(spec: Spec) -> bool:
    """Whether the mask lets no query see past its own position, and there is one that could."""
    _, _, L, S = spec.sizes
    if spec.mask is None or L < 2:
        return False
    spans = spec.mask.spans(L, S, device=spec.query.device)
    own = torch.arange(L, device=spec.query.device) + (S - L)
    if spans is None:
        few = range(0, L - 1, max(1, (L - 1) // 64))
        return all(spec.mask.verdict(range(i, i + 1), range(max(i + S - L + 1, 0), S), L, S) == "none" for i in few)
    used = spans[..., 0] < spans[..., 1]
    return bool((~used | (spans[..., 1] <= own.view(1, 1, -1, 1) + 1)).all())


def _of_heads(value: Any, heads: tuple[int, ...], lead: tuple[int, int]) -> Any:
    if isinstance(value, Tensor) and tuple(value.shape[:2]) == lead:
        return value[:, list(heads)]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_of_heads(x, heads, lead) for x in value))
    return value
