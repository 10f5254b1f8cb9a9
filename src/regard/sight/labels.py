"""regard.label_heads: label each head by what it does, from its attention on random tokens repeated once.

Axes: B batch, h heads, n tokens of the repeated part, L queries.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..readings import At, Distance, Entropy, Reading, Same, Sink
from ..terminal import table
from .effect import steady
from .sighting import Seen
from .watch import watch

LABELS = ("previous token", "sink", "local", "induction", "duplicate token", "uniform")
NEAR = 4  # positions a local head looks across
_MEANINGLESS = {"cross": {"previous token", "local", "induction", "duplicate token"}, "self": {"induction"}, "encoder": {"induction"}}


@dataclass(frozen=True, eq=False)
class Labels:
    """Scores in [0, 1] by layer, label and head; NaN where a label has no meaning. A head carries the labels that reach `least`."""

    scores: dict[int, dict[str, list[float]]]
    names: dict[int, str]
    least: float = 0.4

    def of(self, layer: int) -> dict[int, list[tuple[str, float]]]:
        """Labels and scores of every head of a layer, strongest first."""
        rows = self.scores.get(layer, {})
        heads = len(next(iter(rows.values()), []))
        return {head: self._labels(rows, head) for head in range(heads)}

    def _labels(self, rows: dict[str, list[float]], head: int) -> list[tuple[str, float]]:
        labels = [(label, scores[head]) for label, scores in rows.items() if scores[head] >= self.least]
        return sorted(labels, key=lambda pair: -pair[1])

    def __iter__(self) -> Iterator[tuple[int, int, str, float]]:
        """(layer, head, label, score) of every label carried, strongest first."""
        carried = [(layer, head, *pair) for layer in self.scores for head, pairs in self.of(layer).items() for pair in pairs]
        return iter(sorted(carried, key=lambda row: -row[3]))

    def __str__(self) -> str:
        rows = [["layer.head", *LABELS]]
        for layer, scores in self.scores.items():
            for head in range(len(scores[LABELS[0]])):
                cells = ["n/a" if math.isnan(scores[label][head]) else f"{scores[label][head]:.2f}" for label in LABELS]
                rows.append([f"{layer}.{head}", *cells])
        return table(rows)


@torch.no_grad()
def label_heads(model: nn.Module, *, length: int = 48, batch: int = 4, seed: int = 0, least: float = 0.4) -> Labels:
    """Run the model on random tokens repeated once and score every head, in the mean over queries:

    previous token   weight on the key just before the query
    sink             weight on the first key
    local            weight on keys at most 4 positions away, the one just before left out
    induction        weight on the key after the query's earlier self (only where a model looks back)
    duplicate token  weight on the query's earlier selves
    uniform          entropy over the entropy of looking at all visible keys alike

    Induction heads: Olsson et al. 2022, section "Induction heads". Scores of cross-attention and of encoders leave out what has no
    meaning there.

    >>> from regard.models import Gpt, GptConfig
    >>> model = Gpt(GptConfig(vocabulary=50, d_model=32, heads=2, layers=2, context=40))
    >>> labels = label_heads(model, length=12)
    >>> sorted(labels.scores), len(labels.scores[0]["sink"])
    ([0, 1], 2)
    """
    ids, n = repeated(model, length, batch, seed)
    readings = _readings(ids, n)
    inputs: dict[str, Any] = {"input_ids": ids}
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = ids
    named = hasattr(getattr(model, "config", None), "model_type")
    with steady(model), watch(model, readings, keep=False) as sighting:
        model(**inputs) if named else model(ids)
    if not len(sighting):
        reasons = "; ".join(f"{m.name}: {m.advice}" for m in sighting.missed) or "it ran no attention"
        raise ValueError(f"no head of {type(model).__name__} could be seen ({reasons})")
    scores = {one.layer: _scores(one, n) for one in sighting if one.call == 0}
    return Labels(scores, {one.layer: one.name for one in sighting}, least)


def repeated(model: nn.Module, length: int, batch: int, seed: int) -> tuple[Tensor, int]:
    """Ids (B, 1 + 2n): a first token, n random ones, the same n again; n is cut to what the model can read."""
    config = getattr(model, "config", None)
    size = next((int(v) for name in ("vocab_size", "vocabulary") if (v := getattr(config, name, None))), None)
    if size is None:
        raise ValueError(f"{type(model).__name__} has no vocabulary (config.vocab_size); heads are labelled on a text, and it reads none")
    names = ("max_position_embeddings", "n_positions", "context")
    limit = next((int(v) for name in names if (v := getattr(config, name, None))), 2 * length + 1)
    low = min(size // 10, 100)  # special tokens live at the beginning
    n = min(length, (limit - 1) // 2, size - low)
    if n < 4:
        raise ValueError(f"{type(model).__name__} reads {limit} tokens out of {size}: too few to say anything twice")
    generator = torch.Generator().manual_seed(seed)
    half = torch.stack([torch.randperm(size - low, generator=generator)[:n] + low for _ in range(batch)])
    first = getattr(config, "bos_token_id", None)
    begin = torch.full((batch, 1), first if isinstance(first, int) and 0 <= first < size else 0)
    device = next(model.parameters()).device
    return torch.cat([begin, half, half], 1).to(device), n


def _readings(ids: Tensor, n: int) -> list[Reading]:
    """The readings the scores are computed from."""
    L = ids.shape[1]
    here = torch.arange(L)
    previous = At(here - 1)
    previous.name = "previous"
    induction = At(torch.where(here > n, here - n + 1, -1))
    induction.name = "induction"
    return [previous, induction, Same(ids, name="duplicate"), Sink(), Distance(), Entropy()]


def _scores(seen: Seen, n: int) -> dict[str, list[float]]:
    """The score of every label, by head; see `label_heads`."""
    r = seen.readings
    L, S = len(seen.query_pos), len(seen.key_pos)
    near = [i for i, (a, b) in enumerate(r["distance"].offsets) if max(abs(a), abs(b)) <= NEAR]
    visible = torch.arange(1, L + 1) + (S - L) if seen.kind == "causal" else torch.full((L,), S)
    if seen.mask is not None and (spans := seen.mask.spans(L, S)) is not None:
        visible = (spans[..., 1] - spans[..., 0]).sum(-1)[0, 0]
    most = visible.to(r["entropy"]).clamp(min=1).log()
    share = r["entropy"][..., visible > 1] / most[visible > 1]
    means = {
        "previous token": r["previous"][..., 1:].mean((0, 2)),
        "sink": r["sink"][..., 1:].mean((0, 2)),
        "local": r["distance"].mass[..., near].sum(-1).mean(0) - r["previous"].mean((0, 2)),
        "induction": r["induction"][..., n + 1 :].mean((0, 2)),
        "duplicate token": r["duplicate"][..., n + 1 :].mean((0, 2)),
        "uniform": share.mean((0, 2)),
    }
    meaningless = _MEANINGLESS.get(seen.kind, set())
    return {label: [math.nan] * seen.heads if label in meaningless else [float(x) for x in means[label]] for label in LABELS}
