"""Appends rows to a table, one commit each: ``python committer.py WAREHOUSE NAME COMMITS``."""

from __future__ import annotations

import sys

from kaspr_delta.runtime.session import spark_session
from kaspr_delta.storage.layout import RESULT
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import open_tables


def main(warehouse: str, name: str, commits: int) -> None:
    """Open the contended table and commit to it."""
    spark = spark_session()
    delta = open_tables(Warehouse(warehouse).namespace("contended"))
    delta.create_schema(spark)
    delta.create(spark, "rows", RESULT)
    for number in range(commits):
        row = spark.createDataFrame([(f"{name}-{number}", None, None, None)], RESULT.columns)
        delta.append(spark, row.coalesce(1), "rows")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
