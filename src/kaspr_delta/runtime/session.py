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

from kaspr_delta.errors import SetupError, first_line
from kaspr_delta.extras import required
from kaspr_delta.runtime.java import check_java
from kaspr_delta.runtime.versions import spark_is_elsewhere
from kaspr_delta.storage.layout import PAGE_BYTES, PAGE_ROWS, UNLIKE
from kaspr_delta.storage.stores import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    # More tasks than cores, even for a table of few files: otherwise the last task would keep the others waiting.
    "spark.sql.files.minPartitionNum": "8",
    "spark.databricks.delta.snapshotPartitions": "2",
    # Spark's default INT96 takes more space, and other readers misread some times in it (see storage.native.supports).
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.hadoop.parquet.page.size": str(PAGE_BYTES),
    "spark.hadoop.parquet.page.row.count.limit": str(PAGE_ROWS),
    # No query searches these texts, and hardly two are equal: bounds and dictionaries would cost without use.
    **{f"spark.hadoop.parquet.column.statistics.enabled#{column}": "false" for column in UNLIKE},
    **{f"spark.hadoop.parquet.enable.dictionary#{column}": "false" for column in UNLIKE},
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A topic can be read from its beginning while its files exist, not only while VACUUM would keep them.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    "spark.sql.streaming.pollingDelay": "100ms",
    # The number of tasks with which VACUUM lists folders: Spark's 10,000 take a minute for a folder of ten files.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # The checksum hashes each shuffled row to notice a rerun task with another result: here no task is run again.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.maxResultSize": "0",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""Settings of the embedded Spark. Correct results need none of them: on Databricks none is set."""


def spark_session(log: Path | None = None, store: Store | None = None) -> SparkSession:
    """The running session, or a new embedded one that reaches a store; its JVM writes its standard error to ``log``.

    On Databricks and under Spark Connect no embedded session is started. Raises SetupError if Java or the packages of
    the extra ``local`` are missing.
    """
    with required():
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    with contextlib.suppress(PySparkException):  # there is none
        return SparkSession.active()
    if spark_is_elsewhere():
        return SparkSession.builder.getOrCreate()
    return _embedded(log, store)


def databricks_session(profile: str) -> SparkSession:
    """A session on Databricks compute, through databricks-connect, for a profile in ``~/.databrickscfg``.

    Raises SetupError if the extra ``connect`` is missing or the workspace gives no session.
    """
    try:
        from databricks.connect import DatabricksSession
    except ImportError as error:
        raise SetupError(
            "databricks-connect is not installed: pip install 'kaspr-delta[connect]', in an environment without the"
            " extra 'local', for both are the package pyspark"
        ) from error
    try:
        session: SparkSession = DatabricksSession.builder.profile(profile).getOrCreate()
    except Exception as error:
        raise SetupError(f"profile {profile!r} gives no Spark session: {first_line(error)}") from error
    return session


def _embedded(log: Path | None, store: Store | None) -> SparkSession:
    check_java()
    with required():
        from delta import configure_spark_with_delta_pip
        from pyspark.sql import SparkSession

    # Workers run this interpreter: another python on the PATH does not have our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("kaspr-delta").master(os.environ.get("KASPR_DELTA_MASTER", "local[*]"))
    # Here Spark makes a folder for every schema, and puts tables without a location. Its catalog ends with the process,
    # and files left here would be in the way of the next process.
    scratch = tempfile.mkdtemp(prefix="kaspr-delta-schemas-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    builder = builder.config("spark.sql.warehouse.dir", scratch)
    builder = builder.config("spark.driver.memory", os.environ.get("KASPR_DELTA_DRIVER_MEMORY", "2g"))
    packages = [] if store is None else store.packages(_hadoop())
    for name, value in {**SETTINGS, **({} if store is None else store.settings())}.items():
        builder = builder.config(name, value)
    with _stderr_to(log):
        try:
            session: SparkSession = configure_spark_with_delta_pip(builder, packages).getOrCreate()
        except Exception as error:
            where = f"; see {log}" if log is not None else ""
            raise SetupError(f"Spark does not start ({first_line(error)}){where}") from error
    return session


def _hadoop() -> str:
    """The version of Hadoop in pyspark."""
    import pyspark

    names = (jar.stem for jar in Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar"))
    return next((name.rpartition("-")[2] for name in names), "")


@contextlib.contextmanager
def _stderr_to(log: Path | None) -> Iterator[None]:
    """Redirect the standard error of processes started meanwhile (the JVM) to a file."""
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
