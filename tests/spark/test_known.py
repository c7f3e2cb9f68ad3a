"""What is known of left keys is the same where Arrow joins what was looked up and where Spark joins tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from hashlib import md5
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kaspr_delta import Application
from kaspr_delta.engine.joins.foreign_key import known
from kaspr_delta.engine.joins.foreign_key.known import known_of
from kaspr_delta.engine.joins.foreign_key.known_here import known_here
from kaspr_delta.engine.joins.foreign_key.subscriptions import COLUMNS, Subscriptions
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.storage.spark.frames import frame_of
from kaspr_delta.storage.tables import Commit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANIFEST = Path(__file__).parents[2] / "benchmarks" / "join.yaml"
BEGAN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
KEYS = [f'"O-{number}"' for number in range(12)]
FOREIGN_KEYS = ['"P-1"', '"P-10"', '"P-2"', None]
VALUES = ['{"a": 1}', '{"a":"é"}', "null", "no JSON", "", None]
TIME = pa.timestamp("us", "UTC")
STORED = pa.schema([("key", pa.string()), ("value", pa.string()), ("timestamp", TIME)])
STATES = pa.schema([(name, pa.string()) for name in COLUMNS])
TAIL = STATES.append(pa.field("live", pa.bool_()))
TOUCHED = pa.schema([("side", pa.string()), ("key", pa.string()), ("changed_at", TIME), ("reason", pa.string())])


class Made:
    """Rows, subscriptions and touched keys of a seed."""

    def __init__(self, seed: int, sides: Collection[str], *, waiting: bool = False, doubled: bool = False) -> None:
        self.random = random = Random(seed)  # noqa: S311
        rows = [
            {"key": key, "value": random.choice(VALUES), "timestamp": random.choice([self._at(), None])}
            for key in [*self._some(KEYS), None]
        ]
        if doubled:
            rows += [{"key": '"O-0"', "value": value, "timestamp": None} for value in ("one", "two")]
        keys = [("left", key) for key in self._some([*KEYS[1:], "odd"])]
        keys += [("right", key) for key in self._some(['"P-1"', '"P-2"', '"P-3"'])] if "right" in sides else []
        touched = [
            {"side": side, "key": key, "changed_at": self._at(), "reason": "odd" if key == "odd" else None}
            for side, key in [*keys, ("left", '"O-0"')]
        ]
        self.stored = pa.Table.from_pylist(rows, STORED)
        self.touched = pa.Table.from_pylist(touched, TOUCHED)
        self.states = pa.Table.from_pylist(self._states(), STATES)
        tail = [{**state, "live": random.random() < 0.7} for state in self._states()]
        self.tail = pa.Table.from_pylist(tail, TAIL) if waiting else None

    def _some(self, values: list[Any]) -> list[Any]:
        return self.random.sample(values, self.random.randint(0, len(values)))

    def _at(self) -> datetime:
        return BEGAN + timedelta(milliseconds=self.random.randint(0, 9))

    def _states(self) -> list[dict[str, Any]]:
        hashes = [md5(str(value).encode(), usedforsecurity=False).hexdigest() for value in VALUES]
        return [
            {
                "key": key,
                "fk": self.random.choice(FOREIGN_KEYS),
                "left_hash": self.random.choice([*hashes, None]),
                "emitted": self.random.choice(["e", None]),
            }
            for key in self._some(KEYS)
        ]


def found(rows: pa.Table, values: Mapping[str, Collection[str]]) -> pa.Table:
    mine = [pc.is_in(rows[column], pa.array(some, pa.string())) for column, some in values.items()]
    return rows.filter(mine[0] if len(mine) == 1 else pc.or_(*mine))


@pytest.fixture
def left(tmp_path: Path) -> KeyedTable:
    app = Application.open(MANIFEST, warehouse=tmp_path)
    plan = app.plan.table("orders")
    assert plan is not None
    return KeyedTable(app.delta, plan)


@pytest.mark.parametrize("sides", [("left",), ("left", "right")], ids=" and ".join)
@pytest.mark.parametrize(
    "case", [{}, {"waiting": True}, {"doubled": True}], ids=["all folded", "some not folded", "a key twice"]
)
def test_arrow_knows_what_spark_knows(
    spark: SparkSession,
    left: KeyedTable,
    monkeypatch: pytest.MonkeyPatch,
    sides: tuple[str, ...],
    case: dict[str, bool],
) -> None:
    joined_here: list[bool] = []

    def noted(*tables: Any, joins: Any = known_here) -> pa.Table | None:
        table: pa.Table | None = joins(*tables)
        joined_here.append(table is not None)
        return table

    monkeypatch.setattr(known, "known_here", noted)
    pinned, seen = Commit(0, BEGAN), 0
    for seed in range(6):
        made = Made(seed, sides, **case)
        stored, states = frame_of(spark, made.stored), frame_of(spark, made.states)
        keys = Rows.held(spark, made.touched)

        def looked_up(_: KeyedTable, spark: SparkSession, __: int, wanted: list[str], rows: pa.Table) -> Rows:
            return Rows.held(spark, found(rows, {"key": wanted}))

        monkeypatch.setattr(KeyedTable, "stored", partial(looked_up, left, rows=made.stored))
        here = known_of(Subscriptions(states, made.tail, partial(found, made.states)), keys, sides, left, pinned)
        assert joined_here == ["doubled" not in case]
        monkeypatch.setattr(KeyedTable, "stored", lambda *_, rows=stored: Rows(rows))
        there = known_of(Subscriptions(states, made.tail), keys, sides, left, pinned)
        assert len(joined_here) == 1
        joined_here.clear()
        columns = sorted(there.df.columns)
        assert columns == sorted(here.df.columns)
        assert {one.name: one.dataType for one in here.df.schema} == {one.name: one.dataType for one in there.df.schema}
        expected = sorted(map(str, there.df.select(*columns).collect()))
        assert sorted(map(str, here.df.select(*columns).collect())) == expected
        seen += len(expected)
    assert seen > 0
