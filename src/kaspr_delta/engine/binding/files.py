"""Files in a folder: each row of an incoming file is a record; each outgoing batch is a folder of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.dead_letters import problem
from kaspr_delta.engine.binding.connectors import need
from kaspr_delta.engine.rows.value_functions import is_json
from kaspr_delta.engine.streams.source import partition_of
from kaspr_delta.plan.definition.bindings import FilesPlan
from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.storage.layout import HEADERS, PROBLEM

# A backlog is read in pieces, so that a kill costs one of them.
_MOST_FILES = "1000"
# The column of a line of JSON, and the column of the text of a CSV row that does not fit the schema.
_LINE = "value"
_CORRUPT = "_kaspr_corrupt"
_NUMBER = r"^\s*-?\d+(\.\d*)?\s*$"


@dataclass(frozen=True, slots=True)
class Files:
    """The rows of files. A file is read once, when it is first seen, so it must be complete by then."""

    plan: FilesPlan
    topic: str
    partitions: int
    on_databricks: bool

    @property
    def order(self) -> tuple[str, ...]:
        return ("modified", "source", "block", "row")

    def stream(self, spark: SparkSession) -> DataFrame:
        need(spark, self.plan.format)
        if self.plan.path.startswith("/") and not self.on_databricks:
            Path(self.plan.path).mkdir(parents=True, exist_ok=True)  # files may come later
        kind = "text" if self._lines else self.plan.format
        reader = spark.readStream.schema(", ".join(f"{_name(name)} {type_}" for name, type_ in self._read))
        if self.on_databricks:
            reader = reader.format("cloudFiles").option("cloudFiles.format", kind)
            reader = reader.option("cloudFiles.maxFilesPerTrigger", _MOST_FILES)
        else:
            reader = reader.format(kind).option("maxFilesPerTrigger", _MOST_FILES)
        # A broken file may be removed: its absence must not fail the stream.
        reader = reader.option("ignoreMissingFiles", "true")
        if self.plan.format == "csv":
            reader = reader.option("header", str(self.plan.header).lower()).option("sep", self.plan.delimiter)
            # A file with columns in another order than the schema's is refused, not misread.
            reader = reader.option("enforceSchema", "false").option("columnNameOfCorruptRecord", _CORRUPT)
        return reader.load(self.plan.path).select(
            *(F.col(_name(name)) for name, _ in self._read),
            F.col("_metadata.file_path").alias("_kaspr_path"),
            F.col("_metadata.file_modification_time").alias("_kaspr_modified"),
            F.col("_metadata.file_block_start").alias("_kaspr_block"),
        )

    def records(self, batch: DataFrame) -> DataFrame:
        if self._lines:
            batch = batch.where(F.trim(_LINE) != "").withColumn("_kaspr_json", F.try_parse_json(_LINE))
        timestamp = self.plan.timestamp
        given = F.lit(None).cast("string") if timestamp is None else self._field(timestamp, "string")
        at = _moment(given)
        text = self._text()
        misread = given.isNotNull() & at.isNull()
        late = problem("record cannot be read", F.concat(F.lit("no timestamp: "), given), text)
        wrong = F.coalesce(self._unreadable(), F.when(misread, late))
        failed = wrong.isNotNull()
        key = F.encode(self._key(), "UTF-8")
        return batch.select(
            F.when(failed, "dead-letter").otherwise("send").alias("kind"),
            F.when(failed, F.col("_kaspr_path")).otherwise(self.topic).alias("target"),
            F.when(~failed, key).alias("key"),
            F.encode(text, "UTF-8").alias("value"),
            F.expr(f"CAST(NULL AS {HEADERS})").alias("headers"),
            F.coalesce(at, F.col("_kaspr_modified")).alias("timestamp"),
            partition_of(key, self.partitions),
            wrong.alias("problem"),
            F.col("_kaspr_path").alias("source"),
            F.expr("CAST(NULL AS BIGINT)").alias("source_offset"),
            F.col("_kaspr_modified").alias("modified"),
            F.col("_kaspr_block").alias("block"),
            F.monotonically_increasing_id().alias("row"),
        ).orderBy(*self.order)

    def write(self, records: DataFrame, batch: str) -> None:
        """Write a batch as a folder with its name. Idempotent: a repeated batch replaces its folder."""
        need(records.sparkSession, self.plan.format)
        key, value = (F.col(name).cast("string").alias(name) for name in ("key", "value"))
        headers = F.transform("headers", lambda h: F.struct(h["key"], h["value"].cast("string").alias("value")))
        others = (F.col(name) for name in ("timestamp", "partition", "offset"))
        if self._lines:
            rest = F.to_json(F.struct(headers.alias("headers"), *others), {"ignoreNullFields": "false"})
            pair = F.concat(F.lit('{"key":'), _json(key), F.lit(',"value":'), _json(value), F.lit(","))
            rows = records.select(F.concat(pair, F.substring(rest, 2, 1 << 30)).alias(_LINE))
        else:
            rows = records.select(key, value, F.to_json(headers).alias("headers"), *others)
        kind = "text" if self._lines else self.plan.format
        writer = rows.write.mode("overwrite").format(kind)
        writer = writer.option("header", "true") if kind == "csv" else writer
        writer.save(f"{self.plan.path}/batch={batch}")

    @property
    def _lines(self) -> bool:
        return self.plan.format == "json"

    @property
    def _read(self) -> list[tuple[str, str]]:
        """The columns that are read, with their types."""
        if self._lines:
            return [(_LINE, "STRING")]
        columns = [(column.name, str(column.type)) for column in columns_of(self.plan.schema)]
        return [*columns, (_CORRUPT, "STRING")] if self.plan.format == "csv" else columns

    def _text(self) -> Column:
        """The value of a row as JSON text: the line itself, or an object of the columns."""
        if self._lines:
            return F.make_valid_utf8(F.col(_LINE))
        columns = (F.col(_name(name)) for name, _ in self._read if name != _CORRUPT)
        row = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
        return F.coalesce(F.col(_CORRUPT), row) if self.plan.format == "csv" else row

    def _key(self) -> Column:
        """The key as JSON text; NULL without one."""
        if self.plan.key is None:
            return F.lit(None).cast("string")
        return F.nullif(F.to_json(self._field(self.plan.key, "variant")), F.lit("null"))

    def _field(self, name: str, kind: str) -> Column:
        """A field of a row in a type of Spark."""
        if self._lines:
            return F.try_variant_get(F.col("_kaspr_json"), f"$['{name}']", kind)
        return F.col(_name(name)).cast(kind)

    def _unreadable(self) -> Column:
        """The problem of a row that cannot be read; NULL for other rows."""
        text = self._text()
        if self._lines:
            not_utf8 = problem("record cannot be read", F.lit("the line is not UTF-8 text"), text)
            not_json = problem("record cannot be read", F.lit("the line is not JSON"), text)
            bad = F.col("_kaspr_json").isNull() | ~is_json(F.col(_LINE))
            return F.when(~F.is_valid_utf8(_LINE), not_utf8).when(bad, not_json)
        if self.plan.format == "csv":
            # Spark replaces bytes that are not UTF-8 with this character.
            not_utf8 = problem("record cannot be read", F.lit("the row is not UTF-8 text (it has U+FFFD)"), text)
            detail = F.lit(f"the row does not fit the schema {self.plan.schema}")
            misfit = problem("record cannot be read", detail, F.col(_CORRUPT))
            return F.when(text.contains("\ufffd"), not_utf8).when(F.col(_CORRUPT).isNotNull(), misfit)
        return F.lit(None).cast(PROBLEM)


def _json(text: Column) -> Column:
    """Text as JSON on one line: JSON on one line stays unchanged, other JSON is rewritten, other text is quoted."""
    read = F.when(is_json(text), F.try_parse_json(text))
    as_it_is = is_json(text) & ~text.rlike(r"[\r\n]")
    return F.coalesce(F.when(as_it_is, text), F.to_json(F.coalesce(read, text.cast("variant"))), F.lit("null"))


def _moment(text: Column) -> Column:
    """Text as a time: a number is milliseconds since 1970, other text is cast as in SQL (NULL if it cannot be)."""
    millis = F.timestamp_millis(text.try_cast("double").cast("bigint"))
    return F.when(text.rlike(_NUMBER), millis).otherwise(text.try_cast("timestamp"))


def _name(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"
