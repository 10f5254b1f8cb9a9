"""A number that remembers how it was made: value, formula and substituted formula, all from one expression.

Like terms merge, so that query + key + value + output reads as one product with a 4 in front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

Number = int | float | Fraction


def digits(value: Number) -> str:
    """A number as people read it: thousands set apart, small fractions short.

    >>> digits(12288), digits(0.51234), digits(Fraction(1, 2))
    ('12,288', '0.5123', '0.5')
    """
    if isinstance(value, Fraction):
        value = plain(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:,.4g}"


def plain(value: Number) -> int | float:
    """An int where the value is whole, a float where it is not."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value


@dataclass(frozen=True)
class Factor:
    """One symbol of a product: how it is written, how it reads with numbers put in, and its value."""

    text: str
    numbers: str
    value: Number


Term = tuple[Number, tuple[Factor, ...]]


@dataclass(frozen=True)
class Quantity:
    """A sum of products of symbols.

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
        """The number itself: an int wherever the expression is whole."""
        return plain(sum((c * prod(f.value for f in factors) for c, factors in self.terms), 0))

    @property
    def formula(self) -> str:
        """The expression in symbols."""
        return self._written(lambda factor: factor.text)

    @property
    def numbers(self) -> str:
        """The expression with the numbers put in."""
        return self._written(lambda factor: factor.numbers)

    def _written(self, show: Callable[[Factor], str]) -> str:
        text = ""
        for coefficient, factors in self.terms:
            exact = coefficient if isinstance(coefficient, float) else Fraction(coefficient)
            top, bottom = (exact, 1) if isinstance(exact, float) else (exact.numerator, exact.denominator)
            body = [show(factor) for factor in factors]
            if abs(top) != 1 or not body:
                body.insert(0, digits(abs(top)))
            written = " · ".join(body) + (f" / {digits(bottom)}" if bottom != 1 else "")
            sign = "−" if top < 0 else "+"
            text = f"{text} {sign} {written}" if text else (f"−{written}" if top < 0 else written)
        return text or "0"

    def __add__(self, other: Quantity | Number) -> Quantity:
        merged: dict[tuple[Factor, ...], Number] = {}
        for coefficient, factors in (*self.terms, *quantity(other).terms):
            merged[factors] = merged.get(factors, 0) + coefficient
        return Quantity(tuple((c, factors) for factors, c in merged.items() if c != 0))

    def __mul__(self, other: Quantity | Number) -> Quantity:
        """A product; a single term is multiplied into every term of a sum, two sums are bracketed."""
        left, right = self, quantity(other)
        if len(left.terms) > 1 and len(right.terms) > 1:
            left, right = left.grouped(), right.grouped()
        return total(Quantity(((a * b, (*f, *g)),)) for a, f in left.terms for b, g in right.terms)

    def __truediv__(self, whole: int) -> Quantity:
        return self * Fraction(1, whole)

    def __sub__(self, other: Quantity | Number) -> Quantity:
        return self + quantity(other) * -1

    __radd__ = __add__
    __rmul__ = __mul__

    def grouped(self) -> Quantity:
        """The same number as one bracketed factor."""
        if len(self.terms) < 2:
            return self
        return _single(f"({self.formula})", f"({self.numbers})", self.value)

    def named(self, name: str) -> Quantity:
        """The same number under a name of its own, for a sum that should read as the names of its parts."""
        return self if self.value == 0 else symbol(name, self.value)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"value": self.value, "formula": self.formula, "numbers": self.numbers}

    def __str__(self) -> str:
        steps = [self.formula, self.numbers, digits(self.value)]
        return " = ".join(step for i, step in enumerate(steps) if i == 0 or step != steps[i - 1])


Parts = dict[str, Quantity]  # one number for each part of a whole


def _single(text: str, numbers: str, value: Number) -> Quantity:
    return Quantity(((1, (Factor(text, numbers, value),)),))


def symbol(name: str, value: Number) -> Quantity:
    """A named number."""
    return _single(name, digits(value), value)


def quantity(value: Quantity | Number) -> Quantity:
    """A plain number as a quantity without symbols; a quantity as itself."""
    if isinstance(value, Quantity):
        return value
    return Quantity(((value, ()),) if value != 0 else ())


def total(parts: Iterable[Quantity | Number]) -> Quantity:
    """The sum of the parts, like terms merged."""
    result = Quantity()
    for part in parts:
        result = result + part
    return result


def largest(*options: Quantity) -> Quantity:
    """The greatest of the options: what is needed when they follow one another."""
    return _pick("max", max, options)


def smallest(*options: Quantity) -> Quantity:
    """The least of the options."""
    return _pick("min", min, options)


def _pick(name: str, choose: Callable[[Iterable[int | float]], int | float], options: tuple[Quantity, ...]) -> Quantity:
    different = list(dict.fromkeys(options))
    if len(different) == 1:
        return different[0]
    texts, numbers = ", ".join(o.formula for o in different), ", ".join(o.numbers for o in different)
    return _single(f"{name}({texts})", f"{name}({numbers})", choose(o.value for o in different))


def ratio(top: Quantity, bottom: Quantity) -> Quantity:
    """One quantity divided by another.

    >>> print(ratio(symbol("FLOPs", 12), symbol("bytes", 8)))
    FLOPs / bytes = 12 / 8 = 1.5
    """
    top, bottom = top.grouped(), bottom.grouped()
    return _single(f"{top.formula} / {bottom.formula}", f"{top.numbers} / {bottom.numbers}", top.value / bottom.value)
