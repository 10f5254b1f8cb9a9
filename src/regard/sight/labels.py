"""regard.label_heads: label each attention head by its pattern on random tokens that are repeated once; the same scores on one text.

Axes: B batch, h heads, n tokens of the repeated part, L queries.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..html_table import html_table
from ..readings import At, Distance, Entropy, Reading, Same, Sink
from ..terminal import table
from .effect import evaluation_mode
from .sighting import Seen
from .watch import watch

LABELS = ("previous token", "sink", "local", "induction", "duplicate token", "uniform")
_SHOWN = 18  # rows of the printed table, which should fit a screen
LOCAL_DISTANCE = 4  # positions at most from query to key that count as local
_MEANINGLESS = {"cross": {"previous token", "local", "induction", "duplicate token"}, "self": {"induction"}, "encoder": {"induction"}}


@dataclass(frozen=True, eq=False, repr=False)
class Labels:
    """Scores in [0, 1] by layer, label and head; NaN where a label has no meaning. The result of :func:`label_heads`.

    scores: layer → label → a score of each head.
    names: layer → its module.
    least: a head has the labels that score at least this.

    >>> labels = Labels({0: {"sink": [0.9, 0.1]}}, {0: "layers.0"})
    >>> labels.scores[0]["sink"]
    [0.9, 0.1]
    """

    scores: dict[int, dict[str, list[float]]]
    names: dict[int, str]
    least: float = 0.4

    def of(self, layer: int) -> dict[int, list[tuple[str, float]]]:
        """Return (label, score) pairs of every head of a layer, in the order of `ranked`."""
        rows = self.scores.get(layer, {})
        heads = len(next(iter(rows.values()), []))
        return {head: self._labels(rows, head) for head in range(heads)}

    def _labels(self, rows: dict[str, list[float]], head: int) -> list[tuple[str, float]]:
        labels = [(label, scores[head]) for label, scores in rows.items() if scores[head] >= self.least]
        return ranked(labels)

    def __iter__(self) -> Iterator[tuple[int, int, str, float]]:
        """Iterate over (layer, head, label, score) of every label a head has, strongest first."""
        labelled = [(layer, head, *pair) for layer in self.scores for head, pairs in self.of(layer).items() for pair in pairs]
        return iter(sorted(labelled, key=lambda row: -row[3]))

    @property
    def heads(self) -> list[tuple[int, int]]:
        """(layer, head) of every head, with or without a label."""
        return [(layer, head) for layer, scores in self.scores.items() for head in range(len(scores[LABELS[0]]))]

    def table(self, count: int | None = None) -> str:
        """Return the scores of every head as text, or of the `count` heads with the highest score."""
        heads = self.heads if count is None else self._strongest()[:count]
        return table([["layer.head", *LABELS], *self._cells(heads)])

    def _strongest(self) -> list[tuple[int, int]]:
        """Every head, by its highest score of a label that it has; those without a label last."""
        strength = {(layer, head): (self.of(layer)[head] or [("", 0.0)])[0][1] for layer, head in self.heads}
        return sorted(self.heads, key=lambda place: -strength[place])

    def _cells(self, heads: list[tuple[int, int]]) -> list[list[str]]:
        scores = [[self.scores[layer][label][head] for label in LABELS] for layer, head in heads]
        texts = [["n/a" if math.isnan(x) else f"{x:.2f}" for x in row] for row in scores]
        return [[f"{layer}.{head}", *row] for (layer, head), row in zip(heads, texts, strict=True)]

    def __repr__(self) -> str:
        best = [pairs[0][0] for layer in self.scores for pairs in self.of(layer).values() if pairs]
        counts = ", ".join(f"{count} {label}" for label, count in Counter(best).most_common())
        return f"Labels({len(self.heads)} heads by their strongest label: {counts or 'none reaches ' + format(self.least, 'g')})"

    def __str__(self) -> str:
        rest = len(self.heads) - _SHOWN
        return self.table(_SHOWN) + (f"\n… {rest:,} more heads; print(labels.table()) shows all" if rest > 0 else "")

    def _repr_html_(self) -> str:
        heads = self._strongest()[:_SHOWN]
        shades = [[None, *(self.scores[layer][label][head] for label in LABELS)] for layer, head in heads]
        note = f"scores on random tokens that are repeated once; a head has the labels that score at least {self.least:g}"
        rest = max(len(self.heads) - _SHOWN, 0)
        return html_table([["layer.head", *LABELS], *self._cells(heads)], title="heads by pattern", note=note, shades=shades, rest=rest)


def ranked(labels: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return (label, score) pairs, best first: by score, and "uniform" last, because a head that spreads half of its weight over all keys
    may still have a clear pattern in the other half.

    >>> ranked([("uniform", 0.6), ("previous token", 0.45), ("sink", 0.5)])
    [('sink', 0.5), ('previous token', 0.45), ('uniform', 0.6)]
    """
    return sorted(labels, key=lambda pair: (pair[0] == "uniform", -pair[1]))


def labels_on_text(weights: Tensor, tokens: Sequence[str], *, kind: str = "causal", least: float = 0.4) -> list[list[tuple[str, float]]]:
    """Return the labels of every head on one text: the scores of `label_heads`, computed from this text's weights (h, L, S).

    Induction and duplicate token are means over the queries whose token occurs elsewhere in the text, and left out if there is none.

    >>> previous = torch.diag(torch.ones(4), -1)  # each token attends to the one before it
    >>> labels_on_text(previous[None], list("abcde"))
    [[('previous token', 1.0)]]
    """
    h, L, S = weights.shape
    weights = weights.double().clamp(min=0)
    distance = torch.arange(L)[:, None] + (S - L) - torch.arange(S)
    visible = (distance >= 0).sum(-1) if kind == "causal" else torch.full((L,), S)
    previous = (weights * (distance == 1)).sum(-1)[:, 1:]
    several = visible > 1
    entropy = -torch.special.xlogy(weights, weights).sum(-1)[:, several] / visible[several].log()
    scores = {
        "previous token": previous.mean(-1),
        "sink": weights[:, 1:, 0].mean(-1),
        "local": (weights * (distance.abs() <= LOCAL_DISTANCE)).sum(-1).mean(-1) - previous.sum(-1) / L,
        "uniform": entropy.mean(-1),
    }
    if L == S and len(tokens) == S:
        same = torch.tensor([[a == b for b in tokens] for a in tokens]) & (distance != 0)
        after = torch.cat([torch.zeros(L, 1, dtype=torch.bool), (same & (distance > 0))[:, :-1]], 1)
        for label, keys in (("duplicate token", same), ("induction", after & (distance > 0))):
            keys = keys & (distance >= 0) if kind == "causal" else keys
            if bool((queries := keys.any(-1)).any()):
                scores[label] = (weights * keys).sum(-1)[:, queries].mean(-1)
    known = {label: values for label, values in scores.items() if label not in _MEANINGLESS.get(kind, set())}
    return [ranked((label, float(v[head])) for label, v in known.items() if float(v[head]) >= least) for head in range(h)]


@torch.no_grad()
def label_heads(model: nn.Module, *, length: int = 48, batch: int = 4, seed: int = 0, least: float = 0.4) -> Labels:
    """Run the model on random tokens repeated once and compute six scores per head, each a mean over queries:

    previous token: weight on the key just before the query
    sink: weight on the first key
    local: weight on keys at most 4 positions away, without the one just before
    induction: weight on the key that follows the earlier occurrence of the query's token (causal attention only)
    duplicate token: weight on other occurrences of the query's token
    uniform: entropy divided by the entropy of equal weights on all visible keys

    model: a model that `regard.watch` can see.
    length: tokens before the repetition.
    batch: number of random texts.
    seed: of their tokens.
    least: the score from which on a head gets a label.

    Returns :class:`Labels`. Raises ValueError for a model without attention it can see.

    Induction heads: Olsson et al. 2022, section "Induction heads". In encoders and cross-attention, labels without a meaning have the
    score NaN. Models of images and sound are run on noise: there a head can be a sink or uniform, and in sound look at its neighbours.

    >>> from regard.models import Gpt, GptConfig
    >>> model = Gpt(GptConfig(vocabulary=50, d_model=32, heads=2, layers=2, context=40))
    >>> labels = label_heads(model, length=12)
    >>> sorted(labels.scores), len(labels.scores[0]["sink"])
    ([0, 1], 2)
    """
    if getattr(model, "main_input_name", "input_ids") != "input_ids":
        return _label_without_tokens(model, batch, seed, least)
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


def _label_without_tokens(model: nn.Module, batch: int, seed: int, least: float) -> Labels:
    """Label the heads of a transformers model of images or sound on noise."""
    name = str(model.main_input_name)
    inputs = _noise(model, name, batch, seed)
    with evaluation_mode(model), watch(model, [Sink(), Distance(), Entropy()], keep=False) as sighting:
        model(**inputs)
    if not len(sighting):
        raise ValueError(f"no attention of {type(model).__name__} could be captured; see `missed` of regard.watch")
    scores: dict[int, dict[str, list[float]]] = {}
    for seen in sighting:
        if seen.call == 0:
            readings = seen.readings
            missing = readings["sink"].new_zeros(readings["sink"].shape)
            known = {**readings, "previous": missing, "induction": missing, "duplicate": missing}
            label_scores = _scores(dataclasses.replace(seen, readings=known), 0)
            meaningful = {"sink", "uniform"} | ({"local"} if name != "pixel_values" and seen.kind != "cross" else set())
            scores[seen.layer] = {label: row if label in meaningful else [math.nan] * seen.heads for label, row in label_scores.items()}
    return Labels(scores, {seen.layer: seen.name for seen in sighting}, least)


def _noise(model: nn.Module, name: str, batch: int, seed: int) -> dict[str, Tensor]:
    """Return random inputs of the sizes that the config names, and a few tokens for a decoder that listens."""
    generator = torch.Generator().manual_seed(seed)
    config: Any = getattr(model, "config", None)
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", None)
    bins = getattr(config, "num_mel_bins", None)
    if name == "pixel_values" and size is not None:
        height, width = size if isinstance(size, list | tuple) else (size, size)
        inputs = {name: torch.randn(batch, getattr(vision, "num_channels", 3), height, width, generator=generator)}
    elif name == "input_values" and bins is None:
        inputs = {name: torch.randn(batch, 16_000, generator=generator)}
    elif name == "input_features" and bins is not None and getattr(config, "max_source_positions", None):
        inputs = {name: torch.randn(batch, bins, 2 * config.max_source_positions, generator=generator)}
    else:
        raise ValueError(
            f"{type(model).__name__} takes {name}, and its config does not say of what size; heads can be labelled for models of token "
            "ids, of images (config.image_size) and of sound"
        )
    if getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = torch.randint(0, config.vocab_size, (batch, 8), generator=generator)
    device = next(model.parameters()).device
    return {key: value.to(device) for key, value in inputs.items()}


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
