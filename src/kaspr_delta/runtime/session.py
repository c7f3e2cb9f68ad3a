"""The embedded Spark: one session with Delta on this machine, no server, no account."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kaspr_delta.errors import SetupError
from kaspr_delta.runtime.java import check_java
from kaspr_delta.runtime.versions import spark_is_elsewhere
from kaspr_delta.storage.layout import PAGE_BYTES, PAGE_ROWS, UNLIKE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    # A table of some files is read in more tasks than there are cores, or the last one would keep the others waiting.
    "spark.sql.files.minPartitionNum": "8",
    "spark.databricks.delta.snapshotPartitions": "2",
    # Spark's own INT96 takes more room, and there are times that others misread in it (storage/far_times.py).
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.hadoop.parquet.page.size": str(PAGE_BYTES),
    "spark.hadoop.parquet.page.row.count.limit": str(PAGE_ROWS),
    # Nobody looks for one of these texts, of which hardly two are the same: bounds and dictionaries cost, to no end.
    **{f"spark.hadoop.parquet.column.statistics.enabled#{column}": "false" for column in UNLIKE},
    **{f"spark.hadoop.parquet.enable.dictionary#{column}": "false" for column in UNLIKE},
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A topic is read from its beginning for as long as its files are there, not only for as long as VACUUM keeps them.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    "spark.sql.streaming.pollingDelay": "100ms",
    # VACUUM lists folders with so many tasks; Spark's own 10,000 take a minute for a folder of ten files.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # Each row of a shuffle would be hashed, to notice when a lost task comes out otherwise: here none is run again.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.maxResultSize": "0",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""Settings of the embedded Spark. No one of them is needed for right answers: on Databricks none is set."""


def spark_session(log: Path | None = None) -> SparkSession:
    """The running session, or a new embedded one, whose JVM writes what it has to say to ``log``.

    On Databricks and under Spark Connect a session is always running. Raises SetupError when Java or the
    packages of the extra ``local`` are missing.
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        msg = "pyspark is not installed: pip install 'kaspr-delta[local]'"
        raise SetupError(msg) from error
    with contextlib.suppress(PySparkException):  # there is none
        return SparkSession.active()
    if spark_is_elsewhere():
        return SparkSession.builder.getOrCreate()
    return _embedded(log)


def databricks_session(profile: str) -> SparkSession:
    """A session on Databricks compute, through databricks-connect: that of a profile in ``~/.databrickscfg``.

    Raises SetupError when the extra ``connect`` is missing or the workspace gives no session.
    """
    try:
        from databricks.connect import DatabricksSession
    except ImportError as error:
        msg = (
            "databricks-connect is not installed: pip install 'kaspr-delta[connect]', in an environment without the"
            " extra 'local', for both are the package pyspark"
        )
        raise SetupError(msg) from error
    try:
        session: SparkSession = DatabricksSession.builder.profile(profile).getOrCreate()
    except Exception as error:
        msg = f"profile {profile!r} gives no Spark session: {str(error).splitlines()[0]}"
        raise SetupError(msg) from error
    return session


def _embedded(log: Path | None) -> SparkSession:
    check_java()
    try:
        from delta import configure_spark_with_delta_pip
    except ImportError as error:
        msg = "delta-spark is not installed: pip install 'kaspr-delta[local]'"
        raise SetupError(msg) from error
    from pyspark.sql import SparkSession

    # Workers run the interpreter that runs this: another python on the PATH has not our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("kaspr-delta").master(os.environ.get("KASPR_DELTA_MASTER", "local[*]"))
    # Where Spark makes a folder for every schema and puts tables without a location. Its catalog ends with the process,
    # so what is left there would be in the way of the next one.
    scratch = tempfile.mkdtemp(prefix="kaspr-delta-schemas-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    builder = builder.config("spark.sql.warehouse.dir", scratch)
    builder = builder.config("spark.driver.memory", os.environ.get("KASPR_DELTA_DRIVER_MEMORY", "2g"))
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    with _stderr_to(log):
        try:
            session: SparkSession = configure_spark_with_delta_pip(builder).getOrCreate()
        except Exception as error:
            where = f"; see {log}" if log is not None else ""
            msg = f"Spark does not start ({str(error).splitlines()[0]}){where}"
            raise SetupError(msg) from error
    return session


@contextlib.contextmanager
def _stderr_to(log: Path | None) -> Iterator[None]:
    """Give processes started meanwhile, which is the JVM, a file as their standard error."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    saved = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
