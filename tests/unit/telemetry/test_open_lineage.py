"""Runs of resources as events of OpenLineage."""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.run_events import CaughtUp, Failed, Started, ignore_event
from kaspr_delta.telemetry import observed
from kaspr_delta.telemetry.observed import Sender
from tests.manifests import plan_of
from tests.unit.telemetry.collector import collector

pytest.importorskip("openlineage.client")

SHOP = plan_of(
    "shop",
    """
KasprTable/orders: {}
KasprTable/products: {}
KasprTable/totals: {from: {table: orders}, count: {}}
KasprJoin/priced: {leftTable: orders, rightTable: products, column: product}
KasprAgent/send:
  input: {channel: {name: priced-channel}}
  output: {topics: [{name: enriched}]}
  processors:
    pipeline: [pass]
    operations:
      - name: pass
        tables: [{name: totals, paramName: totals}]
        map: {python: "def pass_on(value, totals): return value"}
""",
)
JOIN, AGENT, MADE = ResourceRef("join", "priced"), ResourceRef("agent", "send"), ResourceRef("table", "totals")


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that lets the receiver see events of a run, and returns those that it got."""

    def sent(*seen: Any, error: Exception | None = None) -> list[dict[str, Any]]:
        with collector() as (address, bodies), suppress(ZeroDivisionError):
            monkeypatch.setenv("OPENLINEAGE_URL", address)
            with observed(SHOP, None) as listener:
                for event in seen:
                    listener(event)
                if error is not None:
                    raise error
        return [json.loads(body) for body in bodies["/api/v1/lineage"]]

    return sent


def test_a_resource_is_a_job_with_the_tables_that_it_reads_and_writes(events: Any) -> None:
    start, end = events(Started(JOIN), CaughtUp(JOIN))
    assert [one["eventType"] for one in (start, end)] == ["START", "COMPLETE"]
    assert start["run"]["runId"] == end["run"]["runId"]
    assert (start["job"]["namespace"], start["job"]["name"]) == ("shop", "shop.join/priced")
    assert [one["name"] for one in start["inputs"]] == ["orders", "products"]
    assert [one["name"] for one in start["outputs"]] == ["priced", "channel__priced_channel"]
    assert {*start} >= {"eventTime", "producer", "schemaURL"}


def test_agents_and_made_tables_have_theirs(events: Any) -> None:
    agent, made, *_ = events(Started(AGENT), Started(MADE))
    assert [one["name"] for one in agent["inputs"]] == ["channel__priced_channel", "totals"]
    assert [one["name"] for one in agent["outputs"]] == ["topic__enriched"]
    assert [one["name"] for one in made["inputs"]] == ["orders"]
    assert [one["name"] for one in made["outputs"]] == ["totals"]


def test_a_failure_and_the_end_of_a_run_end_the_runs_of_resources(events: Any) -> None:
    *_, failed, ended = events(Started(JOIN), Started(AGENT), Started(AGENT), Failed(JOIN, ValueError("no")))
    assert (failed["eventType"], failed["job"]["name"]) == ("FAIL", "shop.join/priced")
    assert failed["run"]["facets"]["errorMessage"]["message"] == "ValueError: no"
    assert (ended["eventType"], ended["job"]["name"]) == ("COMPLETE", "shop.agent/send")


def test_a_run_that_raises_aborts_those_under_way(events: Any) -> None:
    assert [one["eventType"] for one in events(Started(JOIN), error=ZeroDivisionError())] == ["START", "ABORT"]


class Deaf:
    """A receiver that fails, or does not answer."""

    def __init__(self, answer: threading.Event | None = None) -> None:
        self.answer = answer
        self.closed = False

    def take(self, *_: object) -> None:
        if self.answer is None:
            raise ConnectionError
        self.answer.wait(30)

    def close(self, *, failed: bool) -> None:
        self.closed = not failed


def test_a_receiver_that_fails_is_a_warning_and_the_others_get_their_events(caplog: pytest.LogCaptureFixture) -> None:
    answers = threading.Event()
    answers.set()
    deaf, other = Deaf(), Deaf(answers)
    sender = Sender([deaf, other])
    sender.start()
    sender.take(Started(JOIN))
    sender.close(failed=False)
    assert (deaf.closed, other.closed) == (True, True)
    assert "Deaf did not take an event" in caplog.text


def test_a_receiver_that_does_not_answer_delays_the_end_of_a_run_only_for_a_while() -> None:
    answer = threading.Event()
    deaf = Deaf(answer)
    sender = Sender([deaf], most=2, patience=0.1)
    sender.start()
    for _ in range(100):
        sender.take(Started(JOIN))
    began = time.monotonic()
    sender.close(failed=False)
    assert time.monotonic() - began < 5
    assert not deaf.closed
    answer.set()


def test_runs_of_fixtures_are_no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    with observed(SHOP, None, is_test=True) as listener:
        assert listener is ignore_event


def test_without_a_receiver_events_go_to_the_given_listener_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    seen: list[object] = []
    with observed(SHOP, seen.append) as listener:
        assert listener == seen.append
    with observed(SHOP, None) as listener:
        assert listener is ignore_event


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "kaspr_delta.telemetry.open_lineage", None)
    message = r"openlineage-python is not installed: pip install 'kaspr-delta\[telemetry\]'"
    with pytest.raises(SetupError, match=message), observed(SHOP, None):
        pass
