"""Output and exit code of ``python -m tests.oracle``, without the engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from kaspr_delta.errors import ResourceFailedError
from tests.oracle import __main__ as command
from tests.oracle import runner
from tests.oracle.__main__ import VISIBLE, main
from tests.oracle.case import Case
from tests.oracle.compare import Difference

DIFFERENCE = Difference("event 1", "[x]", "nothing")
JOINS = "random-fk-table-table-inner.json"
WINDOWS = "hand-windowed-count-tumbling.json"


class Command(Protocol):
    """Runs the command on recorded files, and returns its exit code and its lines."""

    def __call__(self, *names: str, typed: bool = False, **findings: Any) -> tuple[int, list[str]]:
        """``findings``: for a shape, with underscores, an error to raise or a part of the names that differ."""
        ...


@pytest.fixture
def ran(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    def run(*names: str, typed: bool = False, **findings: Any) -> tuple[int, list[str]]:
        def differences(cases: Sequence[Case], *_: object, **__: object) -> list[Difference | None]:
            found = findings.get(cases[0].shape.replace("-", "_"), "no case")
            if isinstance(found, Exception):
                raise found
            return [DIFFERENCE if found in case.name else None for case in cases]

        monkeypatch.setattr(runner, "differences", differences)
        for name in names:
            (tmp_path / name).write_text((VISIBLE / name).read_text())
        code = main([str(tmp_path), *(["--typed"] if typed else [])])
        return code, capsys.readouterr().out.splitlines()

    monkeypatch.setattr(command, "session_for_few_rows", lambda _: None)
    return run


def test_a_missing_directory_is_a_wrong_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([str(tmp_path / "nowhere")])
    assert caught.value.code == 2
    assert "nowhere is no directory" in capsys.readouterr().err


def test_a_directory_without_cases_is_a_failure(ran: Command) -> None:
    assert ran() == (1, ["0 passed, 0 failed"])


def test_a_shape_without_a_family_fails_with_one_line_per_file(ran: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "FAMILIES", {})
    assert ran("hand-to-table-table.json") == (
        1,
        [
            "hand-to-table-table.json: 0 passed, 7 failed",
            "  shape to-table of type table is not run yet",
            "0 passed, 7 failed",
        ],
    )


def test_a_malformed_file_is_one_failure(ran: Command, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text("{}")
    lines = ["odd.json: 0 passed, 1 failed", "  Input should be a valid array", "0 passed, 1 failed"]
    assert ran() == (1, lines)


def test_each_failed_case_is_a_line_under_its_file(ran: Command) -> None:
    assert ran(JOINS, fk_table_table="inner-02") == (
        1,
        [
            f"{JOINS}: 11 passed, 1 failed",
            "  fk-table-table-inner-02: event 1: expected [x], got nothing",
            "11 passed, 1 failed",
        ],
    )


def test_a_known_deviation_is_listed_as_neither_passed_nor_failed(ran: Command) -> None:
    code, (first, second, last) = ran(WINDOWS, windowed_count="quirk")
    assert (code, first, last) == (0, f"{WINDOWS}: 24 passed, 0 failed", "24 passed, 0 failed")
    assert second.startswith(
        "  quirk-emit on close with the default retention forgets windows (tumbling): differs as expected: "
    )
    assert second.endswith("(event 1: expected [x], got nothing)")


def test_a_case_with_a_known_deviation_that_does_not_differ_passes(ran: Command) -> None:
    assert ran(WINDOWS) == (0, [f"{WINDOWS}: 25 passed, 0 failed", "25 passed, 0 failed"])


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ResourceFailedError("join/inner stopped"), "join/inner stopped"),
        (KeyError("inner"), "KeyError('inner')"),
    ],
)
def test_a_run_that_breaks_off_fails_all_cases_of_its_shape(ran: Command, error: Exception, shown: str) -> None:
    code, lines = ran(JOINS, "random-fk-table-table-left.json", "random-to-table-stream.json", fk_table_table=error)
    assert (code, lines[-1]) == (1, "12 passed, 24 failed")
    assert lines.count(f"  the run broke off: {shown}") == 2


def test_on_typed_tables_only_joins_of_two_tables_are_run(ran: Command) -> None:
    code, lines = ran(JOINS, "random-to-table-stream.json", typed=True, typed_fk_table_table="inner-02")
    assert (code, lines[0], lines[-1]) == (1, f"{JOINS}: 11 passed, 1 failed", "11 passed, 1 failed")
