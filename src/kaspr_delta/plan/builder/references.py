"""Resolve the names of other resources. A resource that refers to a missing resource waits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication, channel_of
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.definition.waiting import reason_of_reader
from kaspr_delta.spec.diagnostics import Location, Report
from kaspr_delta.spec.join import JoinSpec
from kaspr_delta.spec.near import suggestion
from kaspr_delta.spec.resource import ResourceSpec

_User: TypeAlias = Declared[ResourceSpec]


@dataclass(slots=True)
class References:
    """Resolves the names used in one application.

    ``everything`` are all applications loaded together, for hints. ``broken`` are the resources whose manifests have
    errors: they are not also reported as missing.
    """

    application: DeclaredApplication
    everything: tuple[DeclaredApplication, ...]
    broken: frozenset[tuple[str, str]]
    report: Report
    waiting: dict[ResourceRef, str] = field(default_factory=dict)

    def wait(self, resource: ResourceRef, reason: str) -> None:
        """Let a resource wait. Of several reasons the first is shown."""
        self.waiting.setdefault(resource, reason)

    def table(self, user: _User, name: str, location: Location) -> None:
        """Let ``user`` wait unless a table exists, or a join with a result table; a warning suggests a similar name."""
        join = self.application.joins.get(name)
        if name in self.application.tables:
            return
        if join is not None and join.spec.has_result:
            self._wait_with(user, join)
            return
        hint = f"join '{name}' gives a stream: an agent reads its channel, '{channel_of(join)}'" if join else ""
        self._missing(user, ("table", "join"), "table", name, location, hint or self._near(name, self._results))

    def rows(self, user: _User, name: str, *field: str) -> bool:
        """Whether a table exists, or a join with a result table, which is used like one. If not, as ``table``.

        A join whose result is a stream is an error. If the join waits, ``user`` waits too.
        """
        join, role, location = self.application.joins.get(name), ".".join(field), user.at(*field)
        if table := self.application.tables.get(name):
            if table.spec.window:
                message = f"the {role} of {user.ref.kind} '{user.name}' has windows (at {table.key_at('window')})"
                hint = "read a table without windows; an agent can write one from the values of the windows"
                self.report.error(location, f"{message}: its rows have no key of their own", hint)
            return True
        if join is None:
            self._missing(user, ("table", "join"), role, name, location, self._near(name, self._results))
            return False
        if not join.spec.has_result:
            message = f"the {role} of {user.ref.kind} '{user.name}' must be a table, and join '{name}' gives a stream"
            self.report.error(location, f"{message} (at {join.location})", _as_stream(role, join))
            return False
        self._wait_with(user, join)
        return True

    def join(self, user: _User, name: str, *field: str) -> Declared[JoinSpec] | None:
        """The join of that name. If it is missing or waits, ``user`` waits."""
        join = self.application.joins.get(name)
        if join is None:
            self._missing(user, ("join",), ".".join(field), name, user.at(*field), self._near_join(name))
        else:
            self._wait_with(user, join)
        return join

    def channel(self, user: _User, name: str, location: Location) -> str | None:
        """The name of the join that writes a channel. If it is missing or waits, ``user`` waits."""
        writers = {channel_of(join): join for join in self.application.joins.values()}
        if name in writers:
            self._wait_with(user, writers[name])
            return writers[name].name
        self.wait(user.ref, f"no join writes the channel '{name}'")
        # A join whose manifest has errors may be the writer.
        if not any(kind == "KasprJoin" for kind, _ in self.broken):
            message = f"{user.ref.kind} '{user.name}' waits: no join writes its channel '{name}'"
            hint = suggestion(name, writers) or f"it starts once a KasprJoin has `outputChannel: {name}`"
            if name in self.application.joins:
                hint = f"the channel of join '{name}' is '{channel_of(self.application.joins[name])}'"
            self.report.warning(location, message, hint)
        return None

    def _wait_with(self, user: _User, join: Declared[JoinSpec]) -> None:
        if join.ref in self.waiting:
            self.wait(user.ref, reason_of_reader(join.ref, self.waiting[join.ref]))

    def _missing(  # noqa: PLR0913, PLR0917  all parts of the warning
        self, user: _User, kinds: tuple[str, ...], role: str, name: str, location: Location, hint: str
    ) -> None:
        for kind in kinds:
            if (f"Kaspr{kind.capitalize()}", name) in self.broken:
                self.wait(user.ref, f"{kind} '{name}' has errors")
                return
        self.wait(user.ref, f"{kinds[0]} '{name}' is not there")
        self.report.warning(location, f"{user.ref.kind} '{user.name}' waits: its {role} '{name}' is not there", hint)

    @property
    def _results(self) -> Iterable[str]:
        """The names of joins with a result table."""
        return (join.name for join in self.application.joins.values() if join.spec.has_result)

    def _near(self, name: str, results: Iterable[str]) -> str:
        if near := suggestion(name, [*self.application.tables, *results]):
            return near
        for other in self.everything:
            if name in other.tables:
                return f"the table '{name}' belongs to application '{other.name}'"
        return f"it starts once there is a KasprTable '{name}'"

    def _near_join(self, name: str) -> str:
        if name in self.application.tables:
            return f"'{name}' is a table: `from: {{table: {name}}}`"
        for join in self.application.joins.values():
            if channel_of(join) == name:
                return f"'{name}' is the channel of join '{join.name}': `from: {{channel: {name}}}`"
        return suggestion(name, self.application.joins) or f"it starts once there is a KasprJoin '{name}'"


def _as_stream(role: str, join: Declared[JoinSpec]) -> str:
    """The hint for a join that gives a stream where a table is needed."""
    if role == "from.table":
        return f"read it as a stream: `from: {{join: {join.name}}}`"
    stream = role.replace("Table", "Stream")
    return (
        f"read its channel as a stream, `{stream}: {{channel: {channel_of(join)}}}`,"
        f" or make a table of it with a KasprTable's `from: {{join: {join.name}}}`"
    )
