"""Aggregates: of a stream by its keys, and (``groupby-…``) of a table's rows by a field of their values.

The names of the fields travel in the values. Kafka Streams' cases wrap each number in an object with the aggregate's
name; here the value is the number itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.oracle.case import Case, Side, text
from tests.oracle.compare import Rule, no_keys
from tests.oracle.family import Family, Input
from tests.oracle.outputs import TableOutput
from tests.oracle.wrapping import unwrapped


def count(value: Any) -> Any:
    """A number of records or rows as it was recorded."""
    return {"count": value}


def _sum(value: Any) -> Any:
    return {"sum": value}


def empty_groups(case: Case) -> frozenset[str]:
    """Groups that have no row in the end. Kafka Streams keeps them, with a count or sum of 0.

    A group whose rows came and went inside one batch is never seen here: of a table's row a batch knows the last value.
    """
    rows = {event.key: event.value for event in case.events if event.key is not None}
    groups = (value.get(case.params["group_field"]) for value in rows.values() if value is not None)
    return frozenset(case.expected.final or ()) - {text(group) for group in groups}


def _family(name: str, source: Input, value: Callable[[Any], Any]) -> Family:
    inputs: dict[Side, Input] = {"left": source}
    fleeting = empty_groups if source == "table" else no_keys
    rule = Rule(ordered=False, times="until a deletion", fleeting=fleeting)
    return Family("aggregate", (name,), inputs, TableOutput(value), rule)


FAMILIES = (
    _family("count", "topic", count),
    _family("sum", "topic", _sum),
    _family("reduce-max", "topic", unwrapped),
    _family("groupby-count", "table", count),
    _family("groupby-sum", "table", _sum),
)
