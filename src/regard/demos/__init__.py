"""Each statement of the mechanism as a short program that draws itself: ``python -m regard.demos.why_sqrt_d``.

Every demonstration has ``run()``, which computes and gives its numbers, ``show(result)``, which turns them into pictures, and ``main()``.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

DEMOS: dict[str, str] = {
    "fluffy": "a hand-built head: nouns look back at their adjectives",
    "learned_head": "the same head learnt from saying which adjectives describe each noun",
    "lookup": "attention is a soft look-up; a dict is its limit as the temperature falls to 0",
    "why_sqrt_d": "without 1/√d the scores' variance grows with d and the softmax's gradient dies",
    "additive_vs_dot": "additive and dot scores: like complexity, dot far faster",
    "factored_bilinear": "a factored bilinear score is asymmetric and of low rank",
    "column_form": "the textbook's column form is our row form transposed",
    "key_value": "key-value attention with K = V is soft attention, the mean of x under the attention distribution",
    "two_queries": "one scene, two questions, two selections; saliency beside focus",
    "hard_attention": "hard attention learns where to look from reward alone",
    "heads": "many heads in parallel; projecting twice collapses to one product",
    "self_attention_vs": "self-attention beside a convolution, an RNN and a fully connected layer",
    "causal_mask": "later words cannot influence earlier ones, and rows still sum to 1",
    "value_map": "a head's value map is Value↑ · Value↓, and its work is added: E + ΔE",
    "long_context": "long inputs: what is exact, and the measured error of what is not",
}


def play(name: str, argv: Sequence[str] | None = None) -> None:
    """Run a demonstration by name, as its own program would.

    >>> play("nothing")
    Traceback (most recent call last):
    ...
    ValueError: there is no demonstration 'nothing'; choose from fluffy, learned_head, lookup, why_sqrt_d, additive_vs_dot, \
factored_bilinear, column_form, key_value, two_queries, hard_attention, heads, self_attention_vs, causal_mask, value_map, long_context
    """
    if name not in DEMOS:
        raise ValueError(f"there is no demonstration {name!r}; choose from {', '.join(DEMOS)}")
    import_module(f"regard.demos.{name}").main([] if argv is None else argv)
