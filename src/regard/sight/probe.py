"""What the layers of an encoder hold: a linear classifier on the vectors after each layer.

Axes: n texts, l layers, D width, C classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..html_table import html_table
from ..models.bert import mean_pooled
from ..terminal import table as text_table
from ..text.batches import bucketed, padded
from ..text.pairs import Pair
from .hidden_states import hidden_states

_SHOWN = 18  # rows of a printed table, which should fit a screen


@dataclass(frozen=True, repr=False)
class Probe:
    """Accuracy (percent) on the test texts of a linear classifier on each layer's vectors.

    name: of the encoder.
    accuracy: by layer, the first being the embedding's.

    >>> Probe("bert-small", [50.0, 75.0])
    Probe(bert-small: best 75.0 % after layer 1 of 1)
    """

    name: str
    accuracy: list[float]

    def __repr__(self) -> str:
        best = max(range(len(self.accuracy)), key=lambda layer: self.accuracy[layer])
        return f"Probe({self.name}: best {self.accuracy[best]:.1f} % after layer {best} of {len(self.accuracy) - 1})"

    def _shown(self) -> list[int]:
        """The layers of a table that fits a screen: all, or evenly spaced ones with the best and the last."""
        count = len(self.accuracy)
        if count <= _SHOWN:
            return list(range(count))
        return sorted({*range(0, count, -(-count // (_SHOWN - 2))), self.accuracy.index(max(self.accuracy)), count - 1})

    def _texts(self) -> list[list[str]]:
        names = ["0 (embedding)", *map(str, range(1, len(self.accuracy)))]
        return [["layer", "accuracy"], *([names[layer], f"{self.accuracy[layer]:.1f} %"] for layer in self._shown())]

    def _rest(self) -> str:
        rest = len(self.accuracy) - len(self._shown())
        return f"{rest} more layers: .accuracy has all" if rest else ""

    def __str__(self) -> str:
        return "\n".join(filter(None, [repr(self), text_table(self._texts()), self._rest()]))

    def _repr_html_(self) -> str:
        note = "share of test texts that a linear classifier on the layer's vectors gets right"
        shades = [(None, self.accuracy[layer] / 100) for layer in self._shown()]
        rest = f"; {self._rest()}" if self._rest() else ""
        return html_table(self._texts(), title=self.name, shades=shades, note=note + rest)


@torch.no_grad()
def layer_features(bert: Any, rows: Sequence[Sequence[int]], *, batch_tokens: int = 4000) -> Tensor:
    """Return the mean of the hidden vectors of each text after every layer, (l + 1, n, D).

    rows: the ids of each text.
    """
    bert.eval()
    device = next(bert.parameters()).device
    features: Tensor | None = None
    for batch in bucketed([len(row) for row in rows], tokens=batch_tokens, seed=0, epoch=0):
        ids, lengths = (tensor.to(device) for tensor in padded([rows[i] for i in batch]))
        states = hidden_states(bert, lambda ids=ids, lengths=lengths: bert(ids, lengths))  # type: ignore[misc]
        pooled = torch.stack([mean_pooled(state, lengths) for state in states]).float().cpu()  # (l + 1, B, D)
        if features is None:
            features = pooled.new_zeros(len(pooled), len(rows), pooled.shape[-1])
        features[:, batch] = pooled
    if features is None:
        raise ValueError("there are no texts to probe with")
    return features


def probe(name: str, bert: Any, text: Any, train: Sequence[Pair], test: Sequence[Pair], *, context: int) -> Probe:
    """Train a logistic regression on each layer's vectors of the training texts; return its accuracies on the test texts.

    bert: a `Bert`; text: its `EncoderText`; train, test: texts (source) with labels (target).
    """
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise ImportError('probes need scikit-learn: pip install "regard[regression]"') from error

    features = layer_features(bert, text.encode_all([pair.source for pair in (*train, *test)], context))
    labels, wanted = [pair.target for pair in train], [pair.target for pair in test]
    accuracy = []
    for layer in features.numpy():
        scaler = StandardScaler().fit(layer[: len(train)])
        classifier = LogisticRegression(C=0.1, max_iter=300)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the last digits of the weights do not change the accuracy
            classifier.fit(scaler.transform(layer[: len(train)]), labels)
        accuracy.append(100.0 * float(classifier.score(scaler.transform(layer[len(train) :]), wanted)))
    return Probe(name, accuracy)


def untrained(bert: Any, *, seed: int = 0) -> Any:
    """Return a new encoder of the same shape with random weights."""
    from ..models.bert import Bert

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Bert(bert.config).to(next(bert.parameters()).device)


def table(probes: Sequence[Probe]) -> str:
    """Return the accuracies as text: a line per layer, a column per model."""
    width = max(10, *(len(item.name) for item in probes))
    lines = ["layer  " + "  ".join(f"{item.name:>{width}}" for item in probes)]
    for layer in range(max(len(item.accuracy) for item in probes)):
        cells = [f"{item.accuracy[layer]:.1f}" if layer < len(item.accuracy) else "" for item in probes]
        lines.append(f"{layer:>5}  " + "  ".join(f"{cell:>{width}}" for cell in cells))
    return "\n".join(lines)


def draw(probes: Sequence[Probe], path: str | Path, *, majority: float | None = None) -> Path:
    """Draw accuracy by layer, a line per model; `majority` is the accuracy (percent) of always saying the most frequent label."""
    from ..colours import HEADS, hexadecimal
    from ..plotting import blank, escape_dollars, figure_style, save_figure

    with figure_style([item.name for item in probes]):
        figure = blank(4.2, 2.6)
        axes = figure.subplots()
        for item, colour in zip(probes, map(hexadecimal, HEADS), strict=False):
            axes.plot(range(len(item.accuracy)), item.accuracy, color=colour, lw=1.2, marker="o", ms=3, label=escape_dollars(item.name))
        if majority is not None:
            axes.axhline(majority, ls=":", lw=0.8, color="#808080", label="most frequent label")
        axes.set(xlabel="layer (0: embedding)", ylabel="accuracy of a linear probe, %")
        axes.set_xticks(range(max(len(item.accuracy) for item in probes)))
        axes.legend(frameon=False)
        return save_figure(figure, path)
