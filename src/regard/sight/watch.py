"""regard.watch: observe the attention of any PyTorch model, at any length, without the N×N matrix.

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

from ..kernels.kernel import Result
from ..kernels.request import Request, check_readings
from ..readings import Distance, Entropy, MaxLogit, Pooled, Reading, Received, RowMass, Sink, TopK, ValueNorm
from .capture.captured import CapturedAttention, OwnWeights, execute, first_query
from .capture.interception import is_recomputed_later
from .capture.model_hooks import LayerCall, ModelHooks
from .capture.token_ids import ForwardIds, continues, ids_of_call, token_strings
from .own_weights import prove_weights, read_weights
from .proof import Proof, prove
from .sighting import Kept, Seen, Sighting

KEEP_BYTES = 256_000_000
_CROSS_NAMES = ("cross", "encoder_attn", "encdec", "enc_dec", "multihead_attn")


def default_readings() -> list[Reading]:
    """Return the readings `watch` computes by default.

    >>> [reading.name for reading in default_readings()][:3]
    ['entropy', 'received', 'top']
    """
    return [Entropy(), Received(), TopK(4), Distance(), Sink(), MaxLogit(), ValueNorm(), Pooled(64, 64)]


class watch(ModelHooks):
    """Record every attention a model computes inside a `with` block: `with regard.watch(model) as seen: model(**inputs)`.

    The model is not changed. Captured are transformers models, every call of F.scaled_dot_product_attention, nn.MultiheadAttention and
    the nn.Transformer layers, and regard's own layers. Attention that cannot be captured is listed in `seen.missed`.

    model: any PyTorch model.
    readings: what to compute from the weights (default: entropy, received, top, distance, sink, max_logit, value_norm, pooled).
    layers, heads: indices of the layers and heads to record; all by default. Layers are numbered in the order they run.
    kernel: "auto" runs the model's attention on regard's kernels, which compute the readings in the same pass; "own" runs the model's
        own kernel, so that its outputs are bit-identical, and computes the readings in a second pass; or the name of a regard kernel.
        The fast path of nn.TransformerEncoderLayer is off inside the block either way, which may change the last bits of its output.
    proof: "sampled" compares 128 rows per head with the model's output in float64, "full" all rows.
    keep: how many bytes of queries and keys to keep for recomputing exact weights (True: all, False: none).
    keep_values: also keep the values and every head's output, as `seen[layer].values` and `.output`, within the same bytes.
    keep_graph: keep the autograd graph of queries and keys, so that `seen.head(l, h).tile(..., grad=True)` can be differentiated.
    tokenizer: a transformers tokenizer that turns ids into tokens.
    tokens: instead of it, one list of tokens per batch item.

    `as seen` is a :class:`Sighting`. Raises ValueError for another `proof`.

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
        keep_values: bool = False,
        keep_graph: bool = False,
        tokenizer: Any = None,
        tokens: list[list[str]] | None = None,
    ) -> None:
        super().__init__(model)
        if proof not in ("sampled", "full"):
            raise ValueError(f"proof is {proof!r}; pass 'sampled' (128 rows per head) or 'full' (every row)")
        self.uses_regard_kernels = kernel != "own"
        self._readings = check_readings(default_readings() if readings is None else readings)
        self._selected_layers = None if layers is None else set(layers)
        self._selected_heads = None if heads is None else sorted(set(heads))
        self._kernel, self._proof = kernel, proof
        self._bytes_left = int(keep) if not isinstance(keep, bool) else (1 << 62 if keep else 0)
        self._keep_values, self._keep_graph = keep_values, keep_graph
        self._tokenizer = tokenizer
        self._passes: list[tuple[ForwardIds, int]] = []  # per forward pass: its ids, and how many attentions preceded it
        self._kinds: dict[int, str] = {}
        self._has_decoder: bool | None = None
        self.sighting = Sighting(model=type(model).__name__, tokens=tokens)
        self._tokens_known = tokens is not None

    def __enter__(self) -> Sighting:
        self.open()
        return self.sighting

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
        self.sighting.missed = self.missed
        if not self._tokens_known:
            self._write_tokens()

    def forward_begins(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._passes.append((ids_of_call(args, kwargs), len(self.sighting)))

    def decoder_begins(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Take the tokens that an encoder–decoder made itself, of its labels, from the args and kwargs of its decoder."""
        (ids, source), start = self._passes[-1]
        target = ids_of_call(args, kwargs).ids
        if target is not None and target is not ids:
            self._passes[-1] = (ForwardIds(target, ids if source is None else source), start)

    def observe(self, captured: CapturedAttention, call: LayerCall) -> Result | None:
        if self._selected_layers is not None and call.layer not in self._selected_layers:
            return None
        if captured.own is not None and not captured.altered:
            return self._observe_own(captured, captured.own, call)
        readings = (*self._readings, RowMass())  # the proof needs each row's sum
        request = dataclasses.replace(captured.request, readings=readings, needs_lse=True)
        if self.uses_regard_kernels and not (captured.output_exists or captured.request.readings or is_recomputed_later()):
            observed, kernel = execute(request, self._kernel)
            result = dataclasses.replace(observed, readings={})
        else:  # the model's own kernel, then ours on the same inputs for the readings
            result, original_kernel = captured.run()
            with torch.no_grad():
                observed, kernel = execute(dataclasses.replace(request, dropout=0.0), "auto" if self._kernel == "own" else self._kernel)
            kernel = f"{original_kernel}; readings by {kernel}"
        lse = None if observed.lse is None else observed.lse.detach()
        output = captured.without_means(result.output.detach())
        proof = prove(request, lse=lse, mass=observed.readings[RowMass.name], output=output, kernel=kernel, rows=self._proof)
        self._record(captured, call, request, observed, lse, proof, result.output)
        return result

    def _observe_own(self, captured: CapturedAttention, own: OwnWeights, call: LayerCall) -> Result:
        """Record weights that the model computed itself: they are read as they are."""
        result, _ = captured.run()
        request = dataclasses.replace(captured.request, readings=self._readings)
        with torch.no_grad():
            observed = read_weights(request, own.weights, own.scores)
            proof = prove_weights(request, own, result.output.detach(), rows=self._proof)
        self._record(captured, call, request, observed, observed.lse, proof, result.output)
        return result

    def _record(
        self,
        captured: CapturedAttention,
        call: LayerCall,
        request: Request,
        observed: Result,
        lse: Tensor | None,
        proof: Proof,
        output: Tensor,
    ) -> None:
        """Append one attention and its readings to the sighting."""
        if not proof.holds:
            problem = "the recorded weights do not reproduce the model's output: the proof does not hold"
            warnings.warn(f"layer {call.layer} ({call.name}): {problem}: {proof}", stacklevel=2)
        B, h, L, S = request.sizes
        head_ids = tuple(range(h)) if self._selected_heads is None else tuple(i for i in self._selected_heads if i < h)
        names = {reading.name for reading in self._readings}
        readings = {name: value for name, value in observed.readings.items() if name in names}
        if len(head_ids) < h:
            readings = {name: _of_heads(value, head_ids, (B, h)) for name, value in readings.items()}
        kind = self._kind_of_layer(captured, call, request)
        query_start = self._query_start(captured, call, request, kind)
        seen = Seen(
            layer=call.layer,
            call=call.call,
            name=call.name,
            kind=kind,
            heads=len(head_ids),
            query_pos=range(query_start, query_start + L),
            key_pos=range(captured.key_start, captured.key_start + S),
            mask=request.mask,
            readings=readings,
            proof=proof,
            kept=self._keep(request, lse),
            head_ids=head_ids,
        )
        seen = dataclasses.replace(seen, **self._values(request, output, list(head_ids)))
        index = len(self.sighting)
        self.sighting._all.append(seen)
        if captured.output_exists:
            captured.error_listeners.append(lambda error: self._add_error(index, error))

    def _query_start(self, captured: CapturedAttention, call: LayerCall, request: Request, kind: str) -> int:
        """Return the position in the text of the first query. That of cross-attention is the one of the self-attention before it."""
        if kind == "cross":
            before = next((seen for seen in reversed(self.sighting._all) if seen.kind == "causal"), None)
            same_step = before is not None and len(before.query_pos) == request.query.shape[2] and before.call == call.call
            return before.query_pos.start if before is not None and same_step else captured.key_start + call.step
        return captured.key_start + (max(first_query(captured), 0) if kind == "causal" else 0)

    def _add_error(self, index: int, error: float) -> None:
        """Raise a recorded proof's output error to the error of an output that the layer computed separately, if that is larger."""
        seen = self.sighting[index]
        proof = dataclasses.replace(seen.proof, output_error=max(seen.proof.output_error, error))
        self.sighting._all[index] = dataclasses.replace(seen, proof=proof)

    def _keep(self, request: Request, lse: Tensor | None) -> Kept | None:
        """Copy queries, keys and lse while they fit into the bytes that are left; None once they do not."""
        parts = (request.query, request.key, request.bias, lse)
        size = sum(x.numel() * x.element_size() for x in parts if isinstance(x, Tensor))
        if size > self._bytes_left:
            return None
        self._bytes_left -= size
        return Kept.of(request, lse, graph=self._keep_graph)

    def _values(self, request: Request, output: Tensor, heads: list[int]) -> dict[str, Any]:
        """Copy the values (B, k, S, dv) and the heads' outputs (B, h, L, dv), if they are wanted and fit into the bytes that are left."""
        size = request.value.numel() * request.value.element_size() + output.numel() * output.element_size()
        if not self._keep_values or size > self._bytes_left:
            return {}
        self._bytes_left -= size
        return {"values": request.value.detach().clone(), "output": output.detach()[:, heads].clone()}

    def _kind_of_layer(self, captured: CapturedAttention, call: LayerCall, request: Request) -> str:
        """Return the kind of a layer, decided by its first call: a later decoding step has one query and often no mask."""
        if call.layer not in self._kinds:
            if self._has_decoder is None:  # a Linear of that name makes the logits
                parts = (name for name, module in self.model.named_modules() if not isinstance(module, nn.Linear))
                self._has_decoder = any("decoder" in name.lower() for name in parts)
            self._kinds[call.layer] = _attention_kind(captured, call.name, request, self._has_decoder)
        return self._kinds[call.layer]

    def _write_tokens(self) -> None:
        """Set the sighting's tokens; a forward pass that attends to more keys than its own tokens continues the text before it."""
        text_ids: Tensor | None = None
        source_ids: Tensor | None = None
        starts = [start for _, start in self._passes]
        for ((new_ids, new_source_ids), start), end in zip(self._passes, [*starts[1:], len(self.sighting)], strict=False):
            source_ids = new_source_ids if new_source_ids is not None else source_ids
            kinds = {seen.kind for seen in self.sighting[start:end]}
            if kinds == {"encoder"} and new_ids is not None:  # as `generate` calls the encoder, before its steps
                source_ids = new_ids
            if new_ids is None or kinds == {"encoder"}:
                continue
            stop = next((seen.query_pos.stop for seen in self.sighting[start:end] if seen.kind in ("causal", "self")), None)
            text_ids = torch.cat([text_ids, new_ids], 1) if text_ids is not None and continues(text_ids, new_ids, stop) else new_ids
        self.sighting.tokens = None if text_ids is None else token_strings(text_ids, self._tokenizer)
        self.sighting.source_tokens = None if source_ids is None else token_strings(source_ids, self._tokenizer)


def _attention_kind(captured: CapturedAttention, name: str, request: Request, has_decoder: bool) -> str:
    """Classify an attention by its caller, its mask and its module's name: "causal", "self", "encoder" (of an encoder–decoder), "cross"."""
    _, _, L, S = request.sizes
    lowercase_name = name.lower()
    if captured.cross or (captured.cross is None and any(part in lowercase_name for part in _CROSS_NAMES)):
        return "cross"
    # One query and many keys: a decoding step of a generation that began outside the block. Not so with a score of its own (a recurrent
    # decoder that attends to annotations) or a hard choice.
    one_step = L == 1 and S > 1 and request.score is None and not request.choice.hard and captured.own is None
    if has_causal_mask(request) or captured.query_start is not None or one_step:
        return "causal"
    if captured.cross is None and L != S:
        return "cross"
    is_encoder = has_decoder and "encoder" in lowercase_name and "decoder" not in lowercase_name
    return "encoder" if is_encoder else "self"


def has_causal_mask(request: Request) -> bool:
    """Return whether the mask hides from every query the keys after its own position; False for a single query."""
    _, _, L, S = request.sizes
    if request.mask is None or L < 2:
        return False
    spans = request.mask.spans(L, S, device=request.query.device)
    if spans is None:
        sampled_rows = range(0, L - 1, max(1, (L - 1) // 64))
        return all(request.mask.verdict(range(i, i + 1), range(max(i + S - L + 1, 0), S), L, S) == "none" for i in sampled_rows)
    own_position = torch.arange(L, device=request.query.device) + (S - L)
    used = spans[..., 0] < spans[..., 1]
    return bool((~used | (spans[..., 1] <= own_position.view(1, 1, -1, 1) + 1)).all())


def _of_heads(value: Any, heads: tuple[int, ...], leading: tuple[int, int]) -> Any:
    """Return the part of a reading that belongs to these heads; `leading` is its (B, h)."""
    if isinstance(value, Tensor) and tuple(value.shape[:2]) == leading:
        return value[:, list(heads)]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_of_heads(x, heads, leading) for x in value))
    return value
