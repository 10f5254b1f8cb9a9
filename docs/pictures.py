"""Draw the two pictures of the README, each for a light and a dark page: `python docs/pictures.py`.

An alignment of the shipped Chinese translator, and a head of the shipped language model; both with the colours of every other view.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import regard
from regard.colours import blue, hexadecimal
from regard.plotting import blank, figure_style, save_figure

FOLDER = Path(__file__).parent / "pictures"
INK = {False: "#24292f", True: "#e6edf3"}


def alignment() -> tuple[torch.Tensor, list[str], list[str]]:
    """Return the weights of a translation, its words, and the characters they were translated from."""
    result = regard.open("zh-en-transformer").translate("我爱中国")
    return result.alignment, result.target_words, result.source_words


def head(text: str = "To be, or not to be") -> tuple[torch.Tensor, list[str], list[str]]:
    """Return the weights of a head that looks at the letter before, and the letters."""
    opened = regard.open("shakespeare")
    inputs = opened.inputs(text)
    with regard.watch(opened.model) as seen:
        opened.run(inputs)
    labels = regard.label_heads(opened.model).scores
    layer, best = max(
        ((layer, n) for layer in labels for n in range(len(labels[layer]["previous token"]))),
        key=lambda place: labels[place[0]]["previous token"][place[1]],
    )
    letters = ["␣" if letter == " " else letter for letter in text]
    return seen.head(layer, best).tile(), letters, letters


def draw(weights: torch.Tensor, rows: list[str], columns: list[str], name: str, title: str, *, dark: bool) -> None:
    """Save one picture, on a transparent page."""
    image = np.array([[[*(c / 255 for c in blue(float(w), dark=dark)), float(w) > 0] for w in row] for row in weights])
    with figure_style([*rows, *columns]):
        figure = blank(3.1, 0.55 + 2.6 * len(rows) / len(columns) if len(rows) <= len(columns) else 3.2)
        figure.patch.set_alpha(0)
        axes = figure.subplots()
        axes.set_facecolor("none")
        axes.imshow(image)
        small = {"fontsize": 9 if len(rows) < 8 else 6.5, "color": INK[dark]}
        axes.set_xticks(range(len(columns)), columns, **small)
        axes.set_yticks(range(len(rows)), rows, **small)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set(visible=True, linewidth=0.4, color="#808080")
        axes.set_xlabel(title, fontsize=7.5, color=INK[dark])
        if len(rows) < 8:
            for i, row in enumerate(weights.tolist()):
                for j, weight in enumerate(row):
                    if weight >= 0.1:
                        strong = weight > 0.55
                        colour = ("#ffffff" if not dark else "#101418") if strong else INK[dark]
                        axes.text(j, i, f"{weight:.2f}", ha="center", va="center", fontsize=7, color=colour)
        save_figure(figure, FOLDER / f"{name}-{'dark' if dark else 'light'}.svg")


def main() -> None:
    """Draw both pictures in both themes."""
    FOLDER.mkdir(exist_ok=True)
    pictures = ((*alignment(), "alignment", "regard translate 我爱中国"), (*head(), "head", "a head that looks at the letter before"))
    for weights, rows, columns, name, title in pictures:
        for dark in (False, True):
            draw(weights, rows, columns, name, title, dark=dark)
    print(f"strongest blue {hexadecimal(blue(1.0, dark=False))}; written to {FOLDER}")


if __name__ == "__main__":
    main()
