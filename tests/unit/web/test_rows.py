"""Rows and records on pages: in columns, filtered, sorted, in parts, and as files."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import pyarrow.parquet
import pytest

from kaspr_delta.serde.unfolded import MOST_FIELDS, cell_text, parsed, unfolded
from kaspr_delta.storage.layout import TOPIC, Layout
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.page_reads import NativePageReads
from kaspr_delta.storage.page_reads import RowFilter, RowsFound
from kaspr_delta.web.parts.download import Format, download
from kaspr_delta.web.parts.listing import SIZE, Asked, Listing, listing
from tests.folders import append_rows, delta_rs
from tests.unit.web.conftest import Serving, manifest, plan_of

NOW = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
EVIL = "<script>alert('x')</script>"
USERS = manifest("KasprTable", "users", "name: users")


def listed(rows: list[dict[str, Any]], count: int | None = None, **query: str) -> Listing:
    return listing(Asked(query), RowsFound(len(rows) if count is None else count, tuple(rows)), ("key", "value"))


def stored(number: int, **fields: Any) -> dict[str, Any]:
    return {"key": f'"k{number}"', "value": json.dumps({"n": number, **fields})}


def test_objects_become_columns_and_anything_else_stays() -> None:
    rows: list[dict[str, Any]] = [
        {"key": '"a"', "value": '{"name":"x","at":{"zip":1}}'},
        {"key": '"b"', "value": '{"tags":[1]}'},
        {"key": "1", "value": None},
    ]
    assert unfolded(parsed(rows, ("key", "value"))) == [
        {"key": "a", "value.name": "x", "value.at.zip": 1, "value.tags": None},
        {"key": "b", "value.name": None, "value.at.zip": None, "value.tags": [1]},
        {"key": 1, "value.name": None, "value.at.zip": None, "value.tags": None},
    ]
    assert unfolded([{"v": {"a": 1}}, {"v": "text"}]) == [{"v": {"a": 1}}, {"v": "text"}]
    for same in ({"v.a": 0, "v": {"a": 1}}, {"v": {"a": 1}, "v.a": 0}, {"v": {"a.b": 1, "a": {"b": 2}}}):
        assert unfolded([same]) == [same]
    wide = {f"f{number}": number for number in range(MOST_FIELDS + 1)}
    assert unfolded([{"v": wide}]) == [{"v": wide}]
    assert unfolded([{"v": {}}]) == [{"v": {}}]
    assert unfolded([]) == []


def test_text_that_is_no_json_is_shown_as_it_is() -> None:
    assert parsed([{"value": "{broken"}, {"value": b"\xff"}], ("value",)) == [{"value": "{broken"}, {"value": b"\xff"}]
    assert [cell_text(value) for value in ("null", "", "a b", b"\xff", b"caf\xc3\xa9")] == [
        *('"null"', '""', "a b", "/w==", "café"),
    ]


@pytest.mark.parametrize(
    ("column", "test", "found"),
    [
        ("value.n", ">= 3", [3, 10]),
        ("value.n", "<3", [2]),
        ("value.n", "= 10", [10]),
        ("value.n", "0", [10]),
        ("value.name", "OA", [2]),
        ("value.name", "> oak", [3]),
        ("value.missing", "= 1", []),
    ],
)
def test_a_column_is_compared_as_a_number_where_it_has_numbers(column: str, test: str, found: list[int]) -> None:
    rows = [stored(2, name="oak"), stored(10), stored(3, name="steel")]
    assert sorted(row["value.n"] for row in listed(rows, column=column, test=test).rows) == found


def test_rows_are_sorted_by_the_values_of_a_column_and_those_without_come_last() -> None:
    rows = [stored(2, p=9.5), stored(10, p=10), stored(3), stored(4, p="x")]
    assert [row["value.n"] for row in listed(rows, sort="value.p").rows] == [2, 10, 4, 3]
    assert [row["value.n"] for row in listed(rows, sort="-value.p").rows] == [4, 10, 2, 3]
    assert [row["value.n"] for row in listed(rows, sort="nothing").rows] == [2, 10, 3, 4]


def test_a_page_has_a_part_of_the_rows_and_says_how_many_there_are() -> None:
    rows = [stored(number) for number in range(2 * SIZE + 1)]
    last = listed(rows, page="3", find="")
    assert (last.first, len(last.rows), last.pages, last.matching) == (2 * SIZE + 1, 1, 3, len(rows))
    beyond = listed(rows, page="9")
    assert (beyond.page, beyond.first, beyond.rows) == (3, last.first, last.rows)
    nothing = listed([], page="9")
    assert (nothing.page, nothing.rows) == (1, [])
    some = listed(rows, count=10**6, column="value.n", test="> 1")
    assert (some.is_whole, some.matching) == (False, len(rows) - 2)
    for odd in ("0", "-1", "x", "9" * 30):
        assert Asked({"page": odd}).page in {1, 250}


def test_a_link_keeps_the_question_and_begins_at_the_first_page() -> None:
    asked = Asked({"find": "a&b", "page": "3", "version": "2", "sort": ""})
    assert asked.link(sort="-value.n") == "?find=a%26b&version=2&sort=-value.n"
    assert asked.link(page=4) == "?find=a%26b&page=4&version=2"
    assert asked.others("find") == {"version": "2"}


def test_sql_finds_a_text_in_any_plain_column_a_key_of_bytes_and_a_span_of_time(tmp_path: Path) -> None:
    delta = delta_rs(Warehouse(str(tmp_path)).namespace("shop"))
    layout = Layout("key STRING, value STRING, n INT, timestamp TIMESTAMP")
    append_rows(delta, "t", layout, *[{"key": f"K{n}", "value": f"it's {n}", "n": 70 + n} for n in range(5)])
    reads = NativePageReads(delta)
    columns = reads.columns("t")

    def found(find: str) -> list[str]:
        rows = reads.rows("t", None, columns, RowFilter(find=find), ("key",), 9)
        assert not isinstance(rows, str)
        assert rows.count == len(rows.rows)
        return [row["key"] for row in rows.rows]

    assert found("k3") == ["K3"]
    assert found("74") == ["K4"]
    assert found("IT'S 1") == ["K1"]
    assert found("' OR true --") == []
    assert len(found('"')) == 5  # JSON would have it escaped: it is looked for in the parsed rows
    records = [{"key": f"k{n}".encode(), "timestamp": NOW + timedelta(hours=n), "seq": n} for n in range(4)]
    append_rows(delta, "r", TOPIC, *records)
    times = RowFilter(since=NOW + timedelta(hours=1), until=NOW + timedelta(hours=2))
    for where, keys in ((RowFilter(keys=(b"k2", b"'")), [b"k2"]), (times, [b"k2", b"k1"])):
        rows = reads.rows("r", None, reads.columns("r"), where, ("timestamp", "seq"), 9, newest=True)
        assert not isinstance(rows, str)
        assert [row["key"] for row in rows.rows] == keys


def test_a_table_is_filtered_sorted_and_downloaded_by_its_address(serving: Serving) -> None:
    with serving(USERS) as shop:
        rows = {f"u{n}": {"name": EVIL if n == 3 else f"name {n}", "age": n, "at": {"zip": n}} for n in range(30)}
        shop.put(plan_of(shop, "users"), rows)
        page = shop.client.get("/ui/table/users?sort=-value.age&column=value.age&test=>%3D25").text
        assert re.findall(r'<td class="text">(u\d+)', page) == ["u29", "u28", "u27", "u26", "u25"]
        assert "5 rows that match; 1 to 5" in page
        assert re.search(r'aria-sort="descending"><a class="sort"[^>]*>value.age', page)
        first = shop.client.get("/ui/table/users").text
        assert "30 rows; 1 to 20" in first
        assert ">name 3<" not in shop.client.get("/ui/table/users?page=2").text
        shown = shop.client.get("/ui/table/users?find=alert")
        assert "1 row that match; 1 to 1" in shown.text
        assert EVIL not in shown.text
        query = "?column=value.age&test=<3&format="
        files = {form: shop.client.get(f"/ui/table/users{query}{form}") for form in ("csv", "json", "parquet")}
        assert files["csv"].headers["content-disposition"] == 'attachment; filename="table-users.csv"'
        assert all(file.headers["x-content-type-options"] == "nosniff" for file in files.values())
        lines = list(csv.DictReader(io.StringIO(files["csv"].text)))
        assert [lines[0][name] for name in ("key", "value.name", "value.at.zip")] == ["u0", "name 0", "0"]
        assert [row["value"] for row in files["json"].json()] == [rows[f"u{n}"] for n in range(3)]
        table = pyarrow.parquet.read_table(io.BytesIO(files["parquet"].content))
        assert table["value.age"].to_pylist() == [0, 1, 2]
        assert shop.client.get("/ui/table/users?format=exe").headers["content-type"].startswith("text/html")


def test_a_download_has_bytes_that_are_no_text_mixed_columns_and_keys_that_are_dates() -> None:
    day = date(2024, 5, 1)
    rows: list[dict[str, Any]] = [
        {"key": b"\xff", "value": {"a": 1}, "map": {day: b"\xff", b"\xfe": 1}},
        {"key": b"caf\xc3\xa9", "value": b"\x00\xff", "map": None},
    ]
    pairs = [(row, row) for row in rows]
    body = {form: download(pairs, form, "odd").body for form in get_args(Format)}
    lines = list(csv.DictReader(io.StringIO(body["csv"].decode())))
    assert [line["key"] for line in lines] == ["/w==", "café"]
    plain = {"2024-05-01": "/w==", "/g==": 1}
    assert [row["map"] for row in json.loads(body["json"])] == [plain, None]
    table = pyarrow.parquet.read_table(io.BytesIO(body["parquet"])).to_pydict()
    assert table["value"] == ['{"a":1}', '"AP8="']
    assert table["key"] == [row["key"] for row in rows]
    assert json.loads(table["map"][0]) == plain


def test_records_are_found_by_key_and_time_and_show_headers_and_tombstones(serving: Serving) -> None:
    reader = manifest("KasprTable", "seen", "from: {topic: clicks}\ncount: {}")
    with serving(reader) as shop:
        records = [
            {
                "key": f'"k{n}"'.encode(),
                "value": None if n == 2 else json.dumps({"page": EVIL}).encode(),
                "timestamp": NOW + timedelta(hours=n),
                "headers": [{"key": "trace", "value": b"t<1>"}],
                "partition": 0,
                "seq": n,
            }
            for n in range(4)
        ]
        append_rows(shop.delta, "topic__clicks", TOPIC, *records)

        def keys(query: str) -> list[str]:
            page = shop.client.get(f"/ui/topic/clicks{query}").text
            assert EVIL not in page
            return re.findall(r'<td class="text">(k\d)<', page)

        assert keys("") == ["k3", "k2", "k1", "k0"]
        assert keys("?key=k1") == keys('?key="k1"') == ["k1"]
        assert keys("?since=2024-05-01T13:00:00&until=2024-05-01T14:00:00") == ["k2", "k1"]
        assert keys("?since=nonsense") == ["k3", "k2", "k1", "k0"]
        page = shop.client.get("/ui/topic/clicks?live=1").text
        assert ">headers.trace" in page
        assert "t&lt;1&gt;" in page
        assert ">tombstone" in page
        assert '<meta http-equiv="refresh" content="5">' in page
        assert "Stop live" in page
