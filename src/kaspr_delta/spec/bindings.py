"""``spec.topics`` of a KasprApp: topics that live on Kafka or in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from kaspr_delta.spec.base import Boolean, Problem, Spec, Text, exactly_one, optional
from kaspr_delta.spec.column_types import Schema
from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.spec.kubernetes import Authentication, Tls
from kaspr_delta.spec.near import suggestion
from kaspr_delta.spec.topics import TopicName

Direction = Literal["input", "output"]
FileFormat = Literal["json", "csv", "parquet", "avro"]

INPUT_ONLY = ("schema", "key", "timestamp", "header", "delimiter")
"""The settings of files that say how they are read."""


class KafkaBinding(Spec):
    """A topic on Kafka. What is not said here is the KasprApp's own."""

    topic: TopicName | None = optional("its name on Kafka, where that is another one")
    bootstrap_servers: Text | None = optional("host:port of its brokers, with commas between")
    tls: Tls | None = optional("how its certificates are checked")
    authentication: Authentication | None = optional("how to log in")
    starting_offsets: Literal["earliest", "latest"] = Field(
        default="earliest", description="where a topic that is new here begins to be read"
    )
    fail_on_data_loss: Boolean = Field(
        default=True, description="stop where Kafka has removed records that were not read yet"
    )


class FilesBinding(Spec):
    """A topic whose records are rows of files in a folder."""

    path: Text = Field(description="a folder: a path, from the folder of this manifest if it is relative, or a URI")
    format: FileFormat = Field(description="'json' (JSON lines), 'csv', 'parquet' or 'avro'")
    columns: Schema | None = optional("as in `id STRING, price DOUBLE`", alias="schema")
    key: Text | None = optional("the column or field with the key")
    timestamp: Text | None = optional("the column or field with the time")
    header: Boolean | None = optional("csv: whether the first line names the columns")
    delimiter: Text | None = optional("csv: the separator of columns")

    def problems(self) -> Iterator[Problem]:
        for field, given in (("header", self.header), ("delimiter", self.delimiter)):
            if given is not None and self.format != "csv":
                yield Problem(f"'{field}' is for csv, and these files are {self.format}", "remove it", (field,))
        if self.delimiter is not None and len(self.delimiter.replace("\\t", "\t")) != 1:
            yield Problem(f"'delimiter' is one character, not '{self.delimiter}'", "for example `;`", ("delimiter",))
        if self.columns is None:
            return
        if self.format == "json":
            yield Problem("JSON lines need no 'schema': each line is a value of its own", "remove it", ("schema",))
            return
        names = [column.name for column in columns_of(self.columns)]
        for field, column in (("key", self.key), ("timestamp", self.timestamp)):
            if column is not None and column not in names:
                hint = suggestion(column, names, "its columns are")
                yield Problem(f"'schema' has no column '{column}'", hint, (field,))


class DeltaBinding(Spec):
    """A topic that lives on Delta alone, as every topic does of which nothing is said."""


class TopicBinding(Spec):
    """Where a topic lives, and whether the application reads it from there or writes it to there."""

    kafka: KafkaBinding | None = optional("on Kafka")
    files: FilesBinding | None = optional("in files of a folder")
    delta: DeltaBinding | None = optional("on Delta alone, as by default")
    direction: Direction | None = optional("input: read from there; output: written there; by default as it is used")

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        hint = "for example `kafka: {}`, with the application's bootstrapServers"
        yield from exactly_one(written, ("kafka", "files", "delta"), "a topic that is bound", hint)

    def problems(self) -> Iterator[Problem]:
        if self.direction == "output" and self.files is not None:
            written = self.files.model_dump(by_alias=True, exclude_none=True)
            for field in (name for name in INPUT_ONLY if name in written):
                message = f"'{field}' tells how files are read, and 'direction' is output (at {{other}})"
                yield Problem(message, "remove it", ("files", field), ("direction",))
