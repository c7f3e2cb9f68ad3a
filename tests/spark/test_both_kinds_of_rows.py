"""Every hop of a join of tables gives the same rows on the driver and in Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from hashlib import md5
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.engine.joins.foreign_key.foreign_key_join import COLUMNS
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.plan.definition.joins import ForeignKeyJoinPlan, SameKeyJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.resources import run_of
from kaspr_delta.storage.arrow_types import collected
from kaspr_delta.storage.limits import Limits, Size
from kaspr_delta.storage.opening import open_tables
from tests.folders import overwrite
from tests.manifests import opened

pytestmark = pytest.mark.slow  # test_pending_batches.py changes from one kind to the other within a history

MANIFEST = """
KasprTable/orders: {}
KasprTable/products: {}
KasprJoin/by-foreign-key:
  leftTable: orders
  rightTable: products
  type: left
  extractor: {python: "def product_of(order): return order['fk']"}
KasprJoin/by-key: {leftTable: orders, rightTable: products, on: key, type: outer}
"""
BEGAN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
KEYS = [f'"{number}"' for number in range(12)]
ORDERS = ['{"fk": "1"}', '{"fk":"2"}', '{"fk":"10"}', '{"fk":null}', "{}", "[1]", "null", "no JSON", "", None]
PRODUCTS = ['{"a": 1}', '{"a":"é"}', "null", "no JSON", None]
TIME = pa.timestamp("us", "UTC")
STORED = pa.schema([("key", pa.string()), ("value", pa.string()), ("timestamp", TIME)])
STATES = pa.schema([(name, pa.string()) for name in COLUMNS])
CHANGES = pa.schema([("side", pa.string()), ("key", pa.string()), ("changed_at", TIME), ("version", pa.int64())])
RESULTS = pa.schema([("key", pa.string()), ("left", pa.string()), ("right", pa.string()), ("timestamp", TIME)])
NOTHING = Size(0, 0)
ALL_IN_SPARK = Limits(changes=NOTHING, small_batch=NOTHING)
"""Limits with which every batch is a large one."""
KNOWN_BUT_LARGE = Limits(small_batch=NOTHING)
"""Limits with which the touched keys are known, but the batch is a large one."""


class RandomTables:
    """Random rows of both tables, subscriptions, results and changes, made from a seed."""

    def __init__(
        self,
        seed: int,
        *,
        with_duplicates: bool = False,
        with_unmerged: bool = False,
        sides: Sequence[str] = ("left", "right"),
    ) -> None:
        self.random = random = Random(seed)  # noqa: S311
        self.orders, self.products = (
            self._rows(ORDERS, with_duplicates=with_duplicates),
            self._rows(PRODUCTS, with_duplicates=with_duplicates),
        )
        keys = [
            (side, key)
            for side in sides
            for key in [*self._random_part(KEYS), *self._random_part(["odd", None]), '"1"', '"0"']
        ]
        changes = [
            {"side": side, "key": key, "changed_at": self._random_time(), "version": 1}
            for side, key in [*keys, keys[-1]]
        ]
        self.changes = pa.Table.from_pylist(changes, CHANGES)
        self.states = pa.Table.from_pylist(self._states(), STATES)
        unmerged = [{**state, "live": random.random() < 0.7} for state in self._states()]
        self.unmerged = (
            [pa.Table.from_pylist(unmerged, STATES.append(pa.field("live", pa.bool_())))] if with_unmerged else []
        )
        results = [
            {"key": key, "left": random.choice(ORDERS), "right": random.choice(PRODUCTS)}
            for key in self._random_part(KEYS)
        ]
        self.results = pa.Table.from_pylist(results, RESULTS)

    def _rows(self, values: list[Any], *, with_duplicates: bool) -> pa.Table:
        keys = [*self._random_part(KEYS), None]
        keys += [*self._random_part(keys), '"0"', '"0"'] if with_duplicates else []
        at = [self._random_time(), None]
        rows = [{"key": key, "value": self.random.choice(values), "timestamp": self.random.choice(at)} for key in keys]
        return pa.Table.from_pylist(rows, STORED)

    def _random_part(self, values: list[Any]) -> list[Any]:
        return self.random.sample(values, self.random.randint(0, len(values)))

    def _random_time(self) -> datetime:
        return BEGAN + timedelta(milliseconds=self.random.randint(0, 9))

    def _states(self) -> list[dict[str, Any]]:
        hashes = [md5(str(value).encode(), usedforsecurity=False).hexdigest() for value in ORDERS]
        return [
            {
                "key": key,
                "fk": self.random.choice(['"1"', '"2"', '"10"', None]),
                "left_hash": self.random.choice([*hashes, None]),
                "emitted": self.random.choice(["e", f"{hashes[0]}:", None]),
            }
            for key in self._random_part(KEYS)
        ]


def comparable(rows: Rows) -> tuple[list[tuple[str, str]], list[str]]:
    """The columns with their types, sorted, and the rows as text, sorted. ``seq``, which numbers rows, is left out."""
    df = rows.df.select(*sorted(name for name in rows.columns if name != "seq"))
    return df.dtypes, sorted(map(str, collected(df).to_pylist()))


@pytest.fixture(scope="module")
def app(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Application:
    folder = tmp_path_factory.mktemp("both")
    return opened(spark, folder, "both", MANIFEST)


def fill_tables(app: Application, made: RandomTables, of: Mapping[str, pa.Table]) -> Rows:
    """Fill the tables, and return the changes."""
    for table, rows in {"orders": made.orders, "products": made.products, **of}.items():
        overwrite(app.delta.namespace, table, rows)
    return LocalRows(app.spark, made.changes)


def assert_equal_rows(app: Application, name: str, *of_batch: Any) -> None:
    """Assert that the rows of the log for a batch are equal under all limits."""
    found = []
    for limits in (Limits(), ALL_IN_SPARK, KNOWN_BUT_LARGE):
        join: Any = run_of(open_tables(app.delta.namespace, limits), app.plan, ResourceRef("join", name)).resource
        effects: Rows = join.decide_early(*of_batch).effects
        assert isinstance(effects, LocalRows) == (limits == Limits())
        found.append(comparable(effects))
    assert found[0][1]
    assert found[1:] == [found[0], found[0]]


CASES = pytest.mark.parametrize(
    "case",
    [
        pytest.param({}, id="all merged"),
        pytest.param({"with_unmerged": True, "sides": ["right"]}, id="some not merged"),
        pytest.param({"with_duplicates": True, "with_unmerged": True}, id="a key twice"),
    ],
)


@CASES
def test_a_foreign_key_batch_gives_equal_rows_on_the_driver_and_in_spark(
    app: Application, case: dict[str, Any]
) -> None:
    plan = app.plan.join("by-foreign-key")
    assert isinstance(plan, ForeignKeyJoinPlan)
    made = RandomTables(len(case), **case)
    changes = fill_tables(app, made, {plan.subscriptions: made.states})
    assert_equal_rows(app, plan.name, changes, {}, made.unmerged)


@CASES
def test_a_same_key_batch_gives_equal_rows_on_the_driver_and_in_spark(app: Application, case: dict[str, Any]) -> None:
    plan = app.plan.join("by-key")
    assert isinstance(plan, SameKeyJoinPlan)
    made = RandomTables(len(case), **case)
    changes = fill_tables(app, made, {plan.result: made.results})
    assert_equal_rows(app, plan.name, changes, {}, [])
