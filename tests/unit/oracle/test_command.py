"""What the command prints and gives back, where no engine is needed for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kaspr_delta.errors import ResourceFailedError
from tests.oracle import runner
from tests.oracle.__main__ import VISIBLE, main
from tests.oracle.case import Case
from tests.oracle.compare import Difference

FOREIGN_KEY = ("fk-table-table", "inner")


def copied(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).write_text((VISIBLE / name).read_text())
    return str(folder)


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_directory_that_is_not_there_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([str(tmp_path / "nowhere")])
    assert caught.value.code == 2
    assert "nowhere is no directory" in capsys.readouterr().err


def test_no_cases_are_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 1
    assert printed(capsys) == ["0 passed, 0 failed"]


def test_a_shape_without_a_driver_fails_and_says_so_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copied(tmp_path, "random-table-table-outer.json", "hand-to-table-table.json")
    assert main([folder]) == 1
    assert printed(capsys) == [
        "hand-to-table-table.json: 0 passed, 7 failed",
        "  shape to-table is not run yet",
        "random-table-table-outer.json: 0 passed, 12 failed",
        "  shape table-table is not run yet",
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


def test_a_run_that_breaks_off_fails_all_its_cases(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(cases: Sequence[Case], folder: Path, seed: int) -> list[Difference | None]:  # noqa: ARG001
        message = "join/inner stopped"
        raise ResourceFailedError(message)

    monkeypatch.setattr(runner, "DRIVERS", {FOREIGN_KEY: stopped})
    assert main([copied(tmp_path, "random-fk-table-table-inner.json")]) == 1
    assert printed(capsys)[1:] == ["  the run broke off: join/inner stopped", "0 passed, 12 failed"]
