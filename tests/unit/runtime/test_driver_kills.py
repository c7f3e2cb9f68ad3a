"""Runs without Spark that are killed before and after each of their writes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from kaspr_delta import Application
from tests.spark.dying import watched_writes
from tests.unit.runtime.test_driver_runs import CORE, opened, order


class KilledError(BaseException):
    """Ends a run as a kill does: nothing catches it."""


def killed_at(write: int, work: Callable[[], object]) -> bool:
    """Do some work that is killed around a write, by number; return whether there was such a write."""
    seen = 0

    def watch(_arguments: tuple[Any, ...], _moment: str) -> None:
        nonlocal seen
        seen += 1
        if seen > write:
            raise KilledError

    with watched_writes(watch):
        try:
            work()
        except KilledError:
            return True
    return False


def changed(app: Application) -> None:
    app.table("products").put({"P1": {"price": 4}, "none": {"price": 1}, "P2": None})
    app.topic("raw-orders").produce([order(1, count=1), order(4), {"key": "bad", "value": 2}])


def outcome(app: Application) -> dict[str, Any]:
    return {
        "orders": app.table("orders").to_dict(),
        "priced": app.join("priced").to_dict(),
        "totals": [one["value"] for one in app.topic("totals").records()],
        "letters": [one["value"] for one in app.dead_letters()],
    }


def test_a_run_that_is_killed_around_any_write_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """The first run begins its checkpoints, and is killed before every other write; the second one before each."""
    new, whole = tmp_path / "new", tmp_path / "whole"
    new.mkdir()
    app = opened(new, CORE)
    app.table("products").put({"P1": {"price": 3}, "P2": {"price": 5}})
    app.topic("raw-orders").produce([order(1), order(2, "P2"), order(3, "none"), {"key": "bad", "value": 1}])
    shutil.copytree(new, whole)
    opened(whole, CORE).run()
    first = outcome(opened(whole, CORE))
    changed(opened(whole, CORE))
    assert killed_everywhere(new, tmp_path / "begun", first, every=4) > 20
    expected = tmp_path / "expected"
    shutil.copytree(whole, expected)
    opened(expected, CORE).run()
    assert killed_everywhere(whole, tmp_path / "killed", outcome(opened(expected, CORE)), every=2) > 20


MADE = """
KasprApp/shop: {}
KasprTable/products: {}
KasprTable/by-kind:
  from: {table: products}
  groupBy: {python: "def kind(value): return value['kind']"}
  count: {}
KasprTable/counters:
  from: {topic: visits}
  count: {}
  window: {tumbling: {size: 1m, expires: 2m}}
KasprJoin/seen: {leftStream: {topic: visits}, rightTable: products, on: key, type: left}
KasprJoin/offered:
  leftStream: {topic: visits}
  rightTable: products
  rightExtractor: {python: "def bought_with(value): return value['with']"}
  type: left
"""


def visit(product: str, second: int) -> dict[str, Any]:
    return {"key": product, "value": {"at": second}, "timestamp": second * 1_000, "partition": 0}


def made(app: Application) -> dict[str, Any]:
    return {
        "by kind": app.table("by-kind").to_dict(),
        "counters": sorted(app.table("counters").rows(), key=repr),
        "seen": [(one["key"], one["value"]) for one in app.channel("seen-channel").records()],
        "offered": [(one["key"], one["value"]) for one in app.channel("offered-channel").records()],
        "letters": [one["value"] for one in app.dead_letters()],
    }


def test_made_tables_and_joins_of_a_stream_with_a_table_lose_and_double_nothing_either(tmp_path: Path) -> None:
    folder, whole = tmp_path / "before", tmp_path / "whole"
    folder.mkdir()
    app = opened(folder, MADE)
    app.table("products").put({f"P{n}": {"kind": "ab"[n % 2], "with": f"P{n % 2}"} for n in range(4)})
    app.topic("visits").produce([visit("P1", 10), visit("none", 20)])
    app.run()
    opened(folder, MADE).table("products").put({"P1": None, "P2": {"kind": "b", "with": "P0"}, "P9": {"kind": "c"}})
    opened(folder, MADE).topic("visits").produce([visit("P0", 70), visit("P1", 80), visit("P2", 190)])
    shutil.copytree(folder, whole)
    opened(whole, MADE).run()
    expected = made(opened(whole, MADE))
    assert (expected["by kind"], len(expected["seen"]), len(expected["offered"])) == ({"a": 1, "b": 2, "c": 1}, 5, 7)
    assert killed_everywhere(folder, tmp_path / "killed", expected, every=3, manifests=MADE, outcome=made) > 10


def killed_everywhere(  # noqa: PLR0917  what is killed, where, and what it finds
    before: Path,
    folder: Path,
    expected: object,
    every: int,
    manifests: str = CORE,
    outcome: Callable[[Application], object] = outcome,
) -> int:
    """Kill the run of a copy of a warehouse around each write, and finish it; return the number of these points."""
    for point in count(0, every):
        shutil.copytree(before, folder)
        was_killed = killed_at(point, opened(folder, manifests).run)
        opened(folder, manifests).run()
        assert outcome(opened(folder, manifests)) == expected, point
        shutil.rmtree(folder)
        if not was_killed:
            return point
    raise AssertionError
