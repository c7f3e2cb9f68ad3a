"""KasprJoin: two tables, a stream and a table, or two streams, joined and kept up to date."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from kaspr_delta.spec.base import PositiveInteger, Problem, Spec, Text, optional
from kaspr_delta.spec.durations import Duration, PositiveDuration
from kaspr_delta.spec.join_rules import join_problems
from kaspr_delta.spec.resource import Code, OnChange, Resource, ResourceSpec
from kaspr_delta.spec.select import Select
from kaspr_delta.spec.storage import TableStorage
from kaspr_delta.spec.streams import StreamSide

Shape = Literal["foreign-key", "same-key", "stream-table", "right-foreign-key", "stream-stream"]


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
