from __future__ import annotations

import io
import json
import threading
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kaspr_delta import Application
from kaspr_delta.cli.records import read_lines
from kaspr_delta.errors import UsageError
from kaspr_delta.serde.json_lines import json_line
from kaspr_delta.serde.table_text import hashable
from tests.manifests import manifests
from tests.unit.cli.conftest import Kaspr

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)


def test_lines_of_a_file_or_standard_input_are_read_in_order_and_empty_ones_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = '{"key": "Zoë", "value": 1}\n\n  \n{"value": null}'.encode()
    (tmp_path / "records.jsonl").write_bytes(data)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    for file in (str(tmp_path / "records.jsonl"), "-"):
        assert list(read_lines(file)) == [{"key": "Zoë", "value": 1}, {"value": None}]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{oops}", "not JSON"),
        ("NaN", "not JSON"),
        ("[1]", "expected an object with key and value, not [1]"),
        ('"text"', "expected an object"),
    ],
)
def test_a_malformed_line_is_an_error_with_its_number(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text(f'{{"value": 1}}\n\n{line}\n')
    with pytest.raises(UsageError) as error:
        list(read_lines(str(file)))
    assert str(error.value).startswith(f"{file}:3: ")
    assert message in str(error.value)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        list(read_lines(str(tmp_path / "nowhere.jsonl")))


def test_an_input_without_records_is_refused_before_the_warehouse_is_opened(tmp_path: Path, kaspr: Kaspr) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    answer = kaspr("produce", "raw-orders", str(tmp_path / "empty.jsonl"), "--warehouse", tmp_path / "none")
    assert (answer.code, answer.err) == (2, f"{tmp_path / 'empty.jsonl'} has no records\n")


NOT_UTF8 = '{"value": "fine"}\n{"value": "Zoë "}'.encode().replace(b' "}', b'\xe9"}')
PLACE = "2:16: this is not UTF-8 text: byte 0xe9; save the file as UTF-8"


@pytest.mark.parametrize(("encoding", "errors"), [("utf-8", "strict"), ("ascii", "surrogateescape")])
def test_a_file_and_standard_input_that_are_not_utf8_are_errors_with_their_place_in_any_locale(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, encoding: str, errors: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(NOT_UTF8), encoding=encoding, errors=errors))
    (tmp_path / "records.jsonl").write_bytes(NOT_UTF8)
    for file, name in (("-", "standard input"), (str(tmp_path / "records.jsonl"), str(tmp_path / "records.jsonl"))):
        with pytest.raises(UsageError) as error:
            list(read_lines(file))
        assert str(error.value) == f"{name}:{PLACE}"


def test_a_manifest_on_standard_input_that_is_not_utf8_is_an_error(
    kaspr: Kaspr, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: 1\nb: caf\xe9\n"), errors="surrogateescape"))
    answer = kaspr("apply", "-f", "-", "--warehouse", tmp_path / "wh")
    assert answer.code == 1
    assert "standard input:2:7: error: this is not UTF-8 text: byte 0xe9 (save the file as UTF-8)" in answer.err


def test_produce_reads_all_records_before_it_opens_the_warehouse(kaspr: Kaspr, tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text('{"value": 1}\n{oops\n')
    answer = kaspr("produce", "t", file, "--warehouse", tmp_path / "wh")
    assert answer.code == 2
    assert f"{file}:2: not JSON" in answer.err
    assert not (tmp_path / "wh").exists()


@pytest.mark.parametrize(
    ("record", "line"),
    [
        ({"key": "Zoë", "value": {"b": 1, "a": [1.5, None]}}, '{"key":"Zoë","value":{"b":1,"a":[1.5,null]}}'),
        ({"key": b"raw", "value": b"\xff"}, '{"key":"raw","value":"\ufffd"}'),
        ({"key": ("eu", 1), "value": hashable({"a": [1]})}, '{"key":["eu",1],"value":{"a":[1]}}'),
        ({"value": "\ud800ë"}, '{"value":"\\ud800\\u00eb"}'),
        ({"at": NOON}, '{"at":"2024-05-01T12:00:00Z"}'),
        ({"at": NOON.astimezone().replace(tzinfo=None)}, '{"at":"2024-05-01T12:00:00Z"}'),  # local time
        ({"value": {1}}, '{"value":"{1}"}'),
    ],
)
def test_a_record_is_a_line_of_json(record: dict[str, Any], line: str) -> None:
    assert json_line(record) == line


def test_a_followed_topic_gives_the_records_that_come(kaspr: Kaspr, tmp_path: Path) -> None:
    manifests = Path(__file__).parents[3] / "bundles" / "order-system"
    app = Application.open(manifests, warehouse=tmp_path / "wh")
    topic = app.topic("raw-orders")
    topic.produce([{"key": "old", "value": 1}])
    over = threading.Event()

    def produce() -> None:
        """Again and again: the command finds the end of the topic at a moment that nobody knows."""
        while not over.wait(0.2):
            topic.produce([{"key": "new", "value": 2}, {"key": "newer", "value": 3}])

    writer = threading.Thread(target=produce)
    writer.start()
    answer = kaspr("consume", "raw-orders", "--tail", 0, "--follow", "--max", 1, "--warehouse", tmp_path / "wh")
    over.set()
    writer.join()
    assert [json.loads(line)["key"] for line in answer.out.splitlines()] == ["new"]
    wrong = kaspr("consume", "raw-orders", "--from", "yesterday", "--warehouse", tmp_path / "wh")
    assert (wrong.code, wrong.err) == (2, "'yesterday' is no time: write it as 2024-05-01T12:00:00Z\n")


def test_records_without_a_key_are_chosen_and_headers_are_text(kaspr: Kaspr, tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(manifests("shop", "KasprTable/counted: {from: {topic: clicks}, count: {}}\n"))
    at = ("--warehouse", tmp_path / "wh")
    kaspr("apply", "-f", tmp_path / "app.yaml", *at)
    (tmp_path / "r.jsonl").write_text(
        '{"key": "null", "value": 1}\n{"value": 2, "headers": {"n": 12345678901234567.89, "o": {"x": null}}}\n'
    )
    kaspr("produce", "clicks", tmp_path / "r.jsonl", *at)
    (record,) = map(json.loads, kaspr("consume", "clicks", "--key", "null", *at).out.splitlines())
    assert (record["value"], record["headers"]) == (2, {"n": "12345678901234567.89", "o": '{"x":null}'})
    (record,) = map(json.loads, kaspr("consume", "clicks", "--key", '"null"', *at).out.splitlines())
    assert record["value"] == 1


def test_a_damaged_registry_is_a_sentence(kaspr: Kaspr, tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(manifests("shop", "KasprTable/orders: {}\n"))
    at = ("--warehouse", tmp_path / "wh")
    kaspr("apply", "-f", tmp_path / "app.yaml", *at)
    for commit in (tmp_path / "wh" / "shop" / "_kaspr_resources" / "_delta_log").glob("*1.json"):
        commit.write_bytes(commit.read_bytes()[:100])
    for command in (("get", "all"), ("status",), ("table", "orders", "dump"), ("dead-letters",)):
        answer = kaspr(*command, *at)
        assert answer.code == 1
        assert "_kaspr_resources is damaged: " in answer.err
        assert "Traceback" not in answer.err


def test_events_of_one_resource_are_listed(kaspr: Kaspr, tmp_path: Path) -> None:
    run = partial(kaspr, "--warehouse", tmp_path / "wh")
    (tmp_path / "shop.yaml").write_text(manifests("shop", "KasprTable/one: {}\nKasprTable/two: {}"))
    run("apply", "-f", tmp_path / "shop.yaml")
    assert [
        ("one" in found.out, "two" in found.out) for found in (run("get", "events"), run("get", "events", "two"))
    ] == [
        (True, True),
        (False, True),
    ]
