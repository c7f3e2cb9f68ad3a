"""Delta tables of others that cannot be read: commands without Spark tell what `run` would tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from kaspr_delta.control.source_tables import as_found
from kaspr_delta.runtime.applying import applied_registry
from kaspr_delta.runtime.typed_tables import TypedTables
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from kaspr_delta.storage.opening import open_tables
from tests.folders import delta_rs
from tests.manifests import manifests
from tests.unit.cli.conftest import Kaspr

FEED = {"delta.enableChangeDataFeed": "true"}
MANIFESTS = """
KasprApp/a: {{}}
KasprTable/wards: {{source: {{table: {folder}, key: [{key}]}}}}
KasprTable/beds: {{schema: "bed STRING, ward STRING", key: bed}}
KasprJoin/placed: {{leftTable: beds, rightTable: wards, column: ward}}
KasprTable/costs: {{from: {{join: placed}}, count: {{}}}}
KasprAgent/bill: {{input: {{channel: {{name: placed-channel}}}}}}
KasprTask/report:
  schedule: {{interval: 1m}}
  processors:
    pipeline: [look]
    operations:
      - {{name: look, tables: [{{name: wards, paramName: w}}], map: {{python: "f = lambda value, w: len(w)"}}}}
"""


def manifests_of(folder: Path, key: str) -> str:
    return manifests("a", MANIFESTS.format(folder=folder, key=key))


def write(folder: Path, *, feed: bool = True, **columns: pa.Array) -> None:
    rows = pa.table({"id": pa.array(["W1"]), "rate": pa.array([1.5]), **columns})
    deltalake.write_deltalake(str(folder), rows, configuration=FEED if feed else {})


def damaged(folder: Path) -> None:
    write(folder)
    (folder / "_delta_log" / f"{0:020}.json").write_text("{")


CASES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "off": (lambda folder: write(folder, feed=False), "id", "is off: its owner has to run ALTER TABLE delta.`"),
    "gone": (lambda _: None, "id", "which it stands for, is not there"),
    "no such column": (write, "ward", "there is no column 'ward'"),
    "fraction": (write, "rate", "column 'rate' is DOUBLE, which is no key"),
    "list": (lambda folder: write(folder, tags=pa.array([["a"]])), "tags", "is ARRAY<STRING>, which is no key"),
    "reserved": (lambda folder: write(folder, _change_type=pa.array(["x"])), "id", "a name that Delta"),
    "damaged": (damaged, "id", "cannot be read: "),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A file of manifests whose source cannot be read, and part of the reason."""
    make, key, reason = CASES[request.param]
    make(tmp_path / "wards")
    (tmp_path / "m.yaml").write_text(manifests_of(tmp_path / "wards", key))
    return tmp_path / "m.yaml", reason


def items(kaspr: Kaspr, warehouse: Path) -> dict[str, dict[str, Any]]:
    found = json.loads(kaspr("get", "all", "-o", "json", "--warehouse", warehouse).out)["items"]
    return {one["metadata"]["name"]: one["status"]["conditions"][0] for one in found}


def test_get_and_describe_say_why_as_run_does_and_its_readers_wait_for_it(
    kaspr: Kaspr, case: tuple[Path, str], tmp_path: Path
) -> None:
    file, reason = case
    wh = tmp_path / "wh"
    applied = kaspr("apply", "-f", file, "--warehouse", wh)
    assert applied.code == 0
    assert reason in applied.err.replace("\n", "")
    conditions = items(kaspr, wh)
    assert conditions["beds"]["status"] == "True"
    assert conditions["wards"]["status"] == "False"
    assert reason in conditions["wards"]["message"]
    readers = {name: conditions[name].get("message") for name in ("placed", "costs", "bill", "report")}
    assert readers == dict.fromkeys(readers, "waits for table/wards")
    assert reason in kaspr("describe", "ktable", "wards", "--warehouse", wh).out
    plan, namespace = applied_registry(Warehouse(str(wh)), None).plan(), Warehouse(str(wh)).namespace("a")
    assert plan is not None
    of_run = TypedTables(None, open_tables(namespace)).known(plan)  # type: ignore[arg-type]
    assert as_found(NativeSystemTables(delta_rs(namespace)), plan).waiting == of_run.waiting != ()


def test_validate_warns_at_the_source(kaspr: Kaspr, case: tuple[Path, str], tmp_path: Path) -> None:
    file, reason = case
    checked = kaspr("validate", file, "--warehouse", tmp_path / "wh")
    assert checked.code == 0
    assert f"{file}:11:8: warning: table 'wards' waits: " in checked.out
    assert reason in checked.out
    assert checked.out.endswith("1 warning\n")
    assert "no findings" in kaspr("validate", file, "--warehouse", "unity://c.s/v").out


def test_a_join_whose_key_does_not_fit_the_columns_that_are_found_waits(kaspr: Kaspr, tmp_path: Path) -> None:
    write(tmp_path / "wards", number=pa.array([1]))
    file, wh = tmp_path / "m.yaml", tmp_path / "wh"
    file.write_text(manifests_of(tmp_path / "wards", "number"))
    assert f"{file}:21:44: warning: join 'placed' waits: " in kaspr("validate", file, "--warehouse", wh).out
    kaspr("apply", "-f", file, "--warehouse", wh)
    conditions = items(kaspr, wh)
    assert "they are never equal" in conditions["placed"]["message"]
    assert conditions["bill"]["message"] == "waits for join/placed"
    assert conditions["wards"]["status"] == "True"


def test_all_are_ready_once_the_source_can_be_read(kaspr: Kaspr, tmp_path: Path) -> None:
    file, wh = tmp_path / "m.yaml", tmp_path / "wh"
    file.write_text(manifests_of(tmp_path / "wards", "id"))
    kaspr("apply", "-f", file, "--warehouse", wh)
    assert items(kaspr, wh)["wards"]["status"] == "False"
    write(tmp_path / "wards")
    assert {one["status"] for one in items(kaspr, wh).values()} == {"True"}
    assert "no findings" in kaspr("validate", file).out
