"""Files in a folder: each row of an incoming file is a record; each outgoing batch is a folder of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.dead_letters import problem_column
from kaspr_delta.engine.binding.connectors import need
from kaspr_delta.engine.binding.file_records import FILE_COLUMNS, RECORD_COLUMNS, FileRecords
from kaspr_delta.engine.rows.value_functions import is_json
from kaspr_delta.engine.streams.source import partition_of
from kaspr_delta.plan.definition.bindings import FilesPlan
from kaspr_delta.spec.ddl import columns_of, quoted
from kaspr_delta.storage.layout import HEADERS

# A backlog is read in pieces, so that a kill costs one of them.
_MOST_FILES = "1000"
_LINE = "value"
_NUMBER = r"^\s*-?\d+(\.\d*)?\s*$"


@dataclass(frozen=True, slots=True)
class Files:
    """The rows of files. A file is read once, when it is first seen, so it must be complete by then.

    The stream has whole files, up to 2 GiB each, which Python reads. Spark's connector reads those of Avro.
    """

    plan: FilesPlan
    topic: str
    partitions: int
    on_databricks: bool

    @property
    def order(self) -> tuple[str, ...]:
        return ("modified", "source", "row")

    def stream(self, spark: SparkSession) -> DataFrame:
        need(spark, self.plan.format)
        if self.plan.path.startswith("/") and not self.on_databricks:
            Path(self.plan.path).mkdir(parents=True, exist_ok=True)  # files may come later
        kind = "avro" if self._by_connector else "binaryFile"
        reader = spark.readStream.schema(self.plan.schema if self._by_connector else FILE_COLUMNS)
        if self.on_databricks:
            reader = reader.format("cloudFiles").option("cloudFiles.format", kind)
            reader = reader.option("cloudFiles.maxFilesPerTrigger", _MOST_FILES)
        else:
            reader = reader.format(kind).option("maxFilesPerTrigger", _MOST_FILES)
        # A broken file may be removed: its absence must not fail the stream.
        files = reader.option("ignoreMissingFiles", "true").load(self.plan.path)
        if not self._by_connector:
            return files.select("path", "modificationTime", "content")
        return files.select(
            "*",
            F.col("_metadata.file_path").alias("_kaspr_path"),
            F.col("_metadata.file_modification_time").alias("_kaspr_modified"),
        )

    def records(self, batch: DataFrame) -> DataFrame:
        rows = (
            self._of_connector(batch)
            if self._by_connector
            else batch.mapInArrow(FileRecords(self.plan), RECORD_COLUMNS)
        )
        at = _moment(F.col("at"))
        late = F.when(F.col("at").isNotNull() & at.isNull(), F.concat(F.lit("no timestamp: "), F.col("at")))
        detail = F.coalesce(F.col("detail"), late)
        failed = detail.isNotNull()
        key = F.encode("key", "UTF-8")
        return rows.select(
            F.when(failed, "dead-letter").otherwise("send").alias("kind"),
            F.when(failed, F.col("path")).otherwise(self.topic).alias("target"),
            F.when(~failed, key).alias("key"),
            F.encode("value", "UTF-8").alias("value"),
            F.expr(f"CAST(NULL AS {HEADERS})").alias("headers"),
            F.coalesce(at, F.col("modified")).alias("timestamp"),
            partition_of(key, self.partitions),
            F.when(failed, problem_column("record cannot be read", detail, F.col("value"))).alias("problem"),
            F.col("path").alias("source"),
            F.expr("CAST(NULL AS BIGINT)").alias("source_offset"),
            "modified",
            "row",
        ).orderBy(*self.order)

    def write(self, records: DataFrame, batch: str) -> None:
        """Write a batch as a folder with its name. Idempotent: a repeated batch replaces its folder."""
        need(records.sparkSession, self.plan.format)
        key, value = (F.col(name).cast("string").alias(name) for name in ("key", "value"))
        headers = F.transform("headers", lambda h: F.struct(h["key"], h["value"].cast("string").alias("value")))
        others = (F.col(name) for name in ("timestamp", "partition", "offset"))
        kind = "text" if self.plan.format == "json" else self.plan.format
        if kind == "text":
            rest = F.to_json(F.struct(headers.alias("headers"), *others), {"ignoreNullFields": "false"})
            pair = F.concat(F.lit('{"key":'), _json(key), F.lit(',"value":'), _json(value), F.lit(","))
            rows = records.select(F.concat(pair, F.substring(rest, 2, 1 << 30)).alias(_LINE))
        else:
            rows = records.select(key, value, F.to_json(headers).alias("headers"), *others)
        writer = rows.write.mode("overwrite").format(kind)
        writer = writer.option("header", "true") if kind == "csv" else writer
        writer.save(f"{self.plan.path}/batch={batch}")

    @property
    def _by_connector(self) -> bool:
        return self.plan.format == "avro"

    def _of_connector(self, batch: DataFrame) -> DataFrame:
        """Rows with the columns of the schema as RECORD_COLUMNS."""
        row = F.struct(*(F.col(quoted(column.name)) for column in columns_of(self.plan.schema)))
        nothing = F.lit(None).cast("string")
        key = nothing if self.plan.key is None else F.to_json(F.col(quoted(self.plan.key)).cast("variant"))
        at = nothing if self.plan.timestamp is None else F.col(quoted(self.plan.timestamp)).cast("string")
        return batch.select(
            F.col("_kaspr_path").alias("path"),
            F.col("_kaspr_modified").alias("modified"),
            F.monotonically_increasing_id().alias("row"),
            F.nullif(key, F.lit("null")).alias("key"),
            F.to_json(row, {"ignoreNullFields": "false"}).alias("value"),
            at.alias("at"),
            nothing.alias("detail"),
        )


def _json(text: Column) -> Column:
    """Text as JSON on one line: JSON on one line stays unchanged, other JSON is rewritten, other text is quoted."""
    read = F.when(is_json(text), F.try_parse_json(text))
    as_it_is = is_json(text) & ~text.rlike(r"[\r\n]")
    return F.coalesce(F.when(as_it_is, text), F.to_json(F.coalesce(read, text.cast("variant"))), F.lit("null"))


def _moment(text: Column) -> Column:
    """Text as a time: a number is milliseconds since 1970, other text is cast as in SQL (NULL if it cannot be)."""
    millis = F.timestamp_millis(text.try_cast("double").cast("bigint"))
    return F.when(text.rlike(_NUMBER), millis).otherwise(text.try_cast("timestamp"))
