"""``kaspr-delta status --exit-code``: it fails while a resource does not do its work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from kaspr_delta.application import Application
from kaspr_delta.control.events import COMPARED, FAILED, RESUMED, WAITING, WARNING, Event
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.layout import EVENTS, PROGRESS
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from tests.folders import delta_rs
from tests.manifests import manifests
from tests.unit.cli.conftest import Answer, Kaspr

NOW = datetime.now(timezone.utc)
HOUR = timedelta(hours=1)
FAILURE = "PythonException: no such column\n  File ..."
# The join and what reads it wait for a table that nobody declares.
MANIFESTS = """
KasprApp/shop: {}
KasprTable/orders: {}
KasprJoin/priced: {leftTable: orders, rightTable: products, "on": key}
KasprAgent/ingest: {input: {topic: {name: raw}}, output: {topics: [{name: done}]}}
KasprAgent/mails: {input: {channel: {name: priced-channel}}, output: {topics: [{name: sent}]}}
"""


@pytest.fixture
def system(tmp_path: Path) -> NativeSystemTables:
    return NativeSystemTables(delta_rs(Warehouse(str(tmp_path / "wh")).namespace("shop")))


@pytest.fixture
def status(kaspr: Kaspr, tmp_path: Path) -> Callable[..., Answer]:
    """Show the status of an application in which nothing has run."""
    (tmp_path / "m.yaml").write_text(manifests("shop", MANIFESTS))
    kaspr("apply", "-f", tmp_path / "m.yaml", "--warehouse", tmp_path / "wh")
    return lambda *options: kaspr("status", *options, "--warehouse", tmp_path / "wh")


def event(kind: str, name: str, reason: str, age: timedelta, message: str = "") -> tuple[Any, ...]:
    return astuple(Event(NOW - age, WARNING, reason, kind, name, message))


def batch(resource: str, age: timedelta, rows_in: int = 3, rows_out: int = 3, letters: int = 0) -> tuple[Any, ...]:
    return (resource, "c1", 0, rows_in, rows_out, letters, 0, 0, 0.1, "{}", NOW - age)


def unhealthy(answer: Answer) -> list[str]:
    """The lines about resources on standard error."""
    assert answer.code == int(bool(answer.err))
    assert "resource" in answer.out
    return answer.err.replace("error: ", "").splitlines()


def test_a_status_without_the_option_is_no_failure(status: Callable[..., Answer], system: NativeSystemTables) -> None:
    system.append(EVENTS, [event("KasprAgent", "ingest", FAILED, HOUR, FAILURE)])
    assert status().code == 0
    assert status("--exit-code").code == 1
    assert status("--exit-code", "-o", "json").out.startswith("{")


def test_resources_that_have_waited_for_longer_are_unhealthy(
    status: Callable[..., Answer], system: NativeSystemTables
) -> None:
    assert unhealthy(status("--exit-code")) == []  # they wait since this look
    system.replace(EVENTS, [event("KasprJoin", "priced", WAITING, 2 * HOUR, "waits: ...")])
    (priced,) = unhealthy(status("--exit-code"))
    assert priced.startswith("join/priced waits")
    assert unhealthy(status("--exit-code", "--grace", "3h")) == []


@pytest.mark.parametrize(
    ("events", "batches", "found"),
    [
        ([(FAILED, HOUR)], [], True),
        ([(FAILED, HOUR)], [2 * HOUR], True),
        ([(FAILED, HOUR)], [HOUR / 2], False),
        ([(FAILED, 25 * HOUR)], [], False),  # told long ago
        ([(FAILED, 2 * HOUR), (RESUMED, HOUR)], [], False),
        ([(FAILED, 2 * HOUR), (COMPARED, HOUR)], [], True),
    ],
)
def test_a_resource_that_failed_is_unhealthy_until_its_next_batch(
    status: Callable[..., Answer],
    system: NativeSystemTables,
    events: list[tuple[str, timedelta]],
    batches: list[timedelta],
    found: bool,
) -> None:
    system.append(EVENTS, [event("KasprAgent", "ingest", reason, age, FAILURE) for reason, age in events])
    system.append(EVENTS, [event("KasprAgent", "deleted", FAILED, HOUR, FAILURE)])
    system.append(PROGRESS, [batch("agent/ingest", age) for age in batches])
    expected = ["agent/ingest failed: PythonException: no such column"] if found else []
    assert unhealthy(status("--exit-code")) == expected


@pytest.mark.parametrize(
    ("batches", "within", "found"),
    [
        ([(HOUR / 2, 3, 0, 3)], "1h", True),
        ([(HOUR / 2, 3, 0, 3), (HOUR / 3, 1, 1, 0)], "1h", False),
        ([(2 * HOUR, 3, 3, 0), (HOUR / 2, 3, 0, 3)], "1h", True),
        ([(2 * HOUR, 3, 0, 3)], "1h", False),
        ([(2 * HOUR, 3, 0, 3)], "3h", True),
    ],
)
def test_a_resource_whose_recent_events_all_became_dead_letters_is_unhealthy(
    status: Callable[..., Answer],
    system: NativeSystemTables,
    batches: list[tuple[timedelta, int, int, int]],
    within: str,
    found: bool,
) -> None:
    system.append(PROGRESS, [batch("agent/ingest", *one) for one in batches])
    expected = ["agent/ingest every event became a dead letter"] if found else []
    assert unhealthy(status("--exit-code", "--within", within)) == expected


def test_a_resource_that_needs_a_rebuild_is_unhealthy(
    status: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = {ResourceRef("join", "priced"): "its type has changed"}
    monkeypatch.setattr(Application, "rebuilds", lambda _: needed)
    assert unhealthy(status("--exit-code")) == ["join/priced waits: its type has changed"]


def test_a_bound_topic_that_failed_is_unhealthy(kaspr: Kaspr, system: NativeSystemTables, tmp_path: Path) -> None:
    bound = "KasprApp/shop: {topics: {raw: {files: {path: /in, format: csv, schema: id STRING, key: id}}}}"
    (tmp_path / "m.yaml").write_text(manifests("shop", MANIFESTS.replace("KasprApp/shop: {}", bound)))
    assert kaspr("apply", "-f", tmp_path / "m.yaml", "--warehouse", tmp_path / "wh").code == 0
    system.append(EVENTS, [event("KasprTopic", "raw", FAILED, HOUR, FAILURE)])
    answer = kaspr("status", "--exit-code", "--warehouse", tmp_path / "wh")
    assert unhealthy(answer) == ["topic/raw failed: PythonException: no such column"]


def test_a_deployment_is_looked_at_by_its_own_job(kaspr: Kaspr) -> None:
    assert "the job for operations has it" in " ".join(kaspr("status", "--exit-code", "--target", "prod").err.split())
