"""A number with its formula: value, formula and substituted formula, all from one expression.

Like terms are merged, so that query + key + value + output becomes one product with the coefficient 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

Number = int | float | Fraction

_UNITS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def digits(value: Number) -> str:
    """Format a number: with thousands separators, fractions with four digits.

    >>> digits(12288), digits(0.51234), digits(Fraction(1, 2))
    ('12,288', '0.5123', '0.5')
    """
    if isinstance(value, Fraction):
        value = plain(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:,.4g}"


def short(value: float, unit: str = "") -> str:
    """Format a number with four digits and a unit prefix.

    >>> short(57_982_058_496, "B"), short(12), short(0.00123, "s")
    ('57.98 GB', '12', '1.23 ms')
    >>> short(104_800, "s")
    '29.1 h'
    """
    if unit == "s" and 0 < value < 1:
        return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} µs"
    if unit == "s" and value >= 120:
        return next(f"{value / size:.3g} {name}" for size, name in ((86400, "days"), (3600, "h"), (60, "min")) if value >= 2 * size)
    for size, prefix in _UNITS:
        if abs(value) >= size:
            return f"{value / size:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}".strip()


def plain(value: Number) -> int | float:
    """Convert a Fraction to an int if it is whole, else to a float."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value


@dataclass(frozen=True)
class Factor:
    """One symbol of a product: its name, its text in the substituted formula, and its value."""

    text: str
    numbers: str
    value: Number


Term = tuple[Number, tuple[Factor, ...]]


@dataclass(frozen=True, repr=False)
class Quantity:
    """A sum of products of symbols.

    terms: the products, each a coefficient and its symbols; made by arithmetic on `symbol(name, value)`.

    >>> d, n = symbol("d_model", 12288), symbol("layers", 96)
    >>> print(4 * d * d * n)
    4 · d_model · d_model · layers = 4 · 12,288 · 12,288 · 96 = 57,982,058,496
    >>> (d * n + 3 * d * n).formula
    '4 · d_model · layers'
    >>> print(n * (n + 1).grouped() / 2)
    layers · (layers + 1) / 2 = 96 · (96 + 1) / 2 = 4,656
    """

    terms: tuple[Term, ...] = ()

    @property
    def value(self) -> int | float:
        """The number: an int wherever the expression is whole."""
        return plain(sum((c * prod(f.value for f in factors) for c, factors in self.terms), 0))

    @property
    def formula(self) -> str:
        """The formula in symbols."""
        return self._format(lambda factor: factor.text)

    @property
    def numbers(self) -> str:
        """The formula with numbers substituted."""
        return self._format(lambda factor: factor.numbers)

    def _format(self, factor_text: Callable[[Factor], str]) -> str:
        text = ""
        for coefficient, factors in self.terms:
            exact = coefficient if isinstance(coefficient, float) else Fraction(coefficient)
            numerator, denominator = (exact, 1) if isinstance(exact, float) else (exact.numerator, exact.denominator)
            product = [factor_text(factor) for factor in factors]
            if abs(numerator) != 1 or not product:
                product.insert(0, digits(abs(numerator)))
            term = " · ".join(product) + (f" / {digits(denominator)}" if denominator != 1 else "")
            sign = "−" if numerator < 0 else "+"
            text = f"{text} {sign} {term}" if text else (f"−{term}" if numerator < 0 else term)
        return text or "0"

    def __add__(self, other: Quantity | Number) -> Quantity:
        merged: dict[tuple[Factor, ...], Number] = {}
        for coefficient, factors in (*self.terms, *quantity(other).terms):
            merged[factors] = merged.get(factors, 0) + coefficient
        return Quantity(tuple((c, factors) for factors, c in merged.items() if c != 0))

    def __mul__(self, other: Quantity | Number) -> Quantity:
        """Multiply: a single term into every term of a sum; two sums become bracketed factors."""
        left, right = self, quantity(other)
        if len(left.terms) > 1 and len(right.terms) > 1:
            left, right = left.grouped(), right.grouped()
        return total(Quantity(((a * b, (*f, *g)),)) for a, f in left.terms for b, g in right.terms)

    def __truediv__(self, divisor: int) -> Quantity:
        return self * Fraction(1, divisor)

    def __sub__(self, other: Quantity | Number) -> Quantity:
        return self + quantity(other) * -1

    __radd__ = __add__
    __rmul__ = __mul__

    def grouped(self) -> Quantity:
        """Return the same number as one bracketed factor."""
        if len(self.terms) < 2:
            return self
        return _single(f"({self.formula})", f"({self.numbers})", self.value)

    def named(self, name: str) -> Quantity:
        """Return the same number as one named symbol, for a sum that is written as the names of its parts.

        >>> (symbol("a", 2) * symbol("b", 3)).named("full-attention layers").formula
        'full_attention_layers'
        """
        return self if self.value == 0 else symbol(re.sub(r"\W+", "_", name).strip("_"), self.value)

    def to_dict(self) -> dict[str, Any]:
        """Return value, formula and substituted formula for JSON."""
        return {"value": self.value, "formula": self.formula, "numbers": self.numbers}

    def __repr__(self) -> str:
        return f"Quantity({self})"

    def __str__(self) -> str:
        steps = [self.formula, self.numbers, digits(self.value)]
        return " = ".join(step for i, step in enumerate(steps) if i == 0 or step != steps[i - 1])


Parts = dict[str, Quantity]  # the parts of a total, by name


def _single(text: str, numbers: str, value: Number) -> Quantity:
    return Quantity(((1, (Factor(text, numbers, value),)),))


def symbol(name: str, value: Number) -> Quantity:
    """Return a number as a named symbol."""
    return _single(name, digits(value), value)


def quantity(value: Quantity | Number) -> Quantity:
    """Return a plain number as a quantity without symbols, and a quantity unchanged."""
    if isinstance(value, Quantity):
        return value
    return Quantity(((value, ()),) if value != 0 else ())


def total(parts: Iterable[Quantity | Number]) -> Quantity:
    """Sum the parts, merging like terms."""
    result = Quantity()
    for part in parts:
        result = result + part
    return result


def largest(*options: Quantity) -> Quantity:
    """Return the largest option, written as max(…): the peak of things that are needed one after another."""
    return _select("max", max, options)


def smallest(*options: Quantity) -> Quantity:
    """Return the smallest option, written as min(…)."""
    return _select("min", min, options)


def _select(name: str, function: Callable[[Iterable[int | float]], int | float], options: tuple[Quantity, ...]) -> Quantity:
    distinct = list(dict.fromkeys(options))
    if len(distinct) == 1:
        return distinct[0]
    formulas, numbers = ", ".join(o.formula for o in distinct), ", ".join(o.numbers for o in distinct)
    return _single(f"{name}({formulas})", f"{name}({numbers})", function(o.value for o in distinct))


def ratio(numerator: Quantity, denominator: Quantity) -> Quantity:
    """Divide one quantity by another.

    >>> print(ratio(symbol("FLOPs", 12), symbol("bytes", 8)))
    FLOPs / bytes = 12 / 8 = 1.5
    """
    top, bottom = numerator.grouped(), denominator.grouped()
    return _single(f"{top.formula} / {bottom.formula}", f"{top.numbers} / {bottom.numbers}", top.value / bottom.value)
