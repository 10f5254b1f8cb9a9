"""Short programs, each of which computes and draws one property of attention: ``python -m regard.demos.why_sqrt_d``.

Every demonstration has ``run()``, which computes its numbers, ``show(result)``, which returns its panels, and ``main()``.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

DEMOS: dict[str, str] = {
    "fluffy": "a hand-built head: nouns attend to the adjectives before them",
    "learned_head": "the same head, learned from labels that say which adjectives describe each noun",
    "lookup": "attention is a soft table lookup; a dict is its limit as the temperature goes to 0",
    "why_sqrt_d": "without 1/√d the variance of the scores grows with d and the softmax gradient vanishes",
    "additive_vs_dot": "additive and dot-product scores: similar complexity, but dot products are far faster",
    "factored_bilinear": "a factored bilinear score is asymmetric and of low rank",
    "column_form": "the column form of textbooks is the transpose of the row form used here",
    "key_value": "key-value attention with K = V is soft attention, the mean of x under the attention distribution",
    "two_queries": "one input, two queries, two selections; saliency (no query) compared with focus",
    "hard_attention": "hard attention learns which input to pick from rewards alone (REINFORCE)",
    "heads": "several heads in parallel; two projections in a row equal one",
    "self_attention_vs": "self-attention compared with a convolution, an RNN and a fully connected layer",
    "causal_mask": "later words cannot influence earlier ones, and rows still sum to 1",
    "last_vector": "a prediction after every prefix from one pass; the last vector alone decides the next token",
    "value_map": "a head's value map is Value↑ · Value↓, and its output is added to the embedding: E + ΔE",
    "long_context": "long inputs: which methods are exact, and the measured error of the others",
}


def run_demo(name: str, argv: Sequence[str] | None = None) -> None:
    """Run the demonstration `name` with the command-line arguments `argv`.

    >>> run_demo("nothing")
    Traceback (most recent call last):
    ...
    ValueError: there is no demonstration 'nothing'; choose from fluffy, learned_head, lookup, why_sqrt_d, additive_vs_dot, \
factored_bilinear, column_form, key_value, two_queries, hard_attention, heads, self_attention_vs, causal_mask, last_vector, \
value_map, long_context
    """
    if name not in DEMOS:
        raise ValueError(f"there is no demonstration {name!r}; choose from {', '.join(DEMOS)}")
    import_module(f"regard.demos.{name}").main([] if argv is None else argv)
