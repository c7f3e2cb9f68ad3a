"""Families of cases, and the distribution of cases over the resources of one application.

The values contain the names of fields: of the foreign key, of the key of a global table, of the group.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Template
from typing import Any, Literal

from tests.oracle.case import Case, Side, text
from tests.oracle.compare import TABLE, Rule
from tests.oracle.outputs import JoinOutput, TableOutput
from tests.oracle.rows import JSON_ROWS, TYPED_ROWS, RowForm
from tests.oracle.wrapping import unwrapped

Input = Literal["table", "topic"]

_MANIFESTS = Path(__file__).with_name("manifests")
_TYPED = "typed-"


@dataclass(frozen=True, slots=True)
class Family:
    """Cases of one shape whose events are written, and whose results are read and compared, in the same way.

    ``parameters`` are the parameters that stand in manifests, with their defaults (None: the parameter is left out).
    Cases that differ in one of them need different resources. The values contain the other parameters. ``rows`` is the
    form of rows in input tables. ``sides_in_order``: the results depend on which side's event came first.
    """

    shape: str
    types: tuple[str, ...]
    inputs: Mapping[Side, Input]
    output: JoinOutput | TableOutput
    rule: Rule = TABLE
    parameters: Mapping[str, str | None] = field(default_factory=dict)
    sides_in_order: bool = False
    rows: RowForm = JSON_ROWS


def empty_groups(case: Case) -> frozenset[str]:
    """Groups that have no row at the end. Kafka Streams keeps them, with a count or sum of 0.

    This engine does not see a group whose rows came and went inside one batch: it reads only the last value of a row.
    """
    rows = {event.key: event.value for event in case.events if event.key is not None}
    groups = (value.get(case.params["group_field"]) for value in rows.values() if value is not None)
    return frozenset(case.expected.final or ()) - {text(group) for group in groups}


def _inside(name: str) -> Callable[[Any], Any]:
    """In recorded cases a number is in an object with the aggregate's name; here the value is the number itself."""
    return lambda value: {name: value}


def _recorded_side(row: Any) -> Any:
    """A side of a pair of typed rows in the recorded form."""
    return None if row is None else {name: json.loads(field) for name, field in row["fields"].items()}


_TABLES: dict[Side, Input] = {"left": "table", "right": "table"}
_AT_ARRIVAL: dict[Side, Input] = {"left": "topic", "right": "table"}
_STREAM = Rule(stream=True, times="always")  # only records cause emissions: their timestamps are known
_UNORDERED = Rule(ordered=False)
_OF_STREAM = Rule(ordered=False, times="until a deletion")
_OF_TABLE = Rule(ordered=False, times="until a deletion", optional_keys=empty_groups)
_PAIRS, _EMISSIONS = JoinOutput(has_result=True), JoinOutput(has_result=False)
_TYPED_PAIRS = JoinOutput(has_result=True, side=_recorded_side)
# A manifest declares one window: a resource for each. Without ``expires`` a table keeps all windows: the retention of
# windows in Kafka Streams (``retention_ms``) is ignored.
_WINDOW = dict.fromkeys(("before_ms", "after_ms", "grace_ms"))
_TABLE_WINDOW = {"size_ms": None, "advance_ms": None, "grace_ms": None, "emit": "update"}

_FAMILIES = (
    Family("fk-table-table", ("inner", "left"), _TABLES, _PAIRS),
    Family("table-table", ("inner", "left", "outer"), _TABLES, _PAIRS),
    Family("typed-fk-table-table", ("inner", "left"), _TABLES, _TYPED_PAIRS, rows=TYPED_ROWS),
    Family("typed-table-table", ("inner", "left", "outer"), _TABLES, _TYPED_PAIRS, rows=TYPED_ROWS),
    Family("stream-table", ("inner", "left"), _AT_ARRIVAL, _EMISSIONS, _STREAM, sides_in_order=True),
    Family("stream-globaltable", ("inner", "left"), _AT_ARRIVAL, _EMISSIONS, _STREAM, sides_in_order=True),
    Family(
        "stream-stream",
        ("inner", "left", "outer"),
        {"left": "topic", "right": "topic"},
        _EMISSIONS,
        _STREAM,
        _WINDOW,
        sides_in_order=True,
    ),
    Family("aggregate", ("count",), {"left": "topic"}, TableOutput(_inside("count")), _OF_STREAM),
    Family("aggregate", ("sum",), {"left": "topic"}, TableOutput(_inside("sum")), _OF_STREAM),
    Family("aggregate", ("reduce-max",), {"left": "topic"}, TableOutput(unwrapped), _OF_STREAM),
    Family("aggregate", ("groupby-count",), {"left": "table"}, TableOutput(_inside("count")), _OF_TABLE),
    Family("aggregate", ("groupby-sum",), {"left": "table"}, TableOutput(_inside("sum")), _OF_TABLE),
    Family(
        "windowed-count",
        ("tumbling", "hopping"),
        {"left": "topic"},
        TableOutput(_inside("count")),
        Rule(ordered=False, times="always"),
        _TABLE_WINDOW,
    ),
    # Kafka Streams makes them from a stream (``toTable``) or directly from a topic (``builder.table``). Manifests have
    # one form for both: ``from: {topic: …}`` with ``toTable``.
    Family("to-table", ("stream", "table"), {"left": "topic"}, TableOutput(unwrapped), _UNORDERED),
)

FAMILIES: Mapping[tuple[str, str], Family] = {
    (family.shape, name): family for family in _FAMILIES for name in family.types
}
"""By shape and type."""


def family_of(case: Case) -> Family:
    """The family of a case. Raises KeyError if its shape and type have no family."""
    return FAMILIES[case.shape, case.type]


def on_typed_tables(cases: Iterable[Case]) -> tuple[Case, ...]:
    """The joins of two tables among the cases, as cases of typed tables."""
    twins = (replace(case, shape=f"{_TYPED}{case.shape}") for case in cases)
    return tuple(twin for twin in twins if (twin.shape, twin.type) in FAMILIES)


@dataclass(frozen=True, slots=True)
class Lane:
    """The cases of one resource, each in a partition of its own: the cases' numbers, in order."""

    family: Family
    name: str
    type: str
    parameters: Mapping[str, str]
    numbers: tuple[int, ...]

    @property
    def resource(self) -> str:
        """The name of the resource, as in ``join/x``."""
        return f"{self.family.output.kind}/{self.name}"

    def input(self, side: Side) -> str:
        """The name of a side's table or topic."""
        return f"{side}-of-{self.name}"

    @property
    def manifests(self) -> str:
        """The resource and the tables it reads, as YAML."""
        of_type = _MANIFESTS / f"{self.family.shape}-{self.type}.yaml"
        template = of_type if of_type.exists() else _MANIFESTS / f"{self.family.shape}.yaml"
        return _filled(template, {**self.parameters, "name": self.name, "type": self.type})


def lanes(cases: Sequence[Case]) -> list[Lane]:
    """The fewest lanes for all cases."""
    found: dict[str, Lane] = {}
    for number, case in enumerate(cases):
        family = family_of(case)
        given = {name: case.params.get(name, usual) for name, usual in family.parameters.items()}
        parameters = {name: str(value) for name, value in given.items() if value is not None}
        name = "-".join((case.shape, case.type, *parameters.values()))
        numbers = found[name].numbers if name in found else ()
        found[name] = Lane(family, name, case.type, parameters, (*numbers, number))
    return list(found.values())


def write_manifests(folder: Path, used: Sequence[Lane]) -> None:
    """Write one application with all resources: a file for each lane."""
    folder.mkdir(parents=True)
    partitions = max((len(lane.numbers) for lane in used if "topic" in lane.family.inputs.values()), default=1)
    (folder / "application.yaml").write_text(_filled(_MANIFESTS / "application.yaml", {"partitions": str(partitions)}))
    for lane in used:
        (folder / f"{lane.name}.yaml").write_text(lane.manifests)


def _filled(template: Path, parameters: Mapping[str, str]) -> str:
    return Template(template.read_text()).substitute(parameters)
