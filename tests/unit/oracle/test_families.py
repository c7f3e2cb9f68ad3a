"""The assignment of cases to resources, and that the comparison of every family detects a wrong outcome."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.names import default_channel
from kaspr_delta.spec.diagnostics import Severity
from kaspr_delta.spec.loader import load_path
from tests.oracle.__main__ import VISIBLE
from tests.oracle.case import Case, Emission, Event, Expected, load
from tests.oracle.compare import Difference, Outcome, difference_per_event, final_difference, without_superfluous
from tests.oracle.families import FAMILIES, empty_groups, family_of, lanes, on_typed_tables, write_manifests
from tests.oracle.runner import reason_to_differ

RECORDED = [case for file in sorted(VISIBLE.glob("*.json")) for case in load(file)]
CASES = [*RECORDED, *on_typed_tables(RECORDED)]
LANES = lanes(CASES)
by_shape = pytest.mark.parametrize(
    "cases",
    [[case for case in CASES if (case.shape, case.type) == kind] for kind in FAMILIES],
    ids=map("-".join, FAMILIES),
)

Change = Callable[[Emission], Sequence[Emission]]


def recorded(case: Case) -> Outcome:
    """The outcome that Kafka Streams recorded; of a table, without superfluous emissions."""
    stream = family_of(case).rule.stream
    emitted = case.expected.emitted if stream else without_superfluous(case.expected.emitted)
    return Outcome([list(emissions) for emissions in emitted], {} if stream else case.expected.final or {})


def altered(outcome: Outcome, change: Change) -> Iterator[Outcome]:
    """Outcomes in which one emission is changed, one for each emission."""
    for run, emissions in enumerate(outcome.emitted):
        for place, emission in enumerate(emissions):
            emitted = [list(of_run) for of_run in outcome.emitted]
            emitted[run][place : place + 1] = change(emission)
            yield Outcome(emitted, outcome.result)


def event_difference(case: Case, outcome: Outcome) -> Difference | None:
    return difference_per_event(case, outcome, family_of(case).rule)


def end_difference(case: Case, outcome: Outcome) -> Difference | None:
    return final_difference(case, outcome, family_of(case).rule)


def test_every_recorded_shape_and_type_has_a_family() -> None:
    assert {(case.shape, case.type) for case in CASES} == FAMILIES.keys()


@by_shape
def test_the_recorded_outcome_passes_in_both_modes(cases: list[Case]) -> None:
    for case in cases:
        assert event_difference(case, recorded(case)) is None, case.name
        assert end_difference(case, recorded(case)) is None, case.name


WRONG: dict[str, Change] = {
    "missing": lambda emission: [],  # noqa: ARG005
    "twice": lambda emission: [emission, emission],
    "another key": lambda emission: [replace(emission, key='"other"')],
    "another value": lambda emission: [replace(emission, value='{"other":1}')],
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@by_shape
def test_every_wrong_emission_is_a_difference(cases: list[Case], wrong: Change) -> None:
    found = [(case.name, event_difference(case, one)) for case in cases for one in altered(recorded(case), wrong)]
    assert found
    assert [name for name, difference in found if difference is None] == []


@by_shape
def test_most_timestamps_are_compared(cases: list[Case]) -> None:
    def later(emission: Emission) -> Sequence[Emission]:
        return [replace(emission, ts=emission.ts + 1)]

    late = [event_difference(case, one) is not None for case in cases for one in altered(recorded(case), later)]
    always = family_of(cases[0]).rule.times == "always"
    assert all(late) if always else sum(late) > len(late) / 3


@by_shape
def test_every_wrong_end_is_a_difference(cases: list[Case]) -> None:
    found: list[tuple[str, Difference | None]] = []
    for case in cases:
        outcome = recorded(case)
        if family_of(case).rule.stream:
            wrong = list(altered(outcome, WRONG["missing"]))
        else:
            wrong = [Outcome(outcome.emitted, {**outcome.result, key: "another"}) for key in outcome.result]
        found += [(case.name, end_difference(case, one)) for one in wrong]
    assert found
    assert [name for name, difference in found if difference is None] == []


def test_cases_with_the_same_manifest_share_a_resource_and_have_a_partition_each() -> None:
    assert sorted(number for lane in LANES for number in lane.numbers) == list(range(len(CASES)))
    for lane in LANES:
        of_lane = [CASES[number] for number in lane.numbers]
        assert {(case.shape, case.type) for case in of_lane} == {(lane.family.shape, lane.type)}
        for name, usual in lane.family.parameters.items():
            assert len({case.params.get(name, usual) for case in of_lane}) == 1
    assert len({lane.name for lane in LANES}) == len(LANES)


def test_all_resources_fit_into_one_application(tmp_path: Path) -> None:
    write_manifests(tmp_path / "manifests", LANES)
    manifests = load_path(tmp_path / "manifests")
    plans, findings = build_plans(manifests)
    wrong = [finding for finding in (*manifests.findings, *findings) if finding.severity != Severity.NOTE]
    assert not wrong, "\n".join(map(str, wrong))
    (plan,) = plans
    assert {str(ref) for ref in plan.runs} == {lane.resource for lane in LANES}
    assert not plan.waiting
    for lane in LANES:
        for side, source in lane.family.inputs.items():
            assert (plan.topic if source == "topic" else plan.table)(lane.input(side)) is not None
        assert lane.family.output.kind == "table" or plan.channel(default_channel(lane.name)) is not None
    assert plan.default_partitions == max(len(lane.numbers) for lane in LANES if lane.family.shape.startswith("stream"))


def test_only_two_quirk_cases_may_differ_from_the_recording() -> None:
    assert {case.name for case in CASES if reason_to_differ(case)} == {
        f"quirk-emit on close with the default retention forgets windows ({kind})" for kind in ("hopping", "tumbling")
    }


def test_a_group_is_empty_when_its_last_row_has_left_it() -> None:
    rows = [("a", {"g": "x"}), ("b", {"g": "x"}), (None, {"g": "z"}), ("a", {"g": "y"}), ("b", None), ("c", {})]
    events = tuple(Event("left", key, value, 0) for key, value in rows)
    final = {json.dumps(group): "0" for group in ("x", "y")}
    expected = Expected(((),) * len(events), final)
    case = Case("a case", "aggregate", "groupby-count", {"group_field": "g"}, (), events, expected)
    assert empty_groups(case) == {'"x"'}
    assert family_of(case).rule.optional_keys(case) == {'"x"'}
    assert family_of(replace(case, type="count")).rule.optional_keys(case) == frozenset()
