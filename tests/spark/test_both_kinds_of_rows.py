"""Every hop of a join of tables gives the same rows on the driver and in Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from hashlib import md5
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kaspr_delta import Application
from kaspr_delta.engine.joins.foreign_key import foreign_key_join
from kaspr_delta.engine.joins.foreign_key.foreign_key_join import COLUMNS
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.plan.definition.joins import ForeignKeyJoinPlan, SameKeyJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.resources import run_of
from kaspr_delta.storage.limits import Limits, Size
from kaspr_delta.storage.opening import open_tables
from kaspr_delta.storage.spark.frames import collected, frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


MANIFEST = """
apiVersion: kaspr.io/v1alpha1
kind: KasprTable
metadata: {name: orders, labels: {kaspr.io/app: both}}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprTable
metadata: {name: products, labels: {kaspr.io/app: both}}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprJoin
metadata: {name: by-foreign-key, labels: {kaspr.io/app: both}}
spec:
  leftTable: orders
  rightTable: products
  type: left
  extractor: {python: "def product_of(order): return order['fk']"}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprJoin
metadata: {name: by-key, labels: {kaspr.io/app: both}}
spec: {leftTable: orders, rightTable: products, on: key, type: outer}
"""
BEGAN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
KEYS = [f'"{number}"' for number in range(12)]
ORDERS = ['{"fk": "1"}', '{"fk":"2"}', '{"fk":"10"}', '{"fk":null}', "{}", "[1]", "null", "no JSON", "", None]
PRODUCTS = ['{"a": 1}', '{"a":"é"}', "null", "no JSON", None]
TIME = pa.timestamp("us", "UTC")
STORED = pa.schema([("key", pa.string()), ("value", pa.string()), ("timestamp", TIME)])
STATES = pa.schema([(name, pa.string()) for name in COLUMNS])
CHANGES = pa.schema([("side", pa.string()), ("key", pa.string()), ("changed_at", TIME)])
RESULTS = pa.schema([("key", pa.string()), ("left", pa.string()), ("right", pa.string()), ("timestamp", TIME)])
NOTHING = Size(0, 0)
ALL_IN_SPARK = Limits(changes=NOTHING, small_batch=NOTHING)
"""Limits with which every batch is a large one."""
KNOWN_BUT_LARGE = Limits(small_batch=NOTHING)
"""Limits with which the touched keys are known, but the batch is a large one."""


class Made:
    """Random rows of both tables, subscriptions, results and changes, made from a seed."""

    def __init__(
        self, seed: int, *, doubled: bool = False, waiting: bool = False, sides: Sequence[str] = ("left", "right")
    ) -> None:
        self.random = random = Random(seed)  # noqa: S311
        self.orders, self.products = self._rows(ORDERS, doubled=doubled), self._rows(PRODUCTS, doubled=doubled)
        keys = [(side, key) for side in sides for key in [*self._some(KEYS), *self._some(["odd", None]), '"1"', '"0"']]
        changes = [{"side": side, "key": key, "changed_at": self._at()} for side, key in [*keys, keys[-1]]]
        self.changes = pa.Table.from_pylist(changes, CHANGES)
        self.states = pa.Table.from_pylist(self._states(), STATES)
        unmerged = [{**state, "live": random.random() < 0.7} for state in self._states()]
        self.unmerged = [pa.Table.from_pylist(unmerged, STATES.append(pa.field("live", pa.bool_())))] if waiting else []
        results = [
            {"key": key, "left": random.choice(ORDERS), "right": random.choice(PRODUCTS)} for key in self._some(KEYS)
        ]
        self.results = pa.Table.from_pylist(results, RESULTS)

    def _rows(self, values: list[Any], *, doubled: bool) -> pa.Table:
        keys = [*self._some(KEYS), None]
        keys += [*self._some(keys), '"0"', '"0"'] if doubled else []
        at = [self._at(), None]
        rows = [{"key": key, "value": self.random.choice(values), "timestamp": self.random.choice(at)} for key in keys]
        return pa.Table.from_pylist(rows, STORED)

    def _some(self, values: list[Any]) -> list[Any]:
        return self.random.sample(values, self.random.randint(0, len(values)))

    def _at(self) -> datetime:
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
            for key in self._some(KEYS)
        ]


class Hops:
    """The rows that functions of a module returned, by function name. Each is called once for a batch."""

    def __init__(self, patched: pytest.MonkeyPatch, module: Any, names: tuple[str, ...]) -> None:
        self.found: dict[str, list[Rows]] = {}
        for name in names:
            patched.setattr(module, name, self._noting(name, getattr(module, name)))

    def _noting(self, name: str, hop: Callable[..., Rows]) -> Callable[..., Rows]:
        def noted(*arguments: Any, **named: Any) -> Rows:
            self.found.setdefault(name, []).append(hop(*arguments, **named))
            return self.found[name][-1]

        return noted


def shown(rows: Rows) -> tuple[list[tuple[str, str]], list[str]]:
    """The columns with their types, sorted, and the rows as text, sorted. ``seq``, which numbers rows, is left out."""
    df = rows.df.select(*sorted(name for name in rows.columns if name != "seq"))
    return df.dtypes, sorted(map(str, collected(df).to_pylist()))


@pytest.fixture
def app(spark: SparkSession, tmp_path: Path) -> Application:
    manifest = tmp_path / "both.yaml"
    manifest.write_text(MANIFEST)
    return Application.open(manifest, warehouse=tmp_path / "wh", spark=spark)


def filled(app: Application, made: Made, of: Mapping[str, pa.Table]) -> DataFrame:
    """Fill the tables, and return the changes."""
    for table, rows in {"orders": made.orders, "products": made.products, **of}.items():
        app.delta.replace(app.spark, frame_of(app.spark, rows), table)
    return frame_of(app.spark, made.changes)


def decided(app: Application, name: str, limits: Limits, *of_batch: Any) -> Rows:
    """The rows of the log for a batch under these limits."""
    join: Any = run_of(open_tables(app.delta.namespace, limits), app.plan, ResourceRef("join", name)).resource
    effects: Rows = join.decide(*of_batch).effects
    assert isinstance(effects, LocalRows) == (limits == Limits())
    return effects


CASES = pytest.mark.parametrize(
    "case",
    [{}, {"waiting": True, "sides": ["right"]}, {"doubled": True}],
    ids=["all merged", "some not merged", "a key twice"],
)
HOPS = ("left_context", "send", "receive", "respond", "emit")


@pytest.mark.parametrize("hop", HOPS)
def test_a_hop_of_the_foreign_key_join(app: Application, monkeypatch: pytest.MonkeyPatch, hop: str) -> None:
    plan = app.plan.join("by-foreign-key")
    assert isinstance(plan, ForeignKeyJoinPlan)
    made = Made(HOPS.index(hop), doubled=True, waiting=True)
    changes = filled(app, made, {plan.subscriptions: made.states})
    hops = Hops(monkeypatch, foreign_key_join, (hop,))
    for limits in (Limits(), ALL_IN_SPARK):
        decided(app, plan.name, limits, changes, {}, made.unmerged)
    here, in_spark = hops.found[hop]
    assert isinstance(here, LocalRows)
    assert not isinstance(in_spark, LocalRows)
    assert shown(here) == shown(in_spark)
    assert here.count()


@CASES
@pytest.mark.parametrize("limits", [ALL_IN_SPARK, KNOWN_BUT_LARGE], ids=["keys in Spark", "keys known"])
def test_batches_of_the_foreign_key_join(app: Application, case: dict[str, Any], limits: Limits) -> None:
    plan = app.plan.join("by-foreign-key")
    assert isinstance(plan, ForeignKeyJoinPlan)
    made = Made(len(case), **case)
    changes = filled(app, made, {plan.subscriptions: made.states})
    here, in_spark = (decided(app, plan.name, one, changes, {}, made.unmerged) for one in (Limits(), limits))
    assert shown(here) == shown(in_spark)
    assert here.count()


@CASES
@pytest.mark.parametrize("limits", [ALL_IN_SPARK, KNOWN_BUT_LARGE], ids=["keys in Spark", "keys known"])
def test_batches_of_the_join_by_key(app: Application, case: dict[str, Any], limits: Limits) -> None:
    plan = app.plan.join("by-key")
    assert isinstance(plan, SameKeyJoinPlan)
    made = Made(len(case), **case)
    changes = filled(app, made, {plan.result: made.results})
    here, in_spark = (decided(app, plan.name, one, changes, {}) for one in (Limits(), limits))
    assert shown(here) == shown(in_spark)
    assert here.count()
