"""Appends rows to a table in a bucket, each in a transaction: ``python appender.py WAREHOUSE NAME COMMITS BACKEND``.

Started again after a kill it goes on where the table says.
"""

from __future__ import annotations

import sys

import pyarrow as pa
from pyspark.sql import SparkSession

from kaspr_delta.runtime.session import session_for
from kaspr_delta.storage.arrow_types import arrow_schema, frame_of
from kaspr_delta.storage.layout import RESULT
from kaspr_delta.storage.lazy_session import lazy_session
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.opening import folder_tables, open_tables
from kaspr_delta.storage.tables import Transaction


def never() -> SparkSession:
    """A session that is not started."""

    def start(reason: str) -> SparkSession:
        raise AssertionError(reason)

    return lazy_session(start, lambda _: None)


def main(warehouse: str, name: str, commits: int, backend: str) -> None:
    """Append the rows that are missing, and print the number of each."""
    location = Warehouse(warehouse)
    namespace = location.namespace("contended")
    delta, native = open_tables(namespace), folder_tables(namespace)
    assert isinstance(native, DeltaRs)
    spark = session_for(location) if backend == "spark" else never()
    if backend == "spark":
        delta.create_schema(spark)
        delta.create(spark, "rows", RESULT)
    native.ensure("rows", RESULT)
    last = native.open("rows").transaction_version(name)
    # The last one again: a kill may have come before the answer.
    for number in range(last or 0, commits):
        row = pa.Table.from_pylist([{"key": f"{name}-{number}"}], arrow_schema(RESULT.columns))
        rows = frame_of(spark, row) if backend == "spark" else row
        delta.append(spark, rows, "rows", Transaction(name, number))
        print(number, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
