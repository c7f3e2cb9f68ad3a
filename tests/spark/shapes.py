"""The application of ``shapes.yaml``: parts of it, waves of data for it, and the outcome.

A record of a stream is joined with the rows that have arrived by then. Even so, the outcome of these waves does not
depend on the cuts into batches, as long as each wave ends with a batch:

* Except for late records, each wave has later times than the one before, and its rows are older than its records.
* A deletion has the time of its commit. So no record refers to a row that was deleted in the same wave or in the one
  before, except in the last wave.
* A row changes in one wave only, apart from its first. *restless* changes in every wave, so only its last value in a
  join of tables is compared.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import networkx as nx
from pyspark.sql import DataFrame
from pyspark.sql.functions import to_json

from kaspr_delta import Application
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.joins import JoinPlan, TableTableJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.spec.kinds import short_kind
from kaspr_delta.spec.loader import LoadedManifest, load_text
from kaspr_delta.storage.layout import BATCH, DEAD_LETTERS, PROGRESS, WRITTEN_AT
from kaspr_delta.storage.plan_tables import tables_kept_by
from tests.manifests import manifests
from tests.properties import naive_join
from tests.spark.channels import counted
from tests.spark.killing import flow

SHAPES = Path(__file__).parent / "applications" / "shapes.yaml"
# Resources that need several waves: records that are pending until their row arrives, and windows that close.
_IN_WAVES = """\
KasprJoin/visits: {leftStream: {topic: views}, rightTable: people, on: key, type: inner, pending: {ttl: 10h}}
KasprTable/views-per-closed-minute:
  name: views-per-closed-minute
  from: {topic: views}
  count: {}
  window: {tumbling: {size: 1m}, grace: 5s, emit: close}
"""
_MANIFESTS = load_text(SHAPES.read_text() + manifests("shapes", _IN_WAVES), str(SHAPES))
PLAN = build_plans(_MANIFESTS)[0][0]

LAST_WAVE = 4
_BETWEEN_WAVES = 600_000  # milliseconds
_LATER_WAVES = range(2, LAST_WAVE + 1)
_RESTLESS = "restless"
# Columns that depend on the time of the run.
_TIME_COLUMNS = ("timestamp", "until", WRITTEN_AT)

_HOME = {"country": "c1", "page": "ann"}
_AWAY = {"country": "nowhere", "page": "nobody"}
_ODD = {"odd": True}  # has no field that a function reads
_UNREADABLE = b"{unreadable"

Rows = Mapping[str, Any]
Records = list[dict[str, Any]]


def victims() -> list[str]:
    """All resources that run."""
    return [str(ref) for ref in PLAN.runs]


def writes(victim: str) -> list[str]:
    """The tables that a batch writes: the log, the folded tables, the dead letters, the progress."""
    ref = ResourceRef(*victim.split("/"))
    made = PLAN.join(ref.name) if ref.kind == "join" else PLAN.aggregation(ref.name)
    assert made is not None
    folds = [table for table, _ in tables_kept_by(PLAN, ref) if table != made.log]
    return [made.log, *folds, DEAD_LETTERS, PROGRESS]


def write_part(victim: str, folder: Path) -> Path:
    """Write a file with a resource, the resources that depend on it, and the inputs of all these. Returns the file."""
    graph = flow(PLAN)
    part = {victim, *nx.descendants(graph, victim)}
    part = part.union(*(nx.ancestors(graph, label) for label in part))
    texts = [manifest.text for manifest in _MANIFESTS.manifests if _label(manifest) in {"app/shapes", *part}]
    file = folder / "part.yaml"
    file.write_text("---\n".join(texts))
    return file


def _label(manifest: LoadedManifest) -> str:
    return f"{short_kind(manifest.manifest.kind)}/{manifest.manifest.metadata.name}"


# -- waves -------------------------------------------------------------------------------------------------------------


def write_wave(app: Application, wave: int) -> None:
    """Write inserts, updates and deletions on all sides, and records that fail wherever one can fail."""
    start = wave * _BETWEEN_WAVES
    for moment, (table, rows) in enumerate(_tables(wave).items()):
        if (plan := app.plan.table(table)) is not None:
            records = [_record(key, value, start + moment) for key, value in rows.items()]
            app.topic(plan.changelog).produce(records)
    if (people := app.plan.table("people")) is not None:
        moment_of_wave = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=start)
        row = (f'"unreadable-{wave}"', _UNREADABLE.decode(), moment_of_wave)
        rows_of_others = app.spark.createDataFrame([row], "key STRING, value STRING, timestamp TIMESTAMP")
        app.delta.append(app.spark, rows_of_others.coalesce(1), people.delta_name)
    for topic, records in _topics(wave, start).items():
        if app.plan.topic(topic) is not None:
            app.topic(topic).produce(records)


def _tables(wave: int) -> dict[str, Rows]:
    return {"people": _people(wave), "addresses": _addresses(wave), "countries": _countries(wave)}


def _people(wave: int) -> Rows:
    if wave == 1:
        names = ["ann", "bob", _RESTLESS, "new-1"]
        names += [f"{what}-{later}" for later in _LATER_WAVES for what in ("changed", "gone", "homeless", "empty")]
        return {name: {"n": 1} for name in names}
    changed = {f"changed-{wave}": {"n": wave}, f"new-{wave}": {"n": wave}, _RESTLESS: {"n": wave}}
    return {**changed, f"gone-{wave}": None, f"empty-{wave}": None}


def _addresses(wave: int) -> Rows:
    """A changed address refers to a country that never changes, or changes in the same wave.

    An island has one address, which is sold once: the number of its people stays, but its time changes.
    """
    always = {
        f"odd-{wave}": _ODD,
        f"nameless-{wave}": {"country": f"nameless-{wave}", "owner": None},
        f"new-house-{wave}": {"country": "c1", "owner": "bob"},
        _RESTLESS: {"country": f"c{wave % 2}", "owner": ("ann", "bob")[wave % 2]},
    }
    if wave == 1:
        first = {"still-0": {"country": "c0", "owner": "ann"}, "still-1": {"country": "c1", "owner": None}}
        for later in _LATER_WAVES:
            first[f"still-{later}"] = {"country": f"c{later}", "owner": "ann"}
            first[f"changed-{later}"] = first[f"empty-{later}"] = {"country": "c1", "owner": "ann"}
            first[f"gone-{later}"] = first[f"homeless-{later}"] = {"country": "c1", "owner": "zoe"}
            first[f"sold-{later}"] = {"country": f"island-{later}", "owner": "ann"}
        return {**always, **first}
    changed = {
        f"changed-{wave}": {"country": f"c{wave}", "owner": "bob"},
        f"sold-{wave}": {"country": f"island-{wave}", "owner": "bob"},
    }
    return {**always, **changed, f"gone-{wave}": None, f"homeless-{wave}": None}


def _countries(wave: int) -> Rows:
    always = {f"nameless-{wave}": {"code": wave}}
    if wave == 1:
        islands = {f"island-{later}": {"name": f"Island {later}"} for later in _LATER_WAVES}
        return {**always, **islands, **{f"c{number}": {"name": f"Country {number}"} for number in range(LAST_WAVE + 1)}}
    return {**always, f"c{wave}": {"name": f"Republic {wave}"}}


def _topics(wave: int, start: int) -> dict[str, Records]:
    later = [f"gone-{other}" for other in _LATER_WAVES]
    updates: list[tuple[Any, Any]] = [("ann", f"in wave {wave}"), (f"fresh-{wave}", "first"), (None, "nobody")]
    if wave == 1:
        updates += [("bob", "new"), (_RESTLESS, "here"), *((name, "here") for name in later)]
    else:
        updates.append((f"gone-{wave}", None))
    views: list[tuple[Any, Any]] = [
        ("ann", _HOME),
        ("bob", _AWAY),
        ("ghost", _HOME),
        (None, _HOME),
        ("ann", None),
        ("bob", _ODD),
        (f"fresh-{wave}", {"country": f"c{wave}", "page": f"changed-{wave}"}),
        (f"new-{wave + 1}", _HOME),
        (_RESTLESS, {"country": "c1", "page": _RESTLESS}),
    ]
    if wave in {1, LAST_WAVE}:
        views += [("zoe", _HOME), *((name, _HOME) for name in later[:-1])]
    purchases = [
        _record("ann", {"what": "hat", "price": wave}, start + 2_000),
        _record("ann", {"what": "riddle"}, start + 3_000),
        _record(None, {"what": "gift", "price": 1}, start + 4_000),
        _record("bob", {"what": "pen", "price": 2}, start + 50_000),
    ]
    late = start - _BETWEEN_WAVES
    return {
        "profile-updates": _with_unreadable(_one_by_one(updates, start + 10)),
        "views": _with_unreadable([*_one_by_one(views, start + 100), _record("bob", _HOME, late + 100)]),
        "purchases": _with_unreadable([*purchases, _record("ann", {"what": "late", "price": 0}, late + 5_000)]),
    }


def _record(key: Any, value: Any, timestamp: int) -> dict[str, Any]:
    return {"key": key, "value": value, "timestamp": timestamp}


def _one_by_one(pairs: Iterable[tuple[Any, Any]], start: int) -> Records:
    return [_record(key, value, start + place) for place, (key, value) in enumerate(pairs)]


def _with_unreadable(records: Records) -> Records:
    return [*records, _record("unreadable", _UNREADABLE, records[-1]["timestamp"])]


# -- the outcome ------------------------------------------------------------------------------------------------------


def outcome(app: Application) -> dict[str, Any]:
    """The content of channels, tables, states and dead letters, without times that differ between runs."""
    _run_until_no_record_is_pending(app)
    left: dict[str, Any] = {"dead": counted(app.dead_letters(), "resource", "source", "key", "value", "reason")}
    for join in app.plan.joins:
        left[f"channel of {join.name}"] = _emitted(app, join)
    for ref in {*app.plan.runs, *(table.ref for table in app.plan.tables)}:
        for table, layout in tables_kept_by(app.plan, ref):
            if not layout.columns.endswith(BATCH):  # a log, whose rows depend on the cuts into batches
                left[table] = sorted(map(repr, app.delta.read(app.spark, table).drop(*_TIME_COLUMNS).collect()))
    return left


def _emitted(app: Application, join: JoinPlan) -> dict[Any, list[Any]]:
    """The emissions of each key, in order. Those of streams have timestamps, which are those of their records."""
    records = app.channel(join.channel).records()
    of_tables = isinstance(join, TableTableJoinPlan)
    if isinstance(join, TableTableJoinPlan):
        _assert_channel_and_feed_give_the_result(app, join)
    by_key: defaultdict[Any, list[Any]] = defaultdict(list)
    for record in records:
        if not (of_tables and record["key"] == _RESTLESS):
            by_key[record["key"]].append((record["value"], None if of_tables else record["timestamp"]))
    return dict(by_key)


def _assert_channel_and_feed_give_the_result(app: Application, join: TableTableJoinPlan) -> None:
    """Assert that the channel and the change feed each add up to the result, and that each record changes something."""
    result = _with_texts(app.delta.read(app.spark, join.result)).collect()
    pairs = {row["key"]: (row["left"], row["right"]) for row in result}
    assert naive_join.folded(app.channel(join.channel).stored.orderBy("offset").collect()) == pairs
    assert naive_join.replayed(_with_texts(app.delta.changes(app.spark, join.result)).collect()) == pairs


def _with_texts(result: DataFrame) -> DataFrame:
    """Rows of a result with their sides as a channel shows them: rows with columns as JSON."""
    types = dict(result.dtypes)
    sides = [side for side in ("left", "right") if types[side].startswith("struct")]
    return result.withColumns({side: to_json(side, {"ignoreNullFields": "false"}) for side in sides})


def _run_until_no_record_is_pending(app: Application) -> None:
    """Run ``patient-views`` until none of its records is pending: each is pending for a few seconds at most."""
    join = app.plan.join("patient-views")
    while join is not None and not app.delta.read(app.spark, "waiting__patient_views").isEmpty():
        time.sleep(1)
        app.run(only=[str(join.ref)])
