"""Output and exit code of ``python -m tests.oracle``, without the engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kaspr_delta.errors import ResourceFailedError
from tests.oracle import __main__ as command
from tests.oracle import runner
from tests.oracle.__main__ import VISIBLE, main
from tests.oracle.case import Case
from tests.oracle.compare import Difference

FOREIGN_KEY = ("fk-table-table", "inner")


@pytest.fixture(autouse=True)
def no_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test of this file may reach the engine."""
    monkeypatch.setattr(runner, "DRIVERS", {})
    monkeypatch.setattr(command, "session_for_few_rows", lambda _: None)


def copied(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).write_text((VISIBLE / name).read_text())
    return str(folder)


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_missing_directory_is_a_wrong_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([str(tmp_path / "nowhere")])
    assert caught.value.code == 2
    assert "nowhere is no directory" in capsys.readouterr().err


def test_a_directory_without_cases_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 1
    assert printed(capsys) == ["0 passed, 0 failed"]


def test_a_shape_without_a_driver_fails_with_one_line_per_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(tmp_path, "random-table-table-outer.json", "hand-to-table-table.json")
    assert main([folder]) == 1
    assert printed(capsys) == [
        "hand-to-table-table.json: 0 passed, 7 failed",
        "  shape to-table of type table is not run yet",
        "random-table-table-outer.json: 0 passed, 12 failed",
        "  shape table-table of type outer is not run yet",
        "0 passed, 19 failed",
    ]


def test_a_malformed_file_is_one_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "odd.json").write_text("{}")
    assert main([str(tmp_path)]) == 1
    assert printed(capsys) == [
        "odd.json: 0 passed, 1 failed",
        "  Input should be a valid array",
        "0 passed, 1 failed",
    ]


def test_each_failed_case_is_a_line_under_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def second_is_wrong(cases: Sequence[Case], folder: Path, seed: int) -> list[Difference | None]:  # noqa: ARG001
        return [Difference("event 1", "[x]", "nothing") if number == 1 else None for number in range(len(cases))]

    monkeypatch.setattr(runner, "DRIVERS", {FOREIGN_KEY: second_is_wrong})
    assert main([copied(tmp_path, "random-fk-table-table-inner.json")]) == 1
    assert printed(capsys) == [
        "random-fk-table-table-inner.json: 11 passed, 1 failed",
        "  fk-table-table-inner-02: event 1: expected [x], got nothing",
        "11 passed, 1 failed",
    ]


def test_cases_of_a_shape_run_together_and_all_passing_is_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def passing(cases: Sequence[Case], folder: Path, seed: int) -> list[Difference | None]:  # noqa: ARG001
        calls.append(len(cases))
        return [None] * len(cases)

    monkeypatch.setattr(runner, "DRIVERS", {FOREIGN_KEY: passing, ("fk-table-table", "left"): passing})
    names = [f"random-fk-table-table-{name}.json" for name in ("inner", "left")]
    assert main([copied(tmp_path, *names)]) == 0
    assert calls == [24]
    assert printed(capsys)[-1] == "24 passed, 0 failed"


def test_a_known_deviation_is_listed_as_neither_passed_nor_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def differing(cases: Sequence[Case], folder: Path, seed: int) -> list[Difference | None]:  # noqa: ARG001
        return [Difference("event 4", "nothing", "[x]") if case.name.startswith("quirk") else None for case in cases]

    monkeypatch.setattr(runner, "DRIVERS", {("windowed-count", "tumbling"): differing})
    assert main([copied(tmp_path, "hand-windowed-count-tumbling.json")]) == 0
    first, second, last = printed(capsys)
    assert first == "hand-windowed-count-tumbling.json: 24 passed, 0 failed"
    assert second.startswith(
        "  quirk-emit on close with the default retention forgets windows (tumbling): differs as e"
    )
    assert second.endswith("(event 4: expected nothing, got [x])")
    assert last == "24 passed, 0 failed"


def test_a_case_with_a_known_deviation_that_does_not_differ_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def passing(cases: Sequence[Case], folder: Path, seed: int) -> list[Difference | None]:  # noqa: ARG001
        return [None] * len(cases)

    monkeypatch.setattr(runner, "DRIVERS", {("windowed-count", "tumbling"): passing})
    assert main([copied(tmp_path, "hand-windowed-count-tumbling.json")]) == 0
    assert printed(capsys) == ["hand-windowed-count-tumbling.json: 25 passed, 0 failed", "25 passed, 0 failed"]


def test_a_run_that_breaks_off_fails_all_its_cases(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(cases: Sequence[Case], folder: Path, seed: int) -> list[Difference | None]:  # noqa: ARG001
        message = "join/inner stopped"
        raise ResourceFailedError(message)

    monkeypatch.setattr(runner, "DRIVERS", {FOREIGN_KEY: stopped})
    assert main([copied(tmp_path, "random-fk-table-table-inner.json")]) == 1
    assert printed(capsys)[1:] == ["  the run broke off: join/inner stopped", "0 passed, 12 failed"]


def test_a_crash_in_one_shape_lets_the_others_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def crashing(cases: Sequence[Case], folder: Path, seed: int) -> list[Difference | None]:  # noqa: ARG001
        raise KeyError(cases[0].shape)

    def passing(cases: Sequence[Case], folder: Path, seed: int) -> list[Difference | None]:  # noqa: ARG001
        return [None] * len(cases)

    monkeypatch.setattr(runner, "DRIVERS", {FOREIGN_KEY: crashing, ("to-table", "stream"): passing})
    assert main([copied(tmp_path, "random-fk-table-table-inner.json", "random-to-table-stream.json")]) == 1
    shown = capsys.readouterr()
    assert "  the run broke off: KeyError('fk-table-table')" in shown.out.splitlines()
    assert shown.out.splitlines()[-1] == "12 passed, 12 failed"
    assert "in crashing" in shown.err


def test_on_typed_tables_only_joins_of_two_tables_are_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes: set[str] = set()

    def passing(cases: Sequence[Case], folder: Path, seed: int) -> list[Difference | None]:  # noqa: ARG001
        shapes.update(case.shape for case in cases)
        return [None] * len(cases)

    monkeypatch.setattr(runner, "DRIVERS", {("typed-fk-table-table", "inner"): passing})
    folder = copied(tmp_path, "random-fk-table-table-inner.json", "random-to-table-stream.json")
    assert main([folder, "--typed"]) == 0
    assert shapes == {"typed-fk-table-table"}
    assert printed(capsys) == ["random-fk-table-table-inner.json: 12 passed, 0 failed", "12 passed, 0 failed"]
