"""What will run: a frozen, fully resolved plan.

Manifests (``kaspr_delta.spec``) say what the author may write; here nothing is optional that the engine would have to
guess: every name is resolved, every default filled in, every function compiled. The engine, the ``plan`` command and
the Databricks jobs read this one object, so what is printed is what runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.names import windows_table
from kaspr_delta.plan.window import WindowPlan
from kaspr_delta.spec.diagnostics import Finding, Location

SerializerName = Literal["json", "raw", "pickle", "binary"]
JoinType = Literal["inner", "left"]
Start = Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True, order=True)
class ResourceRef:
    """A resource as people write it on the command line: ``join/orders-products-join``."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class Serializers:
    """How keys and values become bytes and back."""

    key: SerializerName
    value: SerializerName


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic: an append-only Delta table. ``serializers`` are the application's, for ``produce`` and ``consume``.

    Records older than ``retention`` milliseconds are deleted; None: never.
    """

    name: str
    delta_name: str
    partitions: int
    serializers: Serializers
    retention: int | None = None


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A KasprTable. ``changelog`` is the Kaspr name of its changelog topic.

    Rows that were not written for ``retention`` milliseconds are deleted, and the change feed reaches back as far as
    ``feed_retention``; None: never, and as far as Delta keeps it by default.
    """

    name: str
    delta_name: str
    changelog: str
    serializers: Serializers
    partitions: int
    is_global: bool
    default: Snippet | None
    window: WindowPlan | None
    retention: int | None
    feed_retention: int | None
    description: str
    location: Location

    @property
    def ref(self) -> ResourceRef:
        """The table as a resource."""
        return ResourceRef("table", self.name)

    @property
    def state(self) -> str:
        """The Delta table that functions read and write: another one while windows are open that do not show yet."""
        return windows_table(self.name) if self.window and self.window.emit == "close" else self.delta_name


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """A foreign-key join of two tables and the Delta tables it keeps."""

    name: str
    left: str
    right: str
    type: JoinType
    extractor: Snippet
    channel: str
    result: str
    log: str
    subscriptions: str
    description: str
    location: Location

    @property
    def ref(self) -> ResourceRef:
        """The join as a resource."""
        return ResourceRef("join", self.name)


@dataclass(frozen=True, slots=True)
class TopicInput:
    """Topics an agent reads. With a ``pattern``: those that match it, ``topics`` being the ones that are named."""

    topics: tuple[str, ...]
    pattern: str | None
    serializers: Serializers
    start: Start


@dataclass(frozen=True, slots=True)
class ChannelInput:
    """The channel of a join. With ``tombstones`` the agent also gets None for keys that have no result any more."""

    channel: str
    join: str
    tombstones: bool
    start: Start


@dataclass(frozen=True, slots=True)
class TakePlan:
    """Several events at once: at most ``most``, or what came ``within`` so many milliseconds."""

    most: int
    within: int


@dataclass(frozen=True, slots=True)
class SendPlan:
    """Where and how a value is put on a topic: of ``output.topics`` or of a ``topicSend`` operation.

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


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """An agent: input, pipeline in order of execution (names may repeat), outputs."""

    name: str
    input: TopicInput | ChannelInput
    take: TakePlan | None
    init: Snippet | None
    pipeline: tuple[OperationPlan, ...]
    outputs: tuple[SendPlan, ...]
    tables: tuple[str, ...]
    log: str
    description: str
    location: Location

    @property
    def ref(self) -> ResourceRef:
        """The agent as a resource."""
        return ResourceRef("agent", self.name)

    @property
    def ordered(self) -> bool:
        """Whether events must be processed one after another: the agent touches tables, or takes several at once."""
        return bool(self.tables or self.take)


@dataclass(frozen=True, slots=True)
class SchedulePlan:
    """When a task runs: every ``interval`` milliseconds, or by ``cron`` in a ``timezone``. One of the two is set."""

    interval: int | None
    cron: str | None
    timezone: str


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """A task: a pipeline that runs by the clock or, without a schedule, once at the start. It has sends, no output."""

    name: str
    schedule: SchedulePlan | None
    init: Snippet | None
    pipeline: tuple[OperationPlan, ...]
    tables: tuple[str, ...]
    log: str
    description: str
    location: Location

    @property
    def ref(self) -> ResourceRef:
        """The task as a resource."""
        return ResourceRef("task", self.name)

    @property
    def outputs(self) -> tuple[SendPlan, ...]:
        """None: what comes out of the pipeline is dropped."""
        return ()

    @property
    def take(self) -> TakePlan | None:
        """None: there are no events."""
        return None


def sends_of(plan: AgentPlan | TaskPlan) -> tuple[SendPlan, ...]:
    """All sends of a pipeline, those of its operations before those of its output."""
    return (*(step.send for step in plan.pipeline if step.send), *plan.outputs)


def names_topics(plan: AgentPlan | TaskPlan) -> bool:
    """Whether a function of a pipeline names topics to send to."""
    return any(send.name_selector is not None for send in sends_of(plan))


@dataclass(frozen=True, slots=True)
class Stage:
    """Resources that may run side by side once all earlier stages are quiet.

    ``loop`` marks resources that feed one another (a retry topic, say): they are run again until quiet.
    """

    resources: tuple[ResourceRef, ...]
    loop: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """Data flowing from one thing to another; ends are labelled ``topic/x``, ``table/x``, ``join/x``, ``agent/x``."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Plan:
    """An application as it will run. ``event_timeout`` is how many milliseconds a function may take for one event.

    ``waiting`` tells, per resource that cannot run yet, why; ``not_run`` lists accepted kinds that ``run`` does not
    start. ``groups`` are agents that share tables: one at a time, so that each sees the other's writes.
    """

    application: str
    application_id: str
    schema: str
    default_partitions: int
    event_timeout: int
    topics: tuple[TopicPlan, ...]
    tables: tuple[TablePlan, ...]
    joins: tuple[JoinPlan, ...]
    agents: tuple[AgentPlan, ...]
    tasks: tuple[TaskPlan, ...]
    groups: tuple[tuple[ResourceRef, ...], ...]
    stages: tuple[Stage, ...]
    edges: tuple[Edge, ...]
    waiting: tuple[tuple[ResourceRef, str], ...]
    not_run: tuple[ResourceRef, ...]
    python_packages: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def runs(self) -> tuple[ResourceRef, ...]:
        """All resources that run: joins and agents stage by stage, then tasks."""
        return (*(ref for stage in self.stages for ref in stage.resources), *(task.ref for task in self.tasks))

    def topic(self, name: str) -> TopicPlan | None:
        """The topic of that name."""
        return next((topic for topic in self.topics if topic.name == name), None)

    def table(self, name: str) -> TablePlan | None:
        """The table of that name."""
        return next((table for table in self.tables if table.name == name), None)

    def known_table(self, name: str) -> TablePlan:
        """The table of that name, for those whose plan says that it is there. Raises LookupError."""
        table = self.table(name)
        if table is None:
            msg = f"application {self.application!r} has no table {name!r}"
            raise LookupError(msg)
        return table

    def join(self, name: str) -> JoinPlan | None:
        """The join of that name."""
        return next((join for join in self.joins if join.name == name), None)

    def agent(self, name: str) -> AgentPlan | None:
        """The agent of that name."""
        return next((agent for agent in self.agents if agent.name == name), None)

    def task(self, name: str) -> TaskPlan | None:
        """The task of that name."""
        return next((task for task in self.tasks if task.name == name), None)

    def changelog(self, topic: str) -> TablePlan | None:
        """The table whose changelog has that name as a topic."""
        return next((table for table in self.tables if table.changelog == topic), None)

    def group_of(self, ref: ResourceRef) -> tuple[ResourceRef, ...]:
        """The resources that share tables with this one, itself included."""
        return next((group for group in self.groups if ref in group), (ref,))

    def channel(self, name: str) -> JoinPlan | None:
        """The join that writes the channel of that name."""
        return next((join for join in self.joins if join.channel == name), None)
