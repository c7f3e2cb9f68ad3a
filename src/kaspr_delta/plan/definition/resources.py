"""Plans of topics, tables, agents, tasks and web views: the frozen parts of a ``Plan`` (``application.py``).

Manifests (``kaspr_delta.spec``) are as the author writes them. In a plan names are resolved (but those of resources
that wait), defaults are filled in and functions are checked, so that the engine has nothing to guess. The engine, the
``plan`` command and the Databricks jobs read it. When an application is opened, columns of existing tables are added.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, Literal

from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.functions.table_use import TableUse, table_uses
from kaspr_delta.plan.definition.bindings import BindingPlan
from kaspr_delta.plan.definition.storage import StoragePlan
from kaspr_delta.plan.definition.typed_tables import TypedPlan, arranged
from kaspr_delta.plan.definition.window import WindowPlan
from kaspr_delta.plan.names import windows_table
from kaspr_delta.spec.ddl import Column, Type
from kaspr_delta.spec.diagnostics import Location

SerializerName = Literal["json", "raw", "pickle", "binary"]
StartingOffset = Literal["earliest", "latest"]

NOT_SHOWN = {"shown": False}
"""Metadata of a field that the JSON form of a plan leaves out."""


@dataclass(frozen=True, slots=True, order=True)
class ResourceRef:
    """A resource as people write it on the command line: ``join/orders-products-join``."""

    kind: str
    name: str

    @classmethod
    def of(cls, text: str) -> ResourceRef:
        """The resource written as ``kind/name``.

        >>> ResourceRef.of("join/orders-products-join").name
        'orders-products-join'
        """
        kind, _, name = text.partition("/")
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class Referred:
    """Base of the plans of resources. ``ref_kind`` is the kind of the resource on the command line."""

    __slots__ = ()
    ref_kind: ClassVar[str]
    name: str

    @property
    def ref(self) -> ResourceRef:
        """The resource as people write it."""
        return ResourceRef(self.ref_kind, self.name)


@dataclass(frozen=True, slots=True)
class Serializers:
    """How keys and values become bytes and back."""

    key: SerializerName
    value: SerializerName

    @property
    def json_columns(self) -> tuple[str, ...]:
        """The columns among key and value that hold JSON text."""
        return tuple(name for name in ("key", "value") if getattr(self, name) == "json")


@dataclass(frozen=True, slots=True)
class TopicPlan(Referred):
    """A topic: an append-only Delta table. ``serializers`` are the application's, for ``produce`` and ``consume``.

    Records older than ``retention`` milliseconds are deleted; None: never. With a ``binding`` its records come from
    an endpoint, or go to one.
    """

    name: str
    delta_name: str
    partitions: int
    serializers: Serializers
    retention: int | None = None
    binding: BindingPlan | None = None

    ref_kind: ClassVar = "topic"

    @property
    def bound(self) -> BindingPlan:
        """The binding. Raises LookupError if the topic lives on Delta alone."""
        if self.binding is None:
            raise LookupError(f"topic {self.name!r} lives on Delta alone")
        return self.binding

    @property
    def log(self) -> str:
        """The log of its reader or writer. Raises LookupError if the topic lives on Delta alone."""
        return self.bound.log


@dataclass(frozen=True, slots=True)
class TablePlan(Referred):
    """A KasprTable. ``changelog`` is the Kaspr name of its changelog topic.

    Rows that were not written for ``retention`` milliseconds are deleted; None: never. The change feed reaches back
    ``feed_retention`` milliseconds; None: as far as the application says or, by default, as Delta keeps it.
    """

    name: str
    delta_name: str
    changelog: str
    serializers: Serializers
    partitions: int
    _: KW_ONLY
    is_global: bool = False
    default: Snippet | None = None
    window: WindowPlan | None = None
    retention: int | None = None
    feed_retention: int | None = None
    description: str
    location: Location
    # Set if rows have columns of their own.
    typed: TypedPlan | None = field(default=None, metadata=NOT_SHOWN)
    storage: StoragePlan = field(default_factory=StoragePlan, metadata=NOT_SHOWN)
    # Set only if the table is the result of a join: the sides of the join. The key is JSON text.
    joined: tuple[TablePlan, TablePlan] | None = field(default=None, metadata=NOT_SHOWN)
    # The type of a row as the join that reads it has stored it. It fixes the order of the columns, even if the table
    # changes it.
    like: Type | None = field(default=None, metadata=NOT_SHOWN)

    ref_kind: ClassVar = "table"

    @property
    def row_type(self) -> Type | None:
        """The type of a row: a STRUCT of its columns, or of a pair of such rows; None: text."""
        if self.joined is None or self.typed:
            return arranged(self.typed.row, self.like) if self.typed and self.typed.columns else None
        left, right = (side.row_type for side in self.joined)
        if left is None or right is None:
            return None
        return arranged(Type("STRUCT", fields=(Column("left", left), Column("right", right))), self.like)

    @property
    def has_types(self) -> bool:
        """Whether its rows have types; for the result of a join, whether the rows of at least one side have."""
        return self.typed is not None or any(side.has_types for side in self.joined or ())

    @property
    def is_foreign(self) -> bool:
        """Whether its rows are those of a Delta table that others write."""
        return self.typed is not None and self.typed.source is not None

    @property
    def is_only_read(self) -> bool:
        """Whether functions may only read it: others write it, or it is the result of a join."""
        return self.is_foreign or self.joined is not None

    @property
    def refusal(self) -> str | None:
        """Why only its own writers write the table; None if anybody may give it keys and values."""
        if self.is_foreign:
            return f"table {self.name!r} stands for a Delta table that others write: here it is only read"
        if self.joined is not None:
            return f"{self.name!r} is the result of a join: only the join writes it"
        if self.window:
            return f"table {self.name!r} has windows: only agents write it, by the time of their events"
        return None

    @property
    def is_known(self) -> bool:
        """Whether its columns, if any, are known. Columns of a foreign table are known once the table was looked at."""
        if self.joined is not None:
            return all(side.is_known for side in self.joined)
        return self.typed is None or bool(self.typed.columns)

    @property
    def state(self) -> str:
        """The Delta table that functions read and write: a separate one if windows show only when they close."""
        return windows_table(self.name) if self.window and self.window.emit == "close" else self.delta_name

    @property
    def delta_tables(self) -> tuple[str, ...]:
        """Its Delta tables, each once: that of its rows, and that of its open windows."""
        return tuple(dict.fromkeys((self.delta_name, self.state)))

    @property
    def row_key_columns(self) -> tuple[str, ...]:
        """The columns that identify a row as text."""
        return ("key", "window_start") if self.window else ("key",)


@dataclass(frozen=True, slots=True)
class TopicInput:
    """Topics an agent reads. With a ``pattern`` it reads all that match; ``topics`` are those that manifests name."""

    topics: tuple[str, ...]
    pattern: str | None
    serializers: Serializers
    start: StartingOffset


@dataclass(frozen=True, slots=True)
class ChannelInput:
    """The channel of a join. With ``tombstones`` the agent also gets None for keys that have no result any more."""

    channel: str
    join: str
    tombstones: bool
    start: StartingOffset


@dataclass(frozen=True, slots=True)
class TakePlan:
    """Several events at once: at most ``most``, or as many as arrive ``within`` that many milliseconds."""

    most: int
    within: int


@dataclass(frozen=True, slots=True)
class SendPlan:
    """How a value is sent to a topic, by ``output.topics`` or by a ``topicSend`` operation.

    Exactly one of ``topic`` and ``name_selector`` is set. ``ack`` and ``pass_through`` matter to ``topicSend`` only.
    """

    topic: str | None
    name_selector: Snippet | None
    key_selector: Snippet | None
    value_selector: Snippet | None
    partition_selector: Snippet | None
    headers_selector: Snippet | None
    predicate: Snippet | None
    serializers: Serializers
    ack: bool = False
    pass_through: bool = False

    @property
    def functions(self) -> tuple[Snippet, ...]:
        """The functions that make a record, in the order of the fields."""
        selectors = (self.name_selector, self.key_selector, self.value_selector, self.partition_selector)
        return tuple(filter(None, (*selectors, self.headers_selector, self.predicate)))

    @property
    def is_plain(self) -> bool:
        """Whether every value goes unchanged to the same topic. A function may compute the key only."""
        return self.topic is not None and self.functions in ((), (self.key_selector,))


@dataclass(frozen=True, slots=True)
class TableParameter:
    """A table handed to a function under a parameter name."""

    table: str
    parameter: str


@dataclass(frozen=True, slots=True)
class OperationPlan:
    """One step of a pipeline. ``map`` and ``filter`` have a function, ``topicSend`` has a send."""

    name: str
    kind: Literal["map", "filter", "topicSend"]
    function: Snippet | None
    send: SendPlan | None
    tables: tuple[TableParameter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinePlan(Referred):
    """An agent, task or web view: its operations in order of execution (names may repeat), and the tables they use.

    Only an agent has ``outputs``.
    """

    name: str
    init: Snippet | None
    pipeline: tuple[OperationPlan, ...]
    outputs: tuple[SendPlan, ...] = ()
    tables: tuple[str, ...]
    description: str
    location: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlan(PipelinePlan):
    """An agent: a pipeline over a topic or channel."""

    input: TopicInput | ChannelInput
    take: TakePlan | None
    log: str

    ref_kind: ClassVar = "agent"

    @property
    def ordered(self) -> bool:
        """Whether events must be processed one after another: the agent touches tables, or takes several at once."""
        return bool(self.tables or self.take)


@dataclass(frozen=True, slots=True)
class SchedulePlan:
    """When a task runs: every ``interval`` milliseconds, or by ``cron`` in a ``timezone``. Exactly one is set."""

    interval: int | None
    cron: str | None
    timezone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan(PipelinePlan):
    """A task: a pipeline that runs by schedule or, without one, once at the start. It can send, but has no output."""

    schedule: SchedulePlan | None
    log: str

    ref_kind: ClassVar = "task"
    take: ClassVar[TakePlan | None] = None


@dataclass(frozen=True, slots=True)
class SelectorPlan:
    """Functions that compute a part of a response: from the result of the pipeline, or from the error."""

    on_success: Snippet | None = None
    on_error: Snippet | None = None


@dataclass(frozen=True, slots=True)
class ResponsePlan:
    """How a value becomes an HTTP response. ``status_code`` is for success, ``headers`` also for errors."""

    content_type: str | None
    status_code: int
    headers: tuple[tuple[str, str], ...]
    body: SelectorPlan
    status: SelectorPlan
    header: SelectorPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class WebViewPlan(PipelinePlan):
    """A web view: the requests that it answers, its pipeline, and how the result becomes a response."""

    method: str
    path: str
    response: ResponsePlan

    ref_kind: ClassVar = "webview"


def sends_of(plan: PipelinePlan) -> tuple[SendPlan, ...]:
    """All sends of a pipeline: those of its operations, then those of its output."""
    return (*(step.send for step in plan.pipeline if step.send), *plan.outputs)


def names_topics(plan: PipelinePlan) -> bool:
    """Whether a function of a pipeline computes the topic of a send."""
    return any(send.name_selector is not None for send in sends_of(plan))


def uses_of(pipeline: PipelinePlan, name: str, table: TablePlan | None) -> frozenset[TableUse]:
    """The uses of a table that the pipeline gets by ``name``. ``table`` is its plan; None if it is not declared."""
    if isinstance(pipeline, TaskPlan) or table is None or table.is_only_read:
        return frozenset({"reads"})  # a write is refused
    return frozenset[TableUse]().union(
        *(
            table_uses(function, given.parameter, windows=table.window is not None)
            for operation in pipeline.pipeline
            for given in operation.tables
            if given.table == name
            for function in (operation.function, *(operation.send.functions if operation.send else ()))
            if function is not None
        )
    )


def may_write(agent: AgentPlan, name: str, table: TablePlan | None) -> bool:
    """Whether an agent writes a table, or may do so: the source of its functions does not always tell.

    True of a table that is not declared: its agent waits.
    """
    return table is None or any("writes" in use for use in uses_of(agent, name, table))
