"""Twins, which are computed both in Spark and in Python, give the same for every value (docs/design/twins.md)."""

from __future__ import annotations

import json
import reprlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timezone
from decimal import Context, Decimal
from functools import partial, reduce
from itertools import pairwise
from operator import and_
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta import Application
from kaspr_delta.api.wanted import Wanted
from kaspr_delta.engine.agent.stateless import for_workers
from kaspr_delta.engine.joins.results import checked_rows
from kaspr_delta.engine.joins.stream_table.seen import with_row, with_rows
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.typed_columns import comparable, key_columns, key_text, row_of, row_text
from kaspr_delta.engine.rows.value_functions import IS_JSON
from kaspr_delta.engine.streams.event import for_all_readers, records_of
from kaspr_delta.engine.streams.source import partition_of, topic_records
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.plan.definition.typed_tables import TypedPlan
from kaspr_delta.serde import json_text, typed_values
from kaspr_delta.serde.typed_text import TypedText, ordered
from kaspr_delta.spec.ddl import Type, columns_of
from kaspr_delta.storage.arrow_types import arrow_schema, batch_of, frame_of
from kaspr_delta.storage.layout import RETRY_FOR, TOPIC
from kaspr_delta.web.local_copy import LocalCopy
from kaspr_delta.web.warehouse_store import WarehouseStore
from tests.folders import delta_rs, overwrite

pytestmark = pytest.mark.spark
MANIFESTS = Path(__file__).with_name("twins.yaml")
JSON = Serializers("json", "json")
# Settings that other sessions may have. Results do not depend on them.
SESSIONS: list[dict[str, str]] = [
    {},
    {"spark.sql.ansi.enabled": "false", "spark.sql.chunkBase64String.enabled": "false"},
    {"spark.sql.session.timeZone": "America/New_York"},
]
ROWS = 25
# Base64 of 57 bytes is one line of 76 characters.
LENGTHS = (0, 1, 57, 58, 76, 77, 60_000)
LONG_BYTES = [bytes(number % 251 for number in range(length)) for length in LENGTHS]
LONG_TEXTS = ['é"\\\n\u2028'[:length] * (length // 5 + 1) for length in LENGTHS]
ODD_TEXTS = ["\x00", "\x0b\x1f\x7f", "\u2028\u2029", "𝄞\ufffd\uffff", "e\u0301", "é", "ß SS", " a\u00a0", "null", "İi"]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(  # noqa: DTZ001  zones are given below
    lambda moment: moment.replace(fold=0)
)
SINGLES = st.floats(width=32)
DOUBLES = st.floats() | st.sampled_from([-0.0, 1e16, 1e15, 5e-324, 1e-5, float("nan"), float("inf"), float("-inf")])
NTZ = [datetime(1, 1, 2), datetime(1582, 10, 10), datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(9999, 12, 30)]  # noqa: DTZ001


def exact(number: str, scale: int) -> Decimal:
    return Decimal(number).quantize(Decimal(1).scaleb(-scale), context=Context(prec=76))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    odd = st.sampled_from([0, 1, -1, 10, most, -most, 10 ** min(scale, precision - 1)])
    return (st.integers(-most, most) | odd).map(lambda digits: exact(f"{digits}e-{scale}", scale))


def utc(moments: Sequence[datetime]) -> list[datetime]:
    return [moment.replace(tzinfo=timezone.utc) for moment in moments]


# For each type that a key may have: generated values, and values that are always tested.
KEYS: dict[str, tuple[st.SearchStrategy[Any], Sequence[Any]]] = {
    "STRING": (TEXTS, [*LONG_TEXTS, *ODD_TEXTS]),
    "TINYINT": (st.integers(-128, 127), [-128]),
    "SMALLINT": (st.integers(-(2**15), 2**15 - 1), [0]),
    "INT": (st.integers(-(2**31), 2**31 - 1), [0]),
    "BIGINT": (st.integers(-(2**63), 2**63 - 1), [-(2**63), 2**63 - 1, 10]),
    "DECIMAL(5,2)": (decimals(5, 2), [Decimal("0.00"), Decimal("-0.50"), Decimal("10.00")]),
    "DECIMAL(38,0)": (decimals(38, 0), [Decimal(10**37)]),
    "DECIMAL(38,18)": (decimals(38, 18), [exact(number, 18) for number in ("1E-18", "0", "1E-7")]),
    "DECIMAL(38,38)": (decimals(38, 38), [exact("0", 38)]),
    "BOOLEAN": (st.booleans(), [True, False]),
    "BINARY": (st.binary(max_size=9), LONG_BYTES),
    "DATE": (st.dates(), [date.min, date.max, date(1582, 10, 10)]),
    "TIMESTAMP": (MOMENTS.map(lambda moment: moment.replace(tzinfo=timezone.utc)), utc(NTZ)),
    "TIMESTAMP_NTZ": (MOMENTS, NTZ),
}
OTHERS: dict[str, tuple[st.SearchStrategy[Any], Sequence[Any]]] = {
    "FLOAT": (SINGLES, [0.10000000149011612, -0.0, float("nan"), 1.401298464324817e-45, 16777216.0]),
    "DOUBLE": (DOUBLES, [-0.0, 1e16, float("nan")]),
    "ARRAY<FLOAT>": (st.lists(st.none() | SINGLES, max_size=3), [[], [None]]),
    "ARRAY<STRUCT<a: INT, b: BINARY>>": (
        st.lists(
            st.none()
            | st.fixed_dictionaries({"a": st.none() | st.integers(0, 9), "b": st.none() | st.binary(max_size=3)}),
            max_size=3,
        ),
        [[{"a": 1, "b": LONG_BYTES[3]}]],
    ),
    "MAP<STRING, DECIMAL(5, 1)>": (
        st.dictionaries(TEXTS, st.none() | decimals(5, 1), max_size=3),
        [{}, {"a": Decimal("1.5")}, {"a": Decimal("1.5"), "b": None}, {"b": None, "a": Decimal("10.5")}],
    ),
    "STRUCT<x: STRING, y: MAP<STRING, ARRAY<DOUBLE>>>": (
        st.fixed_dictionaries(
            {
                "x": st.none() | TEXTS,
                "y": st.none() | st.dictionaries(st.sampled_from("ab\x0b"), st.lists(DOUBLES, max_size=2), max_size=2),
            }
        ),
        [{"x": None, "y": None}, {"x": "", "y": {"\x0b": [float("nan")]}}],
    ),
    "STRUCT<at: TIMESTAMP, local: TIMESTAMP_NTZ, day: DATE, few: DECIMAL(5,2)>": (
        st.fixed_dictionaries(
            {"at": MOMENTS.map(lambda at: at.replace(tzinfo=timezone.utc)), "local": MOMENTS, "day": st.dates(),
             "few": decimals(5, 2)}
        ),
        [],
    ),
}  # fmt: skip
ALL = {**KEYS, **OTHERS}
SCHEMA = columns_of(", ".join(f"c{number} {of}" for number, of in enumerate(ALL)))
PLAN = TypedPlan((), SCHEMA)
TEXT = TypedText(JSON, PLAN)


@st.composite
def columns(draw: st.DrawFn, of: Mapping[str, tuple[st.SearchStrategy[Any], Sequence[Any]]]) -> list[list[Any]]:
    """A column for each type, all of the same length: the values that are always tested, and generated ones."""
    most = max(len(always) for _, always in of.values()) + ROWS
    drawn: list[list[Any]] = []
    for values, always in of.values():
        some = draw(st.lists(st.none() | values, min_size=4, max_size=ROWS))
        chosen = [*always, *some]
        drawn.append([chosen[number % len(chosen)] for number in range(most)])
    return drawn


def examples(ordinary: int, many: int) -> Callable[[Callable[..., None]], Any]:
    """A parameter ``most``: few examples for the ordinary tests, many for the slow ones."""
    return pytest.mark.parametrize(
        "most", [ordinary, pytest.param(many, marks=pytest.mark.slow)], ids=["a few", "many"]
    )


class Shortened:
    """A long value, which is shown shortened if its check fails."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return reprlib.repr(self.value)


def for_all(most: int, check: Callable[[Any], None], values: st.SearchStrategy[Any]) -> None:
    """Check generated values. A failing one is not shrunk: that would repeat Spark's jobs."""

    @settings(
        max_examples=most,
        deadline=None,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(values.map(Shortened))
    def checked(drawn: Shortened) -> None:
        check(drawn.value)

    checked()


@contextmanager
def with_settings(spark: SparkSession, session: Mapping[str, str]) -> Iterator[None]:
    """Give a session other settings until the block ends."""
    before = {name: str(spark.conf.get(name)) for name in session}
    try:
        for name, value in session.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, was in before.items():
            spark.conf.set(name, was)


def rows_of(spark: SparkSession, drawn: Sequence[Sequence[Any]], schema: Sequence[Any]) -> DataFrame:
    """Values that Spark reads from the text that Python writes: columns n and row."""
    of = Type("STRUCT", fields=tuple(schema))
    text = TypedText(JSON, TypedPlan((), tuple(schema)))
    rows = [dict(zip((one.name for one in schema), values, strict=True)) for values in zip(*drawn, strict=True)]
    texts = pa.table({"n": pa.array(range(len(rows))), "text": pa.array(map(text.value, rows), pa.string())})
    return frame_of(spark, texts).select("n", row_of(F.col("text"), of).alias("row"))


def collected(rows: DataFrame, *wanted: Column) -> dict[str, list[Any]]:
    found = rows.select("n", *wanted).orderBy("n").toArrow()
    return {name: found[name].to_pylist() for name in found.column_names}


def shown(value: Any) -> str:
    """A text to compare values by: NaN equals NaN, -0.0 differs from 0.0, and maps have no order."""
    match value:
        case dict():
            return repr(sorted((str(name), shown(item)) for name, item in value.items()))
        case list():
            return repr([shown(item) for item in value])
        case _:
            return repr(value)


@pytest.mark.parametrize(
    "session",
    [SESSIONS[0], *(pytest.param(session, marks=pytest.mark.further) for session in SESSIONS[1:])],
    ids=["as here", "without ANSI", "New York"],
)
@examples(2, 30)
def test_spark_and_python_spell_keys_and_rows_alike(spark: SparkSession, session: dict[str, str], most: int) -> None:
    with with_settings(spark, session):
        for_all(most, partial(assert_same_text, spark), columns(ALL))


def assert_same_text(spark: SparkSession, drawn: list[list[Any]]) -> None:
    rows = rows_of(spark, drawn, SCHEMA)
    keys = SCHEMA[: len(KEYS)]
    texts = {one.name: key_text([F.col("row")[one.name]], [one.type]) for one in keys}
    same = {
        one.name: key_columns(texts[one.name], [one.type])[0].eqNullSafe(F.col("row")[one.name]).alias(f"={one.name}")
        for one in keys
    }
    types = [one.type for one in keys]
    several = key_text([F.col("row")[one.name] for one in keys], types)
    parts = zip(keys, key_columns(several, types), strict=True)
    same["all"] = reduce(and_, (part.eqNullSafe(F.col("row")[one.name]) for one, part in parts)).alias("=all")
    wanted = [*(text.alias(name) for name, text in texts.items()), *same.values(), several.alias("all")]
    found = collected(rows, row_text(F.col("row")).alias("text"), F.col("row"), *wanted)
    for one, values in zip(SCHEMA, drawn, strict=True):
        of, expected = one.type, [shown(value) for value in values]
        through_text = [TEXT.value_object(text)[one.name] for text in found["text"]]
        assert [shown(value) for value in through_text] == expected, of
        through_arrow = [typed_values.from_columns(PLAN.row, row)[one.name] for row in found["row"]]
        assert [shown(value) for value in through_arrow] == expected, of
    for one, values in zip(keys, drawn, strict=False):
        spelled = [None if value is None else typed_values.key_text(one.type, value, "k") for value in values]
        assert found[one.name] == spelled, one.type
        assert all(found[f"={one.name}"]), one.type
    whole = TypedText(JSON, TypedPlan(tuple(one.name for one in keys), keys))
    assert all(same for text, same in zip(found["all"], found["=all"], strict=True) if text is not None)
    assert found["all"] == [whole.foreign_key(list(key)) for key in zip(*drawn[: len(KEYS)], strict=True)]


@examples(2, 30)
def test_spark_and_python_order_values_alike(spark: SparkSession, most: int) -> None:
    for_all(most, partial(assert_same_order, spark), columns(ALL))


def assert_same_order(spark: SparkSession, drawn: list[list[Any]]) -> None:
    rows = rows_of(spark, drawn, SCHEMA)
    lists = [
        F.array_sort(F.collect_list(F.struct(comparable(F.col("row")[one.name], one.type).alias("value"), "n")))["n"]
        for one in SCHEMA
    ]
    (found,) = rows.select(*(order.alias(one.name) for order, one in zip(lists, SCHEMA, strict=True))).collect()
    for one, values in zip(SCHEMA, drawn, strict=True):
        ranks = [ordered(one.type, values[n]) for n in found[one.name]]
        assert all(lesser <= greater for lesser, greater in pairwise(ranks)), one.type


ODD_JSON = [
    *("1 2", '{"a":1}x', "{}{}", "[1]]", "true false", "1,2", "1],[2", '"a""b"', "1 // c", "/**/1"),
    *('{"a":1,"a":2}', '{"a":{"b":1,"b":2}}', '"\\ud800"', '"\\udd1e\\ud834"', '"\\ud834\\udd1e"', "1" * 1001),
    *("NaN", "[Infinity]", "1e400", "01", "1.", ".5", "+1", "-0", "'a'", "{a:1}", "[1,]", "\ufeff1", " \t\r\n1 "),
    *("\x0b1", '{"a":1}\x0c', "1\x00", '"\x01"', '"\x7f"', '"\u2028"', '"\\u0000"', "", " ", "null", "tru", "True"),
    *("0." + "1" * 1001, "[" * 300 + "]" * 300, '{"a":' * 300 + "1" + "}" * 300, '"' + "é" * 60_000 + '"', "\u20281"),
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def json_texts(draw: st.DrawFn) -> list[str]:
    """JSON, and JSON into which a text was inserted, or from which a character was removed."""
    texts = []
    for value in draw(st.lists(VALUES, min_size=5, max_size=40)):
        text = json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
        at = draw(st.integers(0, len(text)))
        put = draw(st.sampled_from([*' ,]}["1\\/\x0b\u00a0e-', "", "", text]))
        texts += [text, text[:at] + put + text[at + draw(st.integers(0, 1)) :]]
    return [*ODD_JSON, *texts]


@examples(2, 60)
def test_spark_and_python_agree_on_which_texts_are_json(spark: SparkSession, most: int) -> None:
    for_all(most, partial(assert_both_accept_the_same_json, spark), json_texts())


def assert_both_accept_the_same_json(spark: SparkSession, texts: list[str]) -> None:
    rows = frame_of(spark, pa.table({"n": pa.array(range(len(texts))), "text": pa.array(texts, pa.string())}))
    found = collected(rows, IS_JSON.column(F.col("text")).alias("json"))["json"]
    assert IS_JSON.array is not None
    expected = IS_JSON.array(pa.chunked_array([texts])).to_pylist()
    assert [text for text, *both in zip(texts, found, expected, strict=True) if len(set(both)) > 1] == []


STORED = pa.schema([("key", pa.string()), ("value", pa.string()), ("timestamp", pa.timestamp("us", "UTC"))])
TIMES = st.none() | st.sampled_from(utc([*NTZ, datetime(2026, 1, 1)]))  # noqa: DTZ001


def stored(schema: pa.Schema, keys: Sequence[Any], values: Sequence[Any]) -> st.SearchStrategy[pa.Table]:
    """Rows of a table with keys and values. Some share a key, and some have null values."""
    row = st.fixed_dictionaries(
        {"key": st.none() | st.sampled_from(keys), "value": st.none() | st.sampled_from(values), "timestamp": TIMES}
    )
    return st.lists(row, min_size=1, max_size=40).map(lambda rows: pa.Table.from_pylist(rows, schema))


class Tables:
    """The tables of the application, read by Spark, from the local copies of web views and by a SQL warehouse."""

    def __init__(self, app: Application) -> None:
        self.app = app

    def live(self, name: str) -> KeyedTable:
        return KeyedTable(self.app.delta, self.app.plan.known_table(name))

    def assert_read_alike(self, name: str, rows: pa.Table) -> None:
        """Write rows to a table, and assert that each of these ways reads the same."""
        spark, live = self.app.spark, self.live(name)
        overwrite(self.app.delta.namespace, live.plan.delta_name, rows)
        value_of = live.text.value_object
        expected = {
            row["key"]: row["value"] for row in live.with_text_values(live.live_rows(spark)).collect().to_pylist()
        }
        read = {key: shown(value_of(value)) for key, value in expected.items()}
        copy = LocalCopy(delta_rs(self.app.delta.namespace), live.plan)
        try:
            before = copy.scan(None)
            copy.refresh()
            for found in (before, copy.scan(None), self._in_warehouse(live).scan(None)):
                assert {key: shown(value_of(value)) for key, value in found.items()} == read
            assert copy.fetch([*expected, '"none"']) == copy.scan(None)
        finally:
            copy.close()
        if live.plan.typed is not None:
            typed = live.live_rows(spark).df.toArrow()
            values = [typed_values.from_columns(live.plan.typed.row, value) for value in typed["value"].to_pylist()]
            pairs = zip(typed["key"].to_pylist(), values, strict=True)
            assert {key: shown(value) for key, value in pairs} == read

    def _in_warehouse(self, live: KeyedTable) -> Any:
        def rows(statement: str) -> Iterator[list[str | None]]:
            for row in self.app.spark.sql(statement).collect():
                yield [None if value is None else str(value) for value in row]

        warehouse: Any = SimpleNamespace(rows=rows, identifier=self.app.delta.namespace.identifier)
        return WarehouseStore(warehouse).reader(live.plan)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return Tables(Application.open(MANIFESTS, warehouse=tmp_path_factory.mktemp("twins"), spark=spark))


TEXT_KEYS = [json_text.canonical_key(text) for text in (*LONG_TEXTS, *ODD_TEXTS)]
TEXT_VALUES = [
    *("null", "1", '{"a":9}', '{"a":10}', "no JSON", '"é"', '"\U00010000"', '"\uffff"', json.dumps(LONG_TEXTS[-1])),
]


RAW_STORED = pa.schema([("key", pa.binary()), ("value", pa.binary()), STORED.field("timestamp")])


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("texts", stored(STORED, TEXT_KEYS, [value for value in TEXT_VALUES if value != "no JSON"])),
        ("bytes", stored(RAW_STORED, LONG_BYTES, LONG_BYTES)),
    ],
    ids=["JSON", "bytes"],
)
@examples(2, 30)
def test_all_readers_read_rows_alike(tables: Tables, table: str, rows: st.SearchStrategy[pa.Table], most: int) -> None:
    for_all(most, partial(tables.assert_read_alike, table), rows)


@examples(2, 30)
def test_all_readers_read_rows_with_columns_alike(tables: Tables, most: int) -> None:
    live = tables.live("columns")
    assert live.plan.typed is not None
    of = live.plan.typed

    def check(rows: list[tuple[dict[str, Any], datetime | None]]) -> None:
        spark = tables.app.spark
        text = TypedText(JSON, TypedPlan((), of.columns))
        table = pa.table(
            {
                "text": pa.array([text.value(row) for row, _ in rows], pa.string()),
                "_timestamp": pa.array([at for _, at in rows], STORED.field("timestamp").type),
            }
        )
        found = frame_of(spark, table).select(row_of(F.col("text"), of.row).alias("row"), "_timestamp")
        tables.assert_read_alike("columns", found.select("row.*", "_timestamp").toArrow())

    number = st.sampled_from([Decimal("1.500"), Decimal("10.000"), Decimal("-0.001"), None])
    fields = {
        "number": number,
        "raw": st.sampled_from([LONG_BYTES[1], LONG_BYTES[4], None]),
        "map": st.none()
        | st.dictionaries(st.sampled_from("ab\x0b"), st.lists(st.none() | decimals(5, 1), max_size=2), max_size=2),
        "inner": st.none()
        | st.fixed_dictionaries({"x": st.none() | TEXTS, "y": st.none() | st.dictionaries(TEXTS, DOUBLES, max_size=2)}),
        "list": st.lists(st.fixed_dictionaries({"a": SINGLES, "b": st.binary(max_size=2)}), max_size=2),
        "text": st.sampled_from([*LONG_TEXTS, *ODD_TEXTS]),
        "tiny": st.integers(8, 11),
        "big": KEYS["BIGINT"][0],
        "truth": st.booleans(),
        "day": st.dates(),
        "moment": st.sampled_from(utc(NTZ)),
        "local": st.sampled_from(NTZ),
        "exact": decimals(38, 18),
        "single": SINGLES,
        "double": DOUBLES,
    }
    # Many rows of a key differ in a few columns only, which then decide which of the rows counts.
    same = {name: st.none() for name in fields}
    alike = [st.fixed_dictionaries({**same, **{one: fields[one] for one in ("number", "raw", *last)}}) for last in (
        ("map",), ("inner",), ("tiny",), ("single", "double"), tuple(fields))]  # fmt: skip
    rows = st.lists(st.tuples(st.one_of(alike), st.sampled_from([None, *utc(NTZ[:1])])), min_size=1, max_size=30)
    for_all(most, check, rows)


@examples(2, 30)
def test_live_rows_are_the_same_on_the_driver_and_in_spark(tables: Tables, most: int) -> None:
    live = tables.live("texts")

    def check(rows: pa.Table) -> None:
        spark = tables.app.spark
        overwrite(tables.app.delta.namespace, live.plan.delta_name, rows)
        version = live.newest(spark).version
        every = LocalRows(spark, pa.table({"key": pa.array(TEXT_KEYS, pa.string())}))
        here, there = (checked_rows(live, spark, version, keys) for keys in (every, every.in_spark()))
        assert isinstance(here, LocalRows)
        assert not isinstance(there, LocalRows)
        columns = sorted(there.columns)
        assert sorted(here.columns) == columns
        found = there.df.select(*columns).orderBy("key").toArrow().to_pylist()
        assert here.table.select(columns).sort_by("key").to_pylist() == found

    for_all(most, check, stored(STORED, TEXT_KEYS, TEXT_VALUES))


@examples(2, 30)
def test_spark_and_python_give_bytes_the_same_text_and_partition(tables: Tables, most: int) -> None:
    live, spark = tables.live("bytes"), tables.app.spark

    def check(values: list[bytes]) -> None:
        rows = pa.Table.from_pylist([{"key": value, "value": value} for value in values], RAW_STORED)
        for session in SESSIONS:
            with with_settings(spark, session):
                spelled = frame_of(spark, rows).select(live.key, live.value, F.col("key").alias("raw"))
                wanted = spelled.select("*", partition_of(live.as_bytes(F.col("key")), 7)).toArrow().to_pylist()
            for value, found in zip(values, wanted, strict=True):
                assert found == {
                    "key": live.text.key(value),
                    "value": live.text.value(value),
                    "raw": value,
                    "partition": zlib.crc32(value) % 7,
                }

    for_all(most, check, st.lists(st.binary(max_size=200)).map(lambda some: [*LONG_BYTES, *some]))


@examples(2, 30)
def test_headers_reach_workers_unchanged(spark: SparkSession, most: int) -> None:
    header = st.fixed_dictionaries({"key": TEXTS, "value": st.none() | st.sampled_from(LONG_BYTES) | st.binary()})
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

    def check(headers: list[list[dict[str, Any]] | None]) -> None:
        table = pa.table({"headers": pa.array(headers, kind), "arrived": pa.nulls(len(headers), pa.string())})
        found = for_workers(frame_of(spark, table), only_values=False).toArrow()
        assert [record.headers for record in records_of(found)] == headers

    for_all(most, check, st.lists(st.none() | st.lists(header, max_size=3), min_size=1))


@examples(2, 30)
def test_spark_and_the_driver_choose_the_same_records(spark: SparkSession, most: int) -> None:
    """Of records of three commits, some of which a retry sent to one reader."""
    keys, times = st.sampled_from([None, b"a", b"b"]), st.sampled_from([datetime(1, 1, 2), datetime(2024, 5, 1)])  # noqa: DTZ001
    moments = times.map(lambda moment: moment.replace(tzinfo=timezone.utc))
    marks = st.sampled_from([None, [], [{"key": "a", "value": b"x"}], [{"key": RETRY_FOR, "value": b"agent/a"}]])
    record = st.fixed_dictionaries({"key": keys, "timestamp": moments, "headers": marks})
    counts = st.none() | st.integers(0, 4)
    wanted = st.builds(Wanted, counts, counts, keys, st.none() | moments, st.sampled_from([-1, 1 << 34, (1 << 35) + 1]))
    schema = pa.schema(
        [
            *arrow_schema(TOPIC.columns),
            ("_change_type", pa.string()),
            ("_commit_version", pa.int64()),
            ("_commit_timestamp", pa.timestamp("us", "UTC")),
        ]
    )

    def check(drawn: tuple[list[list[dict[str, Any]]], Wanted]) -> None:
        commits, choice = drawn
        parts = []
        for version, records in enumerate(commits):
            of_commit = {"_change_type": "insert", "_commit_version": version}
            rows = [{"partition": 0, "seq": seq, **record, **of_commit} for seq, record in enumerate(records)]
            parts.append(pa.Table.from_pylist(rows, schema))
        found = choice.in_spark(topic_records(frame_of(spark, pa.concat_tables(parts)), "t"))
        here = choice.taken(map(for_all_readers, parts if choice.tail is None else reversed(parts)))
        assert [(row["offset"], row["key"]) for row in here] == [(row["offset"], row["key"]) for row in found]

    for_all(most, check, st.tuples(st.lists(st.lists(record, max_size=4), min_size=3, max_size=3), wanted))


_MOMENTS = st.none() | st.integers(0, 5).map(lambda second: datetime(2026, 1, 1, second=second, tzinfo=timezone.utc))
_SEEN_BY = arrow_schema("n BIGINT, look_up STRING, stream_time TIMESTAMP, arrived TIMESTAMP")
_VERSIONS = arrow_schema(
    "key STRING, `order` BIGINT, since TIMESTAMP, committed TIMESTAMP, value STRING, timestamp TIMESTAMP, fk STRING"
)


@examples(2, 30)
def test_a_record_sees_the_same_rows_on_the_driver_and_in_spark(spark: SparkSession, most: int) -> None:
    some_key = st.sampled_from(["a", "b", "c"])
    record = st.tuples(st.none() | some_key, _MOMENTS, _MOMENTS)
    version = st.tuples(_MOMENTS, _MOMENTS, st.none() | st.sampled_from("xyz"), st.none() | some_key)
    histories = st.dictionaries(some_key, st.lists(version, min_size=1, max_size=4))

    def rows_of(values: Sequence[tuple[Any, ...]], schema: pa.Schema) -> LocalRows:
        return LocalRows(spark, pa.Table.from_batches([batch_of(values, schema)]))

    def check(given: tuple[list[tuple[Any, ...]], dict[str, list[tuple[Any, ...]]]]) -> None:
        records, rows = given
        seeing = rows_of([(n, *one) for n, one in enumerate(records)], _SEEN_BY)
        every = [
            (key, order, since, committed, value, None, fk)
            for key, several in rows.items()
            for order, (since, committed, value, fk) in enumerate(several, start=-1)
        ]
        versions = rows_of(every, _VERSIONS)
        for function, columns in ((with_row, ("n", "stored", "newest")), (with_rows, ("n", "row", "right"))):
            here, there = function(seeing, versions), function(seeing.in_spark(), versions)
            assert isinstance(here, LocalRows)
            assert not isinstance(there, LocalRows)
            found, expected = (one.select(*columns).collect().to_pylist() for one in (there, here))
            assert sorted(found, key=repr) == sorted(expected, key=repr)

    for_all(most, check, st.tuples(st.lists(record, min_size=1, max_size=5), histories))
