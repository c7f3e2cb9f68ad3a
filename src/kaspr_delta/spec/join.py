"""KasprJoin: two tables, a stream and a table, or two streams, joined and kept up to date."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from kaspr_delta.spec.base import PositiveInteger, Problem, Spec, Text, exactly_one, optional
from kaspr_delta.spec.column_types import TableSchema, name_problems
from kaspr_delta.spec.ddl import Column, columns_of
from kaspr_delta.spec.durations import Duration, PositiveDuration
from kaspr_delta.spec.join_rules import join_problems
from kaspr_delta.spec.resource import Code, OnChange, Resource, ResourceSpec
from kaspr_delta.spec.storage import TableStorage
from kaspr_delta.spec.topics import StreamSide

Shape = Literal["foreign-key", "same-key", "stream-table", "right-foreign-key", "stream-stream"]

_NAMES = re.compile(r"(left|right)(\.(`([^`]|``)+`|[^.`][^.]*))+", re.DOTALL)
# Columns that a result has in addition to the author's.
_OWN = {"key", "_pair"}


class JoinWindow(Spec):
    """How far a right record may lie ``before`` and ``after`` its left one; ``grace`` is for records that come late."""

    before: Duration = Field(description="how much older a right record may be, such as '5m'")
    after: Duration = Field(description="how much younger a right record may be, such as '5m'")
    grace: Duration = Field(default="0s", description="how much later than the window records may still come")


class Pending(Spec):
    """How long a record waits for a row that is not there yet."""

    ttl: PositiveDuration = Field(description="how long a record waits for its row, such as '10m'")


class Repartition(Spec):
    """Over how many partitions the records of the stream sides are spread anew, by their keys."""

    partitions: PositiveInteger = Field(description="the number of partitions of the other side")


class Select(Spec):
    """The columns of a result that does not show the pair of rows: picked from both sides, or made by a function."""

    columns: Annotated[dict[Text, Text], Field(min_length=1)] | None = optional(
        "by name the field that each shows, as in `price: right.price`"
    )
    python: Text | None = optional("instead: a Python function (left, right) that returns a dictionary of the columns")
    entrypoint: Text | None = optional("the function to call, where the text holds several; else the first")
    types: TableSchema | None = optional(
        "the columns with their types; needed where typed tables do not tell them", alias="schema"
    )

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        hint = "for example `columns: {order: left.order_id, price: right.price}`"
        yield from exactly_one(written, ("columns", "python"), "'select'", hint)
        if written.get("python") is not None and written.get("schema") is None:
            hint = "for example `schema: order_id STRING, total DOUBLE`"
            yield Problem("'python' does not tell types: 'schema' is missing", hint, ("python",), absent=(("schema",),))

    @property
    def declared(self) -> tuple[Column, ...]:
        """The columns of the schema; none without one."""
        return columns_of(self.types) if self.types else ()

    def problems(self) -> Iterator[Problem]:
        for name, path in (self.columns or {}).items():
            if not _NAMES.fullmatch(path):
                hint = "write `left.COLUMN` or `right.COLUMN`, also with fields of columns"
                yield Problem(f"'{path}' is of no side of the join", hint, ("columns", name))
        names = [column.name for column in self.declared]
        for message, hint in () if names else name_problems(self.columns or (), written=True):
            yield Problem(message, hint, ("columns",))
        if self.columns and names and set(names) != set(self.columns):
            yield Problem("'schema' and 'columns' do not have the same columns", "name each in both", ("schema",))
        for name in (*(self.columns or ()), *names):
            if name.lower() in _OWN:
                field = "columns" if self.columns else "schema"
                yield Problem(f"a result has a column '{name}' of its own", "give this one another name", (field,))
                break


class JoinSpec(ResourceSpec):
    """The fields of a join. Which of them stand together depends on its shape: see ``join_rules``."""

    left_table: Text | None = optional("the KasprTable whose rows drive the join")
    left_stream: StreamSide | None = optional("the stream whose records drive the join")
    right_table: Text | None = optional("the KasprTable that is looked up")
    right_stream: StreamSide | None = optional("the stream that the left one meets in a window")
    on: Literal["key"] | None = optional("both sides are joined by their keys")
    extractor: Code | None = optional("a Python function that returns the right table's key")
    column: Text | None = optional(
        "instead of an extractor: the column that holds the right table's key, as in `product_id`"
    )
    columns: Annotated[list[Text], Field(min_length=1)] | None = optional(
        "instead of an extractor: the columns that hold the right table's key"
    )
    right_extractor: Code | None = optional(
        "a Python function of a right row that returns the key of the records it belongs to"
    )
    window: JoinWindow | None = optional("of two streams: how near in time records must be")
    pending: Pending | None = optional("of a stream with a table: records wait for their row")
    repartition: Repartition | None = optional("spreads a stream over other partitions")
    type: Literal["inner", "left", "outer"] = Field(
        default="inner", description="rows with both sides, all left rows, or all rows of both sides"
    )
    select: Select | None = optional("the columns of the result table; else both rows")
    storage: TableStorage | None = optional(
        "properties and tags of the Delta table of its result, or of its channel where that is the result; of a table"
        " also clustering and primary key"
    )
    output_channel: Text | None = optional("the name of its channel; else NAME-channel")
    on_change: OnChange | None = optional("of two tables: the reaction to a changed definition; else the application's")

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        yield from join_problems(written)

    def problems(self) -> Iterator[Problem]:
        if self.storage is not None:
            of_table = self.storage.problems_of_table(self._bounded)
            for problem in of_table if self.has_result else self.storage.problems_of_channel():
                yield problem.below("storage")

    @property
    def _bounded(self) -> list[str]:
        """The columns by which rows of its result can be clustered; of columns of unknown type it is not known."""
        if self.select is None:
            return ["key", "timestamp"]
        return ["key", *(self.select.columns or (column.name for column in self.select.declared))]

    @property
    def shape(self) -> Shape:
        """The shape of the join."""
        if self.right_stream is not None:
            return "stream-stream"
        if self.left_stream is not None:
            return "right-foreign-key" if self.right_extractor else "stream-table"
        return "foreign-key" if self.key_field else "same-key"

    @property
    def key_field(self) -> str | None:
        """The field that gives the right table's key, or None."""
        given = {"extractor": self.extractor, "column": self.column, "columns": self.columns}
        return next((name for name, value in given.items() if value is not None), None)

    @property
    def has_result(self) -> bool:
        """Whether it keeps a result table, which may be used wherever a table may."""
        return self.left_table is not None


class KasprJoin(Resource):
    """A join manifest."""

    kind: Literal["KasprJoin"]
    spec: JoinSpec = Field(description="two sides, and the key by which they are joined")
