"""Fractions of JSON that have more digits than floating point keeps."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from decimal import Context, Decimal, InvalidOperation
from typing import Any

# A float of this size keeps all digits of a fraction that is no longer.
_KEPT_DIGITS = 15
_SMALL, _LARGE = 1e-300, 1e300
# Of a fraction of any length all digits are kept: the default context would round to 28.
_ALL_DIGITS = Context(prec=999_999_999)
# Written without an exponent, a number has no more digits than this.
_MOST_DIGITS = 999_999


class LongFraction(float):
    """A float that remembers all digits it was read from: functions count with it, columns and JSON get the digits.

    Only numbers that a float does not hold exactly become one. A result of arithmetic is a float.
    """

    __slots__ = ("digits",)
    digits: str
    are_read = False
    """Whether this process has read one: if not, no value holds one."""

    def __new__(cls, digits: str) -> LongFraction:  # noqa: PYI034  Self is of Python 3.11
        made = super().__new__(cls, digits)
        made.digits = digits
        LongFraction.are_read = True
        return made

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]  # a float has its own value here
        return (self.digits,)

    @property
    def exact(self) -> Decimal:
        """The number with all its digits."""
        return Decimal(self.digits)


def fraction_of(text: str) -> float:
    """The number that a JSON fraction stands for. Raises ValueError for an exponent of millions.

    >>> fraction_of("9.50"), fraction_of("12345678901234567.890").digits
    (9.5, '12345678901234567.89')
    """
    number = float(text)
    if len(text) <= _KEPT_DIGITS and _SMALL < abs(number) < _LARGE:
        return number
    with suppress(InvalidOperation):  # an exponent that no Decimal has
        exact = Decimal(text)
        if exact == Decimal(repr(number)):
            return number
        if abs(exact.adjusted()) <= _MOST_DIGITS:
            return LongFraction(str(exact.normalize(_ALL_DIGITS)))
    raise ValueError(f"the exponent of {text[:30]} is too large")


def holds_long_fraction(value: Any) -> bool:
    """Whether a value of lists and dictionaries holds one."""
    return LongFraction.are_read and _holds_one(value)


class ExactEncoder(json.JSONEncoder):
    """Writes the digits of a LongFraction, which the encoder in C does not ask for. It is slower."""

    def iterencode(self, o: Any, _one_shot: bool = False) -> Iterator[str]:  # noqa: FBT001, FBT002  json's own
        encoder, skip, once = json.encoder, False, True
        text_of = encoder.encode_basestring_ascii if self.ensure_ascii else encoder.encode_basestring
        make = encoder._make_iterencode  # type: ignore[attr-defined]  # noqa: SLF001
        separators = (self.key_separator, self.item_separator)
        made: Iterator[str] = make(
            None, self.default, text_of, None, _float_text, *separators, self.sort_keys, skip, once
        )(o, 0)
        return made


def _holds_one(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_one, value)) or any(map(_holds_one, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_one, value))
    return isinstance(value, LongFraction)


def _float_text(number: float) -> str:
    if isinstance(number, LongFraction):
        return number.digits
    if not math.isfinite(number):
        raise ValueError(f"Out of range float values are not JSON compliant: {number}")
    return float.__repr__(number)
