"""``dev`` on Spark: a changed function, and a changed join in a warehouse that stays, change the rows that come out."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaspr_delta.spec.fixture_files import load_fixtures
from kaspr_delta.testing.changed_rows import ChangedRow
from kaspr_delta.testing.development import Development, Turn
from tests.manifests import manifests

pytestmark = pytest.mark.further

APP = """\
KasprApp/shop: {}
KasprTable/orders: {}
KasprTable/prices: {}
KasprJoin/priced:
  leftTable: orders
  rightTable: prices
  type: inner
  extractor: {python: "def key(order):\\n    return order['product']\\n"}
KasprAgent/bill:
  input: {topic: {name: sales}}
  output: {topics: [{name: bills}]}
  processors:
    pipeline: [twice]
    operations: [{name: twice, map: {python: "def twice(value):\\n    return value * 2\\n"}}]
"""
GIVEN = """\
test: a rule
given:
  tables:
    orders: [{key: o1, value: {product: p1}}, {key: o2, value: {product: p2}}]
    prices: [{key: p1, value: 5}]
  topics:
    sales: [{key: s1, value: 4}]
then: {}
"""


def turn_of(development: Development, app: str) -> Turn:
    (development.path / "app.yaml").write_text(manifests("shop", app))
    found = development.turn(load_fixtures(development.path)[0])
    assert found is not None
    return found


@pytest.mark.usefixtures("spark")
def test_a_changed_manifest_shows_the_rows_that_it_changes(tmp_path: Path) -> None:
    (tmp_path / "app.test.yaml").write_text(GIVEN)
    fresh = Development(tmp_path)
    first = turn_of(fresh, APP)
    assert first.rows == {
        "topic/sales": 1,
        "topic/bills": 1,
        "table/orders": 2,
        "table/prices": 1,
        "join/priced": 1,
        "dead letters": 0,
    }
    assert turn_of(fresh, APP.replace("value * 2", "value * 3")).differences == {
        "topic/bills": [ChangedRow("null", {"value": 8}, {"value": 12})]
    }
    fresh.close()
    kept = Development(tmp_path, tmp_path / "wh")
    turn_of(kept, APP)
    then = turn_of(kept, APP.replace("inner", "left"))
    assert list(then.rebuilt) == ["join/priced"]
    assert then.differences == {
        "join/priced": [ChangedRow('"o2"', None, {"value": {"left": {"product": "p2"}, "right": None}})]
    }
