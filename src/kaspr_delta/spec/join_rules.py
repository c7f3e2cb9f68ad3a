"""The rules about combinations of fields in a join: one table of rules per pair of sides."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kaspr_delta.spec.base import Problem, one_of

KEY_FIELDS = ("extractor", "column", "columns")
"""The fields that give the right table's key."""


# A field, and another one that excludes it, with the message and the hint.
_Rules = Mapping[tuple[str, str], tuple[str, str]]
_WINDOW = "'window' is for two streams, and '{side}' (at {{other}}) is a table"
_PENDING = "'pending' is for records that wait for their row in a table, and '{side}' (at {{other}}) is a {is_}"
_RIGHT_KEY = "'rightExtractor' is for a stream and a table, and '{side}' (at {{other}}) is a {is_}"

_TWO_TABLES: _Rules = {
    ("window", "leftTable"): (_WINDOW.format(side="leftTable"), "remove it: tables are joined as they stand"),
    ("pending", "leftTable"): (
        _PENDING.format(side="leftTable", is_="table"),
        "remove it: a row is joined whenever the other one comes",
    ),
    ("repartition", "leftTable"): (
        "'repartition' is for a stream, and 'leftTable' (at {other}) is a table",
        "give both tables the same `partitions`",
    ),
    ("rightExtractor", "leftTable"): (
        _RIGHT_KEY.format(side="leftTable", is_="table"),
        "use 'extractor', with the tables the other way round",
    ),
    ("on", "extractor"): (
        "'on: key' joins rows of equal keys, 'extractor' (at {other}) by another key",
        "remove one of the two",
    ),
}
_SELECT: _Rules = {
    ("select", "leftStream"): (
        "'select' is for result tables, and a join of 'leftStream' (at {other}) gives a stream",
        "remove it: an agent on the join's channel can transform its records",
    )
}
_STREAM_AND_TABLE: _Rules = {
    **_SELECT,
    ("window", "rightTable"): (_WINDOW.format(side="rightTable"), "remove it: a record meets the row as it stands"),
    ("on", "extractor"): (
        "'on: key' finds the row by the record's key, 'extractor' (at {other}) by another one",
        "remove one of the two",
    ),
    ("rightExtractor", "extractor"): (
        "'rightExtractor' finds rows by their values, 'extractor' (at {other}) by their keys",
        "remove one of the two",
    ),
    ("rightExtractor", "on"): (
        "'rightExtractor' finds rows by their values, 'on: key' (at {other}) by their keys",
        "remove one of the two",
    ),
    ("pending", "rightExtractor"): (
        "'pending' waits for one row, and 'rightExtractor' (at {other}) finds any number of them",
        "remove it: a record meets the rows that are there",
    ),
}
_TWO_STREAMS: _Rules = {
    **_SELECT,
    ("extractor", "rightStream"): (
        "'extractor' gives a key of a table, and 'rightStream' (at {other}) is a stream",
        "use `on: key`; an agent can give a stream other keys on its way into a topic",
    ),
    ("rightExtractor", "rightStream"): (
        _RIGHT_KEY.format(side="rightStream", is_="stream"),
        "use `on: key`; an agent can give a stream other keys on its way into a topic",
    ),
    ("pending", "rightStream"): (
        _PENDING.format(side="rightStream", is_="stream"),
        "remove it: 'window' says how long records wait for one another",
    ),
}

# By whether left and right are streams: the rules, the fields that may give the key, and the hint if none does.
_SIDES: dict[tuple[bool, bool], tuple[_Rules, tuple[str, ...], str]] = {
    (False, False): (
        _TWO_TABLES,
        ("extractor", "on"),
        "a Python function that takes the left value and returns the right table's key, or `on: key`",
    ),
    (True, False): (
        _STREAM_AND_TABLE,
        ("on", "extractor", "rightExtractor"),
        "`on: key` where the stream has the table's keys, otherwise an `extractor` that gives the table's key",
    ),
    (True, True): (_TWO_STREAMS, ("on",), "`on: key`: records with equal keys meet"),
}


def join_problems(written: Mapping[str, Any]) -> Iterator[Problem]:
    """The rules that a join breaks."""
    yield from one_of(written, KEY_FIELDS, "the right table's key is given in one way")
    given = next((name for name in KEY_FIELDS if written.get(name) is not None), None)
    # The rules for an extractor hold for columns too.
    as_extractor = {**written, "extractor": written[given]} if given else written
    yield from (_in_field(problem, given or "extractor") for problem in _join_problems(as_extractor))


def _in_field(problem: Problem, field: str) -> Problem:
    at, other = (
        None if path is None else tuple(field if one == "extractor" else one for one in path)
        for path in (problem.at, problem.other)
    )
    return replace(problem, message=problem.message.replace("'extractor'", f"'{field}'"), at=at or (), other=other)


def _join_problems(written: Mapping[str, Any]) -> Iterator[Problem]:
    fields = {name for name, value in written.items() if value is not None}
    sides = tuple(_side_problems(written, fields))
    if sides:
        yield from (*sides, *_of_any_sides(written, fields))
        return
    streams = "leftStream" in fields, "rightStream" in fields
    if streams not in _SIDES:
        hint = "make it `leftStream` and `rightTable`, or make a table of the stream with a KasprTable's `from`"
        yield from one_of(
            written, ("leftTable", "rightStream"), "a stream is joined with a stream or from the left", hint
        )
        return
    rules, key_fields, hint = _SIDES[streams]
    for (field, other), (message, remedy) in rules.items():
        if field in fields and other in fields:
            yield Problem(message, remedy, (field,), (other,))
    if not {"extractor", "on", "rightExtractor"} & fields:
        yield _required(hint, written, *key_fields)
    if streams == (False, False):
        yield from _of_any_sides(written, fields)
    elif streams == (True, False):
        yield from _types_of_stream_and_table(written, fields)
    elif "window" not in fields:
        hint = "how far apart in time two records may lie: `window: {before: 5m, after: 5m}`"
        yield _required(hint, written, "window")


def _side_problems(written: Mapping[str, Any], fields: set[str]) -> Iterator[Problem]:
    for side, purpose in (("left", "the KasprTable whose rows drive the join"), ("right", "the KasprTable looked up")):
        table, stream = f"{side}Table", f"{side}Stream"
        yield from one_of(written, (table, stream), f"the {side} side of a join is a table or a stream")
        if not {table, stream} & fields:
            yield _required(f"{purpose}, or `{stream}: {{topic: NAME}}`", written, table, stream)


def _of_any_sides(written: Mapping[str, Any], fields: Collection[str]) -> Iterator[Problem]:
    if "extractor" in fields and written.get("type") == "outer":
        message = "a join by a key that a function gives is inner or left: 'type: outer' excludes 'extractor'"
        hint = "use `on: key` where both sides have the same keys"
        yield Problem(f"{message} (at {{other}})", hint, ("type",), ("extractor",))


def _types_of_stream_and_table(written: Mapping[str, Any], fields: Collection[str]) -> Iterator[Problem]:
    if "rightExtractor" in fields and written.get("type", "inner") != "left":
        message = "a join by a foreign key in the right value is left"
        if written.get("type") is None:
            yield Problem(f"{message}: 'rightExtractor' needs 'type'", "add `type: left`", ("rightExtractor",))
        else:
            message += f": 'type: {written['type']}' excludes 'rightExtractor' (at {{other}})"
            yield Problem(message, "write `type: left`", ("type",), ("rightExtractor",))
    elif written.get("type") == "outer":
        message = "a stream and a table are joined inner or left: 'type: outer' excludes 'leftStream' (at {other})"
        hint = "write `type: left`: a table's changes alone put nothing out"
        yield Problem(message, hint, ("type",), ("leftStream",))


def _required(hint: str, written: Mapping[str, Any], *instead: str) -> Problem:
    """The problem that one of the fields is missing: the first one, unless another one is there without a value."""
    # An empty field counts as absent, but the problem is reported at its location.
    at = next((name for name in instead if name in written), instead[0])
    lack = "is empty" if at in written else "is missing"
    return Problem(f"required field '{at}' {lack} in spec", hint, (at,), absent=tuple((name,) for name in instead))
