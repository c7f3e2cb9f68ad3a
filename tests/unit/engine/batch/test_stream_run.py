"""Whether a resource has nothing to do, found by reading only; where streams over tables of a catalog begin and end."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kaspr_delta.engine.batch import new_stream
from kaspr_delta.engine.batch.batch import BatchRunner
from kaspr_delta.engine.batch.checkpoint import Start
from kaspr_delta.engine.batch.log import BatchMetadata
from kaspr_delta.engine.batch.new_stream import NewStream, have_nothing_to_do
from kaspr_delta.engine.batch.recovery import Recovery
from kaspr_delta.engine.batch.sources import NOTHING, SourceTable
from kaspr_delta.engine.batch.stream_run import ResourceRun
from kaspr_delta.engine.rows.sequence import end_of
from kaspr_delta.errors import RebuildNeededError
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.folders import LocalFolder
from kaspr_delta.storage.tables import Commit

NO_SPARK: Any = None
NOON = datetime(2026, 11, 28, 12, tzinfo=timezone.utc)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
READ = Start(
    {"type": "inner"},
    {"left": 3, "right": 5},
    tables={"left": "id of orders", "right": "id of products"},
    times={"left": Commit(3, NOON).time, "right": Commit(5, NOON).time},
)


def _logged(batch: tuple[int, Start | None]) -> dict[str, Any]:
    """The row of a log with the metadata of a batch."""
    number, start = batch
    memo, text = BatchMetadata().to_json(), None if start is None else start.to_json()
    return {"checkpoint": "c1", "batch": number, "memo": memo, "start": text}


@dataclass
class Catalog:
    """Tables of a catalog, and logs whose last batches are these, each with its number and perhaps a start.

    ``starts`` has the batches of a log that has others.
    """

    batches: dict[int, Start | None] = field(default_factory=lambda: {7: READ})
    newest_of: dict[str, Commit] = field(
        default_factory=lambda: {"orders": Commit(3, NOON), "products": Commit(5, NOON)}
    )
    ids: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    feeds_changed: set[str] = field(default_factory=set)
    starts: dict[str, dict[int, Start | None]] = field(default_factory=dict)
    earlier: dict[str, list[Commit]] = field(default_factory=dict)
    namespace: Any = field(default_factory=lambda: SimpleNamespace(streams_go_on=False))

    def query_each(self, _: Any, selects: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
        self.asked.append("logs")
        return {log: list(map(_logged, self.starts.get(log, self.batches).items())) for log in selects}

    def newest(self, _: Any, table: str) -> Commit:
        self.asked.append(f"version of {table}")
        return self.newest_of[table]

    def pinning(self, commits: dict[str, Commit]) -> Catalog:
        assert commits == self.newest_of
        return replace(self)

    def newest_commits(self, _: Any, table: str, most: int) -> list[Commit]:
        self.asked.append(f"{most} commits of {table}")
        return [self.newest_of[table], *self.earlier.get(table, [])]

    def changed_since(self, _: Any, known: dict[str, Commit]) -> list[str]:
        self.asked.append(f"feeds of {', '.join(sorted(known))}")
        return [table for table in known if table in self.feeds_changed]

    def table_id(self, _: Any, table: str) -> str:
        self.asked.append(f"id of {table}")
        return self.ids.get(table, f"id of {table}")


@dataclass
class Join:
    """A join of orders and products."""

    definition: dict[str, str] = field(default_factory=lambda: {"type": "inner"})
    has_due: bool = False
    timed: bool = True
    name: str = "priced"
    delta: Any = None
    left: str = "orders"
    expects_other_columns: bool = False
    table_group = "join/priced"

    @property
    def ref(self) -> ResourceRef:
        return ResourceRef("join", self.name)

    @property
    def log_table(self) -> str:
        return f"log of {self.name}"

    def is_due(self, _: Any, *, ending: bool) -> bool:
        return self.has_due and ending

    def sources(self, _: Any) -> dict[str, SourceTable]:
        return {"left": SourceTable(self.left), "right": SourceTable("products")}

    def source(self, _: Any, start: Start) -> Any:
        raise StreamingError(start.positions)


class StreamingError(Exception):
    """A stream starts at these positions."""


def idle(catalog: Catalog, *joins: Join, state: int | None = None) -> bool:
    tables: Any = catalog
    runners, progress = [], {}
    for join in joins or (Join(),):
        resource: Any = join
        runners.append(BatchRunner(tables, resource))
        progress[f"join/{join.name}"] = {"c1": 7}
    state_of = {"join/priced state": {"c1": state}} if state else {}
    return have_nothing_to_do(NO_SPARK, runners, progress | state_of)


def test_the_logs_by_one_statement_and_a_version_of_each_source_are_all_that_is_read() -> None:
    assert idle(catalog := Catalog(), Join(), Join(name="same"))
    assert catalog.asked[0] == "logs"
    assert sorted(catalog.asked[1:]) == ["version of orders", "version of products"]


@pytest.mark.parametrize("change", [Commit(4, NOON + SECOND), Commit(2, NOON - SECOND)])
def test_another_version_is_news(change: Commit) -> None:
    """Also a smaller one: then the table was replaced by another one of its name."""
    catalog = Catalog(ids={} if change.version == 4 else {"orders": "another"})
    catalog.newest_of["orders"] = change
    assert not idle(catalog)


def test_a_replaced_table_is_found_although_it_has_the_same_version() -> None:
    """As where a pipeline drops a table and creates it anew every night."""
    catalog = Catalog(ids={"products": "another"})
    catalog.newest_of["products"] = Commit(5, NOON + SECOND)
    assert not idle(catalog)


def test_without_the_times_of_commits_the_ids_of_tables_are_compared() -> None:
    older = Catalog({7: replace(READ, times={})})
    assert idle(older)
    assert older.asked[-2:] == ["id of orders", "id of products"]
    assert not idle(Catalog({7: replace(READ, times={})}, ids={"orders": "another"}))


@pytest.mark.parametrize(
    ("catalog", "join", "state"),
    [
        (Catalog({}), Join(), 7),
        (Catalog({7: READ, 8: None}), Join(), 7),
        (Catalog({7: replace(READ, format=1)}), Join(), 7),
        (Catalog({7: replace(READ, positions={"left": 3}, times={})}), Join(), 7),
        (Catalog(), Join({"type": "left"}), 7),
        (Catalog(), Join(has_due=True), 7),
        (Catalog(), Join(expects_other_columns=True), 7),
        (Catalog(), Join(), 6),
    ],
    ids=[
        "first run",
        "unfolded batch",
        "older format",
        "other sources",
        "other definition",
        "clock",
        "other columns",
        "deferred state",
    ],
)
def test_other_work_is_found_without_a_look_at_the_sources(catalog: Catalog, join: Join, state: int) -> None:
    assert not idle(catalog, Join(name="same"), join, state=state)
    assert not [asked for asked in catalog.asked if asked.startswith("version")]


TWO_JOINS = (Join(), Join(name="returned", left="returns"))


@pytest.fixture(params=["orders", "products", "returns"])
def drawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The source that is drawn by lot."""
    table: str = request.param
    monkeypatch.setattr(new_stream, "_lot", SimpleNamespace(choice=lambda tables: tables[tables.index(table)]))
    return table


@pytest.fixture
def three() -> Catalog:
    """A catalog with three sources."""
    catalog = Catalog()
    catalog.newest_of["returns"] = Commit(3, NOON)
    return catalog


def test_of_many_sources_all_feeds_are_read_by_one_statement_and_one_newest_commit(drawn: str, three: Catalog) -> None:
    assert idle(three, *TWO_JOINS)
    others = sorted({"orders", "products", "returns"} - {drawn})
    assert three.asked == ["logs", f"feeds of {', '.join(others)}", f"version of {drawn}"]


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("changed", ["orders", "products", "returns"])
def test_rows_in_the_feed_of_any_source_are_news(three: Catalog, changed: str) -> None:
    three.feeds_changed = {changed}
    three.newest_of[changed] = Commit(6, NOON + SECOND)
    assert not idle(three, *TWO_JOINS)


@pytest.mark.usefixtures("drawn")
def test_feeds_that_cannot_be_read_are_no_news_where_the_newest_commits_were_read(three: Catalog) -> None:
    three.feeds_changed = {"orders", "products", "returns"}
    assert idle(three, *TWO_JOINS)


def test_a_commit_without_changed_rows_is_found_when_its_table_is_drawn(drawn: str, three: Catalog) -> None:
    three.newest_of["returns"] = Commit(4, NOON + SECOND)
    assert idle(three, *TWO_JOINS) is (drawn != "returns")


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("other", [{"times": {}}, {"positions": {"left": 3, "right": 4}}])
def test_a_source_that_has_no_one_known_commit_is_asked_for_its_newest_one(
    three: Catalog, other: dict[str, Any]
) -> None:
    three.batches = {7: replace(READ, **other)}
    three.starts = {"log of returned": {7: READ}}
    idle(three, *TWO_JOINS)
    assert "version of products" in three.asked


@pytest.mark.parametrize("by_offset", [True, False])
def test_a_position_in_the_middle_of_a_version_has_read_the_one_before(by_offset: bool) -> None:
    source = SourceTable("orders", by_offset)
    assert source.version(source.upto(5)) == 5
    assert source.version(source.upto(5) - 1) == 4


def test_the_time_of_a_commit_holds_while_the_position_stays() -> None:
    assert READ.at({"left": 4, "right": 5}).times == {"right": READ.times["right"]}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A catalog with a folder for checkpoints."""
    catalog = Catalog()
    catalog.namespace.checkpoints = LocalFolder(tmp_path)
    catalog.namespace.table_group_lock = nullcontext
    return catalog


def recovered(catalog: Catalog, resource: Any) -> ResourceRun:
    tables: Any = catalog
    runner = BatchRunner(tables, resource)
    runner.log.read_end(NO_SPARK, {"c1": 7})
    return ResourceRun(runner, Recovery(runner))


def starting(catalog: Catalog) -> None:
    recovered(catalog, Join()).start(NO_SPARK, None)


def test_a_stream_starts_at_the_news_of_a_table_that_its_commits_identify(catalog: Catalog) -> None:
    catalog.newest_of["orders"], catalog.earlier["orders"] = Commit(4, NOON + SECOND), [Commit(3, NOON)]
    with pytest.raises(StreamingError) as started:
        starting(catalog)
    assert started.value.args == ({"left": 3},)
    assert not [asked for asked in catalog.asked if asked.startswith("id")]


@pytest.mark.parametrize("earlier", [[Commit(3, NOON - SECOND)], []], ids=["another commit", "no longer recent"])
@pytest.mark.parametrize("another", [True, False])
def test_otherwise_the_id_of_the_table_is_compared(catalog: Catalog, earlier: list[Commit], another: bool) -> None:
    catalog.newest_of["orders"], catalog.earlier["orders"] = Commit(9, NOON + SECOND), earlier
    catalog.ids = {"orders": "another"} if another else {}
    with pytest.raises(RebuildNeededError if another else StreamingError):
        starting(catalog)
    assert "id of orders" in catalog.asked


@dataclass
class Ingest(Join):
    """An ingest, which reads a topic on Kafka."""

    def sources(self, _: Any) -> dict[str, SourceTable]:
        return {"kafka": SourceTable("")}


def test_the_stream_of_an_endpoint_starts_once_in_a_run_that_ends_and_in_each_round_of_a_continuous_one(
    catalog: Catalog,
) -> None:
    """Only the stream can find news there."""
    catalog.batches = {7: Start({"type": "inner"}, {"kafka": 0})}
    run = recovered(catalog, Ingest())
    with pytest.raises(StreamingError):
        run.start(NO_SPARK, None)
    run.finish(NO_SPARK)
    assert run.start(NO_SPARK, None) is None
    run.in_rounds = True
    with pytest.raises(StreamingError):
        run.start(NO_SPARK, None)


NEWS = Commit(4, NOON + SECOND)
EVERY = 5_000


@pytest.fixture
def endless(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> ResourceRun:
    """A join whose stream, which does not end, was started when orders had news."""
    monkeypatch.setattr(BatchRunner, "read_log_end", lambda *_: None)
    catalog.newest_of["orders"] = NEWS
    catalog.earlier["orders"] = [Commit(3, NOON)]
    run = recovered(catalog, Join())
    with pytest.raises(StreamingError) as started:
        run.start(NO_SPARK, EVERY)
    assert started.value.args == ({"left": 3},)
    tables: Any = run.resource.delta
    assert tables is catalog  # no version is pinned
    return run


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Start]:
    """The starts of streams that are written into the log."""
    starts: list[Start] = []
    monkeypatch.setattr(BatchRunner, "begin_stream", lambda _runner, _spark, start: starts.append(start))
    return starts


def read(run: ResourceRun, *reached: tuple[str, int, int]) -> None:
    """Let the stream read tables up to positions: versions, with numbers of files."""
    stream: Any = run._stream
    offsets = [
        json.dumps({"reservoirId": f"id of {table}", "reservoirVersion": version, "index": files - 1})
        for table, version, files in reached
    ]
    for folder, lines in {"offsets": ["v1", "{}", *offsets], "commits": ["v1", "{}"]}.items():
        (stream.checkpoint.path / folder).mkdir(parents=True)
        (stream.checkpoint.path / folder / "0").write_text("\n".join(lines))


def test_a_stream_goes_on_until_a_table_that_it_does_not_read_has_a_commit(
    endless: ResourceRun, catalog: Catalog
) -> None:
    assert not endless.is_over(NO_SPARK)
    catalog.newest_of["orders"] = Commit(9, NOON + SECOND)  # the stream reads it by itself
    assert not endless.is_over(NO_SPARK)
    catalog.newest_of["products"] = Commit(6, NOON + SECOND)
    assert endless.is_over(NO_SPARK)


@pytest.mark.parametrize(("version", "over"), [(5, True), (4, False), (None, False)])
def test_a_stream_that_has_read_something_is_followed_by_another_one_in_the_end(
    endless: ResourceRun, monkeypatch: pytest.MonkeyPatch, version: int | None, over: bool
) -> None:
    if version is not None:
        read(endless, ("orders", version, 0))
    assert not endless.is_over(NO_SPARK)
    monkeypatch.setattr(new_stream, "_LONG", 0.0)
    assert endless.is_over(NO_SPARK) is over


def test_the_next_stream_begins_where_a_stopped_one_has_read_to_and_reads_its_tables(
    endless: ResourceRun, catalog: Catalog, begun: list[Start]
) -> None:
    read(endless, ("orders", 5, 0))
    endless.stop(NO_SPARK)
    assert begun == [replace(READ, positions={"left": 4, "right": 5}, times={**READ.times, "left": NEWS.time})]
    catalog.batches = {8: begun[0]}
    catalog.newest_of["products"] = Commit(6, NOON + SECOND)
    catalog.earlier["products"] = [Commit(5, NOON)]
    endless.runner.log.read_end(NO_SPARK, {"c1": 8})
    with pytest.raises(StreamingError) as started:
        endless.start(NO_SPARK, EVERY)
    assert started.value.args == ({"left": 4, "right": 5},)


@pytest.mark.parametrize(
    ("change_files", "reached", "times"),
    [
        (2, (6, 2), {6: Commit(6, NOON).time}),
        (3, (6, 2), {5: None}),
        (None, (6, 2), {5: None}),
        (0, (6, 0), {5: None}),
        (None, (4, 0), {}),
    ],
    ids=["all", "some files of a version", "unknown", "none of a version", "nothing"],
)
def test_a_version_of_which_files_may_be_unread_is_read_again(
    endless: ResourceRun, begun: list[Start], change_files: int | None, reached: tuple[int, int], times: Any
) -> None:
    catalog: Any = endless.runner.delta
    catalog.newest_of["orders"] = Commit(6, NOON, change_files)
    read(endless, ("orders", *reached))
    endless.stop(NO_SPARK)
    assert {start.positions["left"]: start.times.get("left") for start in begun} == times


def test_of_a_table_that_is_both_sides_of_a_join_the_side_that_is_behind_counts(
    catalog: Catalog, begun: list[Start], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BatchRunner, "read_log_end", lambda *_: None)
    ids = {"left": "id of products", "right": "id of products"}
    catalog.batches = {7: Start({"type": "inner"}, {"left": 5, "right": 5}, tables=ids)}
    catalog.newest_of = {"products": Commit(8, NOON)}
    run = recovered(catalog, Join(left="products"))
    with pytest.raises(StreamingError):
        run.start(NO_SPARK, EVERY)
    read(run, ("products", 9, 0), ("products", 7, 0))
    run.stop(NO_SPARK)
    assert begun[0].positions == {"left": 6, "right": 6}


def test_the_oldest_change_of_a_stream_is_the_oldest_unread_commit_of_its_sources() -> None:
    start = Start({}, {"records": end_of(3), "rows": 5, "more": NOTHING})
    sources = {
        "records": SourceTable("topic", by_offset=True),
        "rows": SourceTable("table"),
        "more": SourceTable("new"),
    }

    def oldest(**minutes: dict[int, int]) -> datetime | None:
        """The time of the oldest change, for tables whose commits are so many minutes after noon, by version."""
        recent = {
            table: [Commit(version, NOON + minute * MINUTE) for version, minute in minutes.get(table, {}).items()]
            for table in ("topic", "table", "new")
        }
        return NewStream(SimpleNamespace(stream_start=start), sources, recent).oldest_change  # type: ignore[arg-type]

    assert oldest(topic={3: 0, 2: -9}, table={5: 0}) is None
    assert oldest(topic={5: 9, 4: 8, 3: 0}, table={5: 1}) == NOON + 8 * MINUTE
    assert oldest(topic={5: 9, 4: 8, 3: 0}, table={7: 7, 6: 6, 5: 1}) == NOON + 6 * MINUTE
    assert oldest(topic={5: 9, 4: 9}, new={0: 2}) == NOON + 9 * MINUTE
    assert oldest(new={0: 2}) is None
    # There may be older ones than the recent ones.
    start = replace(start, times={"records": (NOON - 9 * MINUTE).isoformat()})
    assert oldest(topic={7: 9, 6: 8}) == NOON - 9 * MINUTE
    assert oldest(topic={5: 9, 4: 8}) == NOON + 8 * MINUTE
