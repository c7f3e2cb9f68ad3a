"""A Spark session for tests, whose tables have a handful of rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kaspr_delta.runtime.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_for_few_rows(log: Path) -> SparkSession:
    """The embedded session, or the one that runs, without generated code."""
    return without_generated_code(spark_session(log))


def without_generated_code(session: SparkSession) -> SparkSession:
    """The session, in which no code is generated.

    A handful of rows is read faster than the code to read them is generated and compiled: a quarter of the time.
    """
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    return session
