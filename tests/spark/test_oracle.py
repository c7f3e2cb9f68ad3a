"""The engine passes recorded Kafka Streams cases, and the runner of those cases reports a broken engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import narwhals as nw
import pytest

from kaspr_delta.engine.joins.foreign_key import foreign_key_join, hops
from kaspr_delta.engine.joins.foreign_key.hops import emit, respond, triggered_by_right
from kaspr_delta.engine.joins.results import in_order
from kaspr_delta.engine.rows.rows import FALSE, Rows
from kaspr_delta.plan.definition.joins import JoinType
from tests.oracle.__main__ import VISIBLE, main
from tests.oracle.case import Case, load
from tests.oracle.compare import Difference
from tests.oracle.families import on_typed_tables
from tests.oracle.modes import MODES, differences

pytestmark = pytest.mark.usefixtures("spark")

HAND = [f"hand-fk-table-table-{name}.json" for name in ("inner", "left")]
ONE_BY_ONE, CUTS = MODES
# The number of recorded cases that pass, by shape: all but two of windows, which differ as expected (``runner.py``).
PASSED = {
    "aggregate": 93,
    "fk-table-table": 190,
    "stream-globaltable": 44,
    "stream-stream": 126,
    "stream-table": 48,
    "table-table": 75,
    "to-table": 38,
    "windowed-count": 74,
}
# Cases of one resource of each shape: the most events that they have, for each event costs time, and their parameters.
SAMPLE: Mapping[str, tuple[int, Mapping[str, Any]]] = {
    "hand-aggregate-groupby-sum.json": (3, {}),
    "hand-stream-globaltable-left.json": (3, {}),
    "hand-stream-stream-left.json": (3, {"before_ms": 10, "after_ms": 10, "grace_ms": 0}),
    "hand-stream-table-left.json": (3, {}),
    "hand-table-table-outer.json": (4, {}),
    "hand-to-table-stream.json": (2, {}),
    "hand-windowed-count-hopping.json": (4, {"grace_ms": 5, "emit": "close", "retention_ms": 86_400_000}),
}
MOST_TYPED_EVENTS = 2
# Cases of which each broken hop fails at least one.
HANDFUL = [
    "kip213-left insert, fk A, A- (inner)",
    "kip213-left insert, fk A, A+ (inner)",
    "kip213-right update, 1 subscriber (inner)",
    "kip213-right delete, 1 subscriber (inner)",
    "kip213-right insert, 2 subscribers (inner)",
]


def copy_cases(folder: Path, names: Iterable[str], wanted: Callable[[Any], bool] = lambda _: True) -> str:
    """Write the wanted cases of recorded files to a folder. Returns its path."""
    for name in names:
        suite = json.loads((VISIBLE / name).read_text())
        (folder / name).write_text(json.dumps([case for case in suite if wanted(case)]))
    return str(folder)


def failed(mode: str, warehouse: Path) -> set[str]:
    """The names of the handful's cases that fail in a mode."""
    cases = {case.name: case for case in load(VISIBLE / HAND[0])}
    found = differences([cases[name] for name in HANDFUL], warehouse, 0, [mode])
    return {name for name, difference in zip(HANDFUL, found, strict=True) if difference is not None}


@pytest.fixture(scope="module")
def sampled(spark: object, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Case, Difference | None]]:  # noqa: ARG001
    """The sample and joins of typed tables, in one application, one event per batch: each case with its difference."""
    cases = [
        case
        for name, (most, params) in SAMPLE.items()
        for case in load(VISIBLE / name)
        if len(case.events) <= most and params.items() <= case.params.items()
    ]
    cases += on_typed_tables(case for case in load(VISIBLE / HAND[1]) if len(case.events) <= MOST_TYPED_EVENTS)
    return list(zip(cases, differences(cases, tmp_path_factory.mktemp("sample"), 0, [ONE_BY_ONE]), strict=True))


@pytest.mark.parametrize("shape", sorted({*PASSED, "typed-fk-table-table"} - {"fk-table-table"}))
def test_a_sample_of_each_shape_passes(sampled: list[tuple[Case, Difference | None]], shape: str) -> None:
    of_shape = [(case, difference) for case, difference in sampled if case.shape == shape]
    assert len(of_shape) >= 3
    assert {case.name: str(difference) for case, difference in of_shape if difference is not None} == {}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("shape", "options"),
    [*((shape, []) for shape in PASSED), ("fk-table-table", ["--typed"]), ("table-table", ["--typed"])],
)
def test_every_recorded_case_of_a_shape_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shape: str, options: list[str]
) -> None:
    files = [file.name for origin in ("hand", "random") for file in VISIBLE.glob(f"{origin}-{shape}-*.json")]
    code = main([*options, copy_cases(tmp_path, files)])
    printed = capsys.readouterr().out
    assert (code, printed.splitlines()[-1]) == (0, f"{PASSED[shape]} passed, 0 failed"), printed


@pytest.mark.slow  # the state machine, the storm and the known holes go further
def test_every_short_foreign_key_case_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = copy_cases(tmp_path, HAND, lambda case: len(case["events"]) <= 3)  # events cost time, cases hardly any
    assert main([short]) == 0, capsys.readouterr().out


@pytest.mark.slow  # the test of broken hops below shows the same for other hops
def test_the_runner_reports_right_changes_that_trigger_no_left_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hops, "triggered_by_right", lambda *rows: triggered_by_right(*rows).filter(FALSE))
    assert main([copy_cases(tmp_path, HAND[:1], lambda case: case["name"] in HANDFUL)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "hand-fk-table-table-inner.json: 2 passed, 3 failed"
    assert lines[-1] == "2 passed, 3 failed"
    (update,) = [line for line in lines if "right update" in line]
    assert f"(inner): {ONE_BY_ONE}, event 2: expected " in update
    assert update.endswith(", got nothing")


def shows_unmatched_rows(rows: Rows, join_type: JoinType, selection: str) -> Rows:  # noqa: ARG001
    return respond(rows, "left")


def emits_no_tombstones(rows: Rows) -> Rows:
    return emit(rows).filter(nw.col("kind") != "tombstone")


def answers_in_reverse_order(rows: Rows) -> Rows:
    # Sequences stay positive: with the version of the commit they make the offset.
    return in_order(rows).with_columns(seq=nw.lit(1 << 33) - nw.col("seq"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "hop", "replacement", "mode", "failures"),
    [
        (hops, "respond", shows_unmatched_rows, CUTS, {HANDFUL[0], HANDFUL[3]}),
        (hops, "emit", emits_no_tombstones, ONE_BY_ONE, {HANDFUL[3]}),
        (foreign_key_join, "in_order", answers_in_reverse_order, ONE_BY_ONE, {HANDFUL[4]}),
    ],
)
def test_the_runner_reports_a_broken_hop(  # noqa: PLR0917  fixtures, and what varies
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    hop: str,
    replacement: Callable[..., Rows],
    mode: str,
    failures: set[str],
) -> None:
    monkeypatch.setattr(module, hop, replacement)
    assert failed(mode, tmp_path) == failures
