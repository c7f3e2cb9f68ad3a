"""Runs without Spark: small batches of agents and joins, and what is left to Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kaspr_delta import Application
from kaspr_delta.errors import ResourceFailedError
from kaspr_delta.runtime.report import RunReport
from kaspr_delta.runtime.run_events import BatchDone, CaughtUp, Started
from kaspr_delta.storage.limits import Limits, Size
from kaspr_delta.storage.native.tables import NativeTables
from kaspr_delta.storage.tables import Tables
from tests.empty_tables import Create
from tests.manifests import manifests

CORE = """
KasprApp/shop: {}
KasprTable/orders: {}
KasprTable/products: {}
KasprAgent/take-orders:
  input: {topic: {name: raw-orders}}
  processors:
    pipeline: [keep]
    operations:
      - name: keep
        map:
          python: "def keep(order, orders): orders[order['id']] = order"
        tables: [{name: orders, paramName: orders}]
KasprJoin/priced:
  leftTable: orders
  rightTable: products
  extractor: {python: "def product(order): return order['product']"}
  type: left
  outputChannel: priced-orders
KasprAgent/report:
  input: {channel: {name: priced-orders}}
  output: {topics: [{name: totals, keySelector: {python: "def key(total): return total['id']"}}]}
  processors:
    pipeline: [total]
    operations:
      - name: total
        map:
          python: |
            def total(pair):
                return {"id": pair.left["id"], "price": pair.right and pair.right["price"] * pair.left["count"]}
"""
SHOP = f"""{CORE}
KasprTable/addresses: {{}}
KasprJoin/delivered: {{leftTable: orders, rightTable: addresses, on: key, type: outer}}
KasprAgent/pairs:
  input: {{topic: {{name: totals}}, take: {{max: 2, within: 1h}}}}
  output: {{topics: [{{name: pairs}}]}}
  processors:
    pipeline: [both]
    operations: [{{name: both, map: {{python: "def both(values): return [value['id'] for value in values]"}}}}]
KasprJoin/clicked:
  leftStream: {{topic: views}}
  rightStream: {{topic: clicks}}
  on: key
  window: {{before: 10s, after: 10s}}
  type: left
"""


def refused(*_: object) -> Any:
    raise AssertionError("Spark would start: " + str(_[-1]))


def opened(folder: Path, text: str = SHOP, limits: Limits | None = None) -> Application:
    (folder / "shop.yaml").write_text(manifests("shop", text))
    return Application.open(folder / "shop.yaml", warehouse=folder / "wh", limits=limits, starting=refused)


def order(number: int, product: str = "P1", count: int = 2) -> dict[str, Any]:
    return {"key": f"O{number}", "value": {"id": f"O{number}", "product": product, "count": count}, "timestamp": number}


def first_wave(app: Application) -> None:
    app.table("products").put({"P1": {"price": 3}, "P2": {"price": 5}})
    app.table("addresses").put({"O1": "Rome", "X": "Oslo"})
    app.topic("raw-orders").produce([order(1), order(2, "P2"), order(3, "none"), {"key": "bad", "value": 1}])
    app.topic("views").produce([{"key": "u", "value": 1, "timestamp": 1_000}, {"key": "v", "value": 2, "timestamp": 1}])
    app.topic("clicks").produce([{"key": "u", "value": 3, "timestamp": 2_000}])


def second_wave(app: Application) -> None:
    app.table("products").put({"P1": {"price": 4}, "none": {"price": 1}, "P2": None})
    app.table("addresses").put({"O1": None, "O3": "Bonn"})
    app.topic("raw-orders").produce([order(1, count=1), order(4)])
    app.topic("views").produce([{"key": "v", "value": 4, "timestamp": 60_000}])


def outcome(app: Application) -> dict[str, Any]:
    return {
        "orders": app.table("orders").to_dict(),
        **{name: app.join(name).to_dict() for name in ("priced", "delivered")},
        "totals": sorted(str(one["value"]) for one in app.topic("totals").records()),
        "pairs": sum(len(one["value"]) for one in app.topic("pairs").records()),
        "clicked": sorted(str(one["value"]) for one in app.channel("clicked-channel").records()),
        "letters": [(one["source"], one["value"]) for one in app.dead_letters()],
    }


def test_agents_and_joins_run_without_spark_and_read_everything_once(tmp_path: Path) -> None:
    app = opened(tmp_path)
    first_wave(app)
    events = list[Any]()
    report = app.run(listener=events.append)
    assert report.resources["agent/take-orders"].dead_letters == 1
    assert report.resources["join/priced"].rows_out == 3
    started = {event.resource for event in events if isinstance(event, Started)}
    assert started == {event.resource for event in events if isinstance(event, CaughtUp)} == set(app.plan.runs)
    assert {event.resource for event in events if isinstance(event, BatchDone)} <= started
    found = outcome(app)
    assert found["priced"]["O1"] == {"left": order(1)["value"], "right": {"price": 3}}
    assert found["priced"]["O3"] == {"left": order(3, "none")["value"], "right": None}
    assert found["delivered"]["X"] == {"left": None, "right": "Oslo"}
    assert found["totals"] == [
        "{'id': 'O1', 'price': 6}",
        "{'id': 'O2', 'price': 10}",
        "{'id': 'O3', 'price': None}",
    ]
    assert (found["pairs"], found["letters"]) == (3, [("raw-orders", "1")])
    assert found["clicked"] == ["{'left': 1, 'right': 3}"]
    assert app.run().resources == opened(tmp_path).run().resources == {}
    assert outcome(app) == found

    second_wave(app)
    app = opened(tmp_path)
    app.run()
    found = outcome(app)
    assert found["priced"] == {
        "O1": {"left": order(1, count=1)["value"], "right": {"price": 4}},
        "O2": {"left": order(2, "P2")["value"], "right": None},
        "O3": {"left": order(3, "none")["value"], "right": {"price": 1}},
        "O4": {"left": order(4)["value"], "right": {"price": 4}},
    }
    assert found["delivered"]["O3"]["right"] == "Bonn"
    assert found["delivered"]["O1"]["right"] is None
    assert found["clicked"] == ["{'left': 1, 'right': 3}", "{'left': 2, 'right': None}"]
    assert app.run().resources == {}


def test_resources_that_fail_do_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(tmp_path)
    first_wave(app)
    merge = Tables.merge

    def broken(self: Tables, spark: Any, rows: Any, table: str, *rest: Any) -> Any:
        if table == "delivered":
            raise OSError("no such device")
        return merge(self, spark, rows, table, *rest)

    monkeypatch.setattr(Tables, "merge", broken)
    with pytest.raises(ResourceFailedError, match=r"join/delivered failed: .*no such device"):
        app.run()
    assert len(app.join("priced").to_dict()) == 3
    monkeypatch.undo()
    app.run()
    assert len(app.join("delivered").to_dict()) == 4


MORE = f"""{SHOP}
KasprTable/sums: {{source: {{topic: {{name: totals}}}}, count: {{}}}}
"""


SELECT = """{schema: 'town STRING', python: "def town(left, right): return {'town': right}"}"""


@pytest.mark.parametrize(
    ("text", "limits", "reason"),
    [
        (SHOP, Limits(few_events=Size(1, 1 << 20), changes=Size(2, 1 << 20)), "(join|agent)/"),
        (SHOP.replace("type: outer}", f"type: outer, select: {SELECT}}}"), None, "it runs resources"),
        (
            SHOP.replace("KasprTable/products: {}", "KasprTable/products: {schema: 'id STRING, price INT', key: [id]}"),
            None,
            "products",
        ),
    ],
)
def test_what_only_spark_does_is_left_to_it_and_named(
    tmp_path: Path, text: str, limits: Limits | None, reason: str
) -> None:
    app = opened(tmp_path, text, limits)
    first_wave(app)
    with pytest.raises(AssertionError, match=f"Spark would start: .*{reason}"):
        app.run()


def test_a_function_whose_table_only_spark_reads_has_not_failed(tmp_path: Path) -> None:
    app = opened(tmp_path, limits=Limits(looked_up=Size(0, 0)))
    app.topic("raw-orders").produce([order(1)])
    with pytest.raises(AssertionError, match="Spark would start"):
        app.run()
    assert app.dead_letters() == []


def test_the_report_has_the_batches_before_spark_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(tmp_path, limits=Limits(few_events=Size(1, 1 << 20)))
    first_wave(app)
    before = list[Any]()

    def runner(_: object, _listener: object, other: Any) -> Any:
        before.extend(other._reports)
        report = RunReport.of(before, {})
        return SimpleNamespace(
            until_quiet=lambda *_, **__: report, failed=0, compared={}, rebuilds={}, rebuilt={}, failures={}
        )

    monkeypatch.setattr("kaspr_delta.application.session_of", lambda _: None)
    monkeypatch.setattr(Application, "_runner", runner)
    assert app.run().resources["agent/take-orders"].rows_in == 4


def test_a_table_that_was_replaced_is_not_read_as_if_it_were_the_same(
    tmp_path: Path, copied_empty_tables: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NativeTables, "create", copied_empty_tables)  # copies share their id
    app = opened(tmp_path)
    first_wave(app)
    app.run()
    shutil.rmtree(tmp_path / "wh" / app.plan.schema / "products")
    app = opened(tmp_path)
    app.table("products").put({"P9": {"price": 1}})
    for number in range(5):
        app.table("products").put({f"P{number}": {"price": 9}})
    with pytest.raises(ResourceFailedError, match=r"join/priced failed: .*rebuild"):
        app.run()
