"""KasprTable: keyed state that agents read and write, or that is made from a stream or another table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from kaspr_delta.spec.aggregation import Aggregate, Count, ToTable, making_problems
from kaspr_delta.spec.base import Boolean, PositiveInteger, Problem, Spec, Text, TextMap, exactly_one, optional
from kaspr_delta.spec.column_types import TableSchema, key_problems
from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.spec.durations import Duration, PositiveDuration, milliseconds
from kaspr_delta.spec.resource import Code, OnChange, Resource, ResourceSpec, TableSerializer
from kaspr_delta.spec.storage import TableStorage
from kaspr_delta.spec.topics import Origin, TopicConfig

# Fields of a table that holds keys and JSON values.
_OF_OTHERS = ("keySerializer", "valueSerializer", "window", "from")
_OF_WRITTEN = ("schema", "key", "extraTopicConfigs", "partitions", "storage")
# Types of columns without the least and the greatest value of a file, by which rows are clustered.
_WITHOUT_BOUNDS = {"ARRAY", "BINARY", "BOOLEAN", "MAP", "STRUCT"}
_SCHEMA_HINT = "for example `schema: order_id STRING, price DECIMAL(10, 2)` and `key: order_id`"


class TableSource(Spec):
    """A Delta table that others write. Its change data feed tells what changes."""

    table: Text = Field(
        description="its name in the catalog (`catalog.schema.name`), or its folder: a path, from the folder of this"
        " manifest if it is relative, or a URI"
    )
    key: Annotated[list[Text], Field(min_length=1)] = Field(description="the columns that tell one row from another")

    @property
    def is_path(self) -> bool:
        """Whether the table is named by the path or URI of its folder."""
        return "/" in self.table

    def problems(self) -> Iterator[Problem]:
        if not self.is_path and not re.fullmatch(r"[^.\s]+\.[^.\s]+(\.[^.\s]+)?", self.table):
            hint = "write `catalog.schema.name`, `schema.name`, or the path of its folder, such as `./NAME`"
            yield Problem(f"'{self.table}' does not say where the table is", hint, ("table",))
        if len(set(self.key)) < len(self.key):
            yield Problem("a column stands twice in the key", "name each once", ("key",))


def typed_problems(written: Mapping[str, Any]) -> Iterator[Problem]:
    """The problems with combinations of ``schema``, ``key`` and ``source``; ``written`` is a table's ``spec``."""
    given = {name for name, value in written.items() if value is not None}
    if "source" in given:
        for field in (*_OF_WRITTEN, *_OF_OTHERS):
            if field in given:
                message = f"'{field}' is of tables that this application writes: 'source' (at {{other}}) excludes it"
                hint = "name the columns of the key in `source`" if field == "key" else "remove it"
                yield Problem(message, hint, (field,), ("source",))
        return
    if "schema" in given:
        for field in _OF_OTHERS:
            if field in given:
                message = f"'schema' (at {{other}}) excludes '{field}'"
                yield Problem(message, "remove one of the two", (field,), ("schema",))
        if "key" not in given:
            hint = "name the column, or a list of columns, that tells one row from another"
            yield Problem("'schema' needs 'key'", hint, ("schema",), absent=(("key",),))
    elif "key" in given:
        yield Problem("'key' names columns of a 'schema'", _SCHEMA_HINT, ("key",), absent=(("schema",),))


class TumblingWindow(Spec):
    """Windows of one size, one after another."""

    size: PositiveDuration = Field(description="the length of a window, such as '1m'")
    expires: Duration | None = optional("how long after their window rows stay; else for ever")


class HoppingWindow(TumblingWindow):
    """Windows of one size that begin every ``step`` and so may overlap."""

    step: PositiveDuration = Field(description="how often a new window begins, such as '1m'")

    def problems(self) -> Iterator[Problem]:
        if milliseconds(self.step) > milliseconds(self.size):
            message = f"step {self.step} is longer than size {self.size}"
            yield Problem(message, "events in between would have no window", ("step",))


# In upper or lower case, as in Kaspr; editors offer the first alternative.
_Clock = Annotated[
    Literal["stream", "now", "custom"],
    BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["stream", "now", "custom"]},
                {"pattern": "^([sS][tT][rR][eE][aA][mM]|[nN][oO][wW]|[cC][uU][sS][tT][oO][mM])$"},
            ],
            "type": "string",
        }
    ),
]


class Window(Spec):
    """How the rows of a table are split by time; ``relativeTo`` tells by whose clock."""

    tumbling: TumblingWindow | None = optional("windows that follow one another")
    hopping: HoppingWindow | None = optional("windows that overlap")
    relative_to: _Clock = Field(
        default="stream", description="the event's time, the clock's, or what relativeToSelector returns"
    )
    relative_to_selector: Code | None = optional(
        "a Python function of the value that returns a time; with `relativeTo: custom`"
    )
    grace: Duration = Field(default="0s", description="how long after its end a window takes late events")
    emit: Literal["update", "close"] = Field(
        default="update", description="whether rows are seen at once, or when their window closes"
    )

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        hint = "for example `tumbling: {size: 1m, expires: 1h}`"
        yield from exactly_one(written, ("tumbling", "hopping"), "a window", hint)

    def problems(self) -> Iterator[Problem]:
        for kind, of in (("tumbling", self.tumbling), ("hopping", self.hopping)):
            if of and of.expires is not None and milliseconds(of.expires) < milliseconds(self.grace):
                message = f"rows expire {of.expires} after their window's end, before it closes {self.grace} after it"
                yield Problem(message, "let 'expires' be at least as long as 'grace'", (kind, "expires"))
        if self.relative_to == "custom" and not self.relative_to_selector:
            hint = "add a function of the value that returns a timestamp"
            yield Problem("'relativeTo: custom' needs a 'relativeToSelector'", hint, ("relativeTo",))
        if self.relative_to != "custom" and self.relative_to_selector:
            hint = "set `relativeTo: custom` or remove the selector"
            at = ("relativeToSelector",)
            yield Problem(f"'relativeToSelector' has no meaning with relativeTo '{self.relative_to}'", hint, at)


class TableSpec(ResourceSpec):
    """The fields of a table. ``from`` and what follows it are of tables that are made from something."""

    is_global: Boolean = Field(
        default=False, alias="global", description="a small table that is at hand everywhere: partitions need not fit"
    )
    default_selector: Code | None = optional("a Python class or function that makes the value of a missing key")
    key_serializer: TableSerializer = Field(default="json", description="how keys are written in the changelog")
    value_serializer: TableSerializer = Field(default="json", description="how values are written in the changelog")
    partitions: PositiveInteger | None = optional(
        "compared with the join's other side; else the application's topicPartitions"
    )
    extra_topic_configs: TopicConfig = Field(
        default_factory=dict, description="of the changelog; `cleanup.policy` and `retention.ms` have an effect"
    )
    options: TextMap = Field(default_factory=dict)
    window: Window | None = optional("a row for every key and window of time")
    from_: Origin | None = optional("the origin of the table", alias="from")
    group_by: Code | None = optional("a Python function (value) or (value, key) that returns the group; else the key")
    to_table: ToTable | None = optional("`{}`: the last value of every group")
    count: Count | None = optional("`{}`: how many there are in every group")
    reduce: Code | None = optional("a Python function (a, b) of the value so far and the next one")
    aggregate: Aggregate | None = optional("a total of every group")
    on_change: OnChange | None = optional(
        "made from a table: the reaction to a changed definition; else the application's"
    )
    columns: TableSchema | None = optional(
        "the columns of its rows, as in `order_id STRING, price DOUBLE`", alias="schema"
    )
    key: Text | list[Text] | None = optional(
        "of a table with a schema: the column, or the columns, that tell rows apart"
    )
    source: TableSource | None = optional("the Delta table of others that it stands for")
    storage: TableStorage | None = optional("clustering, properties, tags and primary key of its Delta table")

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        yield from making_problems(written)
        yield from typed_problems(written)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the key, for a table that has columns; empty for other tables."""
        key = self.source.key if self.source else self.key or ()
        return (key,) if isinstance(key, str) else tuple(key)

    @property
    def _bounded(self) -> list[str]:
        """The columns by which its rows can be clustered."""
        if self.columns is None:
            key = [] if self.key_serializer == "raw" else ["key"]
            return [*key, "timestamp", *(("window_start", "window_end") if self.window else ())]
        return [one.name for one in columns_of(self.columns) if one.type.name not in _WITHOUT_BOUNDS]

    def problems(self) -> Iterator[Problem]:
        if self.columns and not self.source:
            for message, hint in key_problems(columns_of(self.columns), self.key_columns):
                yield Problem(message, hint, ("key",))
        for problem in self.storage.problems_of_table(self._bounded) if self.storage else ():
            yield problem.below("storage")


class KasprTable(Resource):
    """A table manifest."""

    kind: Literal["KasprTable"]
    spec: TableSpec = TableSpec()
