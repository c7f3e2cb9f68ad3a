"""The settings of a Spark that this package starts: on this machine, or on a cluster.

A cluster is configured in Spark's own places: ``spark-submit``, and ``spark-defaults.conf`` in the folder that
``SPARK_CONF_DIR`` names. Settings from there win over those of this package.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from kaspr_delta.storage.layout import NOT_INDEXED, PAGE_BYTES, PAGE_ROWS

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.databricks.delta.snapshotPartitions": "2",
    # Spark's default INT96 takes more space, and other readers misread some times in it (see storage.native.supports).
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.hadoop.parquet.page.size": str(PAGE_BYTES),
    "spark.hadoop.parquet.page.row.count.limit": str(PAGE_ROWS),
    # No query searches these texts, and hardly two are equal: bounds and dictionaries would cost without use.
    **{f"spark.hadoop.parquet.column.statistics.enabled#{column}": "false" for column in NOT_INDEXED},
    **{f"spark.hadoop.parquet.enable.dictionary#{column}": "false" for column in NOT_INDEXED},
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A topic can be read from its beginning while its files exist, not only while VACUUM would keep them.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    "spark.sql.streaming.pollingDelay": "100ms",
    # The number of tasks with which VACUUM lists folders: Spark's 10,000 take a minute for a folder of ten files.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.driver.maxResultSize": "0",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""Settings of every Spark that this package starts.

Correct results need none of them but Delta's extension and catalog, which Databricks has: there none is set.
"""

ON_THIS_MACHINE = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # More tasks than cores, even for a table of few files: otherwise the last task would keep the others waiting.
    "spark.sql.files.minPartitionNum": "8",
    # The checksum hashes each shuffled row to notice a rerun task with another result: here no task is run again.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
}
"""Settings beside them for a Spark whose tasks run in its own process."""

LISTS = ("spark.jars.excludes", "spark.sql.extensions")
"""The settings that are lists, with commas: both the user's entries and this package's are needed."""

_LINE = re.compile(r"\s*(?P<name>[^\s=:#!]+)(?:\s*[=:]\s*|\s+)(?P<value>.*?)\s*")


def runs_on_this_machine(master: str) -> bool:
    """Whether the tasks of a Spark with this master run in its own process."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def spark_defaults() -> dict[str, str]:
    """The settings in ``spark-defaults.conf`` of ``SPARK_CONF_DIR``, or of ``SPARK_HOME``; none without such a file."""
    if folder := os.environ.get("SPARK_CONF_DIR"):
        file = Path(folder)
    elif home := os.environ.get("SPARK_HOME"):
        file = Path(home, "conf")
    else:
        return {}
    try:
        lines = (file / "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    found = (_LINE.fullmatch(line) for line in lines)
    return {line["name"]: line["value"] for line in found if line is not None}


def merged(ours: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The settings of this package that a user has not given, and lists with the entries of both."""
    alone = {name: value for name, value in ours.items() if name not in given}
    both = {name: f"{given[name]},{ours[name]}" for name in LISTS if name in given and name in ours}
    return alone | both
