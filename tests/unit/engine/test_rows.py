from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow as pa

from kaspr_delta.engine.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_SPARK = cast("DataFrame", None)


def test_few_rows_are_counted_without_spark() -> None:
    rows = Rows(NO_SPARK, pa.table({"kind": ["a", "b", "a"], "target": ["x", "x", "x"]}))
    assert rows.count_by("kind", "target") == {("a", "x"): 2, ("b", "x"): 1}


def test_where_there_is_no_row_no_column_is_missed() -> None:
    assert Rows(NO_SPARK, pa.table({"key": pa.array([], pa.string())})).count_by("kind") == {}
