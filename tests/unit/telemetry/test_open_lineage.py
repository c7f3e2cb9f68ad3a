"""Runs of resources as events of OpenLineage."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.run_events import CaughtUp, Failed, Started, ignore_event
from kaspr_delta.telemetry import observed
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

    def sent(*seen: Any) -> list[dict[str, Any]]:
        with collector() as (address, bodies):
            monkeypatch.setenv("OPENLINEAGE_URL", address)
            with observed(SHOP, None) as listener:
                for event in seen:
                    listener(event)
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
    assert [one["name"] for one in agent["inputs"]] == ["priced", "totals"]
    assert [one["name"] for one in agent["outputs"]] == ["topic__enriched"]
    assert [one["name"] for one in made["inputs"]] == ["orders"]
    assert [one["name"] for one in made["outputs"]] == ["totals"]


def test_a_failure_and_the_end_of_a_run_end_the_runs_of_resources(events: Any) -> None:
    *_, failed, ended = events(Started(JOIN), Started(AGENT), Started(AGENT), Failed(JOIN, ValueError("no")))
    assert (failed["eventType"], failed["job"]["name"]) == ("FAIL", "shop.join/priced")
    assert failed["run"]["facets"]["errorMessage"]["message"] == "ValueError: no"
    assert (ended["eventType"], ended["job"]["name"]) == ("COMPLETE", "shop.agent/send")


def test_without_a_receiver_events_go_to_the_given_listener_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
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
