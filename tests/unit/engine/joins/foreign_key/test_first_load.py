from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaspr_delta.engine.joins.foreign_key.first_load import USUAL_KEY
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.table_text import TableText

TEXT = TableText(Serializers("json", "json"))


@given(st.from_regex(USUAL_KEY, fullmatch=True))
def test_a_usual_key_is_a_key(text: str) -> None:
    assert TEXT.is_key(text)


@pytest.mark.parametrize("key", ["P100", "", " -_/.", 0, -1, 123_456_789_012_345_678, "null", "<a&b>"])
def test_texts_and_whole_numbers_are_usual(key: object) -> None:
    assert re.fullmatch(USUAL_KEY, TEXT.key(key))


@pytest.mark.parametrize("text", ["null", "01", "-0", "1.0", "P100", '"a\\u0041"', '"a', '"a"\n', "", "true"])
def test_any_other_text_is_not_a_usual_key(text: str) -> None:
    assert not re.fullmatch(USUAL_KEY, text)
