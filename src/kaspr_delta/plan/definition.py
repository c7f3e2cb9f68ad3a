"""What will run: a frozen, fully resolved plan.

Manifests (``kaspr_delta.spec``) say what the author may write; here nothing is optional that the engine would have to
guess: every name is resolved, every default filled in, every function compiled. The engine, the ``plan`` command and
the Databricks jobs read this one object, so what is printed is what runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kaspr_delta.functions.snippet import Snippet
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
    """A topic: an append-only Delta table. ``serializers`` are the application's, for ``produce`` and ``consume``."""

    name: str
    delta_name: str
    partitions: int
    serializers: Serializers


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A KasprTable. ``changelog`` is the Kaspr name of its changelog topic."""

    name: str
    delta_name: str
    changelog: str
    serializers: Serializers
    partitions: int
    is_global: bool
    default: Snippet | None
    description: str
    location: Location

    @property
    def ref(self) -> ResourceRef:
        """The table as a resource."""
        return ResourceRef("table", self.name)


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
    """Topics an agent reads."""

    topics: tuple[str, ...]
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
        """Whether events must be processed one after another: the agent touches tables."""
        return bool(self.tables)


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
    """An application as it will run.

    ``waiting`` tells, per resource that cannot run yet, why; ``not_run`` lists accepted kinds that ``run`` does not
    start. ``groups`` are agents that share tables: one at a time, so that each sees the other's writes.
    """

    application: str
    application_id: str
    schema: str
    default_partitions: int
    topics: tuple[TopicPlan, ...]
    tables: tuple[TablePlan, ...]
    joins: tuple[JoinPlan, ...]
    agents: tuple[AgentPlan, ...]
    groups: tuple[tuple[ResourceRef, ...], ...]
    stages: tuple[Stage, ...]
    edges: tuple[Edge, ...]
    waiting: tuple[tuple[ResourceRef, str], ...]
    not_run: tuple[ResourceRef, ...]
    python_packages: tuple[str, ...]
    findings: tuple[Finding, ...]

    def topic(self, name: str) -> TopicPlan | None:
        """The topic of that name."""
        return next((topic for topic in self.topics if topic.name == name), None)

    def table(self, name: str) -> TablePlan | None:
        """The table of that name."""
        return next((table for table in self.tables if table.name == name), None)

    def join(self, name: str) -> JoinPlan | None:
        """The join of that name."""
        return next((join for join in self.joins if join.name == name), None)

    def agent(self, name: str) -> AgentPlan | None:
        """The agent of that name."""
        return next((agent for agent in self.agents if agent.name == name), None)

    def group_of(self, ref: ResourceRef) -> tuple[ResourceRef, ...]:
        """The resources that share tables with this one, itself included."""
        return next((group for group in self.groups if ref in group), (ref,))

    def channel(self, name: str) -> JoinPlan | None:
        """The join that writes the channel of that name."""
        return next((join for join in self.joins if join.channel == name), None)
