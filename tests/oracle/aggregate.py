"""Aggregates: of a stream by its keys, and (``groupby-…``) of a table's rows by a field of their values.

The values contain the names of the fields. In recorded cases each number is in an object with the aggregate's name; in
this engine the value is the number itself.
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
    """A number of records or rows in the recorded form."""
    return {"count": value}


def _sum(value: Any) -> Any:
    return {"sum": value}


def empty_groups(case: Case) -> frozenset[str]:
    """Groups that have no row at the end. Kafka Streams keeps them, with a count or sum of 0.

    This engine does not see a group whose rows came and went inside one batch: it reads only the last value of a row.
    """
    rows = {event.key: event.value for event in case.events if event.key is not None}
    groups = (value.get(case.params["group_field"]) for value in rows.values() if value is not None)
    return frozenset(case.expected.final or ()) - {text(group) for group in groups}


def _family(name: str, source: Input, value: Callable[[Any], Any]) -> Family:
    inputs: dict[Side, Input] = {"left": source}
    optional_keys = empty_groups if source == "table" else no_keys
    rule = Rule(ordered=False, times="until a deletion", optional_keys=optional_keys)
    return Family("aggregate", (name,), inputs, TableOutput(value), rule)


FAMILIES = (
    _family("count", "topic", count),
    _family("sum", "topic", _sum),
    _family("reduce-max", "topic", unwrapped),
    _family("groupby-count", "table", count),
    _family("groupby-sum", "table", _sum),
)
