"""Why a row of a join's result is as it is, from tables that are written as a run writes them."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from kaspr_delta import Application
from kaspr_delta.api.explanation import Explanation
from kaspr_delta.api.join import JoinHandle
from kaspr_delta.errors import UsageError
from kaspr_delta.storage.lazy_session import is_running
from kaspr_delta.storage.opening import folder_tables
from kaspr_delta.storage.plan_tables import tables_of
from tests.folders import append_rows
from tests.manifests import manifests

MANIFESTS = """
KasprTable/orders: {}
KasprTable/products: {}
KasprTable/rates: {schema: "id INT, kind STRING, rate DECIMAL(9, 2)", key: [id]}
KasprTable/files: {keySerializer: raw}
KasprJoin/priced:
  leftTable: orders
  rightTable: products
  type: inner
  extractor: {python: "def product(order): return order['product']"}
KasprJoin/kept:
  leftTable: orders
  rightTable: products
  type: left
  extractor: {python: "def product(order): return order['product']"}
KasprJoin/both: {leftTable: orders, rightTable: products, on: key, type: outer}
KasprJoin/doubled: {leftTable: rates, rightTable: rates, on: key}
KasprJoin/copies: {leftTable: files, rightTable: files, on: key}
KasprJoin/seen: {leftStream: {topic: views}, rightTable: orders, on: key, outputChannel: seen}
"""
NOW = datetime(2026, 5, 1, tzinfo=timezone.utc)
ORDER, LAMP = {"product": "P1"}, {"name": "Lamp", "price": 5}


@pytest.fixture
def app(tmp_path: Path) -> Application:
    (tmp_path / "shop.yaml").write_text(manifests("shop", MANIFESTS))
    return Application.open(tmp_path / "shop.yaml", warehouse=tmp_path / "wh")


def append(app: Application, table: str, **row: Any) -> None:
    """Append a row to one of the tables of the application, as a run would."""
    delta = folder_tables(app.delta.namespace)
    assert delta is not None
    layout = next(layout for _, name, layout in tables_of(app.plan) if name == table)
    append_rows(delta, table, layout, row)


def emit(app: Application, join: str, left: Any, right: Any, **named: Any) -> None:
    """Append a response, of the first batch unless another is named; without a batch it has no checkpoint either."""
    row = {"kind": "value", "batch": 1, "seq": 0, "timestamp": NOW, **named}
    checkpoint = None if row["batch"] is None else "c"
    append(app, joined(app, join).join.log, key='"O1"', checkpoint=checkpoint, **row, **texts(left, right))


def fold(app: Application, join: str, left: Any, right: Any) -> None:
    append(app, joined(app, join).join.result, key='"O1"', timestamp=NOW, **texts(left, right))


def texts(left: Any, right: Any) -> dict[str, Any]:
    return {name: value and json.dumps(value) for name, value in (("left", left), ("right", right))}


def subscribe(app: Application, join: str, key: str | None) -> None:
    plan: Any = joined(app, join).join
    append(app, plan.subscriptions, key='"O1"', fk=key and json.dumps(key))


def joined(app: Application, join: str) -> JoinHandle:
    handle = app.join(join)
    assert isinstance(handle, JoinHandle)
    return handle


def explain(app: Application, join: str, key: Any = "O1") -> Explanation:
    found = joined(app, join).explain(key)
    assert not is_running(app._spark)
    return found


def test_a_key_is_followed_from_its_left_row_to_its_result(app: Application) -> None:
    app.table("orders").put({"O1": ORDER, "O2": {"product": "P2"}})
    app.table("products").put({"P1": LAMP, "P2": {"name": "Kettle"}})
    subscribe(app, "priced", "P1")
    emit(app, "priced", ORDER, LAMP)
    fold(app, "priced", ORDER, LAMP)
    found = explain(app, "priced")
    assert [station.title for station in found.stations] == [
        "Left row",
        "Subscription",
        "Right row",
        "Responses",
        "Result",
    ]
    assert [len(station.rows) for station in found.stations] == [1] * 5
    assert found.stations[2].rows[0]["value"] == LAMP
    assert found.reasons == (
        'The extractor returned the foreign key "P1".',
        "Both rows are there, so the join makes a result.",
        "The result is that of the rows as they are now.",
    )
    text = repr(found)
    assert text.splitlines()[0] == '"O1" in join/priced'
    assert "Left row, table/orders:\n  {" in text
    assert text.endswith("\n".join(found.reasons))


def test_html_has_all_values_and_no_tags_of_them(app: Application) -> None:
    evil = "<script>alert(1)</script>"
    app.table("orders").put({"O1": {"product": evil}})
    subscribe(app, "priced", evil)
    html = explain(app, "priced")._repr_html_()
    assert "<script>" not in html
    assert html.count("&lt;script&gt;") == 3  # the left row, the subscription and the reason
    assert "<p>None.</p>" in html
    assert "color" not in html


@pytest.mark.parametrize("join", ["priced", "kept"])
def test_a_foreign_key_without_a_row_has_a_result_only_in_a_left_join(app: Application, join: str) -> None:
    app.table("orders").put({"O1": ORDER})
    subscribe(app, join, "P1")
    if join == "kept":
        emit(app, join, ORDER, None)
        fold(app, join, ORDER, None)
    first, *rest = explain(app, join).reasons
    assert first == 'The extractor returned the foreign key "P1".'
    assert (
        rest
        == {
            "priced": [
                "table/products has no row with that key.",
                "An inner join makes no result without both rows.",
                "So there is none.",
            ],
            "kept": [
                "table/products has no row with that key.",
                "A left join makes a result all the same, with null on the right side.",
                "The result is that of the rows as they are now.",
            ],
        }[join]
    )


def test_a_left_row_without_a_foreign_key_points_to_dead_letters(app: Application) -> None:
    app.table("orders").put({"O1": {"product": None}})
    subscribe(app, "priced", None)
    reasons = explain(app, "priced").reasons
    assert reasons[0].endswith("the extractor returned None, or failed (see dead letters of join/priced).")
    assert "table/products" not in " ".join(reasons)


def test_a_row_that_no_batch_has_read_yet_has_no_subscription(app: Application) -> None:
    app.table("orders").put({"O1": ORDER})
    app.table("products").put({"P1": LAMP})
    assert explain(app, "kept").reasons == (
        "There is no subscription: the join has not processed the left row yet.",
        "A left join makes a result all the same, with null on the right side.",
        "There is no response yet: the next run of the join makes one.",
    )


def test_a_result_that_is_behind_its_rows_or_its_newest_response_says_so(app: Application) -> None:
    app.table("orders").put({"O1": ORDER})
    app.table("products").put({"P1": LAMP})
    subscribe(app, "priced", "P1")
    emit(app, "priced", ORDER, LAMP)
    assert explain(app, "priced").reasons[-1] == "The newest response is not in the result yet: the next run folds it."
    fold(app, "priced", ORDER, LAMP)
    app.table("products").put({"P1": {**LAMP, "price": 6}})
    behind = "A row has changed since the newest response: the next run of the join makes one."
    assert explain(app, "priced").reasons[-1] == behind
    emit(app, "priced", ORDER, {**LAMP, "price": 6}, batch=2)
    assert explain(app, "priced").reasons[-1] == "The newest response is not in the result yet: the next run folds it."
    app.table("orders").delete(["O1"])
    gone = explain(app, "priced").reasons
    assert gone[0] == "table/orders has no row with this key."
    assert gone[1] == "The subscription is still there: the join has not processed yet that the row is gone."


def test_a_tombstone_that_is_not_folded_and_one_that_is(app: Application) -> None:
    emit(app, "priced", ORDER, LAMP)
    emit(app, "priced", None, None, batch=2, kind="tombstone")
    assert explain(app, "priced").reasons[-1] == "So there is none."
    fold(app, "priced", ORDER, LAMP)
    assert explain(app, "priced").reasons[-1] == "The newest response is not in the result yet: the next run folds it."


def test_a_response_that_a_retry_put_there_again_is_not_the_newest(app: Application) -> None:
    app.table("orders").put({"O1": ORDER})
    app.table("products").put({"O1": LAMP})
    emit(app, "both", ORDER, LAMP, batch=2)
    emit(app, "both", ORDER, {"name": "old"}, batch=None)
    fold(app, "both", ORDER, LAMP)
    found = explain(app, "both")
    assert [row["batch"] for row in found.stations[2].rows] == [2, None]
    assert found.reasons[-1] == "The result is that of the rows as they are now."


def test_an_outer_join_keeps_a_right_row_alone(app: Application) -> None:
    app.table("products").put({"O1": LAMP})
    emit(app, "both", None, LAMP)
    fold(app, "both", None, LAMP)
    assert explain(app, "both").reasons == (
        "table/orders has no row with this key.",
        "An outer join makes a result all the same, with null on the left side.",
        "The result is that of the rows as they are now.",
    )


def test_rows_of_typed_tables_are_found_by_whole_numbers_and_may_have_a_column_kind(app: Application) -> None:
    app.table("rates").put({1: {"kind": "daily", "rate": "1.50"}})
    found = explain(app, "doubled", 1)
    assert found.stations[0].rows[0]["kind"] == "daily"
    assert not explain(app, "doubled", 2).stations[0].rows


def test_raw_keys_are_found_by_their_bytes(app: Application) -> None:
    app.table("files").put({b"a\x00": {"n": 1}, b"b": {"n": 2}})
    found = explain(app, "copies", b"a\x00")
    assert [row["value"] for row in found.stations[0].rows] == [{"n": 1}]
    assert repr(found).startswith('"YQA=" in join/copies')


def test_a_join_with_a_stream_cannot_be_explained_by_key(app: Application) -> None:
    with pytest.raises(UsageError, match="no current value per key"):
        app.join("seen").explain("O1")
    with pytest.raises(UsageError, match="no current value per key"):
        app.explain("O1", "seen")


def test_an_application_explains_the_result_of_its_only_join_of_tables_or_of_a_named_one(app: Application) -> None:
    app.table("files").put({b"b": {"n": 2}})
    found = app.explain(b"b", "copies")
    assert [row["value"] for row in found.stations[0].rows] == [{"n": 2}]
    with pytest.raises(UsageError, match=r"name the join whose result is to be explained: .*copies"):
        app.explain(b"b")
