"""apply, get, describe and delete with arguments as for kubectl; none of them starts Spark."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ruamel.yaml import YAML

from kaspr_delta.control.registry import Registry
from kaspr_delta.engine.batch.checkpoint import Start
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.definition.state_definitions import definition_of
from kaspr_delta.storage.layout import CHANNEL, DEAD_LETTERS, PROGRESS
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from tests.folders import delta_rs
from tests.manifests import manifests
from tests.unit.cli.conftest import Answer, Kaspr

BUNDLE = Path(__file__).parents[3] / "bundles" / "order-system"
JOIN, TABLES, APP = (BUNDLE / f"{name}.yaml" for name in ("join", "tables", "app"))


@pytest.fixture
def on(kaspr: Kaspr, tmp_path: Path) -> Kaspr:
    """Run a command on this test's warehouse. The command must succeed."""

    def run(*arguments: object) -> Answer:
        answer = kaspr(*arguments, "--warehouse", tmp_path / "wh")
        assert answer.code == 0, answer
        return answer

    return run


def tables_of(folder: Path) -> DeltaRs:
    return delta_rs(Warehouse(str(folder / "wh")).namespace("order_system"))


def rows(answer: Answer) -> dict[str, dict[str, str]]:
    """The rows of a printed table by name, each with its cells by heading. A cell begins below its heading."""
    heading, *lines = answer.out.rstrip("\n").splitlines()
    starts = [at for at in range(len(heading)) if heading[at] != " " and (at == 0 or heading[at - 2 : at] == "  ")]
    ends = [*starts[1:], None]
    cells = [[line[start:end].strip() for start, end in zip(starts, ends, strict=True)] for line in (heading, *lines)]
    return {row[0]: dict(zip(cells[0], row, strict=True)) for row in cells[1:]}


def status_of(answer: Answer) -> dict[str, Any]:
    status: dict[str, Any] = json.loads(answer.out)["status"]
    return status


def reasons(on: Kaspr) -> list[tuple[str, str]]:
    items = json.loads(on("get", "events", "-o", "json").out)["items"]
    return [(item["type"], item["reason"]) for item in items if item["involvedObject"]["kind"] == "KasprJoin"]


def test_s0_13_a_join_waits_for_its_tables_and_finds_them_once_applied(on: Kaspr) -> None:
    on("apply", "-f", JOIN)
    status = status_of(on("get", "kj", "orders-products-join", "-o", "json"))
    assert status["app"] == {"name": "order-system", "status": "AppNotFound"}
    assert status["leftTable"] == {"name": "orders", "status": "TableNotFound"}
    assert status["rightTable"] == {"name": "products", "status": "TableNotFound"}
    warnings = [("Warning", f"{what}NotFound") for what in ("App", "LeftTable", "RightTable")]
    assert sorted(reasons(on)) == sorted(warnings)
    assert rows(on("get", "kjoin"))["orders-products-join"]["READY"] == "False"

    on("apply", "-f", TABLES, "-f", APP)
    status = status_of(on("get", "kj", "orders-products-join", "-o", "json"))
    assert [status[role]["status"] for role in ("app", "leftTable", "rightTable")] == ["AppFound", *["TableFound"] * 2]
    normal = [("Normal", f"{what}Found") for what in ("App", "LeftTable", "RightTable")]
    assert sorted(reasons(on)) == sorted([*warnings, *normal])
    assert rows(on("get", "kasprjoins"))["orders-products-join"]["READY"] == "True"

    text = on("describe", "kjoin", "orders-products-join").out
    assert "Left Table:      orders" in text
    assert "Config Map:           orders-products-join" in text
    shown = [line.split()[:2] for line in text.splitlines() if "LeftTable" in line and "Found" in line]
    assert shown == [["Warning", "LeftTableNotFound"], ["Normal", "LeftTableFound"]]

    on("delete", "ktable", "products")
    assert status_of(on("get", "kj", "orders-products-join", "-o", "json"))["rightTable"]["status"] == "TableNotFound"
    assert reasons(on)[-1] == ("Warning", "RightTableNotFound")
    for kind, name in (("kjoin", "orders-products-join"), ("ktable", "orders"), ("kapp", "order-system")):
        assert f'.kaspr.io "{name}" deleted' in on("delete", kind, name).out
    assert on("get", "all").err == "No resources found\n"


def test_hash_and_generation_change_only_with_the_spec_and_so_do_events(on: Kaspr, tmp_path: Path) -> None:
    file = tmp_path / "join.yaml"

    def applied(text: str) -> tuple[str, int, str]:
        file.write_text(text)
        outcome = on("apply", "-f", file).out.split()[-1]
        status = status_of(on("get", "kj", "orders-products-join", "-o", "json"))
        return status["hash"], status["observedGeneration"], outcome

    text = JOIN.read_text()
    first, event_count = applied(text), len(reasons(on))
    assert (len(first[0]), first[1:]) == (16, (1, "created"))
    assert applied(f"# a comment\n{text}") == (first[0], 1, "unchanged")
    assert len(reasons(on)) == event_count
    changed = applied(text.replace("type: inner", "type: left"))
    assert changed[0] != first[0]
    assert changed[1:] == (2, "configured")


def test_a_changed_extractor_is_told_before_it_is_applied_and_shows_as_rebuild_required(
    on: Kaspr, tmp_path: Path
) -> None:
    def conditions() -> dict[str, tuple[str, str]]:
        items = json.loads(on("get", "all", "-o", "json").out)["items"]
        found = {f"{one['kind']}/{one['metadata']['name']}": one["status"]["conditions"][0] for one in items}
        return {name: (one["status"], one["reason"]) for name, one in found.items()}

    on("apply", "-f", BUNDLE)
    plan, ref = Registry(NativeSystemTables(tables_of(tmp_path))).plan(), ResourceRef("join", "orders-products-join")
    assert plan is not None
    start = Start(definition_of(plan, ref), {"left": 0, "right": 0}).to_json()
    log = plan.log_of(ref)
    tables_of(tmp_path).ensure(log, CHANNEL)
    tables_of(tmp_path).append(log, pa.table({"checkpoint": ["c00000001-0"], "batch": [-1], "start": [start]}))
    assert {status for status, _ in conditions().values()} == {"True"}

    file = tmp_path / "join.yaml"
    file.write_text(JOIN.read_text().replace("order.get", "order['spare'] or order.get"))
    told = on("apply", "-f", file).err
    assert "its extractor has changed" in told
    assert "kaspr-delta rebuild join/orders-products-join" in told
    assert on("apply", "-f", file).err == ""
    found = conditions()
    assert found["KasprJoin/orders-products-join"] == ("False", "RebuildRequired")
    assert found["KasprAgent/process-enriched-orders"] == ("False", "NotReady")
    assert found["KasprAgent/ingest-products"] == found["KasprTable/orders"] == ("True", "Healthy")
    described = on("describe", "kj", "orders-products-join").out
    assert "kaspr-delta rebuild join/orders-products-join" in described
    assert [reason for reason in reasons(on) if reason[0] == "Warning"] == [("Warning", "RebuildRequired")]

    on("apply", "-f", JOIN)
    assert {status for status, _ in conditions().values()} == {"True"}


def test_apply_deletes_resources_only_with_prune(on: Kaspr, tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    for file in (TABLES, APP):
        (folder / file.name).write_text(file.read_text())
    on("apply", "-f", folder)
    (folder / TABLES.name).write_text(TABLES.read_text().split("---")[0])
    on("apply", "-f", folder)
    assert set(rows(on("get", "ktables"))) == {"orders", "products"}
    assert "kasprtable.kaspr.io/products deleted" in on("apply", "-f", folder, "--prune").out
    assert set(rows(on("get", "ktables"))) == {"orders"}


def test_manifests_with_an_error_change_nothing(kaspr: Kaspr, tmp_path: Path) -> None:
    wh = ("--warehouse", tmp_path / "wh")
    bad = tmp_path / "bad.yaml"
    bad.write_text(TABLES.read_text().replace("partitions: 6", "partition: 6"))
    assert kaspr("apply", "-f", bad, *wh).code == 1
    assert "did you mean 'partitions'?" in kaspr("apply", "-f", bad, *wh).err
    assert kaspr("get", "ktables", *wh).code == 2
    kaspr("apply", "-f", BUNDLE, *wh)
    clash = tmp_path / "clash.yaml"
    clash.write_text(TABLES.read_text().replace("name: orders", "name: Orders"))
    refused = kaspr("apply", "-f", clash, *wh)
    assert refused.code == 1
    assert "would share the Delta name" in refused.err


def test_get_accepts_every_name_of_a_kind_and_all(on: Kaspr) -> None:
    on("apply", "-f", BUNDLE)
    names = {"orders", "products"}
    for alias in ("ktable", "ktables", "kasprtable", "kasprtables", "table", "tables"):
        assert set(rows(on("get", alias))) == names
    wide = rows(on("get", "kj", "-o", "wide"))["orders-products-join"]
    assert wide["DELTA NAME"] == "orders_products_join"
    assert wide["APP"] == "order-system"
    assert list(wide)[:5] == ["NAME", "READY", "ROWS", "LAG", "AGE"]
    listed = on("get", "all").out
    assert "kasprapp.kaspr.io/order-system" in listed
    assert "kaspragent.kaspr.io/process-enriched-orders" in listed
    linked = status_of(on("get", "kapp", "order-system", "-o", "json"))["linkedResources"]
    assert {kind: len(listed) for kind, listed in linked.items()} == {"tables": 2, "joins": 1, "agents": 3}
    assert on("get", "ktask").err == "No resources found\n"


def test_yaml_of_get_can_be_applied_again(on: Kaspr, tmp_path: Path) -> None:
    on("apply", "-f", BUNDLE)
    shown = on("get", "kj", "orders-products-join", "-o", "yaml").out
    assert "    python: |\n      def get_product_id(order):\n" in shown
    (tmp_path / "again.yaml").write_text(shown)
    assert on("apply", "-f", tmp_path / "again.yaml").out.split()[-1] == "unchanged"
    everything = YAML(typ="safe").load(on("get", "all", "-o", "yaml").out)
    assert everything["kind"] == "List"
    assert len(everything["items"]) == 7


def test_status_counts_rows_dead_letters_and_failures(on: Kaspr, tmp_path: Path) -> None:
    on("apply", "-f", BUNDLE)
    delta = delta_rs(Warehouse(str(tmp_path / "wh")).namespace("order_system"))
    row = ("agent/ingest-orders", "c", 0, 3, 2, 1, 0, 0, 0.5, "{}", datetime.now(timezone.utc))
    NativeSystemTables(delta).append(PROGRESS, [row, row])
    letter = ("agent/ingest-orders", "raw-orders", "k", "v", "event failed", "", None, 0, datetime.now(timezone.utc))
    NativeSystemTables(delta).append(DEAD_LETTERS, [letter])
    assert rows(on("get", "kagent"))["ingest-orders"]["ROWS"] == "6"
    status = status_of(on("get", "kagent", "ingest-orders", "-o", "json"))
    assert (status["rowsIn"], status["rowsOut"]) == (6, 4)
    assert (status["deadLetters"], status["failures"]) == (1, 2)  # letters now, and failures in all batches


def test_a_missing_resource_is_an_error_with_a_similar_name(kaspr: Kaspr, on: Kaspr, tmp_path: Path) -> None:
    wh = ("--warehouse", tmp_path / "wh")
    assert kaspr("get", "kj", *wh).code == 2
    on("apply", "-f", BUNDLE)
    assert "did you mean 'orders'?" in kaspr("get", "ktable", "order", *wh).err
    assert kaspr("delete", "ktable", "order", *wh).code == 2
    assert kaspr("describe", "kthing", "x", *wh).code == 2


LOOK = '{name: look, tables: [{name: wards, paramName: w}], map: {python: "f = lambda value, w: value"}}'
EVERY_READER = manifests(
    "a",
    f"""
KasprApp/a: {{}}
KasprTable/beds: {{}}
KasprTable/wards: {{}}
KasprJoin/placed: {{leftTable: beds, rightTable: wards, on: key, outputChannel: placements}}
KasprJoin/over-its-result: {{leftTable: placed, rightTable: wards, on: key}}
KasprJoin/over-its-channel: {{leftStream: {{channel: placements}}, rightTable: wards, on: key}}
KasprTable/counted: {{from: {{join: placed}}, count: {{}}}}
KasprTable/of-rows: {{from: {{table: placed}}, count: {{}}}}
KasprTable/of-records: {{from: {{channel: placements}}, toTable: {{}}}}
KasprAgent/bill:
  input: {{channel: {{name: placements}}}}
  processors:
    pipeline: [look, again]
    operations:
      - {LOOK}
      - name: again
        tables: [{{name: wards, paramName: w}}, {{name: beds, paramName: b}}]
        map: {{python: "f = lambda value, w, b: value"}}
KasprTask/report: {{processors: {{pipeline: [look], operations: [{LOOK}]}}}}
KasprWebView/shown:
  name: shown
  request: {{method: GET, path: /shown}}
  processors: {{pipeline: [look], operations: [{LOOK}]}}
""",
)
OF_JOIN = {
    ("over-its-result", "LeftTable"),
    ("over-its-channel", "LeftStream"),
    ("counted", "FromJoin"),
    ("of-rows", "FromTable"),
    ("of-records", "FromChannel"),
    ("bill", "Channel"),
}
OF_TABLE = {
    ("placed", "RightTable"),
    ("over-its-result", "RightTable"),
    ("over-its-channel", "RightTable"),
    ("bill", "Table"),
    ("report", "Table"),
    ("shown", "Table"),
}


@pytest.mark.parametrize(("kind", "name", "readers"), [("kjoin", "placed", OF_JOIN), ("ktable", "wards", OF_TABLE)])
def test_every_resource_that_refers_to_another_gets_one_event_when_it_goes_and_one_when_it_comes(
    on: Kaspr, tmp_path: Path, kind: str, name: str, readers: set[tuple[str, str]]
) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(EVERY_READER)
    on("apply", "-f", file)

    def events() -> list[tuple[str, str, str]]:
        items = json.loads(on("get", "events", "-o", "json").out)["items"]
        return [(one["type"], one["involvedObject"]["name"], one["reason"]) for one in items]

    before = events()
    on("delete", kind, name)
    gone = events()[len(before) :]
    assert sorted(gone) == sorted(("Warning", reader, f"{role}NotFound") for reader, role in readers)
    on("apply", "-f", file)
    back = [event for event in events()[len(before) + len(gone) :] if event[1] != name]
    assert sorted(back) == sorted(("Normal", reader, f"{role}Found") for reader, role in readers)


def test_delete_prints_each_resource_that_waits_from_then_on(on: Kaspr, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(EVERY_READER)
    on("apply", "-f", tmp_path / "all.yaml")
    assert on("delete", "ktable", "beds").out.splitlines() == [
        'kasprtable.kaspr.io "beds" deleted',
        "agent/bill waits for join/placed",
        "join/over-its-channel waits for join/placed",
        "join/over-its-result waits for join/placed",
        "join/placed waits: table 'beds' is not there",
        "table/counted waits for join/placed",
        "table/of-records waits for join/placed",
        "table/of-rows waits for join/placed",
    ]
    assert on("delete", "kagent", "bill").out == 'kaspragent.kaspr.io "bill" deleted\n'


def test_the_status_of_a_pipeline_names_its_tables(on: Kaspr, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(EVERY_READER)
    on("apply", "-f", tmp_path / "all.yaml")
    status = status_of(on("get", "kagent", "bill", "-o", "json"))
    assert status["channel"] == {"name": "placements", "status": "ChannelFound"}
    assert status["tables"] == [{"name": name, "status": "TableFound"} for name in ("wards", "beds")]


BOUND = """
KasprApp/a: {topics: {clicks: {files: {path: /in, format: json}}}}
KasprAgent/copy: {input: {topic: {name: clicks}}, output: {topics: [{name: copied}]}}
"""


def test_topics_are_listed_with_their_bindings_records_and_lag(kaspr: Kaspr, on: Kaspr, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(manifests("a", BOUND))
    on("apply", "-f", tmp_path / "m.yaml")
    listed = rows(on("get", "topics"))
    assert listed["clicks"] == {"NAME": "clicks", "RECORDS": "0", "LAG": "unknown", "BOUND": "from json files in /in"}
    assert listed["copied"] == {"NAME": "copied", "RECORDS": "0", "LAG": "", "BOUND": "<none>"}
    one = json.loads(on("get", "topic", "clicks", "-o", "json").out)
    assert (one["deltaName"], one["bound"]) == ("topic__clicks", "from json files in /in")
    assert "Delta Name:" in on("describe", "topic", "clicks").out
    assert "did you mean 'clicks'?" in kaspr("get", "topic", "click", "--warehouse", tmp_path / "wh").err


def test_a_folder_is_the_same_by_any_of_its_paths(
    kaspr: Kaspr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.yaml").write_text(manifests("shop", f"KasprTable/{name}: {{}}"))
    monkeypatch.chdir(tmp_path)
    assert kaspr("--warehouse", "wh", "apply", "-f", "m").code == 0
    (folder / "two.yaml").unlink()
    answer = kaspr("--warehouse", "wh", "apply", "-f", f"../{tmp_path.name}/m", "--prune")
    assert "kasprtable.kaspr.io/two deleted" in answer.out


def test_a_resource_that_moves_to_another_given_file_stays_and_an_error_in_one_file_changes_nothing(
    kaspr: Kaspr, tmp_path: Path
) -> None:
    def apply(**files: str) -> str:
        for name, tables in files.items():
            (tmp_path / f"{name}.yaml").write_text(
                manifests("shop", "\n".join(f"KasprTable/{table}: {{}}" for table in tables.split()))
            )
        given = [part for name in files for part in ("-f", tmp_path / f"{name}.yaml")]
        answer = kaspr("--warehouse", tmp_path / "wh", "apply", *given, "--prune")
        return " ".join(answer.out.replace("kasprtable.kaspr.io/", "").split()) or answer.err

    assert apply(a="one two", b="three") == "one created two created three created"
    assert apply(a="one", b="two three") == "one unchanged two unchanged three unchanged"
    assert apply(a="one", b="two") == "one unchanged two unchanged three deleted"
    assert "this name is too long" in apply(a="one four", b="two " + "x" * 300)
    assert apply(a="one", b="two") == "one unchanged two unchanged"


def test_a_resource_of_one_application_is_pruned_beside_one_of_the_same_name(kaspr: Kaspr, tmp_path: Path) -> None:
    def apply() -> str:
        files = [part for app in ("shop", "desk") for part in ("-f", tmp_path / f"{app}.yaml")]
        return kaspr("--warehouse", tmp_path / "wh", "apply", *files, "--prune").out

    for app in ("shop", "desk"):
        (tmp_path / f"{app}.yaml").write_text(manifests(app, "KasprTable/one: {}\nKasprTable/two: {}"))
    assert "deleted" not in apply()
    (tmp_path / "shop.yaml").write_text(manifests("shop", "KasprTable/one: {}"))
    assert apply().count("kasprtable.kaspr.io/two deleted") == 1
