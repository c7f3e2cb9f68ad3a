"""Pages, metrics and status where something cannot be read: one figure is unknown, and the rest stands."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from kaspr_delta.plan.names import channel_table
from kaspr_delta.storage.layout import DEAD_LETTERS, EVENTS, PROGRESS, TOPIC
from tests.folders import append_rows, folder_of, path_of
from tests.unit.web.conftest import Serving, Shop, manifest, plan_of, view

FEED = {"delta.enableChangeDataFeed": "true"}
USERS = manifest("KasprTable", "users", "description: All users.")


def source(folder: Path, key: str = "id") -> str:
    return manifest("KasprTable", "stock", f"source: {{table: {folder}, key: [{key}]}}")


def write(folder: Path, **configuration: str) -> None:
    rows = pa.table({"id": ["a", "b"], "price": [1.5, 2.5]})
    deltalake.write_deltalake(str(folder), rows, configuration=configuration)


def feed_switched_on_later(folder: Path) -> None:
    write(folder)
    deltalake.DeltaTable(str(folder)).alter.set_table_properties(FEED)


def no_table(folder: Path) -> None:
    folder.mkdir()
    (folder / "rows.csv").write_text("a,b")


def log_of(content: bytes) -> Callable[[Path], None]:
    """A table whose first commit has this content."""

    def damage(folder: Path) -> None:
        write(folder, **FEED)
        (folder / "_delta_log" / f"{0:020}.json").write_bytes(content)

    return damage


broken_log = log_of(b"garbage")


def log_of_another_form(folder: Path) -> None:
    """As delta-rs accepts it, but no commit information that Delta defines."""
    write(folder, **FEED)
    commit = folder / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    odd = {"commitInfo": {"timestamp": "today", "operation": 5, "operationMetrics": []}}
    commit.write_text("\n".join(json.dumps(odd if "commitInfo" in action else action) for action in actions))


def broken_checkpoint(folder: Path) -> None:
    write(folder, **FEED)
    deltalake.DeltaTable(str(folder)).create_checkpoint()
    (folder / "_delta_log" / f"{0:020}.checkpoint.parquet").write_bytes(b"x")


def missing_files(folder: Path) -> None:
    write(folder, **FEED)
    for file in folder.glob("*.parquet"):
        file.unlink()


def broken_files(folder: Path) -> None:
    write(folder, **FEED)
    for file in folder.glob("*.parquet"):
        file.write_bytes(b"x" * 50)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "without a feed": write,
    "feed switched on later": feed_switched_on_later,
    "gone": lambda _: None,
    "no table": no_table,
    "a file": lambda folder: folder.write_text("no folder"),
    "broken log": broken_log,
    "empty log": log_of(b""),
    "log of other JSON": log_of(b'[]\nnull\n"text"\n'),
    "log of bytes": log_of(b"\xff\xfe\x00"),
    "log of another form": log_of_another_form,
    "broken checkpoint": broken_checkpoint,
    "missing files": missing_files,
    "broken files": broken_files,
}
PATHS = ("/ui/", "/ui/table/stock", "/ui/table/users", "/ui/dead-letters", "/metrics", "/status/")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_source_that_cannot_be_read_is_no_reason_for_a_page_to_fail(
    serving: Serving, tmp_path: Path, damage: str
) -> None:
    folder = tmp_path / "stock"
    DAMAGES[damage](folder)
    with serving(USERS, source(folder)) as shop:
        for path in (*PATHS, "/ui/table/stock?version=0&key=a"):
            assert shop.client.get(path).status_code == 200, path


@pytest.mark.parametrize("key", ["nothing", "price"])
def test_a_source_with_a_wrong_key_has_a_page(serving: Serving, tmp_path: Path, key: str) -> None:
    write(tmp_path / "stock", **FEED)
    with serving(source(tmp_path / "stock", key)) as shop:
        assert "1.5" in shop.client.get("/ui/table/stock").text


def test_a_figure_that_cannot_be_read_shows_the_reason_and_is_logged(
    serving: Serving, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken_log(tmp_path / "stock")
    with serving(USERS, source(tmp_path / "stock")) as shop:
        shop.put(plan_of(shop, "users"), {"u": 1})
        home = shop.client.get("/ui/").text
        assert home.count(">unknown<") == 1
        page = shop.client.get("/ui/table/stock").text
        assert "unknown (Kernel error: Json error" in page
        assert "Its rows cannot be read: Kernel error" in page
        assert "Spec" in page
        found = shop.client.get("/ui/search?find=u&keys=1").text
        assert "/ui/table/users?key=u#rows" in found
        assert re.search(r"It is unknown of these:.*table/stock</a>: Kernel error", found, re.DOTALL)
        keys = [
            line for line in shop.client.get("/metrics").text.splitlines() if line.startswith("kaspr_table_key_count{")
        ]
        assert [line.rpartition(" ")[2] for line in keys] == ["1.0"]
    assert any("cannot be read" in record.message and record.exc_info for record in caplog.records)


def test_a_commit_before_the_feed_was_on_shows_no_change_and_the_reason(serving: Serving, tmp_path: Path) -> None:
    feed_switched_on_later(tmp_path / "stock")
    with serving(source(tmp_path / "stock")) as shop:
        page = shop.client.get("/ui/table/stock").text
        assert "the change data feed was off" in page
        assert "2.5" in page


@pytest.mark.parametrize("table", [PROGRESS, DEAD_LETTERS, EVENTS])
def test_an_unreadable_system_table_costs_only_its_own_figures(serving: Serving, table: str) -> None:
    agent = manifest("KasprAgent", "take", "input: {topic: {name: placed}}")
    with serving(USERS, agent) as shop:
        shop.put(plan_of(shop, "users"), {"u": 1})
        folder = folder_of(shop.delta.namespace, table)
        shutil.rmtree(folder, ignore_errors=True)
        broken_log(folder)
        for path in (*(path for path in PATHS if "stock" not in path and "letters" not in path), "/ui/agent/take"):
            assert shop.client.get(path).status_code == 200, path
        if table != EVENTS:
            assert ">unknown<" in shop.client.get("/ui/").text
        letters = shop.client.get("/ui/dead-letters")
        assert letters.status_code == (503 if table == DEAD_LETTERS else 200)
        assert "<nav" in letters.text


def test_a_resource_whose_log_cannot_be_read_is_not_ready_and_the_others_are(serving: Serving) -> None:
    others = [manifest("KasprTable", name, "{}") for name in ("orders", "products")]
    joins = [
        manifest("KasprJoin", name, "leftTable: orders\nrightTable: products\non: key") for name in ("broken", "whole")
    ]
    with serving(USERS, *others, *joins) as shop:
        broken_log(folder_of(shop.delta.namespace, channel_table("broken-channel")))
        for path in (*(path for path in PATHS if "stock" not in path), "/ui/join/broken", "/ui/join/whole"):
            assert shop.client.get(path).status_code == 200, path
        assert "the log of join/broken cannot be read" in shop.client.get("/ui/join/broken").text
        assert "cannot be read" not in shop.client.get("/ui/join/whole").text
        assert shop.client.get("/status/").text.count("cannot be read") == 1


BOUND = manifest(
    "KasprApp",
    "shop",
    """
    topics:
      clicks: {files: {path: /in, format: json}}
      sold: {direction: output, files: {path: /out, format: json}}
    """,
).replace("  labels: {kaspr.io/app: shop}\n", "")
COUNTED = manifest("KasprTable", "seen", "from: {topic: clicks}\ncount: {}")


def checkpoint(shop: Shop, label: str, offset: str) -> None:
    folder = path_of(shop.delta.namespace.checkpoints / label / "1")
    for part in ("offsets", "commits"):
        (folder / part).mkdir(parents=True)
    (folder / "offsets" / "0").write_text(f"v1\n{{}}\n{offset}")
    (folder / "commits" / "0").write_text("v1\n{}")


OFFSETS = ['{"logOffset":0}', '{"clicks":{"0":5,"1":7}}', '{"seqNum":1,"sourceVersion":1}', "-", "5", "garbage", ""]


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("label", ["topic-clicks", "table-seen"])
def test_offsets_of_any_source_leave_the_pages_standing(serving: Serving, label: str, offset: str) -> None:
    with serving(BOUND, COUNTED) as shop:
        checkpoint(shop, label, offset)
        for path in ("/ui/", "/ui/table/seen", "/ui/topic/clicks", "/ui/topic/sold"):
            assert shop.client.get(path).status_code == 200, path


def test_a_topic_has_a_page_with_its_binding_its_readers_and_its_newest_records(serving: Serving) -> None:
    with serving(BOUND, COUNTED) as shop:
        records = [{"key": b"k", "value": f'"<{number}>"'.encode(), "seq": number} for number in range(25)]
        append_rows(shop.delta, "topic__clicks", TOPIC, *records)
        page = shop.client.get("/ui/topic/clicks").text
        assert "<dt>Records<dd>25" in page
        assert "from json files in /in" in page
        assert "unknown (the records of json files in /in are not counted)" in page
        assert '<a href="/ui/table/seen">' in page
        assert re.findall(r">&lt;(\d+)&gt;", page) == [str(number) for number in range(24, 4, -1)]
        assert 'href="/ui/topic/clicks"' in shop.client.get("/ui/").text


def test_an_error_below_ui_is_a_page_with_the_menu_and_json_elsewhere(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(USERS) as shop:
        for method, path, status in (
            ("GET", "/ui/table/nothing", 404),
            ("GET", "/ui/topic/nothing", 404),
            ("GET", "/ui/a/b/c", 404),
            ("POST", "/ui/", 405),
        ):
            answer = shop.client.request(method, path)
            assert answer.status_code == status
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert '<nav aria-label="Pages">' in answer.text
        assert json.loads(shop.client.get("/nothing").text)["status"] == 404

        def fail(*_: object) -> None:
            raise RuntimeError

        monkeypatch.setattr("kaspr_delta.plan.definition.application.Plan.picture", fail)
        monkeypatch.setattr("kaspr_delta.web.asgi.document", fail)
        broken = shop.client.get("/ui/")
        assert (broken.status_code, '<nav aria-label="Pages">' in broken.text) == (500, True)
        assert json.loads(shop.client.get("/openapi.json").text)["status"] == 500


def test_pages_and_status_say_which_source_a_resource_waits_for(serving: Serving, tmp_path: Path) -> None:
    reader = view("v", "GET", "/v", "def f(value, stock): return 1", tables="stock")
    with serving(source(tmp_path / "stock"), reader) as shop:
        for path in ("/ui/", "/ui/table/stock"):
            assert "which it stands for, is not there" in shop.client.get(path).text
        assert "waits for</span> table/stock" in shop.client.get("/ui/webview/v").text
        states = {one["resource"]: one["state"] for one in shop.client.get("/status/").json()["resources"]}
        assert states["webview/v"] == "waits for table/stock"
        assert states["table/stock"].startswith("waits: ")
        write(tmp_path / "stock", **FEED)
        assert "waits" not in shop.client.get("/ui/table/stock").text
