"""Tables that are made from a stream or another table, by one operation on its records or rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

from pydantic import Field

from kaspr_delta.spec.base import FieldPath, Problem, Spec, exactly_one, optional
from kaspr_delta.spec.resource import Code

Operation = Literal["toTable", "count", "reduce", "aggregate"]
"""An operation on the records or rows of the origin."""

OPERATIONS: tuple[Operation, ...] = get_args(Operation)


class ToTable(Spec):
    """The newest value of every key; it has no settings."""


class Count(Spec):
    """How many values every group has; it has no settings."""


class Aggregate(Spec):
    """A total per group: where it begins, and how a value is added and, over a table, taken out again."""

    initializer: Code = Field(description="a Python function without parameters that returns the first total")
    adder: Code = Field(description="a Python function (total, value) that returns the total with the value")
    subtractor: Code | None = optional(
        "over a table: a Python function (total, value) that returns it without the value"
    )


def making_problems(written: Mapping[str, Any]) -> Iterator[Problem]:
    """The problems with the fields that say how a table is made; ``written`` is its ``spec``."""
    operations = [name for name in OPERATIONS if written.get(name) is not None]
    origin = written.get("from")
    if origin is None:
        if given := [*operations, *(["groupBy"] if written.get("groupBy") is not None else [])]:
            hint = "for example `from: {table: orders}`, `from: {topic: raw-orders}` or `from: {join: NAME}`"
            message = f"'{given[0]}' makes a table of something else: required field 'from' is missing in spec"
            yield Problem(message, hint, (given[0],), absent=(("from",),))
        return
    hint = "`toTable: {}`, `count: {}`, `reduce: {python: …}` or `aggregate: {initializer: …, adder: …}`"
    yield from exactly_one(written, OPERATIONS, "'from'", hint, ("from",))
    named = [name for name in ("table", "topic", "channel", "join") if isinstance(origin, dict) and origin.get(name)]
    # Whether a join gives rows or records is known once all manifests are loaded.
    if named == ["table"]:
        yield from table_origin_problems(written, ("from", "table"))
    elif named in (["topic"], ["channel"]):
        yield from stream_origin_problems(written, ("from", named[0]))


def table_origin_problems(written: Mapping[str, Any], origin: FieldPath) -> Iterator[Problem]:
    """The operations that do not work on rows: rows change and go, so their old values have to be taken out again."""
    rows = "'from' (at {other}) gives rows of a table"
    for field, message, hint in (
        ("toTable", "'toTable' is for records of a stream", "read that table itself"),
        ("reduce", "'reduce' cannot take a row's old value out again", "use 'aggregate' with a 'subtractor'"),
        (
            "window",
            "'window' is for records of a stream, which have their time",
            "remove it: rows count while they stand",
        ),
    ):
        if written.get(field) is not None:
            yield Problem(f"{message}, and {rows}", hint, (field,), origin)
    aggregate = written.get("aggregate")
    if isinstance(aggregate, dict) and aggregate.get("subtractor") is None:
        hint = "a function (total, value) that takes the old value of a row that changed or went out of the total"
        message = f"required field 'subtractor' is missing in spec.aggregate: {rows}"
        yield Problem(message, hint, ("aggregate",), origin, absent=(("aggregate", "subtractor"),))


def stream_origin_problems(written: Mapping[str, Any], origin: FieldPath) -> Iterator[Problem]:
    """The settings that have no meaning for records, which never go."""
    aggregate = written.get("aggregate")
    if isinstance(aggregate, dict) and aggregate.get("subtractor") is not None:
        message = "'subtractor' is for rows of a table, and 'from' (at {other}) gives records of a stream"
        yield Problem(message, "remove it: records are only added", ("aggregate", "subtractor"), origin)
    window = written.get("window")
    relative_to = window.get("relativeTo") if isinstance(window, dict) else None
    if isinstance(relative_to, str) and relative_to.lower() != "stream":
        message = f"records of 'from' (at {{other}}) are in the windows of their own times, not of '{relative_to}'"
        hint = "remove 'relativeTo'; an agent can write a table with other windows"
        yield Problem(message, hint, ("window", "relativeTo"), origin)
