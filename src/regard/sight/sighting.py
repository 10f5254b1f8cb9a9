"""A sighting: the attention of a model as `watch` recorded it, by layer, call and head, with its proof and exact weights on demand.

Axes: B batch, h heads, L queries, S keys, l rows and s columns of a tile.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import torch
from torch import Tensor

from ..kernels.request import Request
from ..masks import Mask
from .proof import Proof
from .recompute import WeightTile, row_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .comparison import Comparison
    from .labels import Labels


class Missed(NamedTuple):
    """An attention that ran and could not be captured.

    name: its module.
    shape: of the tensor it was detected by.
    advice: what to do.

    >>> Missed("layers.0", (1, 2, 5, 5), "call attend").name
    'layers.0'
    """

    name: str
    shape: tuple[int, ...]
    advice: str


@dataclass(frozen=True, eq=False, repr=False)
class Kept:
    """Queries, keys and lse (log-sum-exp of the scores) of one call, from which any tile of its weights is recomputed exactly.

    spec: the call.
    lse: (B, h, L).
    live: the call with its autograd graph, if that was kept.

    >>> import regard
    >>> layer = torch.nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()
    >>> with regard.watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 5, 16))
    >>> seen[0].kept.lse.shape
    torch.Size([1, 2, 5])
    """

    spec: Request
    lse: Tensor | None  # (B, h, L)
    live: Request | None = None  # the request with its autograd graph, if that was kept

    @staticmethod
    def of(spec: Request, lse: Tensor | None, *, graph: bool = False) -> Kept:
        """Copy a request's tensors, so that a cache written in place does not change them and no larger storage stays in memory.

        spec: the request; lse: its log-sum-exp; graph: keep its autograd graph too.
        """

        def copy(x: Tensor) -> Tensor:
            return x.detach().clone(memory_format=torch.contiguous_format)

        def detached(x: Any) -> Any:
            return x.detach() if isinstance(x, Tensor) else x

        key = copy(spec.key)
        request = dataclasses.replace(
            spec,
            query=copy(spec.query),
            key=key,
            value=key[..., :0],
            key_bias=detached(spec.key_bias),
            bias=detached(spec.bias),
            beta=detached(spec.beta),
            sinks=detached(spec.sinks),
            row_shift=None,
            uniform=None,
            readings=(),
        )
        return Kept(request, None if lse is None else lse.detach(), dataclasses.replace(spec, readings=()) if graph else None)

    @property
    def bytes(self) -> int:
        """Bytes of memory the tensors take."""
        tensors = (self.spec.query, self.spec.key, self.spec.bias, self.lse)
        return sum(x.numel() * x.element_size() for x in tensors if isinstance(x, Tensor))

    def __repr__(self) -> str:
        return f"Kept(queries {tuple(self.spec.query.shape)}, keys {tuple(self.spec.key.shape)}, {self.bytes / 1e6:.1f} MB)"

    @torch.no_grad()
    def tile(self, head: int, rows: range, cols: range, batch: int) -> Tensor:
        """Recompute the weights (l, s) of one head, for queries `rows`, keys `cols` and a `batch` item."""
        if not len(rows) or not len(cols):
            return torch.zeros(len(rows), len(cols))
        weights, _ = WeightTile(self.spec, rows, cols).weights(slice(batch, batch + 1), [head], self.lse)
        return weights[0, 0].float()


@dataclass(frozen=True, eq=False, repr=False)
class Head:
    """One head of one call: its readings, exact weights and figures. Made by `seen.head(layer, head)`.

    seen: the call it belongs to.
    index: its number in the model.
    sighting: the sighting it belongs to, for its words.

    >>> import regard
    >>> layer = torch.nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()
    >>> with regard.watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 5, 16))
    >>> seen.head(0, 1).tile().shape
    torch.Size([5, 5])
    """

    seen: Seen
    index: int
    sighting: Sighting | None = None

    @property
    def readings(self) -> dict[str, Any]:
        """This head's part of every reading, (B, …)."""
        position = self.seen.head_ids.index(self.index)
        return {name: _of_head(value, position) for name, value in self.seen.readings.items()}

    @property
    def labels(self) -> list[tuple[str, float]]:
        """(label, score) pairs of this head, strongest first; empty if the sighting has no labels."""
        return (self.seen.labels or {}).get(self.index, [])

    def tile(self, rows: slice = slice(None), cols: slice = slice(None), batch: int = 0, *, grad: bool = False) -> Tensor:
        """Recompute the exact weights (l, s) of some rows and columns from the kept queries, keys and lse.

        grad: with the autograd graph that `watch(model, keep_graph=True)` kept, so that they can be differentiated.

        rows, cols: which queries and keys; all by default.
        batch: which item of the batch.
        """
        kept = self.seen.kept
        if kept is None:
            raise ValueError(
                f"layer {self.seen.layer} ({self.seen.name}) kept no queries and keys to recompute weights from; "
                "watch(model, keep=True) keeps those of every layer, keep=BYTES up to a limit"
            )
        B, _, L, S = kept.spec.sizes
        if not -B <= batch < B:
            raise IndexError(f"batch is {batch}; the sighting holds {B} batch items, 0 … {B - 1}")
        row_range, col_range = range(L)[_as_slice(rows)], range(S)[_as_slice(cols)]
        if grad:
            return self._differentiable(kept, row_range, batch % B)[:, col_range.start : col_range.stop]
        return kept.tile(self.index, row_range, col_range, batch % B)

    def _differentiable(self, kept: Kept, rows: range, batch: int) -> Tensor:
        if kept.live is None:
            raise ValueError("the weights cannot be differentiated: no graph was kept; watch(model, keep_graph=True) keeps it")
        return row_weights(kept.live, rows, self.index, batch)

    def figure(self, view: Literal["map", "words", "lines"] = "map", *, batch: int = 0, **options: Any) -> Figure:
        """Draw this head with its words as a matplotlib figure; the title names the batch item if there are several.

        view     "map": a heat map (`views.figures.pattern`); "words": the text, shaded for every query (`views.word_figures.words`);
                 "lines": two rows of words joined by lines (`views.word_figures.alignment`)
        batch    which text of the batch
        options  of the view: title, columns (1 or 2 of a paper), scale and numbers (map), query (words), least (lines)
        """
        from .views.head_figure import head_figure

        return head_figure(self, view, batch=batch, **options)

    def save(self, path: str | Path, view: Literal["map", "words", "lines"] = "map", *, batch: int = 0, **options: Any) -> Path:
        """Write the figure to `path` as .svg, .pdf or .png; view, batch and other arguments as in `figure`."""
        from ..plotting import figure_file, save_figure

        figure_file(path)  # an unknown file type must fail before anything is drawn
        return save_figure(self.figure(view, batch=batch, **options), path)

    def __repr__(self) -> str:
        L, S = len(self.seen.query_pos), len(self.seen.key_pos)
        labels = "".join(f", {label} {score:.2f}" for label, score in self.labels)
        return f"Head(layer {self.seen.layer}, head {self.index}, {self.seen.name}, {self.seen.kind}, {L} × {S}{labels})"

    def _repr_png_(self) -> Any:
        try:
            figure: Any = self.figure()
            return figure._repr_png_()
        except (ImportError, ValueError):  # no matplotlib, or nothing was kept to draw: the text says what it is
            return None


@dataclass(frozen=True, eq=False)
class Seen:
    """One recorded attention: the readings of its weights, and its proof.

    layer: its number, in the order in which layers run.
    call: how often the layer had run before in this block.
    name: its module.
    kind: "causal", "self", "encoder" (of an encoder–decoder) or "cross".
    heads: how many heads the layer has.
    query_pos, key_pos: the positions in the text of the queries and keys.
    mask: what the model's mask was read as; None: everything is visible.
    readings: tensors shaped (B, h, …), by name.
    proof: the check against the model's own output.
    kept: queries and keys to recompute weights from; None if they were over the limit.
    labels: of its heads, where `label_heads` was run.
    head_ids: the heads that were recorded.
    values: (B, k, S, dv), with keep_values=True.
    output: what each head adds up, before the output projection, (B, h, L, dv); with keep_values=True.

    >>> import regard
    >>> layer = torch.nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()
    >>> with regard.watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 5, 16))
    >>> seen[0].kind, seen[0].heads
    ('self', 2)
    """

    layer: int
    call: int
    name: str
    kind: str  # "causal", "self", "encoder" (of an encoder–decoder), "cross"
    heads: int
    query_pos: range
    key_pos: range
    mask: Mask | None
    readings: dict[str, Any]
    proof: Proof
    kept: Kept | None = None
    labels: dict[int, list[tuple[str, float]]] | None = None
    head_ids: tuple[int, ...] = ()
    values: Tensor | None = None  # (B, k, S, dv), with keep_values=True
    output: Tensor | None = None  # (B, h, L, dv): what each head adds up, before the output projection

    def __post_init__(self) -> None:
        if not self.head_ids:
            object.__setattr__(self, "head_ids", tuple(range(self.heads)))

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, h, L, S)."""
        batch = next((int(x.shape[0]) for x in _tensors(self.readings.values())), 1)
        return batch, self.heads, len(self.query_pos), len(self.key_pos)

    def weights(self, *, limit_bytes: int = 1_000_000_000) -> Tensor:
        """Return all weights of the recorded heads, (B, h, L, S) float32; raises MemoryError if they take more than `limit_bytes`."""
        B, h, L, S = self.shape
        if (size := 4 * B * h * L * S) > limit_bytes:
            raise MemoryError(
                f"the weights of layer {self.layer} are {B}×{h}×{L}×{S} and take {size:,} bytes, over limit_bytes={limit_bytes:,}; "
                "raise the limit, or read a part with .head(i).tile(rows, cols)"
            )
        return torch.stack([torch.stack([self.head(i).tile(batch=b) for i in self.head_ids]) for b in range(B)])

    def head(self, index: int) -> Head:
        """Return one head, by its index in the model."""
        if index not in self.head_ids:
            raise IndexError(f"head {index} of layer {self.layer} was not recorded; recorded heads: {_number_list(self.head_ids)}")
        return Head(self, index)

    def _repr_html_(self) -> str:
        from .summary import heads_html

        return heads_html(self)

    def __repr__(self) -> str:
        B, h, L, S = self.shape
        return f"Seen(layer {self.layer}, call {self.call}, {self.name}, {self.kind}, {B}×{h}×{L}×{S}, {self.proof})"


@dataclass(eq=False, repr=False)
class Sighting(Sequence[Seen]):
    """Every attention `regard.watch` recorded, in the order it ran: `sighting[3]` is the fourth attention (layer 3 of one forward pass).

    model: the name of the model's class.
    tokens: one list of tokens per batch item, of the text the queries come from.
    source_tokens: the same of an encoder–decoder's source.
    missed: attention that ran and could not be captured, with its module's name and what to do.

    >>> import regard
    >>> layer = torch.nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()
    >>> with regard.watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 5, 16))
    >>> len(seen), seen.missed
    (1, ())
    """

    model: str = ""
    tokens: list[list[str]] | None = None
    source_tokens: list[list[str]] | None = None
    missed: tuple[Missed, ...] = ()
    _all: list[Seen] = field(default_factory=list)

    @overload
    def __getitem__(self, index: int) -> Seen: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Seen, ...]: ...
    def __getitem__(self, index: int | slice) -> Seen | tuple[Seen, ...]:
        return tuple(self._all[index]) if isinstance(index, slice) else self._all[index]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Seen]:
        return iter(self._all)

    @property
    def layers(self) -> int:
        """Number of layers recorded."""
        return len({seen.layer for seen in self._all})

    @property
    def kernel(self) -> str:
        """Names of the kernels that ran."""
        return ", ".join(dict.fromkeys(seen.proof.kernel for seen in self._all))

    @property
    def kept_bytes(self) -> int:
        """Bytes of memory the kept queries and keys take."""
        return sum(seen.kept.bytes for seen in self._all if seen.kept is not None)

    @property
    def proof(self) -> Proof:
        """The proofs of all calls summarised: the largest errors, and whether all of them hold."""
        if not self._all:
            raise ValueError("the sighting is empty, so it has no proof; run the model inside the `with regard.watch(model)` block")
        proofs = [seen.proof for seen in self._all]
        errors = [p.output_error for p in proofs if not math.isnan(p.output_error)]
        masks = list(dict.fromkeys(p.mask for p in proofs if p.mask))
        mask_text = "; ".join(masks[:3]) + ("; …" if len(masks) > 3 else "")
        row_sum_error, holds = max(p.row_sum_error for p in proofs), all(p.holds for p in proofs)
        return Proof(row_sum_error, max(errors, default=math.nan), min(p.rows_checked for p in proofs), mask_text, self.kernel, holds)

    def find(self, layer: int, call: int = 0) -> Seen:
        """Return the attention of a layer at one of its calls (call=0: the first, −1: the last)."""
        calls = [seen for seen in self._all if seen.layer == layer]
        if not calls:
            raise IndexError(f"layer {layer} was not recorded; recorded layers: {_number_list(sorted({seen.layer for seen in self._all}))}")
        if not -len(calls) <= call < len(calls):
            raise IndexError(f"call {call} of layer {layer} was not recorded; the layer was called {len(calls)} times")
        return calls[call]

    def head(self, layer: int, head: int, call: int = 0) -> Head:
        """Return one head of one layer: its readings, and `.tile(rows, cols)` for its exact weights.

        layer, head: their numbers.
        call: which run of the layer, where it ran several times (0: the first, −1: the last).
        """
        return dataclasses.replace(self.find(layer, call).head(head), sighting=self)

    def with_labels(self, labels: Labels) -> Sighting:
        """Return a copy with the labels of `regard.label_heads` on each head."""
        labelled = [dataclasses.replace(seen, labels=labels.of(seen.layer) or None) for seen in self._all]
        return dataclasses.replace(self, _all=labelled)

    def rollout(self, queries: Iterable[int] = (-1,), *, batch: int = 0, residual: float = 0.5, call: int = 0) -> Tensor:
        """Compute attention rollout: how much of each input token reaches some queries through all layers, (n, S).

        See :func:`regard.sight.rollout.rollout`.

        queries: their positions.
        batch: which item of the batch.
        residual: the share of a token that passes a layer unchanged.
        call: which run of the layers.
        """
        from .rollout import rollout

        return rollout(self, queries, batch=batch, residual=residual, call=call)

    def compare(self, other: Sighting) -> Comparison:
        """Compare with another sighting, of a second text or a second checkpoint of the model."""
        from .comparison import compare

        return compare(self, other)

    def summary(self) -> list[dict[str, Any]]:
        """Return one row per call, batch item and head, with readings averaged over queries."""
        from .summary import summary

        return summary(self)

    def to_pandas(self, per: str = "head") -> Any:
        """Return a DataFrame with one row per call, batch item and head, or with per="query" one row per query."""
        from .summary import to_pandas

        return to_pandas(self, per)

    def save(self, path: str | Path, *, kept: bool = True) -> None:
        """Write .safetensors (all readings; the kept queries and keys too), .json (a summary), .html, .svg, .png or .pdf.

        A batch becomes as many pages: report.html, report-1.html, report-2.html …

        path: the file; its ending decides what is written.
        kept: whether .safetensors has the kept queries and keys.
        """
        from .storage import save

        save(self, Path(path), kept=kept)

    @staticmethod
    def load(path: str | Path) -> Sighting:
        """Load a sighting saved as .safetensors."""
        from .storage import load

        return load(Path(path))

    def __repr__(self) -> str:
        from .summary import describe

        return describe(self)

    def _repr_html_(self) -> str:
        from .views.report import to_html

        return to_html(self)


def _as_slice(index: slice | int) -> slice:
    return index if isinstance(index, slice) else slice(index, index + 1 or None)


def _of_head(value: Any, position: int) -> Any:
    """Return the part of a reading that belongs to the head at this position of its head axis."""
    if isinstance(value, Tensor):
        return value[:, position]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_of_head(x, position) for x in value))
    return value


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, tuple):
            yield from _tensors(value)


def _number_list(numbers: Sequence[int]) -> str:
    if len(numbers) > 1 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} … {numbers[-1]}"
    return ", ".join(map(str, numbers)) or "none"
