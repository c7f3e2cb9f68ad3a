"""Counts what a run asks of Spark: each statement and each read or look-up of a table is a round trip to a catalog."""

from __future__ import annotations

import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from pyspark.sql import DataFrameReader
from pyspark.sql.catalog import Catalog
from pyspark.sql.readwriter import DataFrameWriterV2
from pyspark.sql.session import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

_ASKED = [
    (SparkSession, "sql"),
    (DataFrameReader, "table"),
    (DataFrameReader, "load"),
    (DataStreamReader, "table"),
    (DataFrameWriterV2, "append"),
    (DataFrameWriterV2, "overwrite"),
    (Catalog, "databaseExists"),
    (Catalog, "tableExists"),
]


@contextmanager
def noted_statements() -> Iterator[list[str]]:
    """Note the statements of a block, each with the place in the package that asks.

    Tables that are read for an SQL text (``spark.sql(text, t=rows)``) are part of that statement.
    """
    statements: list[str] = []
    of_thread: defaultdict[int, list[str]] = defaultdict(list)

    def noting(method: str, called: Callable[..., Any]) -> Callable[..., Any]:
        def noted(self: Any, *given: Any, **named: Any) -> Any:
            mine = of_thread[threading.get_ident()]
            for _ in named:  # tables that were read just now, or rows of the driver
                if mine and mine[-1].startswith("table "):
                    statements.remove(mine.pop())
            text = " ".join(str(given[0] if given else "").split())
            mine.append(f"{method} {text[:110]} ({_asks()})")
            statements.append(mine[-1])
            return called(self, *given, **named)

        return noted

    with ExitStack() as patched:
        for of, method in _ASKED:
            patched.enter_context(mock.patch.object(of, method, noting(method, getattr(of, method))))
        yield statements


def _asks() -> str:
    """The functions of the package that led to the call, the outermost last."""
    places = []
    for frame, line in traceback.walk_stack(None):
        _, found, module = frame.f_code.co_filename.partition("/kaspr_delta/")
        if found and not module.startswith("storage/"):
            places.append(f"{module}:{line}")
    return " < ".join(places[:3])
