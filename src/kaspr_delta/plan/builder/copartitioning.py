"""Check that both sides of a join are copartitioned: equal keys must be in equal partitions.

On Delta every key is found in any partition. The rule is kept because an application that breaks it would silently lose
results in Kafka Streams, and its topics may be on Kafka one day.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication
from kaspr_delta.plan.builder.sides import Side
from kaspr_delta.plan.definition.resources import TopicInput
from kaspr_delta.plan.names import changelog_topic
from kaspr_delta.spec.diagnostics import Location, Report
from kaspr_delta.spec.join import JoinSpec


@dataclass(frozen=True, slots=True)
class _Spread:
    """One side of a join, with the locations of its partitions, of its key serializer and of its partition selector."""

    side: Side
    field: str
    at: Location
    counted: Location
    spelled: Location
    selector: Location | None


@dataclass(frozen=True, slots=True)
class Copartitioning:
    """Checks the joins of one application. ``selectors`` are the locations of partition selectors by topic."""

    application: DeclaredApplication
    report: Report
    selectors: Mapping[str, Location | None]

    def check(self, join: Declared[JoinSpec], left: Side, right: Side) -> None:
        """Report a join that needs copartitioned sides and has others."""
        if join.spec.shape not in {"same-key", "stream-table", "stream-stream"} or join.spec.key_field is not None:
            return
        first, second = self._spread(join, "left", left), self._spread(join, "right", right)
        if left.is_global or right.is_global:
            self._compare_keys_of_global(join, first, second)
            return
        if reasons := list(_reasons(first, second)):
            message = f'CoPartitioningRequired {{ left = "{left.name}", right = "{right.name}" }}: join \'{join.name}\''
            message += f" finds equal keys in equal partitions only, and {'; '.join(reasons)}"
            keys = "give both sides the same `keySerializer`" if left.serializers.key != right.serializers.key else ""
            hints = (keys, "; or ".join(self._ways(join, first, second)))
            self.report.error(first.at, message, "; and ".join(filter(None, hints)))

    def _spread(self, join: Declared[JoinSpec], which: str, side: Side) -> _Spread:
        if side.stream is None:
            field = f"{which}Table"
            declared = self.application.tables.get(side.name) or self.application.joins[side.name]
            own, selector = declared.named_at, self.selectors.get(changelog_topic(self.application.name, side.name))
            counted, spelled = (_written(declared, name) or own for name in ("partitions", "keySerializer"))
            return _Spread(side, field, join.at(field), counted, spelled, selector)
        field, anew = f"{which}Stream", side.stream.repartitioned
        own = join.at(field, "topic" if isinstance(side.stream.input, TopicInput) else "channel")
        counted = _written(join, "repartition" if anew else field, "partitions") or own
        spelled = _written(join, field, "keySerializer") or own
        return _Spread(side, field, own, counted, spelled, None if anew else self.selectors.get(side.name))

    def _ways(self, join: Declared[JoinSpec], left: _Spread, right: _Spread) -> Iterator[str]:
        """The ways to copartition the sides."""
        sides = (left, right)
        counts, selectors = left.side.partitions != right.side.partitions, bool(left.selector) != bool(right.selector)
        if not counts and not selectors:
            return
        alike = []
        if counts:
            written = [text for one, other in (sides, sides[::-1]) if (text := self._equal_count(one, other))]
            alike = [f"make the counts equal with {' or '.join(written)}"] if written else []
        if selectors:
            alike.append("write both sides with the same partitionSelector, or none")
        if alike:
            yield " and ".join(alike)
        streams = [one for one in sides if one.side.stream]
        if streams and not any(one.selector for one in sides if one not in streams):
            count = right.side.partitions
            yield f"spread the stream anew with `repartition: {{partitions: {count}}}` in join '{join.name}'"
        if right.side.stream is None and right.side.name in self.application.tables:
            yield f"have the table everywhere with `global: true` in KasprTable '{right.side.name}'"

    def _equal_count(self, one: _Spread, other: _Spread) -> str:
        """The setting that gives one side as many partitions as the other; empty if there is none."""
        if one.side.stream is None:
            is_table = one.side.name in self.application.tables
            return f"`partitions: {other.side.partitions}` in KasprTable '{one.side.name}'" if is_table else ""
        return "" if one.side.stream.repartitioned else f"`partitions: {other.side.partitions}` under '{one.field}'"

    def _compare_keys_of_global(self, join: Declared[JoinSpec], left: _Spread, right: _Spread) -> None:
        keys = left.side.serializers.key, right.side.serializers.key
        if keys[0] != keys[1]:
            message = f"join '{join.name}' looks up {keys[0]} keys of '{left.side.name}' (at {left.spelled})"
            message += f" in '{right.side.name}' (at {right.spelled}), which has {keys[1]} keys"
            self.report.warning(left.at, message, "they will not be found; give both the same keySerializer")


def _reasons(left: _Spread, right: _Spread) -> Iterator[str]:
    one, other = left.side, right.side
    if one.partitions != other.partitions:
        counts = f"'{one.name}' (at {left.counted}) has {one.partitions} partitions"
        yield f"{counts}, '{other.name}' (at {right.counted}) has {other.partitions}"
    keys = one.serializers.key, other.serializers.key
    if keys[0] != keys[1]:
        those = f"those of '{other.name}' (at {right.spelled}) are {keys[1]}"
        yield f"the keys of '{one.name}' (at {left.spelled}) are {keys[0]}, {those}"
    if (left.selector is None) != (right.selector is None):
        chosen, plain = (left, right) if left.selector else (right, left)
        selected = f"'{chosen.side.name}' is written with a partitionSelector (at {chosen.selector})"
        yield f"{selected}, '{plain.side.name}' (at {plain.counted}) is not"


def _written(declared: Declared[Any], *field: str) -> Location | None:
    """The location of a field, if it was written."""
    return declared.at(*field) if ("spec", *field) in declared.loaded.positions.locations else None
