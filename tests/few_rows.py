"""A Spark session for tests, whose tables have a handful of rows."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from kaspr_delta.runtime.session import spark_session

WITHOUT_GENERATED_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings that switch off code generation.

To read a handful of rows without generating and compiling code takes a quarter of the time.
"""


def session_for_few_rows(log: Path) -> SparkSession:
    """The running session, or a new embedded one, without code generation."""
    session = spark_session(log)
    for name, value in WITHOUT_GENERATED_CODE.items():
        session.conf.set(name, value)
    return session
