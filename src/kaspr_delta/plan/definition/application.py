"""The plan of a whole application: its resources, their order, and the resources that wait."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

from kaspr_delta.plan.definition.joins import AggregationPlan, JoinPlan, TableTableJoinPlan
from kaspr_delta.plan.definition.resources import (
    NOT_SHOWN,
    AgentPlan,
    PipelinePlan,
    ResourceRef,
    Serializers,
    TablePlan,
    TaskPlan,
    TopicPlan,
    WebViewPlan,
    names_topics,
    sends_of,
)
from kaspr_delta.plan.definition.typed_tables import TypedPlan
from kaspr_delta.plan.drawing.picture import Edge, Picture, picture
from kaspr_delta.plan.drawing.svg import html_of
from kaspr_delta.plan.names import delta_name, topic_table
from kaspr_delta.spec.app import OnGap
from kaspr_delta.spec.ddl import Type
from kaspr_delta.spec.diagnostics import Finding, Location
from kaspr_delta.spec.resource import OnChange


@dataclass(frozen=True, slots=True)
class Stage:
    """Resources that may run side by side once all earlier stages are quiet.

    ``loop`` marks resources that feed one another (a retry topic, say): they are run again until quiet.
    """

    resources: tuple[ResourceRef, ...]
    loop: bool = False


@dataclass(frozen=True, slots=True)
class JobSchedule:
    """The Quartz cron expression and time zone of an application's Databricks job, if its KasprApp gives them."""

    quartz: str | None = None
    timezone: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of an application. A function may take ``event_timeout`` milliseconds for one event.

    ``waiting`` has a reason for each resource that cannot run yet. The agents of one of the ``groups`` share tables:
    they run one at a time, so that each sees the other's writes. ``location`` is that of the KasprApp or, without one,
    of the first resource.
    """

    application: str
    application_id: str
    schema: str
    default_partitions: int
    event_timeout: int
    topics: tuple[TopicPlan, ...]
    tables: tuple[TablePlan, ...]
    joins: tuple[JoinPlan, ...]
    aggregations: tuple[AggregationPlan, ...]
    agents: tuple[AgentPlan, ...]
    tasks: tuple[TaskPlan, ...]
    web_views: tuple[WebViewPlan, ...]
    groups: tuple[tuple[ResourceRef, ...], ...]
    stages: tuple[Stage, ...]
    edges: tuple[Edge, ...]
    waiting: tuple[tuple[ResourceRef, str], ...]
    python_packages: tuple[str, ...]
    findings: tuple[Finding, ...]
    job_schedule: JobSchedule = field(metadata=NOT_SHOWN)
    location: Location = field(metadata=NOT_SHOWN)
    # Milliseconds that change feeds reach back, for tables without a value of their own; None: Delta's default.
    feed_retention: int | None = field(default=None, metadata=NOT_SHOWN)
    on_gap: OnGap = field(default="fail", metadata=NOT_SHOWN)
    # The reactions of resources to a changed definition, as far as they are not to refuse to go on.
    on_change: tuple[tuple[ResourceRef, OnChange], ...] = field(default=(), metadata=NOT_SHOWN)
    # Sentences for people about changes to stored tables, such as added columns.
    notices: tuple[str, ...] = field(default=(), metadata=NOT_SHOWN)

    def is_of(self, app: str | None) -> bool:
        """Whether this is the plan of the application that a command names; without a name any is."""
        return app is None or delta_name(app) == self.schema

    def reaction(self, ref: ResourceRef) -> OnChange:
        """The reaction of a resource to a state that was made by another definition."""
        return dict(self.on_change).get(ref, "refuse")

    @property
    def runs(self) -> tuple[ResourceRef, ...]:
        """All resources that run: bound topics, joins, aggregations and agents stage by stage, then tasks."""
        return (*(ref for stage in self.stages for ref in stage.resources), *(task.ref for task in self.tasks))

    @property
    def emptied(self) -> Plan:
        """The plan of this application when all its resources are deleted."""
        nothing: dict[str, Any] = {one.name: () for one in fields(self) if isinstance(getattr(self, one.name), tuple)}
        return replace(self, **nothing)

    @property
    def unbound(self) -> Plan:
        """The same plan with all topics on Delta alone: nothing is read from Kafka or files, or written there."""
        bound = {topic.ref for topic in self.topics if topic.binding}
        stages = [
            replace(stage, resources=tuple(ref for ref in stage.resources if ref not in bound)) for stage in self.stages
        ]
        return replace(
            self,
            topics=tuple(replace(topic, binding=None) for topic in self.topics),
            stages=tuple(stage for stage in stages if stage.resources),
        )

    def topic(self, name: str) -> TopicPlan | None:
        """The topic of that name."""
        return next((topic for topic in self.topics if topic.name == name), None)

    def named_topic(self, name: str) -> TopicPlan:
        """The topic of that name that only a function named. Its records are read as those of the first topic."""
        serializers = next((topic.serializers for topic in self.topics), Serializers("json", "json"))
        return TopicPlan(name, topic_table(name), self.default_partitions, serializers)

    def with_named_topics(self, names: Collection[str]) -> Plan:
        """The plan with the topics that functions named."""
        named = (self.named_topic(name) for name in sorted(names) if self.topic(name) is None)
        return replace(self, topics=(*self.topics, *named))

    @property
    def names_topics(self) -> bool:
        """Whether a function computes the topic of a send."""
        return any(map(names_topics, (*self.agents, *self.tasks, *self.web_views)))

    def table(self, name: str) -> TablePlan | None:
        """The table of that name."""
        return next((table for table in self.tables if table.name == name), None)

    def known_table(self, name: str) -> TablePlan:
        """The table of that name, which the plan must have. Raises LookupError if it does not."""
        table = self.table(name)
        if table is None:
            raise LookupError(f"application {self.application!r} has no table {name!r}")
        return table

    def table_or_result(self, name: str) -> TablePlan:
        """The table of that name, or the result of the join of that name as a table. Raises LookupError if none exists.

        The values of a result are ``{"left": …, "right": …}``, or the columns that the join selects.
        """
        join = self.join_for_table(name)
        if join is None:
            return self.known_table(name)
        return TablePlan(
            name=join.name,
            delta_name=join.result,
            changelog="",
            serializers=Serializers(join.spelling.key, "json"),
            partitions=self.default_partitions,
            description=join.description,
            location=join.location,
            typed=TypedPlan((), join.select.columns(*self.column_types(join))) if join.select else None,
            joined=self.sides_of(join),
        )

    def join_for_table(self, name: str) -> TableTableJoinPlan | None:
        """The join of that name, if its result stands for a table: there is no table of that name."""
        join = self.join(name)
        return join if self.table(name) is None and isinstance(join, TableTableJoinPlan) else None

    def label_of(self, name: str) -> str:
        """The table of that name, or the join whose result stands for it, as ``kind/name``."""
        return f"table/{name}" if self.join_for_table(name) is None else f"join/{name}"

    def readers_of_result(self, join: str) -> Iterator[ResourceRef]:
        """The resources that read the result of a join of tables, not its channel."""
        yield from (one.ref for one in self.joins if join in {one.left, one.right})
        yield from (one.ref for one in self.aggregations if one.origin == join)
        pipelines = (*self.agents, *self.tasks, *self.web_views)
        yield from (one.ref for one in pipelines if f"join/{join}" in map(self.label_of, one.tables))

    def sides_of(self, join: TableTableJoinPlan) -> tuple[TablePlan, TablePlan]:
        """The left and right table of a join, with their columns in the order in which the join's channel has them."""
        left, right = join.stored
        return replace(self.table_or_result(join.left), like=left), replace(
            self.table_or_result(join.right), like=right
        )

    def column_types(self, join: JoinPlan) -> tuple[Type | None, Type | None]:
        """The types of the columns ``left`` and ``right`` of a join's channel and result; None: text."""
        if not isinstance(join, TableTableJoinPlan):
            return None, None
        left, right = self.sides_of(join)
        return left.row_type, right.row_type

    def aggregation(self, name: str) -> AggregationPlan | None:
        """The aggregation that makes the table of that name, if there is one."""
        return next((aggregation for aggregation in self.aggregations if aggregation.name == name), None)

    def running(self, ref: ResourceRef) -> TopicPlan | JoinPlan | AggregationPlan | AgentPlan | TaskPlan | None:
        """The plan of a resource that runs: a bound topic, join, made table, agent or task; None for others."""
        bound = (topic for topic in self.topics if topic.binding)
        everything = (*bound, *self.joins, *self.aggregations, *self.agents, *self.tasks)
        return next((one for one in everything if one.ref == ref), None)

    def log_of(self, ref: ResourceRef) -> str:
        """The Delta table of the log of a resource that runs. Raises LookupError for other resources."""
        running = self.running(ref)
        if running is None:
            raise LookupError(f"{ref} keeps no state")
        return running.log

    def origin_of(self, aggregation: AggregationPlan) -> str:
        """The origin of an aggregation as ``kind/name``: a topic, a table or a join."""
        return next(edge.source for edge in self.edges if edge.target == str(aggregation.ref))

    def join(self, name: str) -> JoinPlan | None:
        """The join of that name."""
        return next((join for join in self.joins if join.name == name), None)

    def agent(self, name: str) -> AgentPlan | None:
        """The agent of that name."""
        return next((agent for agent in self.agents if agent.name == name), None)

    def changelog(self, topic: str) -> TablePlan | None:
        """The table whose changelog topic has that name."""
        return next((table for table in self.tables if table.changelog == topic), None)

    def group_of(self, ref: ResourceRef) -> tuple[ResourceRef, ...]:
        """The resources that share tables with this one, itself included."""
        return next((group for group in self.groups if ref in group), (ref,))

    def channel(self, name: str) -> JoinPlan | None:
        """The join that writes the channel of that name."""
        return next((join for join in self.joins if join.channel == name), None)

    @property
    def drawn_edges(self) -> tuple[Edge, ...]:
        """The edges, and those of web views and tasks: the tables that they read, the topics they send to."""
        edges = list(self.edges)
        users: tuple[PipelinePlan, ...] = (*self.web_views, *self.tasks)
        for user in users:
            edges += [Edge(self.label_of(table), str(user.ref)) for table in user.tables]
            topics = dict.fromkeys(send.topic for send in sends_of(user) if send.topic is not None)
            edges += [Edge(str(user.ref), f"topic/{topic}") for topic in topics]
        return tuple(edges)

    def picture(self, only: Collection[str] | None = None) -> Picture:
        """The picture of this plan, or only of the boxes with these labels and of the lines between them."""
        kinds = (self.topics, self.tables, self.joins, self.agents, self.tasks, self.web_views)
        return picture((str(one.ref) for kind in kinds for one in kind), self.drawn_edges, only)

    def _repr_html_(self) -> str:
        """The picture, as a notebook shows it."""
        waiting = {str(ref): reason for ref, reason in self.waiting}
        return html_of(self.picture(), self.application, waiting)
