"""The engine passes recorded cases of Kafka Streams."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kaspr_delta.storage.limits import Limits, Size
from tests.oracle.__main__ import VISIBLE, main
from tests.oracle.case import Case, load
from tests.oracle.compare import Difference
from tests.oracle.families import on_typed_tables
from tests.oracle.modes import MODES, differences

pytestmark = pytest.mark.usefixtures("spark")

ONE_BY_ONE, _ = MODES
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


@pytest.fixture(scope="module")
def sampled(spark: object, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Case, Difference | None]]:  # noqa: ARG001
    """The sample and joins of typed tables, in one application, one event per batch: each case with its difference."""
    cases = [
        case
        for name, (most, params) in SAMPLE.items()
        for case in load(VISIBLE / name)
        if len(case.events) <= most and params.items() <= case.params.items()
    ]
    cases += on_typed_tables(
        case for case in load(VISIBLE / "hand-fk-table-table-left.json") if len(case.events) <= MOST_TYPED_EVENTS
    )
    return list(zip(cases, differences(cases, tmp_path_factory.mktemp("sample"), 0, [ONE_BY_ONE]), strict=True))


@pytest.mark.parametrize("shape", sorted({*PASSED, "typed-fk-table-table"} - {"fk-table-table"}))
def test_a_sample_of_each_shape_passes(sampled: list[tuple[Case, Difference | None]], shape: str) -> None:
    of_shape = [(case, difference) for case, difference in sampled if case.shape == shape]
    assert len(of_shape) >= 3
    assert {case.name: str(difference) for case, difference in of_shape if difference is not None} == {}


@pytest.mark.further
def test_joins_of_a_stream_with_a_table_and_made_tables_pass_in_large_batches(tmp_path: Path) -> None:
    names = (name for name in SAMPLE if not name.startswith(("hand-stream-stream", "hand-table-table")))
    cases = [
        case
        for name in names
        for case in load(VISIBLE / name)
        if len(case.events) <= 4 and SAMPLE[name][1].items() <= case.params.items()
    ]
    nothing = Size(0, 0)
    all_in_spark = Limits(changes=nothing, small_batch=nothing, few=nothing, looked_up=nothing)
    found = differences(cases, tmp_path, 0, ["random batch cuts"], limits=all_in_spark)
    assert {case.name: str(one) for case, one in zip(cases, found, strict=True) if one is not None} == {}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("shape", "options"),
    [*((shape, []) for shape in PASSED), ("fk-table-table", ["--typed"]), ("table-table", ["--typed"])],
)
def test_every_recorded_case_of_a_shape_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shape: str, options: list[str]
) -> None:
    for origin in ("hand", "random"):
        for file in VISIBLE.glob(f"{origin}-{shape}-*.json"):
            shutil.copy(file, tmp_path)
    code = main([*options, str(tmp_path)])
    printed = capsys.readouterr().out
    assert (code, printed.splitlines()[-1]) == (0, f"{PASSED[shape]} passed, 0 failed"), printed
