"""A quantity's value, formula and numbers are three views of one expression."""

import operator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.cost.quantity import Quantity, digits, largest, quantity, ratio, smallest, symbol, total

_leaves = st.one_of(
    st.builds(symbol, st.sampled_from(["a", "b", "d_model", "layers"]), st.integers(1, 50)),
    st.integers(-9, 9).map(quantity),
)
_expressions = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds(operator.add, inner, inner),
        st.builds(operator.sub, inner, inner),
        st.builds(operator.mul, inner, inner),
        st.builds(lambda q: q.grouped(), inner),
        st.builds(largest, inner, inner),
        st.builds(smallest, inner, inner),
        st.builds(lambda q: q / 4, inner),
    ),
    max_leaves=8,
)


def _evaluate(numbers: str) -> Fraction:
    """What a reader with a calculator gets from the substituted formula."""
    import re

    python = re.sub(r"\b([\d,.]+)\b", lambda m: f"F('{m[1].replace(',', '')}')", numbers)
    return eval(python.replace("·", "*").replace("−", "-"), {"F": Fraction, "max": max, "min": min})


@given(_expressions)
def test_the_substituted_formula_evaluates_to_the_value(expression: Quantity) -> None:
    assert float(_evaluate(expression.numbers)) == pytest.approx(float(expression.value), rel=1e-3, abs=1e-3)


@given(_expressions, _expressions)
def test_arithmetic_is_arithmetic(left: Quantity, right: Quantity) -> None:
    assert (left + right).value == pytest.approx(left.value + right.value)
    assert (left - right).value == pytest.approx(left.value - right.value)
    assert (left * right).value == pytest.approx(left.value * right.value)


def test_like_terms_merge_and_opposites_vanish() -> None:
    d, h = symbol("d", 8), symbol("h", 2)
    assert total([d * h, d * h, d * h, d * h]).formula == "4 · d · h"
    assert (d * h - d * h) == Quantity()
    assert (d + 0).formula == "d"
    assert str(3 * (d + h)) == "3 · d + 3 · h = 3 · 8 + 3 · 2 = 30"
    assert ((d + 1) * (h + 1)).formula == "(d + 1) · (h + 1)"


def test_names_fold_and_halves_show() -> None:
    d = symbol("d", 7)
    assert str((d * d).named("square")) == "square = 49"
    assert Quantity().named("nothing").formula == "0"
    assert str(d * (d + 1).grouped() / 2) == "d · (d + 1) / 2 = 7 · (7 + 1) / 2 = 28"
    assert ratio(symbol("a", 1), d + d * d).formula == "a / (d + d · d)"


def test_digits() -> None:
    assert digits(1234567) == "1,234,567"
    assert digits(Fraction(1, 2)) == "0.5"
    assert digits(123456.7) == "123,457"
