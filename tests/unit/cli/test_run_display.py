from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from contextvars import copy_context

import pytest
from rich.console import Console

from kaspr_delta.cli.progress import ProgressOutput, log_as_json, note, results, show_report
from kaspr_delta.cli.run_display import Board, shown
from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.progress import BatchReport
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.report import ResourceReport, RunReport
from kaspr_delta.runtime.run_events import BatchDone, CaughtUp, Failed, LagSeen, RunEvent, Started, StateRebuilt

JOIN, AGENT = ResourceRef("join", "j"), ResourceRef("agent", "a")
EVENTS: tuple[RunEvent, ...] = (
    Started(JOIN),
    Started(AGENT),
    LagSeen(JOIN, 1),
    LagSeen(JOIN, 1),
    BatchDone(JOIN, BatchId("c1", 1), BatchReport(3000, 2000, 0, 0, 0, 1.0)),
    BatchDone(JOIN, BatchId("c1", 2), BatchReport(1, 1, 1, 0, 0, 2.0)),
    CaughtUp(JOIN),
    Failed(AGENT, ValueError("no\nmore")),
)


def cells(table: object) -> list[list[str]]:
    screen = Console(width=120)
    with screen.capture() as captured:
        screen.print(table)
    return [line.split() for line in captured.get().splitlines()]


def show(output: ProgressOutput, events: Iterable[RunEvent] = EVENTS) -> None:
    def run() -> None:
        if output == "json":
            log_as_json()
        with shown(output, keep=False) as listener:
            for event in events:
                listener(event)

    copy_context().run(run)


def test_the_table_sums_the_batches_of_each_resource() -> None:
    board = Board()
    for event in EVENTS[:6]:
        board(event)
    assert cells(board.table())[1] == ["join/j", "runs", "2", "3,001", "2,001", "1", "1", "1.5"]
    for event in EVENTS[6:]:
        board(event)
    _, join, agent = cells(board.table())
    assert join == ["join/j", "caught", "up", "2", "3,001", "2,001", "1", "0", "1.5"]
    assert agent == ["agent/a", "failed", "0", "0", "0", "0"]


@pytest.mark.parametrize("output", ["plain", "auto"])
def test_a_log_has_a_line_for_every_batch_and_every_failure(
    capsys: pytest.CaptureFixture[str], output: ProgressOutput
) -> None:
    show(output)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "  join/j: 3000 rows in, 2000 out, lag 1, 1.0 s",
        "  join/j: 1 rows in, 1 out, 1 dead letters, lag 1, 2.0 s",
        "  agent/a: failed, the others go on: ValueError: no",
    ]


def test_json_lines_show_batches_failures_and_changes_of_lag(capsys: pytest.CaptureFixture[str]) -> None:
    show("json")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["lag", "batch", "batch", "failed"]
    assert all(line.pop("at").endswith("Z") for line in lines)
    assert lines[0] == {"event": "lag", "resource": "join/j", "rows": 1}
    counts = {"rowsIn": 1, "rowsOut": 1, "deadLetters": 1, "lag": 1, "seconds": 2.0}
    assert lines[2] == {"event": "batch", "resource": "join/j", "checkpoint": "c1", "batch": 2, **counts}
    assert lines[3]["message"] == "no"


INVALID = "invalid literal for int() with base 10: 'no'"


def test_with_json_lines_what_is_logged_is_json_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger("tests.root")
    monkeypatch.setattr(logging, "root", root)
    copy_context().run(log_as_json)
    (handler,) = root.handlers
    handler.handle(logging.LogRecord("delta", logging.WARNING, "f.py", 1, "%s is late", ("orders",), None))
    try:
        int("no")
    except ValueError:
        handler.handle(logging.LogRecord("delta", logging.ERROR, "f.py", 1, "failed", (), sys.exc_info()))
    late, failed = map(json.loads, capsys.readouterr().err.splitlines())
    assert (late["event"], late["message"], late["logger"]) == ("warning", "orders is late", "delta")
    assert (failed["event"], failed["error"].splitlines()[-1]) == (
        "error",
        "ValueError: invalid literal for int() with base 10: 'no'",
    )


def test_with_json_lines_notes_and_the_report_are_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    def run() -> None:
        log_as_json()
        note("running")
        show_report(RunReport({"join/j": ResourceReport(1, 2, 3, 0, 0, 0, 0.5)}), Console())

    copy_context().run(run)
    printed = capsys.readouterr()
    assert json.loads(printed.err)["message"] == "running"
    assert json.loads(printed.out)["resources"]["join/j"]["rowsIn"] == 2


def test_a_state_that_was_made_anew_stands_in_the_progress_and_in_the_report(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reason = "its extractor has changed since its state was made"
    show("plain", [StateRebuilt(JOIN, reason)])
    assert capsys.readouterr().err == f"  join/j: {reason}, and was made anew, as onChange says\n"
    report = RunReport({"join/j": ResourceReport(1, 2, 3, 0, 0, 0, 0.5)}, {"join/j": reason})
    show_report(report, Console(width=120))
    assert f"join/j was made anew: {reason}" in capsys.readouterr().out

    def as_json() -> None:
        log_as_json()
        show_report(report, Console())

    copy_context().run(as_json)
    assert json.loads(capsys.readouterr().out)["resources"]["join/j"]["rebuilt"] == reason


def test_a_name_between_colons_is_no_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    note("3 records on :100:")
    results().print("topic/:100:")
    printed = capsys.readouterr()
    assert (printed.err, printed.out) == ("3 records on :100:\n", "topic/:100:\n")
