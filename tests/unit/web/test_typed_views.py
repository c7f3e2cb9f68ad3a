"""Web views that read typed tables: declared ones, and Delta tables of others."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from kaspr_delta.control.source_tables import known
from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.serde.typed_text import text_of
from kaspr_delta.web.local_copy import LocalCopy
from tests.folders import folder_of
from tests.unit.web.conftest import Serving, Shop, manifest, plan_of, view, wait_for

SHOPS = pa.schema(
    [
        ("country", pa.string()),
        ("number", pa.int64()),
        ("since", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("rent", pa.decimal128(20, 4)),
        ("bits", pa.binary()),
        ("tags", pa.map_(pa.string(), pa.int32())),
        ("staff", pa.list_(pa.struct([("name", pa.string()), ("share", pa.float64())]))),
        ("_timestamp", pa.timestamp("us", "UTC")),
    ]
)
DDL = """
country STRING, number BIGINT, since DATE, at TIMESTAMP, local TIMESTAMP_NTZ, rent DECIMAL(20, 4), bits BINARY,
tags MAP<STRING, INT>, staff ARRAY<STRUCT<name: STRING, share: DOUBLE>>
""".replace("\n", " ")
TEN = datetime(2024, 5, 1, 10, 0, 0, 5, tzinfo=timezone.utc)
BERLIN = {
    "country": "DE",
    "number": 7,
    "since": date(2020, 2, 29),
    "at": TEN,
    "local": datetime(2024, 5, 1, 10),  # noqa: DTZ001  a column without a zone
    "rent": Decimal("1000.5000"),
    "bits": b"\x00\xff",
    "tags": {"a": 1, "b": None},
    "staff": [{"name": "Ann", "share": 0.5}, None],
}
NOTHING: dict[str, Any] = dict.fromkeys(BERLIN)
WRITTEN = manifest("KasprTable", "shops", f"schema: '{DDL}'\nkey: [country, number]")
LOOKUP = view(
    "lookup",
    "GET",
    "/shops/{country}/{number}",
    "def lookup(value, country, number, shops): return shops[country, int(number)]",
    tables="shops",
)


def put(location: Path, rows: list[Mapping[str, Any]], schema: pa.Schema = SHOPS, *, feed: bool = True) -> None:
    """Append rows without this package."""
    given = [{**row, "_timestamp": TEN} if "_timestamp" in schema.names else dict(row) for row in rows]
    properties = {"delta.enableChangeDataFeed": "true"} if feed else {}
    deltalake.write_deltalake(
        str(location), pa.Table.from_pylist(given, schema), mode="append", configuration=properties
    )


def table_folder(shop: Shop, table: str) -> Path:
    location = folder_of(shop.delta.namespace, table)
    assert location is not None
    return location


def test_a_view_looks_up_typed_rows_sees_their_types_and_cannot_write_them(serving: Serving) -> None:
    types = "def types(value, shops): return [[k, repr(row)] for k, row in shops.items()]"
    write = "def f(value, shops): shops['DE', 7] = {}"
    views = (view(name, "GET", f"/{name}", python, tables="shops") for name, python in {"t": types, "w": write}.items())
    with serving(WRITTEN, LOOKUP, *views) as shop:
        nothing = {**NOTHING, "country": "DE", "number": 8}
        put(table_folder(shop, "shops"), [BERLIN, nothing])
        assert wait_for(lambda: (found := shop.client.get("/shops/DE/7")).status_code == 200 and found).json() == {
            "country": "DE",
            "number": 7,
            "since": "2020-02-29",
            "at": "2024-05-01T10:00:00.000005Z",
            "local": "2024-05-01T10:00:00",
            "rent": "1000.5000",
            "bits": "AP8=",
            "tags": {"a": 1, "b": None},
            "staff": [{"name": "Ann", "share": 0.5}, None],
        }
        assert shop.client.get("/shops/DE/8").json() == nothing
        assert shop.client.get("/shops/SE/7").status_code == 500
        assert shop.client.get("/t").json() == [[["DE", 7], repr(BERLIN)], [["DE", 8], repr(nothing)]]
        assert "cannot be written here" in shop.client.get("/w").text


PRODUCTS = pa.schema([("id", pa.int32()), ("name", pa.string())])
TAGGED = PRODUCTS.append(pa.field("tags", pa.list_(pa.int32())))
PRODUCT = view(
    "product",
    "GET",
    "/products/{id}",
    "def product(value, id, products): return products.get(int(id))",
    tables="products",
    response="contentType: application/json",
)


def table_of_others(folder: Path | str, key: str = "id") -> str:
    return manifest("KasprTable", "products", f"source: {{table: {folder}, key: [{key}]}}")


def test_a_table_of_others_is_read_once_it_exists_and_then_followed(serving: Serving, tmp_path: Path) -> None:
    with serving(table_of_others(tmp_path / "products"), PRODUCT) as shop:
        waiting = shop.client.get("/products/1")
        assert waiting.status_code == 503
        assert "table/products waits: " in waiting.json()["detail"]
        assert "is not there" in waiting.json()["detail"]
        put(tmp_path / "products", [{"id": 1, "name": "Widget"}], PRODUCTS)
        assert wait_for(lambda: (found := shop.client.get("/products/1")).status_code == 200 and found).json() == {
            "id": 1,
            "name": "Widget",
        }
        put(tmp_path / "products", [{"id": 2, "name": "Lamp"}], PRODUCTS)
        assert wait_for(lambda: shop.client.get("/products/2").json())["name"] == "Lamp"
        deltalake.DeltaTable(tmp_path / "products").delete("id = 1")
        assert wait_for(lambda: shop.client.get("/products/1").text == "null")


@pytest.mark.parametrize(
    ("feed", "key", "message"),
    [
        (False, "id", "delta.enableChangeDataFeed = true"),
        (True, "no", "there is no column 'no'"),
        (None, "id", "in a catalog, which only Spark reads"),
    ],
)
def test_a_view_answers_503_with_the_problem_of_a_table_of_others(
    serving: Serving, tmp_path: Path, feed: bool | None, key: str, message: str
) -> None:
    put(tmp_path / "products", [{"id": 1, "name": "Widget"}], PRODUCTS, feed=bool(feed))
    where = "main.shop.products" if feed is None else tmp_path / "products"
    with serving(table_of_others(where, key), PRODUCT) as shop:
        waiting = shop.client.get("/products/1")
        assert (waiting.status_code, message in waiting.json()["detail"]) == (503, True)


# -- the local copy ---------------------------------------------------------------------------------------------------


@pytest.fixture
def products(shop: Shop, tmp_path: Path) -> TablePlan:
    """A Delta table of others, with known columns."""
    put(tmp_path / "products", [], TAGGED)
    shop.apply(table_of_others(tmp_path / "products"))
    found = known(plan_of(shop, "products"), shop.delta.types)
    assert isinstance(found, TablePlan)
    return found


def test_the_greatest_row_of_a_key_counts_as_in_a_join(shop: Shop, products: TablePlan, tmp_path: Path) -> None:
    """Numbers are compared as numbers, and null comes first."""
    rows = [{"id": 1, "name": "same", "tags": tags} for tags in ([9], [10], [10, None], None)]
    put(tmp_path / "products", [*rows, {"id": None, "name": "no key", "tags": []}], TAGGED)
    copy = LocalCopy(shop.delta, products)
    for _ in ("asked", "copied"):
        found = {key: text_of(products).value_object(value)["tags"] for key, value in copy.scan(None).items()}
        assert found == {"1": [10, None]}
        assert list(copy.fetch(["1", "2"])) == ["1"]
        copy.refresh()


def test_changes_by_others_are_followed_without_a_new_copy(
    shop: Shop, products: TablePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "products", [{"id": 1, "name": "Widget"}, {"id": 2, "name": "Lamp"}], TAGGED)
    copy = LocalCopy(shop.delta, products)
    copy.refresh()
    monkeypatch.setattr(LocalCopy, "copied_anew", None)
    table = deltalake.DeltaTable(tmp_path / "products")
    table.update(predicate="id = 1", new_values={"name": "Better"})
    table.delete("id = 2")
    put(tmp_path / "products", [{"id": 3, "name": "Rope"}], TAGGED)
    assert copy.refresh()
    names = {key: text_of(products).value_object(value)["name"] for key, value in copy.scan(None).items()}
    assert names == {"1": "Better", "3": "Rope"}


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.int8(), [-1, 0, 127]),
        (pa.decimal128(38, 18), [Decimal("1.000000000000000001"), Decimal(1), Decimal(-12345678901234567890)]),
        (pa.bool_(), [True, False]),
        (pa.date32(), [date(1969, 12, 31), date(2024, 2, 29)]),
        (pa.timestamp("us", "UTC"), [TEN]),
        (pa.binary(), [b"", b"\x00"]),
        (pa.string(), ["it's", 'a"b\\', "ü"]),
    ],
    ids=str,
)
def test_a_key_of_any_type_is_found_before_and_after_the_table_is_copied(
    shop: Shop, tmp_path: Path, column: pa.DataType, values: list[Any]
) -> None:
    schema = pa.schema([("k", column), ("n", pa.int32())])
    put(tmp_path / "t", [{"k": value, "n": n} for n, value in enumerate(values)], schema)
    shop.apply(manifest("KasprTable", "t", f"source: {{table: {tmp_path / 't'}, key: [k]}}"))
    plan = known(plan_of(shop, "t"), shop.delta.types)
    assert isinstance(plan, TablePlan)
    copy, text = LocalCopy(shop.delta, plan), text_of(plan)
    for _ in ("asked", "copied"):
        for n, value in enumerate(values):
            (found,) = copy.fetch([text.key(value)]).values()
            assert text.value_object(found) == {"k": value, "n": n}
        assert {text.key_object(str(key)) for key in copy.scan(None)} == set(values)
        copy.refresh()


def test_columns_that_the_table_does_not_have_yet_are_null(shop: Shop) -> None:
    shop.apply(manifest("KasprTable", "t", "schema: 'id INT, name STRING, later DECIMAL(3, 1)'\nkey: id"))
    plan = plan_of(shop, "t")
    put(
        table_folder(shop, "t"),
        [{"id": 1, "name": "Widget"}],
        PRODUCTS.append(pa.field("_timestamp", pa.timestamp("us", "UTC"))),
    )
    copy = LocalCopy(shop.delta, plan)
    copy.refresh()
    assert text_of(plan).value_object(copy.fetch(["1"])["1"]) == {"id": 1, "name": "Widget", "later": None}


def test_a_column_whose_type_has_changed_is_an_error_instead_of_old_rows(
    shop: Shop, products: TablePlan, tmp_path: Path
) -> None:
    put(tmp_path / "products", [{"id": 1, "name": "Widget"}], TAGGED)
    copy = LocalCopy(shop.delta, products)
    copy.refresh()
    retyped = pa.table({"id": pa.array([1], pa.int32()), "name": pa.array([date(2024, 1, 1)])})
    deltalake.write_deltalake(str(tmp_path / "products"), retyped, mode="overwrite", schema_mode="overwrite")
    for _ in range(2):
        with pytest.raises(SerializationError, match="name is STRING, and "):
            copy.refresh()
        with pytest.raises(SerializationError, match="name is STRING, and "):
            copy.fetch(["1"])
