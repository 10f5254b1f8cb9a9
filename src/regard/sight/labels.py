"""regard.label_heads: label each attention head by its pattern on random tokens that are repeated once.

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
from .effect import evaluation_mode
from .sighting import Seen
from .watch import watch

LABELS = ("previous token", "sink", "local", "induction", "duplicate token", "uniform")
LOCAL_DISTANCE = 4  # positions at most from query to key that count as local
_MEANINGLESS = {"cross": {"previous token", "local", "induction", "duplicate token"}, "self": {"induction"}, "encoder": {"induction"}}


@dataclass(frozen=True, eq=False)
class Labels:
    """Scores in [0, 1] by layer, label and head; NaN where a label has no meaning. A head has the labels that score at least `least`."""

    scores: dict[int, dict[str, list[float]]]
    names: dict[int, str]
    least: float = 0.4

    def of(self, layer: int) -> dict[int, list[tuple[str, float]]]:
        """Return (label, score) pairs of every head of a layer, strongest first."""
        rows = self.scores.get(layer, {})
        heads = len(next(iter(rows.values()), []))
        return {head: self._labels(rows, head) for head in range(heads)}

    def _labels(self, rows: dict[str, list[float]], head: int) -> list[tuple[str, float]]:
        labels = [(label, scores[head]) for label, scores in rows.items() if scores[head] >= self.least]
        return sorted(labels, key=lambda pair: -pair[1])

    def __iter__(self) -> Iterator[tuple[int, int, str, float]]:
        """Iterate over (layer, head, label, score) of every label a head has, strongest first."""
        labelled = [(layer, head, *pair) for layer in self.scores for head, pairs in self.of(layer).items() for pair in pairs]
        return iter(sorted(labelled, key=lambda row: -row[3]))

    def __str__(self) -> str:
        rows = [["layer.head", *LABELS]]
        for layer, scores in self.scores.items():
            for head in range(len(scores[LABELS[0]])):
                cells = ["n/a" if math.isnan(scores[label][head]) else f"{scores[label][head]:.2f}" for label in LABELS]
                rows.append([f"{layer}.{head}", *cells])
        return table(rows)


@torch.no_grad()
def label_heads(model: nn.Module, *, length: int = 48, batch: int = 4, seed: int = 0, least: float = 0.4) -> Labels:
    """Run the model on random tokens repeated once and compute six scores per head, each a mean over queries:

    previous token   weight on the key just before the query
    sink             weight on the first key
    local            weight on keys at most 4 positions away, without the one just before
    induction        weight on the key that follows the earlier occurrence of the query's token (causal attention only)
    duplicate token  weight on other occurrences of the query's token
    uniform          entropy divided by the entropy of equal weights on all visible keys

    length: tokens before the repetition. batch: random texts. least: the score from which on a head gets a label. Induction heads:
    Olsson et al. 2022, section "Induction heads". In encoders and cross-attention, labels without a meaning have the score NaN.

    >>> from regard.models import Gpt, GptConfig
    >>> model = Gpt(GptConfig(vocabulary=50, d_model=32, heads=2, layers=2, context=40))
    >>> labels = label_heads(model, length=12)
    >>> sorted(labels.scores), len(labels.scores[0]["sink"])
    ([0, 1], 2)
    """
    ids, n = repeated_tokens(model, length, batch, seed)
    readings = _readings(ids, n)
    inputs: dict[str, Any] = {"input_ids": ids}
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = ids
    takes_keywords = hasattr(getattr(model, "config", None), "model_type")  # a transformers model
    with evaluation_mode(model), watch(model, readings, keep=False) as sighting:
        model(**inputs) if takes_keywords else model(ids)
    if not len(sighting):
        reasons = "; ".join(f"{m.name}: {m.advice}" for m in sighting.missed) or "it ran no attention"
        raise ValueError(f"no attention of {type(model).__name__} could be captured ({reasons})")
    scores = {seen.layer: _scores(seen, n) for seen in sighting if seen.call == 0}
    return Labels(scores, {seen.layer: seen.name for seen in sighting}, least)


def repeated_tokens(model: nn.Module, length: int, batch: int, seed: int) -> tuple[Tensor, int]:
    """Return ids (B, 1 + 2n) and n: a first token, n random ones and the same n again, with n at most `length` and what fits the model."""
    config = getattr(model, "config", None)
    size = next((int(v) for name in ("vocab_size", "vocabulary") if (v := getattr(config, name, None))), None)
    if size is None:
        raise ValueError(
            f"{type(model).__name__} has no vocabulary (config.vocab_size); heads can be labelled only for models of token ids"
        )
    names = ("max_position_embeddings", "n_positions", "context")
    limit = next((int(v) for name in names if (v := getattr(config, name, None))), 2 * length + 1)
    first_id = min(size // 10, 100)  # special tokens are the first ids of a vocabulary
    n = min(length, (limit - 1) // 2, size - first_id)
    if n < 4:
        raise ValueError(
            f"only {n} tokens can be repeated (length {length}; {type(model).__name__} takes {limit} tokens of a vocabulary of {size}), "
            "too few to label heads: at least 4 are needed"
        )
    generator = torch.Generator().manual_seed(seed)
    half = torch.stack([torch.randperm(size - first_id, generator=generator)[:n] + first_id for _ in range(batch)])
    bos = getattr(config, "bos_token_id", None)
    begin = torch.full((batch, 1), bos if isinstance(bos, int) and 0 <= bos < size else 0)
    device = next(model.parameters()).device
    return torch.cat([begin, half, half], 1).to(device), n


def _readings(ids: Tensor, n: int) -> list[Reading]:
    """Return the readings that the scores are computed from."""
    L = ids.shape[1]
    position = torch.arange(L)
    previous = At(position - 1)
    previous.name = "previous"
    induction = At(torch.where(position > n, position - n + 1, -1))
    induction.name = "induction"
    return [previous, induction, Same(ids, name="duplicate"), Sink(), Distance(), Entropy()]


def _scores(seen: Seen, n: int) -> dict[str, list[float]]:
    """Compute the score of every label, by head; see `label_heads`."""
    r = seen.readings
    L, S = len(seen.query_pos), len(seen.key_pos)
    local_bins = [i for i, (a, b) in enumerate(r["distance"].offsets) if max(abs(a), abs(b)) <= LOCAL_DISTANCE]
    visible_keys = torch.arange(1, L + 1) + (S - L) if seen.kind == "causal" else torch.full((L,), S)
    if seen.mask is not None and (spans := seen.mask.spans(L, S)) is not None:
        visible_keys = (spans[..., 1] - spans[..., 0]).sum(-1)[0, 0]
    largest_entropy = visible_keys.to(r["entropy"]).clamp(min=1).log()
    several = visible_keys > 1  # queries with one visible key have entropy 0 whatever the head does
    uniformity = r["entropy"][..., several] / largest_entropy[several]
    means = {
        "previous token": r["previous"][..., 1:].mean((0, 2)),
        "sink": r["sink"][..., 1:].mean((0, 2)),
        "local": r["distance"].mass[..., local_bins].sum(-1).mean(0) - r["previous"].mean((0, 2)),
        "induction": r["induction"][..., n + 1 :].mean((0, 2)),
        "duplicate token": r["duplicate"][..., n + 1 :].mean((0, 2)),
        "uniform": uniformity.mean((0, 2)),
    }
    meaningless = _MEANINGLESS.get(seen.kind, set())
    return {label: [math.nan] * seen.heads if label in meaningless else [float(x) for x in means[label]] for label in LABELS}
