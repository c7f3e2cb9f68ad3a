"""Feeding of cases and reading of results, with a fake engine that emits what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from kaspr_delta import Application
from tests.oracle import outputs
from tests.oracle.__main__ import VISIBLE
from tests.oracle.case import Case, load
from tests.oracle.compare import without_superfluous
from tests.oracle.families import FAMILIES, family_of
from tests.oracle.modes import MODES, differences
from tests.oracle.typed import on_typed_tables
from tests.unit.oracle.echo import Echo, Spoil, unchanged

SHAPES = sorted({shape for shape, _ in FAMILIES})
RECORDED = [case for file in sorted(VISIBLE.glob("*.json")) for case in load(file)]
CASES = {shape: [case for case in (*RECORDED, *on_typed_tables(RECORDED)) if case.shape == shape] for shape in SHAPES}
ONE_BY_ONE, CUTS = MODES


class EchoFactory(Protocol):
    """Makes ``Application.open`` return an Echo of these cases; the list of all opened ones."""

    def __call__(self, cases: Sequence[Case], spoil: Spoil = ...) -> list[Echo]: ...


@pytest.fixture
def echo_factory(monkeypatch: pytest.MonkeyPatch) -> EchoFactory:
    def start(cases: Sequence[Case], spoil: Spoil = unchanged) -> list[Echo]:
        opened: list[Echo] = []

        def open_application(path: Path, warehouse: Path) -> Any:
            assert (path / "application.yaml").exists()
            assert not warehouse.exists()
            opened.append(Echo(cases, spoil))
            return opened[-1]

        monkeypatch.setattr(Application, "open", open_application)
        monkeypatch.setattr(outputs, "changes", lambda app, name: app.changes(name))
        return opened

    return start


def shown(found: Sequence[object]) -> list[str]:
    return [str(difference) for difference in found if difference is not None]


@pytest.mark.parametrize("shape", SHAPES)
def test_an_engine_that_emits_the_recorded_results_passes(
    shape: str, echo_factory: EchoFactory, tmp_path: Path
) -> None:
    opened = echo_factory(CASES[shape])
    assert shown(differences(CASES[shape], tmp_path, 0)) == []
    one_by_one, cut = opened
    assert one_by_one.most_at_once == 1
    assert len(one_by_one.runs) == max(len(case.events) for case in CASES[shape])
    assert cut.most_at_once > 1


def test_cases_of_all_shapes_can_run_in_one_application(echo_factory: EchoFactory, tmp_path: Path) -> None:
    cases = [case for shape in SHAPES for case in CASES[shape]]
    opened = echo_factory(cases)
    assert shown(differences(cases, tmp_path, 0)) == []
    assert len(opened) == len(MODES)


def test_only_resources_with_new_events_run(echo_factory: EchoFactory, tmp_path: Path) -> None:
    long = max(CASES["table-table"], key=lambda case: len(case.events))
    short = next(case for case in CASES["to-table"] if len(case.events) == 1)
    opened = echo_factory([long, short])
    differences([long, short], tmp_path, 0)
    first, *others = opened[0].runs
    assert first == {f"table-table-{long.type}", f"to-table-{short.type}"}
    assert others == [{f"table-table-{long.type}"}] * (len(long.events) - 1)


OTHER = '{"count":7,"left":{"v":7},"right":null}'
SPOILS: dict[str, Spoil] = {
    "nothing": lambda emission: [],  # noqa: ARG005
    "another value": lambda emission: [replace(emission, value=OTHER if emission.value else None)],
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
@pytest.mark.parametrize("shape", SHAPES)
def test_an_engine_that_emits_other_results_fails(
    shape: str, spoil: Spoil, echo_factory: EchoFactory, tmp_path: Path
) -> None:
    def emits_a_value(case: Case) -> bool:
        emitted = case.expected.emitted
        kept = emitted if family_of(case).rule.stream else without_superfluous(emitted)
        return any(emission.value for emissions in kept for emission in emissions)

    cases = [case for case in CASES[shape] if emits_a_value(case)]
    echo_factory(cases, spoil)
    found = dict(zip((case.name for case in cases), differences(cases, tmp_path, 0), strict=True))
    assert [name for name, difference in found.items() if difference is None] == []
    assert all(str(difference).startswith(f"{ONE_BY_ONE}, event ") for difference in found.values())
