"""Count letter trigrams of German and English, for `regard.text.language`.

    python recipes/letters.py deu.txt src/regard/text/letters.bin

deu.txt has a pair a line, English TAB German (Tatoeba via manythings.org/anki, CC BY 2.0 FR). The output is one byte per trigram and
language: −log2 p(letter | the two before it), in sixteenths of a bit.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from regard.text.language import LANGUAGES, LETTERS, STEP, letter_ids


def surprises(text: str) -> bytes:
    """−log2 p(c | a b) of every trigram, with Witten–Bell smoothing."""
    size = len(LETTERS)
    ids = np.array(letter_ids(text))
    probability = np.full(size, 1 / size)
    for order in range(3):  # letters alone, then after one, then after two others
        grams = sum(ids[i : len(ids) - order + i] * size ** (order - i) for i in range(order + 1))
        counts = np.bincount(grams, minlength=size ** (order + 1)).reshape((size,) * (order + 1))
        total, kinds = counts.sum(-1, keepdims=True), (counts > 0).sum(-1, keepdims=True)
        shorter = np.broadcast_to(probability, counts.shape)
        probability = np.where(total > 0, (counts + kinds * shorter) / np.maximum(total + kinds, 1), shorter)
    return np.minimum(np.round(-np.log2(probability) / STEP), 255).astype(np.uint8).tobytes()


def main() -> None:
    pairs = [line.split("\t")[:2] for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    sides = {"en": "\n".join(english for english, _ in pairs), "de": "\n".join(german for _, german in pairs)}
    Path(sys.argv[2]).write_bytes(b"".join(surprises(sides[language]) for language in LANGUAGES))


if __name__ == "__main__":
    main()
