"""Names that point at other resources, and what happens when nothing is there: whoever points waits."""

from __future__ import annotations

from dataclasses import dataclass, field

from kaspr_delta.plan.applications import Application, channel_of
from kaspr_delta.plan.definition import ResourceRef
from kaspr_delta.plan.report import Report
from kaspr_delta.spec.diagnostics import Location
from kaspr_delta.spec.near import nearest


@dataclass(slots=True)
class References:
    """Resolves the names used in one application.

    ``everything`` are all applications loaded together, for hints; ``broken`` the resources whose own manifests have
    errors, which therefore are not reported a second time as missing.
    """

    application: Application
    everything: tuple[Application, ...]
    broken: frozenset[tuple[str, str]]
    report: Report
    waiting: dict[ResourceRef, str] = field(default_factory=dict)

    def wait(self, resource: ResourceRef, reason: str) -> None:
        """Let a resource wait; the first reason is the one that is shown."""
        self.waiting.setdefault(resource, reason)

    def table(self, user: ResourceRef, role: str, name: str, location: Location) -> bool:
        """Whether a table is there. Otherwise ``user`` waits, and a warning says what is near."""
        if name in self.application.tables:
            return True
        if ("KasprTable", name) in self.broken:
            self.wait(user, f"table '{name}' has errors")
            return False
        reason = f"table '{name}' is not there"
        self.wait(user, reason)
        self.report.warning(
            location, f"{user.kind} '{user.name}' waits: its {role} '{name}' is not there", self._near(name)
        )
        return False

    def channel(self, user: ResourceRef, name: str, location: Location) -> str | None:
        """The join that writes a channel. Where there is none, ``user`` waits."""
        writers = {channel_of(join): join for join in self.application.joins.values()}
        if name in writers:
            writer = ResourceRef("join", writers[name].name)
            if writer in self.waiting:
                self.wait(user, f"{writer} waits: {self.waiting[writer]}")
            return writer.name
        self.wait(user, f"no join writes the channel '{name}'")
        # A join that could not be read may well be the writer.
        if not any(kind == "KasprJoin" for kind, _ in self.broken):
            message = f"{user.kind} '{user.name}' waits: no join writes its channel '{name}'"
            self.report.warning(location, message, self._near_channel(name, sorted(writers)))
        return None

    def _near(self, name: str) -> str:
        if near := nearest(name, self.application.tables):
            return f"did you mean '{near}'?"
        for other in self.everything:
            if name in other.tables:
                return f"the table '{name}' belongs to application '{other.name}'"
        if name in self.application.joins:
            return f"'{name}' is a join; where a table is asked, a join cannot stand in this version"
        return f"it starts once there is a KasprTable '{name}'"

    def _near_channel(self, name: str, channels: list[str]) -> str:
        if name in self.application.joins:
            return f"the channel of join '{name}' is '{channel_of(self.application.joins[name])}'"
        if near := nearest(name, channels):
            return f"did you mean '{near}'?"
        return f"it starts once a KasprJoin has `outputChannel: {name}`"
