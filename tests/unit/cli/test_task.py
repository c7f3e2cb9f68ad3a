from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from kaspr_delta.cli import task
from kaspr_delta.errors import UsageError
from kaspr_delta.jobs.compute import ENTRY_POINT

ROOT = Path(__file__).parents[3]


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr("sys.argv", ["kaspr-delta-task", *map(str, arguments)])
    task()


def test_jobs_name_an_entry_point_of_the_wheel() -> None:
    (script,) = entry_points(group="console_scripts", name=ENTRY_POINT)
    assert script.load() is task


def test_a_successful_task_ends_without_systemexit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call(monkeypatch, "plan", ROOT / "bundles" / "order-system")
    assert "orders-products-join" in capsys.readouterr().out


def test_an_error_of_a_task_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="--every soon"):
        call(monkeypatch, "run", "--continuous", "--every", "soon")


def test_a_wrong_call_of_a_task_exits_with_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as end:
        call(monkeypatch, "run", "--no-such-option")
    assert end.value.code == 2
