"""Topics for ``get topics`` and ``describe topic``. A topic has no manifest: what names it makes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kaspr_delta.control.kubectl import columns
from kaspr_delta.errors import NotFoundError

if TYPE_CHECKING:
    from kaspr_delta.control.resource_status import Facts
    from kaspr_delta.plan.definition.application import Plan

NAMES = frozenset({"topic", "topics", "ktopic", "ktopics"})
"""The names of this kind in lower case."""


def topics_in(plan: Plan | None, facts: Facts, name: str | None = None) -> list[dict[str, Any]]:
    """The topics of an application, or the one of a name, as plain data. Raises NotFoundError.

    Where a number cannot be read, the reason stands in its place.
    """
    topics = () if plan is None else plan.topics
    if name is not None and name not in {topic.name for topic in topics}:
        raise NotFoundError.among("topic", name, [topic.name for topic in topics])
    done = facts.done
    totals: Mapping[str, Mapping[str, Any]] = {} if isinstance(done, str) else done
    return [
        {
            "name": topic.name,
            "bound": None if topic.binding is None else topic.binding.text,
            "records": facts.rows(topic.delta_name),
            "lag": None if topic.binding is None else facts.lag(topic.ref),
            "deadLetters": totals.get(str(topic.ref), {}).get("dead_letters"),
            "partitions": topic.partitions,
            "deltaName": topic.delta_name,
        }
        for topic in topics
        if name in {None, topic.name}
    ]


def topic_lines(topics: list[dict[str, Any]]) -> str:
    """Topics as a table."""
    rows = [
        (one["name"], count_text(one["records"]), count_text(one["lag"]), one["bound"] or "<none>") for one in topics
    ]
    return "\n".join(columns(("NAME", "RECORDS", "LAG", "BOUND"), rows))


def count_text(number: int | str | None) -> str:
    """A number, or ``unknown`` where a reason stands in its place."""
    return "" if number is None else "unknown" if isinstance(number, str) else str(number)
