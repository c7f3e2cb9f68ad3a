"""Resolve the sides of joins and the origins of tables from the declarations in manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication, channel_of
from kaspr_delta.plan.builder.references import References
from kaspr_delta.plan.definition.joins import StreamPlan
from kaspr_delta.plan.definition.resources import ChannelInput, SerializerName, Serializers, TopicInput, TopicPlan
from kaspr_delta.spec.diagnostics import Report
from kaspr_delta.spec.join import JoinSpec
from kaspr_delta.spec.resource import ResourceSpec
from kaspr_delta.spec.topics import StreamSide


@dataclass(frozen=True, slots=True)
class Side:
    """A table, or the result of a join used as a table; with a ``stream`` the records of a topic or channel.

    The values of results and channels are pairs in JSON.
    """

    name: str
    serializers: Serializers
    partitions: int
    is_global: bool = False
    stream: StreamPlan | None = None


@dataclass(frozen=True, slots=True)
class Sides:
    """Resolves sides that exist. ``changelogs`` are tables by the name of their changelog."""

    references: References
    topics: Mapping[str, TopicPlan]
    changelogs: Mapping[str, str]

    @property
    def application(self) -> DeclaredApplication:
        """The application that declares the sides."""
        return self.references.application

    def rows(self, name: str) -> Side:
        """The table of that name, or the result of the join of that name."""
        table = self.application.tables.get(name)
        if table is None:
            key = self.result_key(self.application.joins[name])
            return Side(name, Serializers(key, "json"), self.application.defaults.partitions)
        spec = table.spec
        serializers = Serializers(spec.key_serializer, spec.value_serializer)
        return Side(name, serializers, spec.partitions or self.application.defaults.partitions, spec.is_global)

    def records(
        self, resource: Declared[ResourceSpec], field: str, side: StreamSide, repartition: int | None = None
    ) -> Side | None:
        """The stream that a resource declares in a field. If nothing writes its channel, the resource waits: None."""
        read: TopicInput | ChannelInput
        if side.channel is not None:
            writer = self.references.channel(resource, side.channel, resource.at(field, "channel"))
            if writer is None:
                return None
            serializers = Serializers(self.result_key(self.application.joins[writer]), "json")
            read = ChannelInput(side.channel, writer, tombstones=True, start="earliest")
        else:
            serializers = self._of_topic(side)
            read = TopicInput((side.topic or "",), None, serializers, "earliest")
            _refuse_unspellable(resource, field, read, self.references.report)
        partitions = repartition or side.partitions or self._topic_partitions(side.topic or "")
        stream = StreamPlan(read, partitions, repartition is not None)
        return Side(stream.name, serializers, partitions, stream=stream)

    def result_key(self, join: Declared[JoinSpec], below: frozenset[str] = frozenset()) -> SerializerName:
        """The key serializer of a join's results: that of the side from which the keys come."""
        if join.name in below:  # defined by itself: reported elsewhere
            return "json"
        spec, below = join.spec, below | {join.name}
        right = self.application.tables.get(spec.right_table or "")
        if spec.shape == "stream-table" and spec.key_field and not (right and right.spec.is_global):
            return self._row_key(spec.right_table, below)
        return self._row_key(spec.left_table, below) if spec.left_stream is None else self._key(spec.left_stream, below)

    def _topic_partitions(self, topic: str) -> int:
        if topic in self.changelogs:
            return self.rows(self.changelogs[topic]).partitions
        return self.topics[topic].partitions if topic in self.topics else self.application.defaults.partitions

    def _of_topic(self, side: StreamSide) -> Serializers:
        if side.topic is not None and side.topic in self.changelogs:
            table = self.rows(self.changelogs[side.topic]).serializers
            return Serializers(side.key_serializer or table.key, side.value_serializer or table.value)
        return self.application.defaults.with_own(side.key_serializer, side.value_serializer)

    def _row_key(self, name: str | None, below: frozenset[str]) -> SerializerName:
        if name in self.application.tables:
            return self.application.tables[name].spec.key_serializer
        join = self.application.joins.get(name or "")
        return self.result_key(join, below) if join else "json"

    def _key(self, side: StreamSide, below: frozenset[str]) -> SerializerName:
        if side.channel is None:
            return self._of_topic(side).key
        joins = self.application.joins.values()
        return next((self.result_key(join, below) for join in joins if channel_of(join) == side.channel), "json")


def _refuse_unspellable(resource: Declared[ResourceSpec], at: str, read: TopicInput, report: Report) -> None:
    """Report serializers of a topic that are neither json nor raw: here keys and values are kept as text."""
    for what, field, serializer in (
        ("keys", "keySerializer", read.serializers.key),
        ("values", "valueSerializer", read.serializers.value),
    ):
        if serializer not in {"json", "raw"}:
            own = ("spec", at, field) in resource.loaded.positions.locations
            origin = "" if own else f", as config.{field} of the application says"
            message = f"topic '{read.topics[0]}' is read with {serializer} {what}{origin}"
            hint = f"add `{field}: json` or `raw` if the topic is so; otherwise let an agent write a topic that is"
            at_field = resource.at(at, field if own else "topic")
            report.error(at_field, f"{message}: here they must be json or raw", hint)
