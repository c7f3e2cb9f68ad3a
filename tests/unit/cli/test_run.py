from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from kaspr_delta.application import Application
from kaspr_delta.cli.interruption import Stop, stopped_by_change
from kaspr_delta.errors import (
    AlreadyRunningError,
    NotFoundError,
    RebuildNeededError,
    ResourceFailedError,
    SetupError,
    may_pass,
)
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.definition.waiting import in_words
from kaspr_delta.runtime.report import ResourceReport, RunReport
from kaspr_delta.runtime.versions import installed
from kaspr_delta.storage.store_problems import store_error
from tests.unit.cli.conftest import Kaspr

BEDS, WARDS = ResourceRef("join", "beds"), ResourceRef("table", "wards")
LOST = OSError("the connection was lost")


class FakeApplication:
    """An application whose runs raise these errors in turn, and then give a report."""

    def __init__(self, errors: Iterable[Exception] = (), waits: timedelta | None = None, **report: int) -> None:
        self.errors, self.runs = list(errors), 0
        self.report = RunReport({"agent/ingest": ResourceReport(**report)} if report else {})
        self.waits = waits
        waiting = () if waits is None else ((BEDS, "waits for table/wards"), (WARDS, "its change data feed is off"))
        self.uses_spark = False
        self.check = lambda only: None  # noqa: ARG005
        self.delta = SimpleNamespace(namespace=None)
        self.plan = SimpleNamespace(waiting=waiting, notices=(), findings=())

    def run(self, **_: Any) -> RunReport:
        self.runs += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.report

    def report_since(self, _: datetime, only: list[str]) -> RunReport:
        assert only == []
        return RunReport({"agent/ingest": ResourceReport(rows_in=3, dead_letters=3)})

    def late(self, grace: timedelta) -> dict[str, str]:
        assert self.waits is not None
        return {str(ref): in_words(reason) for ref, reason in self.plan.waiting} if self.waits > grace else {}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the command open this application; retries come at once."""
    monkeypatch.setattr(import_module("kaspr_delta.cli.run"), "_BEFORE_RETRY", 0)

    def use(application: FakeApplication) -> FakeApplication:
        monkeypatch.setattr(Application, "open", lambda *_, **__: application)
        return application

    return use


@pytest.mark.parametrize(
    ("errors", "runs", "code"),
    [
        ([LOST], 2, 0),
        ([LOST, LOST, LOST], 3, 1),
        ([ResourceFailedError("join/beds failed: lost", may_pass=True)], 2, 0),
        ([ResourceFailedError("join/beds needs a rebuild")], 1, 1),
        ([SetupError("the disk is full")], 1, 1),
    ],
)
def test_a_run_tries_again_only_what_may_go_well_then(
    kaspr: Kaspr, opened: Any, errors: list[Exception], runs: int, code: int
) -> None:
    application = opened(FakeApplication(errors))
    if errors.count(LOST) == 3:
        with pytest.raises(OSError, match="lost"):
            kaspr("run", "--retries", 2)
    else:
        assert kaspr("run", "--retries", 2).code == code
    assert application.runs == runs


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (LOST, True),
        (AlreadyRunningError("join/beds already runs"), True),
        (store_error("s3://b/wh", OSError("error sending request")), True),
        (store_error("s3://b/wh", OSError("503 Service Unavailable")), True),
        (store_error("s3://b/wh", OSError("403 Forbidden")), False),
        (RebuildNeededError("join/beds", "its extractor changed"), False),
        (RuntimeError("[INSUFFICIENT_PERMISSIONS] Insufficient privileges: no SELECT on table wards"), False),
    ],
)
def test_errors_that_say_what_to_do_do_not_pass(error: Exception, passes: bool) -> None:
    assert may_pass(error) is passes


def test_a_resource_whose_events_all_became_dead_letters_has_failed(kaspr: Kaspr, opened: Any) -> None:
    opened(FakeApplication(rows_in=3, dead_letters=3))
    assert kaspr("run").code == 0
    answer = kaspr("run", "--retries", 2, "--all-dead-letters", "fail")
    assert (answer.code, "every event of agent/ingest became a dead letter" in answer.err) == (1, True)
    opened(FakeApplication(rows_in=3, rows_out=1, dead_letters=3))
    assert kaspr("run", "--all-dead-letters", "fail").code == 0
    opened(FakeApplication(rows_in=3, dead_letters=2))
    assert kaspr("run", "--all-dead-letters", "fail").code == 0


def test_events_of_an_earlier_attempt_count_too(kaspr: Kaspr, opened: Any) -> None:
    opened(FakeApplication([LOST]))
    answer = kaspr("run", "--retries", 2, "--all-dead-letters", "fail")
    assert (answer.code, "every event of agent/ingest became a dead letter" in answer.err) == (1, True)


@pytest.mark.parametrize(
    ("waits", "options", "code"),
    [
        (timedelta(hours=2), "--waiting fail", 1),
        (timedelta(hours=2), "--waiting fail --only join/beds", 1),
        (timedelta(hours=2), "--waiting fail --only agent/ingest", 0),
        (timedelta(hours=2), "bundles/shop --waiting fail --only agent/ingest", 0),
        (timedelta(hours=2), "--waiting fail --grace 3h", 0),
        (timedelta(minutes=2), "--waiting fail", 0),
        (timedelta(hours=2), "", 0),
    ],
)
def test_a_run_fails_if_one_of_its_resources_has_waited_for_too_long(
    kaspr: Kaspr, opened: Any, waits: timedelta, options: str, code: int
) -> None:
    opened(FakeApplication(waits=waits))
    answer = kaspr("run", *options.split())
    assert answer.code == code
    assert ("waiting for longer than 1h:\njoin/beds waits for table/wards" in answer.err) is (code == 1)


INSTALLED = installed("kaspr-delta")


@pytest.mark.parametrize(
    ("before", "after", "stops"), [("1", "2", True), ("1", "1", False), ("1", None, False), (None, "1", False)]
)
def test_a_file_that_changes_ends_a_run(tmp_path: Path, before: str | None, after: str | None, stops: bool) -> None:
    file, stop = tmp_path / "resources.json", Stop()
    if before is not None:
        file.write_text(before)
    with stopped_by_change(stop, file, every=0.02):
        threading.Event().wait(0.1)
        if after is None:
            file.unlink()
        else:
            file.write_text(after)
        assert stop.asked.wait(5 if stops else 0.2) is stops
    assert stop.code == 0


@pytest.mark.parametrize(
    ("state", "stops"),
    [
        ('["--revision", "r2"]', True),
        ('["--revision", "r1"]', False),
        ("{}", False),
        (None, False),
        # The code that runs, and newer, older and unknown code: as a wheel, and as a requirement.
        (f'["--revision", "r1", "/x/kaspr_delta-{INSTALLED}-py3-none-any.whl"]', False),
        ('["--revision", "r1", "/x/kaspr_delta-77.1+123-py3-none-any.whl"]', True),
        (f'["--revision", "r1", "/x/kaspr_delta-{INSTALLED}+123-py3-none-any.whl"]', True),
        ('["--revision", "r1", "/x/kaspr_delta-0.0.1-py3-none-any.whl"]', False),
        (f'["--revision", "r1", "kaspr-delta=={INSTALLED}.0"]', False),
        ('["--revision", "r1", "kaspr-delta[s3]==77.1"]', True),
        ('["--revision", "r1", "kaspr-delta==77.*"]', False),
        ('["/x/kaspr_delta-77.1-py3-none-any.whl"]', False),
        # Packages of others.
        ('["--revision", "r1", "acme-kaspr-delta==77.1", "/x/acme_kaspr_delta-77.1-py3-none-any.whl"]', False),
    ],
)
def test_a_run_that_another_deployment_overtook_ends_at_once(tmp_path: Path, state: str | None, stops: bool) -> None:
    file, stop = tmp_path / "resources.json", Stop()
    if state is not None:
        file.write_text(state)
    with stopped_by_change(stop, file, revision="r1", every=60):
        assert stop.asked.wait(5 if stops else 0.2) is stops


def test_manifests_are_run_by_without_applying_them(kaspr: Kaspr, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = mock.Mock(side_effect=NotFoundError("as far as here"))
    monkeypatch.setattr(Application, "open", opened)
    assert [kaspr("run", *option).code for option in ((), ("--no-apply",))] == [2, 2]
    assert [call.kwargs["apply"] for call in opened.call_args_list] == [True, False]
