"""Look-ups by texts, without Spark: the rows found, the number of files that may hold them, and the limits."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import SUBSCRIPTIONS
from kaspr_delta.storage.limits import Limits, Size
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.look_up import look_up
from kaspr_delta.storage.tables import Texts

SCHEMA = arrow_schema(SUBSCRIPTIONS.columns)


def looked_up(delta: DeltaRs, limits: Limits, texts: Texts, version: int | None = None) -> pa.Table | None:
    return look_up(delta.folder("t"), delta.open("t", version), texts, limits)


@pytest.fixture
def delta(delta: DeltaRs) -> DeltaRs:
    """Subscriptions in three files: a to c, m to o, x to z."""
    delta.ensure("t", SUBSCRIPTIONS)
    for keys in ("abc", "mno", "xyz"):
        delta.append("t", pa.Table.from_pylist([{"key": key, "fk": f"P'{key}"} for key in keys], SCHEMA))
    return delta


@pytest.fixture(params=["searched for", "all read"])
def limits(request: pytest.FixtureRequest) -> Limits:
    """Limits with which the texts are searched for by a query, or all rows are read."""
    return Limits(searched_texts=0) if request.param == "all read" else Limits()


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"key": ["b"]}, "b"),
        ({"key": ["b", "n", "gone"]}, "bn"),
        ({"key": ["between"]}, ""),
        ({"key": ["a"], "fk": ["P'z", "P'm"]}, "amz"),
        ({"key": [], "fk": ["P'o"]}, "o"),
        ({"key": ["d"]}, ""),
        ({"key": [], "fk": []}, ""),
    ],
)
def test_a_look_up_finds_the_rows_with_any_of_the_values(
    delta: DeltaRs, limits: Limits, values: dict[str, list[str]], found: str
) -> None:
    result = looked_up(delta, limits, values)
    assert result is not None
    assert sorted(result["key"].to_pylist()) == list(found)
    assert result.schema.equals(SCHEMA)


def test_a_look_up_reads_the_given_version(delta: DeltaRs, limits: Limits) -> None:
    result = looked_up(delta, limits, {"key": ["b", "n"]}, version=1)
    assert result is not None
    assert result["key"].to_pylist() == ["b"]


def test_too_many_rows_or_bytes_are_left_to_spark(delta: DeltaRs, limits: Limits) -> None:
    few = replace(limits, looked_up=Size(2, 1 << 20))
    assert looked_up(delta, few, {"key": ["a", "b"]}) is not None
    assert looked_up(delta, few, {"key": ["a", "b", "z"]}) is None
    more = [{"key": "a"}, {"key": "a"}, {"key": "large", "emitted": "e" * 1_000}]
    delta.append("t", pa.Table.from_pylist(more, SCHEMA))
    assert looked_up(delta, few, {"key": ["a"]}) is None
    small = replace(limits, looked_up=Size(10, 1_000))
    assert looked_up(delta, small, {"key": ["a", "z"]}) is not None
    assert looked_up(delta, small, {"key": ["a", "large"]}) is None
