"""Commands that only look or append rows need no Java over a folder, and little time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
ORDER_SYSTEM = ROOT / "bundles" / "order-system"
ROWS = 10_000
# A command takes half a second on a quiet machine; a busy one may need ten times as long. A JVM alone takes longer.
BOUND = 10.0


class Place:
    """A warehouse of an application that never ran, and commands in processes that find no Java."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "PYTHONPATH": str(ROOT / "src"),
            "PATH": str(folder),
            "JAVA_HOME": str(folder),
            "KASPR_DELTA_WAREHOUSE": str(folder / "wh"),
        }

    def kaspr(self, *arguments: object) -> list[str]:
        """The lines that a command prints; its time is printed."""
        began = time.monotonic()
        call = [sys.executable, "-m", "kaspr_delta", *map(str, arguments)]
        done = subprocess.run(call, env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False)  # noqa: S603
        took = time.monotonic() - began
        print(f"{took:.2f} s: {' '.join(map(str, arguments))}")  # noqa: T201
        assert (done.returncode, "Spark" in done.stderr) == (0, False), done.stderr
        assert took < BOUND
        return done.stdout.splitlines()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("at_once"))
    place.kaspr("apply", "-f", ORDER_SYSTEM)
    orders = ({"key": f"O{n}", "value": {"product_id": f"P{n % 7}", "quantity": n}} for n in range(ROWS))
    (place.folder / "orders.jsonl").write_text("\n".join(map(json.dumps, orders)))
    return place


def test_records_are_produced_and_consumed_without_java(place: Place) -> None:
    place.kaspr("produce", "raw-orders", "orders.jsonl")
    records = [json.loads(line) for line in place.kaspr("consume", "raw-orders")]
    assert [one["key"] for one in records] == [f"O{n}" for n in range(ROWS)]
    assert [one["offset"] for one in records] == sorted({one["offset"] for one in records})
    (place.folder / "more.jsonl").write_text(
        '{"key": "O5", "value": null, "timestamp": 86400000, "headers": {"a": "b"}}'
    )
    place.kaspr("produce", "raw-orders", "more.jsonl")
    (last,) = (json.loads(line) for line in place.kaspr("consume", "raw-orders", "--key", "O5", "--tail", 1))
    assert (last["key"], last["value"], last["timestamp"], last["headers"]) == ("O5", None, 86_400_000, {"a": "b"})
    later = place.kaspr("consume", "raw-orders", "--key", "O5", "--from", "2020-01-01")
    assert [json.loads(line)["offset"] for line in later] == [records[5]["offset"]]


def test_rows_are_loaded_read_and_exported_without_java(place: Place) -> None:
    place.kaspr("table", "orders", "load", "orders.jsonl")
    assert place.kaspr("table", "orders", "get", "O5") == ['{"key":"O5","value":{"product_id":"P5","quantity":5}}']
    (place.folder / "changed.jsonl").write_text(
        '{"key": "O5", "value": null}\n{"key": "O6", "value": {"product_id": "P0"}}'
    )
    place.kaspr("table", "orders", "load", "changed.jsonl")
    rows = {one["key"]: one["value"] for one in map(json.loads, place.kaspr("table", "orders", "dump"))}
    assert (len(rows), rows["O6"]) == (ROWS - 1, {"product_id": "P0"})
    place.kaspr("table", "orders", "put", "O6", '{"quantity": 9}')
    assert place.kaspr("table", "orders", "get", "O6") == ['{"key":"O6","value":{"quantity":9}}']
    place.kaspr("table", "orders", "put", "new", "1")
    place.kaspr("table", "orders", "put", "new", "null")
    place.kaspr("export", "orders", "orders.csv")
    assert len((place.folder / "orders.csv").read_text().splitlines()) == ROWS
    place.kaspr("export", "orders-products-join", "joined.parquet")
    assert (place.folder / "joined.parquet").exists()


def test_an_application_is_looked_at_without_java(place: Place) -> None:
    assert "new" in "\n".join(place.kaspr("status"))
    assert place.kaspr("dead-letters") == []
    assert "raw-orders" in "\n".join(place.kaspr("get", "topics"))
    assert "Name:" in place.kaspr("describe", "ktable", "orders")[0]
