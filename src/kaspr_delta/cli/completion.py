"""Names for shell completion: the resources applied to a warehouse in a folder or bucket, read without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import typer

from kaspr_delta.cli.target import Target
from kaspr_delta.spec.kinds import KINDS_BY_COMMAND, short_kind

if TYPE_CHECKING:
    from kaspr_delta.plan.definition.application import Plan

Completion = Callable[[typer.Context, str], list[str]]


def _names_of(names: Callable[[Plan], Iterable[str]]) -> Completion:
    """The completion of the names that ``names`` finds in the plans of the applied applications."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        try:
            found = [name for plan in _applied(Target.of(context)) for name in names(plan)]
        except Exception:  # noqa: BLE001  a shell cannot show an error of its completion
            return []
        return sorted({name for name in found if name.startswith(incomplete)})

    return complete


def _applied(target: Target) -> Iterator[Plan]:
    from kaspr_delta.plan.names import delta_name
    from kaspr_delta.runtime.applying import registry_of

    location = target.location
    for schema in () if location.is_unity else location.schemas():
        if target.app is None or delta_name(target.app) == schema:
            plan = registry_of(location, schema).plan()
            yield from [] if plan is None else [plan]


def complete_kind(incomplete: str) -> list[str]:
    """The kinds of resources, as they stand in ``kind/name``."""
    return [name for name in sorted(map(short_kind, KINDS_BY_COMMAND)) if name.startswith(incomplete)]


complete_resource = _names_of(lambda plan: map(str, plan.runs))
complete_rebuilt = _names_of(lambda plan: (str(ref) for ref in plan.runs if ref.kind in {"join", "table"}))
complete_topic = _names_of(lambda plan: (topic.name for topic in plan.topics))
complete_readable = _names_of(lambda plan: (*(t.name for t in plan.topics), *(join.channel for join in plan.joins)))
complete_table = _names_of(lambda plan: (*(t.name for t in plan.tables), *(join.name for join in plan.joins)))
complete_name = _names_of(
    lambda plan: (one.name for kind in (plan.tables, plan.joins, plan.agents, plan.tasks) for one in kind)
)
complete_application = _names_of(lambda plan: (plan.application,))
