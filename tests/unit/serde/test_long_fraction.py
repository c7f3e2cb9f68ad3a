from __future__ import annotations

import json
import pickle
from copy import deepcopy
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaspr_delta.errors import SerializationError
from kaspr_delta.serde.json_lines import json_line
from kaspr_delta.serde.json_text import canonical_key, parse, parse_line, value_text
from kaspr_delta.serde.long_fraction import LongFraction
from kaspr_delta.serde.typed_values import read, written
from kaspr_delta.spec.ddl import Type

LONG = "12345678901234567.89"


@pytest.mark.parametrize("text", ["0.1", "100.5", "1e22", "0.30000000000000004", "1.7976931348623157e+308", "-0.0"])
def test_a_fraction_that_a_float_holds_is_a_float(text: str) -> None:
    assert type(parse(text)) is float


@given(st.decimals(allow_nan=False, allow_infinity=False, places=None))
def test_no_digit_of_a_fraction_is_lost(number: Decimal) -> None:
    text = f"[{number}]" if "." in str(number) or "E" in str(number) else f"[{number}.0]"
    assert Decimal(json.loads(value_text(parse(text)), parse_float=str)[0]) == number


def test_all_digits_reach_a_decimal_and_json_text() -> None:
    value = parse(f'{{"a":[{LONG}],"b":1.5,"c":"é"}}')
    assert value_text(value) == f'{{"a":[{LONG}],"b":1.5,"c":"é"}}'
    assert json_line(value) == value_text(value)
    assert json_line({**value, "c": "\ud800"}) == f'{{"a":[{LONG}],"b":1.5,"c":"\\ud800"}}'
    assert canonical_key([value["a"][0], 1]) == f"[{LONG},1]"
    assert canonical_key(parse(f"{LONG}0")) == canonical_key(parse(LONG))
    of = Type("DECIMAL", (20, 2))
    assert written(of, value["a"][0], "a") == LONG
    assert read(of, value["a"][0]) == Decimal(LONG)


def test_a_function_counts_with_it_as_with_a_float() -> None:
    number = parse(LONG)
    assert isinstance(number, float)
    assert (type(number + 1), number + 1, f"{number:.0f}") == (float, float(LONG) + 1, f"{float(LONG):.0f}")


@pytest.mark.parametrize("copy", [deepcopy, lambda one: pickle.loads(pickle.dumps(one))])  # noqa: S301  its own
def test_a_copy_keeps_the_digits(copy: Any) -> None:
    copied = copy(parse(LONG))
    assert isinstance(copied, LongFraction)
    assert copied.digits == LONG


@pytest.mark.parametrize("text", ["1e999999999999", "1e-999999999999", "1e99999999999999999999", "1e1000000"])
def test_a_number_that_nobody_can_write_out_is_not_read(text: str) -> None:
    for reader in (parse, parse_line):
        with pytest.raises(SerializationError, match="is too large"):
            reader(f"[{text}]")


@pytest.mark.parametrize(("text", "kept"), [("1e400", "1E+400"), ("1e-999", "1E-999"), ("0e999999999999", "0.0")])
def test_a_number_outside_of_floating_point_keeps_its_digits(text: str, kept: str) -> None:
    assert value_text(parse(text)) == value_text(parse_line(text)) == kept
