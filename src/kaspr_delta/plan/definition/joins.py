"""Plans of joins, one class per shape, and of tables that are made from a stream, a table or the result of a join.

All joins write a channel; joins of two tables also keep a result table.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from kaspr_delta.functions.column_paths import Path, Picked
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition.resources import NOT_SHOWN, ChannelInput, Referred, SerializerName, TopicInput
from kaspr_delta.plan.definition.storage import StoragePlan
from kaspr_delta.spec.aggregation import Operation
from kaspr_delta.spec.ddl import Column, Type
from kaspr_delta.spec.diagnostics import Location
from kaspr_delta.spec.join import Shape


@dataclass(frozen=True, slots=True)
class SelectPlan:
    """The columns of a result: a name and a path from ``left`` or ``right`` for each; or a function of both sides.

    ``declared`` are the columns with their types; empty: the types come from the sides.
    """

    paths: tuple[tuple[str, Path], ...]
    function: Snippet | None
    declared: tuple[Column, ...]

    @property
    def fingerprint(self) -> str:
        """A hash that differs between selections."""
        made = self.function.fingerprint if self.function else ""
        return hashlib.sha256(f"{self.paths} {made} {', '.join(map(str, self.declared))}".encode()).hexdigest()[:16]

    def columns(self, left: Type | None, right: Type | None) -> tuple[Column, ...]:
        """The columns of the result, for sides of these types. Columns of unknown type are left out."""
        if self.declared:
            return self.declared
        sides = {"left": left, "right": right}
        found = ((name, at_path(sides[path[0]], path[1:])) for name, path in self.paths)
        return tuple(Column(name, kind) for name, kind in found if kind is not None)


def at_path(row: Type | None, path: Path) -> Type | None:
    """The type at the end of a path; None if there is no column, or its type is not known."""
    for name in path:
        fields = {column.name: column.type for column in row.fields} if row else {}
        row = fields.get(name)
    return row


JoinType = Literal["inner", "left", "outer"]
StoredTypes = tuple[Type | None, Type | None]
"""The types of left and right in the channel; None: text, or the channel does not exist yet."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The records of a topic or channel, as one side of a join or as the origin of a table.

    If ``repartitioned``, records are read as if their keys had been spread over ``partitions`` anew.
    """

    input: TopicInput | ChannelInput
    partitions: int
    repartitioned: bool

    @property
    def name(self) -> str:
        """The topic or channel."""
        return self.input.channel if isinstance(self.input, ChannelInput) else self.input.topics[0]


@dataclass(frozen=True, slots=True)
class Spelling:
    """The serializers of the keys, left values and right values in a join's results."""

    key: SerializerName
    left: SerializerName
    right: SerializerName


@dataclass(frozen=True, slots=True)
class _Join(Referred):
    """The common fields of all joins. ``log`` is the Delta table of the channel."""

    shape: ClassVar[Shape]

    name: str
    type: JoinType
    spelling: Spelling
    channel: str
    log: str
    description: str
    location: Location
    # Of its result or, where there is none, of its channel.
    storage: StoragePlan = field(metadata=NOT_SHOWN)

    ref_kind: ClassVar = "join"


@dataclass(frozen=True, slots=True)
class ForeignKeyJoinPlan(_Join):
    """Two tables; the left value holds the right key (KIP-213).

    ``left`` and ``right`` name tables, or joins whose result tables are read.
    """

    shape: ClassVar[Shape] = "foreign-key"

    left: str
    right: str
    extractor: Snippet
    result: str
    subscriptions: str
    # The columns, or text made of columns, that are the foreign key; None: only the function gives it.
    picked: Picked | None = field(default=None, metadata=NOT_SHOWN)
    select: SelectPlan | None = field(default=None, metadata=NOT_SHOWN)
    stored: StoredTypes = field(default=(None, None), metadata=NOT_SHOWN)
    # The columns of the stored result, where only a rebuild gives it those of the definition; empty: they fit.
    other_columns: tuple[Column, ...] = field(default=(), metadata=NOT_SHOWN)


@dataclass(frozen=True, slots=True)
class SameKeyJoinPlan(_Join):
    """Two tables by their keys. ``left`` and ``right`` are as in a foreign-key join."""

    shape: ClassVar[Shape] = "same-key"

    left: str
    right: str
    result: str
    select: SelectPlan | None = field(default=None, metadata=NOT_SHOWN)
    stored: StoredTypes = field(default=(None, None), metadata=NOT_SHOWN)
    # The columns of the stored result, where only a rebuild gives it those of the definition; empty: they fit.
    other_columns: tuple[Column, ...] = field(default=(), metadata=NOT_SHOWN)


@dataclass(frozen=True, slots=True)
class StreamTableJoinPlan(_Join):
    """Each record of a stream with the row of a table.

    ``mapper`` returns the table's key for a record; None: the record's own key is the table's key. With a ``mapper``
    the result has the table's key, except with a global table (``is_global``): then the record's key. Unmatched
    records wait ``pending`` milliseconds for their row, in the Delta table ``waiting``; None: they do not wait.
    """

    shape: ClassVar[Shape] = "stream-table"

    left: StreamPlan
    right: str
    mapper: Snippet | None
    is_global: bool
    pending: int | None
    waiting: str

    @property
    def follows_table(self) -> bool:
        """Whether changes of the table alone start a batch: those of a global one only if records wait for its rows."""
        return not self.is_global or self.pending is not None


@dataclass(frozen=True, slots=True)
class RightForeignKeyJoinPlan(_Join):
    """Each record of a stream with all rows of a table whose value holds the record's key (KIP-955).

    The Delta table ``index`` keeps the foreign key of each row.
    """

    shape: ClassVar[Shape] = "right-foreign-key"

    left: StreamPlan
    right: str
    extractor: Snippet
    index: str

    follows_table: ClassVar = True


@dataclass(frozen=True, slots=True)
class StreamStreamJoinPlan(_Join):
    """Records of two streams with the same key and times near each other. All times are in milliseconds.

    A right record matches if its time is at most ``before`` earlier and at most ``after`` later than the left record's
    time. ``grace`` is for late records. The Delta table ``buffer`` keeps the records that others may still match.
    """

    shape: ClassVar[Shape] = "stream-stream"

    left: StreamPlan
    right: StreamPlan
    before: int
    after: int
    grace: int
    buffer: str


TableTableJoinPlan = ForeignKeyJoinPlan | SameKeyJoinPlan
"""Joins with a result table, which can be used wherever a table can."""

StreamJoinPlan = StreamTableJoinPlan | RightForeignKeyJoinPlan | StreamStreamJoinPlan
"""Joins whose channel is their result."""

JoinPlan = TableTableJoinPlan | StreamJoinPlan


@dataclass(frozen=True, slots=True)
class AggregationPlan(Referred):
    """How the table ``name`` is made from ``origin``: a stream, or the name of a table or of a table-valued join.

    ``group`` returns the key of a value's group; None: the record's own key. ``adder`` is the function of ``reduce``
    and ``aggregate``. Only ``aggregate`` has an ``initializer`` and, over a table, a ``subtractor``. Over a table, the
    Delta table ``contributions`` keeps the contribution of each row of the origin; ``group_times`` keeps the times of
    groups that are newer than their rows.
    """

    name: str
    kind: Operation
    origin: StreamPlan | str
    group: Snippet | None
    initializer: Snippet | None
    adder: Snippet | None
    subtractor: Snippet | None
    log: str
    contributions: str
    group_times: str
    location: Location

    ref_kind: ClassVar = "table"
