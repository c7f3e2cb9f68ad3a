"""Runs go on with the state, logs and checkpoints of older versions, whose formats they migrate.

``older_state.tar.xz`` holds a warehouse with every shape and its manifests. Commit ce11bc3, whose modules for
tables and logs were others, processed two waves of ``shapes.py`` in it, and only wrote a third one.

``format_1.tar.xz`` is the same of commit 35b5492, whose state has format 1, with keys of bytes, typed tables and an
agent (``write_more``). Five of its resources were killed when they had committed the third wave and not folded it.
"""

from __future__ import annotations

import contextlib
import json
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from kaspr_delta import Application, ResourceFailedError
from kaspr_delta.control.rebuilds import migrations_in, start_in
from kaspr_delta.engine.batch.checkpoint import STATE_FORMAT, Start
from kaspr_delta.engine.batch.folding import Folding
from kaspr_delta.runtime.resources import run_of
from kaspr_delta.runtime.run_events import Migrated
from kaspr_delta.storage.layout import DEAD_LETTERS, PROGRESS, SYSTEM
from tests.folders import delta_rs
from tests.manifests import opened
from tests.properties import naive_join
from tests.spark import shapes
from tests.spark.channels import counted, last_values
from tests.spark.dying import watched_writes
from tests.spark.killing import around_writes, killed
from tests.spark.shapes import LAST_WAVE, outcome, write_wave

FORMAT_1 = Path(__file__).with_name("format_1.tar.xz")
FORMAT_2 = Path(__file__).with_name("older_state.tar.xz")
WRITTEN = 3
# Base64 of 57 bytes is one line of 76 characters.
PARTS = [b"part", b"\x00" * 57, b"\xff" * 58, bytes(range(60)), b"part" * 100]
USES = [bytes([number]) + b"use" * 30 for number in range(16)]
JOIN = "join/parts-of-uses"
# The tables that a migration of the join writes, in order: its text, the new start with what differs, the folds.
WRITES = ["subscriptions__parts_of_uses", "parts_of_uses", "channel__parts_of_uses_channel", "_kaspr_progress"]


def write_more(app: Application, wave: int) -> None:
    """Write rows with keys of bytes, and typed rows: new ones, and in the last wave also changes and deletions."""
    first = 4 * (wave - 1)
    parts: dict[bytes, Any] = dict.fromkeys(PARTS[wave - 1 : wave + 1], b"first" * 20)
    uses: dict[bytes, Any] = {use: PARTS[number % 5] for number, use in enumerate(USES[first : first + 4], first)}
    wares: dict[str, Any] = {f"W{wave}": {"name": "Widget", "price": f"{wave}.50"}}
    sales = {f"S{wave}": {"ware": f"W{wave}", "sold": date(2024, 1, wave)}, f"later-{wave}": {"ware": f"W{wave + 1}"}}
    if wave == LAST_WAVE:
        parts |= {PARTS[1]: b"second" * 20, PARTS[3]: None, b"none" * 30: b"new"}
        uses |= {USES[0]: PARTS[4], USES[1]: None, USES[2]: PARTS[2], USES[4]: b"none" * 30}
        wares |= {"W1": {"name": "Gadget", "price": "9"}, "W2": None}
        sales |= {"S3": {"ware": "W1"}}
    rows_by_table: Sequence[tuple[str, dict[Any, Any]]]
    rows_by_table = (("parts", parts), ("uses", uses), ("wares", wares), ("sales", sales))
    for table, rows in rows_by_table:
        app.table(table).put(rows)
    app.topic("sightings").produce([{"key": use, "value": use, "timestamp": wave * 600_000 + 500} for use in PARTS])


def without_islands(wave: int, tables_of: Callable[[int], Any] = shapes._tables) -> dict[str, dict[str, Any]]:
    return {
        table: {key: row for key, row in rows.items() if not key.startswith(("sold-", "island-"))}
        for table, rows in tables_of(wave).items()
    }


def extracted(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as kept:
        kept.extractall(folder, filter="data")
    return folder / "every-shape.yaml"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_warehouse_of_an_older_version_gives_the_outcome_of_a_new_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shapes, "_tables", without_islands)  # its waves had none
    manifests = extracted(FORMAT_2, tmp_path / "older")
    older = Application.open(manifests, warehouse=tmp_path / "older" / "wh", spark=spark)
    newer = Application.open(manifests, warehouse=tmp_path / "newer", spark=spark)
    for wave in range(1, WRITTEN):
        write_wave(newer, wave)
        newer.run()
    write_wave(newer, WRITTEN)
    begun = checkpoints(older)
    for app in (older, newer):
        app.run()
        write_wave(app, LAST_WAVE)
        app.run()
    assert outcome(older) == outcome(newer)
    assert checkpoints(older) == begun


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_warehouse_of_format_1_is_migrated_and_gives_the_outcome_of_a_new_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded = naive_join.folded

    def folded_by_keys_on_one_line(records: list[Row]) -> Any:
        """Records of format 1 keep their keys as they were written; readers that decode them see the same key."""
        return folded([Row(**{**one.asDict(), "key": one["key"].replace("\r\n", "")}) for one in records])

    monkeypatch.setattr(naive_join, "folded", folded_by_keys_on_one_line)
    manifests = extracted(FORMAT_1, tmp_path / "older")
    older = Application.open(manifests, warehouse=tmp_path / "older" / "wh", spark=spark)
    newer = Application.open(manifests, warehouse=tmp_path / "newer", spark=spark)
    for wave in range(1, WRITTEN + 1):
        write_wave(newer, wave)
        write_more(newer, wave)
        if wave < WRITTEN:
            newer.run()
    rows = delta_rs(older.delta.namespace).rows
    assert set(migrations_in(older.plan, rows)) == set(older.plan.runs)
    migrated: list[Migrated] = []
    begun = checkpoints(older)
    older.run(listener=lambda event: migrated.append(event) if isinstance(event, Migrated) else None)
    assert {event.resource: event.before for event in migrated} == dict.fromkeys(older.plan.runs, 1)
    assert migrations_in(older.plan, rows) == {}
    assert checkpoints(older) == {log: starts + 1 for log, starts in begun.items()}
    newer.run()
    for app in (older, newer):
        write_wave(app, LAST_WAVE)
        write_more(app, LAST_WAVE)
        app.run()
    assert on_one_line(outcome(older)) == on_one_line(outcome(newer))
    assert older.join("wares-of-sales").to_dict() == newer.join("wares-of-sales").to_dict()
    assert last_values(older.channel("same-channel").records()) == newer.join("same").to_dict()
    records = [counted(app.topic("counted").records(), "key", "value", "partition") for app in (older, newer)]
    assert records[0] == records[1]


def on_one_line(found: dict[str, Any]) -> dict[str, Any]:
    """Texts of an outcome. Format 1 has line breaks in values, which all readers ignore.

    Three of them differ: long keys did not match, so two channels have other emissions from before, and the group of an
    island that was sold then has no time, which format 1 did not keep.
    """
    differ = {"channel of same", "channel of parts-of-uses", "group_times__people_per_country"}
    texts = {name: one if isinstance(one, list) else [repr(one)] for name, one in found.items() if name not in differ}
    return {name: sorted(text.replace("\\r\\n", "") for text in some) for name, some in texts.items()}


@pytest.mark.slow
def test_a_state_of_format_1_is_migrated_by_the_first_run(spark: SparkSession, tmp_path: Path) -> None:
    app = Application.open(part_of(FORMAT_1, tmp_path), warehouse=tmp_path / "wh", spark=spark)
    assert len(app.join("parts-of-uses").to_dict()) < len(pairs(app)), "long keys did not match, and readers read"
    assert newest_format(app) == 1
    app.run()
    assert newest_format(app) == STATE_FORMAT
    assert_joined(app)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_migration_that_is_killed_anywhere_is_finished_by_the_next_run(spark: SparkSession, tmp_path: Path) -> None:
    for point in around_writes(WRITES):
        folder = tmp_path / "-".join(point)
        manifests = part_of(FORMAT_1, folder)
        killed(manifests, folder / "wh", JOIN, point)
        app = Application.open(manifests, warehouse=folder / "wh", spark=spark)
        app.run()
        assert newest_format(app) == STATE_FORMAT
        assert_joined(app)


# By resource: the names of its own manifest and of those that it reads.
OTHERS = {
    "agent/counting": "shapes|counting|pages",
    "table/spent": "shapes|spent",
    "table/uses-by-part": "shapes|uses|uses-by-part",
    "join/visits": "shapes|people|visits",
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("victim", OTHERS)
def test_a_migration_of_any_kind_that_is_killed_anywhere_is_finished_by_the_next_run(
    spark: SparkSession, tmp_path: Path, victim: str
) -> None:
    """An agent, tables made from a topic and from a table, and a join with a stream."""

    def opened_in(folder: Path) -> Application:
        return Application.open(folder / "part.yaml", warehouse=folder / "wh", spark=spark)

    part_of(FORMAT_1, tmp_path / "undisturbed", OTHERS[victim])
    undisturbed = opened_in(tmp_path / "undisturbed")
    writes: dict[str, None] = {}
    tables = {path.name for path in (tmp_path / "undisturbed" / "wh").glob("*/*") if path.is_dir()}

    def note(arguments: tuple[Any, ...], _: str) -> None:
        writes.update(dict.fromkeys(one for one in arguments if isinstance(one, str) and one in tables))

    with watched_writes(note):
        undisturbed.run(only=[victim])
    assert newest_format(undisturbed, victim) == STATE_FORMAT
    assert PROGRESS in writes
    assert len(writes) > 1
    for point in around_writes(writes):
        folder = tmp_path / "-".join(point)
        killed(part_of(FORMAT_1, folder, OTHERS[victim]), folder / "wh", victim, point)
        app = opened_in(folder)
        app.run(only=[victim])
        assert newest_format(app, victim) == STATE_FORMAT
        for _ in range(2):
            found, expected = contents(app, writes), contents(undisturbed, writes)
            differ = {table: (found[table] - expected[table], expected[table] - found[table]) for table in expected}
            assert differ == dict.fromkeys(expected, (Counter(), Counter())), point
            app.run(only=[victim])


# Their numbers and times differ, and a problem names the folder of the manifests.
_OF_BATCHES = ("checkpoint", "batch", "memo", "start", "until", "problem")


def contents(app: Application, tables: Iterable[str]) -> dict[str, Counter[str]]:
    """The rows of tables, counted, and of logs those with effects."""
    found = {}
    for table in tables:
        rows = app.delta.read(app.spark, table)
        if table in SYSTEM:
            continue
        effects = rows.where("kind IS NOT NULL") if "memo" in rows.columns else rows
        found[table] = Counter(map(repr, effects.drop(*_OF_BATCHES).collect()))
    return {**found, DEAD_LETTERS: counted(app.dead_letters(), "resource", "source", "key", "reason", "timestamp")}


IN_CATALOG = """
KasprApp/shop: {}
KasprTable/parts: {schema: "part STRING, name STRING", key: part}
KasprTable/uses: {schema: "use STRING, part STRING", key: use}
KasprJoin/placed: {leftTable: uses, rightTable: parts, column: part}
KasprTable/per-part: {from: {table: uses}, groupBy: {python: "def part(value): return value['part']"}, count: {}}
KasprAgent/copy: {input: {channel: {name: placed-channel}}, output: {topics: [{name: copies}]}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("waits", [False, True], ids=["folded", "committed"])
def test_a_state_of_format_1_in_a_catalog_goes_on(
    spark: SparkSession, catalog: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """There the start of format 1 had no ids of tables, and no times of commits."""

    def of_format_1(start: Start) -> str:
        return json.dumps({"definition": start.definition, "positions": start.positions, "format": 1})

    app = opened(spark, tmp_path, "shop", IN_CATALOG, warehouse=catalog)
    with monkeypatch.context() as older:
        older.setattr(Start, "to_json", of_format_1)
        app.table("parts").put({"P1": {"name": "nut"}, "P2": {"name": "bolt"}})
        app.table("uses").put({"U1": {"part": "P1"}, "U2": {"part": "P2"}})
        app.run()
    app.table("parts").put({"P1": {"name": "screw"}})
    app.table("uses").put({"U2": None, "U3": {"part": "P1"}})
    if waits:  # the first run is killed when it has committed
        with monkeypatch.context() as broken:
            broken.setattr(Start, "to_json", of_format_1)
            broken.setattr(Folding, "fold", lambda *_: (_ for _ in ()).throw(OSError("killed")))
            with contextlib.suppress(ResourceFailedError):
                app.run()
    again = Application.open(warehouse=catalog, spark=spark)
    migrated: list[str] = []
    again.run(listener=lambda event: migrated.append(str(event.resource)) if isinstance(event, Migrated) else None)
    assert sorted(migrated) == ["agent/copy", "join/placed", "table/per-part"]
    assert again.join("placed").to_dict().keys() == {"U1", "U3"}
    assert all("'screw'" in str(row) for row in again.join("placed").to_dict().values())
    assert {key: row for key, row in again.table("per-part").to_dict().items() if row} == {"P1": 2}
    for _ in range(2):
        copies = " ".join(str(record["value"]) for record in again.topic("copies").records())
        assert sorted(re.findall("nut|bolt|screw", copies)) == ["bolt", "nut", "screw", "screw"], "each change once"
        again.run()


def part_of(archive: Path, folder: Path, names: str = "shapes|parts|uses|parts-of-uses") -> Path:
    """The manifests with these names, by default those of the join of keys of bytes, on the whole warehouse."""
    documents = extracted(archive, folder).read_text().split("---\n")
    wanted = re.compile(rf"\{{name: ({names})[,}}]")
    part = folder / "part.yaml"
    part.write_text("---\n".join(filter(wanted.search, documents)))
    return part


def newest_format(app: Application, resource: str = "join/parts-of-uses") -> int:
    (ref,) = (ref for ref in app.plan.runs if str(ref) == resource)
    start = start_in(delta_rs(app.delta.namespace).rows, app.plan.log_of(ref))
    assert start is not None
    return start.format


def pairs(app: Application) -> dict[Any, Any]:
    parts, uses = app.table("parts").to_dict(), app.table("uses").to_dict()
    return {use: {"left": part, "right": parts[part]} for use, part in uses.items() if part in parts}


def assert_joined(app: Application) -> None:
    """Assert that the result is the join of the tables, that the channel gives it, and that nothing came twice."""
    records = app.channel("parts-of-uses-channel").records()
    assert app.join("parts-of-uses").to_dict() == pairs(app) == last_values(records)
    assert len(records) == len(pairs(app))
    assert app.dead_letters("join/parts-of-uses") == []


def checkpoints(app: Application) -> dict[str, int]:
    """The number of starts in each log. A rebuild adds one, and so does a migration."""
    logs = [run_of(app.delta, app.plan, ref).resource.log_table for ref in app.plan.runs]
    return {log: app.delta.read(app.spark, log).where("start IS NOT NULL").count() for log in logs}
