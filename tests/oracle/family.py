"""Families of cases, and the distribution of cases over the resources of one application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Literal

from tests.oracle.case import Case, Side
from tests.oracle.compare import TABLE, Rule
from tests.oracle.outputs import Output
from tests.oracle.rows import JSON_ROWS, RowForm

Input = Literal["table", "topic"]

_MANIFESTS = Path(__file__).with_name("manifests")


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
    output: Output
    rule: Rule = TABLE
    parameters: Mapping[str, str | None] = field(default_factory=dict)
    sides_in_order: bool = False
    rows: RowForm = JSON_ROWS


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


def lanes(cases: Sequence[Case], families: Sequence[Family]) -> list[Lane]:
    """The fewest lanes for all cases. ``families`` has the family of each case, in the same order."""
    found: dict[str, Lane] = {}
    for number, (case, family) in enumerate(zip(cases, families, strict=True)):
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
