from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest

from kaspr_delta.engine.rows.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_SPARK = cast("DataFrame", None)


def test_few_rows_are_counted_without_spark() -> None:
    rows = Rows(NO_SPARK, pa.table({"kind": ["a", "b", "a"], "target": ["x", "x", "x"]}))
    assert rows.count_by("kind", "target") == {("a", "x"): 2, ("b", "x"): 1}


def test_where_there_is_no_row_no_column_is_missed() -> None:
    assert Rows(NO_SPARK, pa.table({"key": pa.array([], pa.string())})).count_by("kind") == {}


def test_values_are_those_of_the_rows_that_are_asked_for_each_once() -> None:
    table = pa.table({"side": ["left", "left", "right", "left", "left"], "key": ["a", "b", "c", "a", None]})
    rows = Rows(NO_SPARK, table)
    assert rows.values("key", side="left") == ["a", "b"]
    assert rows.values("key") == ["a", "b", "c"]
    with pytest.raises(LookupError):
        Rows(NO_SPARK).values("key")
