"""An application in a bucket is served over HTTP, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone

import httpx
import pyarrow as pa
import pytest

from kaspr_delta.runtime.applying import apply_manifests, registry_of
from kaspr_delta.spec.loader import load_text
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import table_layout
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.opening import folder_tables
from kaspr_delta.web.server import web_application
from tests.serving import served_by_uvicorn
from tests.unit.web.conftest import manifest, view, wait_for

PRICES = manifest("KasprTable", "prices", "name: prices")
READ = view("price", "GET", "/prices/{name}", "def answer(name, prices):\n    return prices.get(name)", tables="prices")
HEALTH = view("health", "GET", "/health", "def answer(value):\n    return 'well'")
# Seconds until a look at the registry and one at a table, each after five, must have come.
SOON = 40.0


def put(warehouse: str, delta: DeltaRs, **prices: int) -> None:
    """Append rows, as a first load does."""
    plan = registry_of(Warehouse(warehouse), "shop").plan()
    assert plan is not None
    table, now = plan.known_table("prices"), datetime.now(timezone.utc)
    layout = table_layout(table)
    delta.ensure(table.delta_name, layout)
    rows = [{"key": json.dumps(key), "value": json.dumps(one), "timestamp": now} for key, one in prices.items()]
    delta.append(table.delta_name, pa.Table.from_pylist(rows, arrow_schema(layout.columns)))


@pytest.fixture
def tables(warehouse: str) -> DeltaRs:
    """The tables of a shop, with a row in that of the prices."""
    loaded = load_text(f"{PRICES}---\n{READ}", "shop.yaml")
    assert not loaded.findings, loaded.findings
    apply_manifests(Warehouse(warehouse), loaded)
    found = folder_tables(Warehouse(warehouse).namespace("shop"))
    assert found is not None
    put(warehouse, found, P1=1)
    return found


@pytest.fixture
def client(tables: DeltaRs) -> Iterator[httpx.Client]:
    with served_by_uvicorn(web_application(tables.namespace)) as client:
        yield client


def test_views_and_pages_are_those_of_a_folder_and_follow_tables_and_manifests(
    warehouse: str, tables: DeltaRs, client: httpx.Client
) -> None:
    assert client.get("/prices/P1").json() == 1
    codes = {path: client.get(path).status_code for path in ("/ui/", "/status/", "/metrics", "/openapi.json")}
    assert set(codes.values()) == {200}, codes
    put(warehouse, tables, P2=2)
    wait_for(lambda: client.get("/prices/P2").text == "2", SOON)
    assert client.get("/health").status_code == 404
    apply_manifests(Warehouse(warehouse), load_text(HEALTH, "more.yaml"))
    wait_for(lambda: client.get("/health").text == "well", SOON)
