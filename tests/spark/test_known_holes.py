"""Sequences of changes that joins over change feeds easily get wrong, with batches cut at the worst places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import DataFrame, SparkSession

from kaspr_delta import Application
from kaspr_delta.engine.batch.folding import Folding
from kaspr_delta.engine.batch.log import Log
from kaspr_delta.engine.batch.progress import folded_batches
from kaspr_delta.engine.batch.stream_run import ResourceRun
from kaspr_delta.engine.joins.foreign_key.foreign_key_join import ForeignKeyJoin
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.resources import run_of
from kaspr_delta.storage.side_by_side import side_by_side
from tests.spark.channels import values_of
from tests.spark.dying import lost_power

MANIFESTS = Path(__file__).parent / "applications" / "joins.yaml"
CHANNELS = {"inner": "inner-channel", "left": "left-joined"}
JOINS = tuple(CHANNELS)
Rows = dict[str, dict[str, Any] | None]


class Joins:
    """Both joins. A test starts each batch and gives it the touched keys; the batch reads the current tables."""

    def __init__(self, app: Application) -> None:
        self.app = app
        self.batches = dict.fromkeys(JOINS, 0)
        self.runs: dict[str, ResourceRun] = {}
        self._seen: dict[str, Any] = {}
        self.start()

    def start(self) -> None:
        """Recover both joins, as a new process does."""
        self._seen.clear()
        for join in JOINS:
            self.runs[join] = run_of(self.app.delta, self.app.plan, ResourceRef("join", join))
            self.runs[join].recovery.recover(self.app.spark, folded_batches(self.app.delta, self.app.spark))

    def put(self, table: str, rows: list[tuple[Any, Any]]) -> None:
        if rows:
            self.app.table(table).put(rows)

    def batch(self, touched: Iterable[tuple[str, Any]], joins: tuple[str, ...] = JOINS) -> None:
        self._seen.clear()
        texts = self.app.table("orders").table.text
        now = datetime.now(timezone.utc)
        rows = [(side, texts.key(key), now, 1) for side, key in touched]
        columns = "side STRING, key STRING, changed_at TIMESTAMP, version BIGINT"
        changes = self.app.spark.createDataFrame(rows, columns).coalesce(1)
        numbers = {join: self.batches[join] for join in joins}
        self.batches |= {join: number + 1 for join, number in numbers.items()}
        side_by_side([partial(self._fold_at_once, self.runs[join], changes, numbers[join]) for join in joins])

    def _fold_at_once(self, run: ResourceRun, changes: DataFrame, number: int) -> None:
        run.runner.process(changes, number)
        run.runner.fold_pending(self.app.spark)

    def result(self, join: str) -> list[tuple[Any, Any]]:
        return self._once(join, lambda: [(key, pair(row)) for key, row in self.app.join(join).rows()])

    def channel(self, join: str) -> list[tuple[Any, Any]]:
        read = self.app.channel(CHANNELS[join]).records
        return self._once(CHANNELS[join], lambda: [(one["key"], one["value"] and pair(one["value"])) for one in read()])

    @property
    def letters(self) -> list[dict[str, Any]]:
        return self._once("letters", self.app.dead_letters)

    @property
    def stale(self) -> int:
        sums = self.app.sql("SELECT coalesce(sum(stale), 0) AS stale FROM _kaspr_progress").collect()
        return int(sums[0]["stale"])

    def _once(self, name: str, read: Callable[[], list[Any]]) -> list[Any]:
        """Read what no story has read since the last batch."""
        if name not in self._seen:
            self._seen[name] = read()
        found: list[Any] = self._seen[name]
        return found


@dataclass
class Story:
    """One sequence of changes. Its keys have a prefix of their own; orders are named O…, products P…."""

    name: str
    joins: Joins
    written: dict[str, dict[str, Any]] = field(default_factory=lambda: {"orders": {}, "products": {}})

    @property
    def prefix(self) -> str:
        return f"{self.name}/"

    def orders(self, rows: Rows) -> None:
        named = {key: value and {**value, **self.product_of(value)} for key, value in rows.items()}
        self.written["orders"] |= {self.prefix + key: value for key, value in named.items()}

    def products(self, rows: Rows) -> None:
        self.written["products"] |= {self.prefix + key: value for key, value in rows.items()}

    def product_of(self, value: dict[str, Any]) -> dict[str, Any]:
        return {"product_id": self.prefix + value["product_id"]} if "product_id" in value else {}

    def sides(self, touched: Iterable[str]) -> list[tuple[str, str]]:
        return [("left" if key.startswith("O") else "right", self.prefix + key) for key in touched]

    def result(self, join: str) -> dict[str, Any]:
        return dict(self.mine(self.joins.result(join)))

    def channel(self, join: str) -> list[tuple[str, Any]]:
        return self.mine(self.joins.channel(join))

    def expect(self, **results: tuple[dict[str, Any], dict[str, Any] | None]) -> None:
        """Assert the results of both joins, and that their channels add up to them."""
        for join in JOINS:
            wanted = {key: row for key, row in results.items() if join == "left" or row[1] is not None}
            wanted = {key: ({**left, **self.product_of(left)}, right) for key, (left, right) in wanted.items()}
            assert self.result(join) == wanted, join
            folded = dict(self.channel(join))
            assert {key: value for key, value in folded.items() if value is not None} == wanted, join

    def reasons(self, join: str) -> list[str]:
        mine = [letter for letter in self.joins.letters if letter["resource"] == f"join/{join}"]
        return [letter["reason"] for letter in mine if self.prefix in letter["key"]]

    def mine(self, rows: list[tuple[Any, Any]]) -> list[tuple[str, Any]]:
        own = [(key, row) for key, row in rows if isinstance(key, str) and key.startswith(self.prefix)]
        return [(key.removeprefix(self.prefix), row) for key, row in own]


def pair(row: dict[str, Any]) -> tuple[Any, Any]:
    return row["left"], row["right"]


@pytest.fixture(scope="module")
def joins(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Joins:
    return Joins(Application.open(MANIFESTS, warehouse=tmp_path_factory.mktemp("holes"), spark=spark))


def order(product: str, **more: Any) -> dict[str, Any]:
    return {"product_id": product, **more}


X, Y, Z = {"name": "x"}, {"name": "y"}, {"name": "z"}


# A story yields the touched keys of the next batch, and goes on when both joins have run that batch.
Steps = Iterator[tuple[str, ...]]


def right_goes_from_x_to_y_and_back_while_a_left_change_looked_up_y(story: Story, _: Application) -> Steps:
    """The changes of the right row cancel out, but the result was joined with y in between."""
    story.products({"P1": X})
    yield ("P1",)
    story.products({"P1": Y})
    story.orders({"O1": order("P1")})
    yield ("O1",)  # looks up y before the right change is processed
    story.expect(O1=(order("P1"), Y))
    story.products({"P1": X})
    yield ("P1",)
    story.expect(O1=(order("P1"), X))


def left_goes_from_v2_to_v3_and_back_while_a_right_change_met_v3(story: Story, _: Application) -> Steps:
    story.products({"P1": X, "P2": Z})
    story.orders({"O1": order("P1", v=2)})
    yield ("O1", "P1", "P2")
    story.orders({"O1": order("P2", v=3)})
    story.products({"P1": Y})
    stale = story.joins.stale
    yield ("P1",)  # triggers O1, whose row has changed since it subscribed
    story.expect(O1=(order("P2", v=3), Z))
    assert story.joins.stale >= stale + len(JOINS)
    story.orders({"O1": order("P1", v=2)})
    yield ("O1",)
    story.expect(O1=(order("P1", v=2), Y))


def a_right_change_never_brings_an_old_left_row_back(story: Story, _: Application) -> Steps:
    """S4-2: a right change is joined with the current left row, even if that row's own change is not processed yet."""
    story.orders({"O1": order("P1", v=1)})
    story.products({"P1": X})
    yield ("O1", "P1")
    story.orders({"O1": None})
    story.products({"P1": Y})
    yield ("P1",)
    story.expect()
    told = {join: story.channel(join) for join in JOINS}
    assert all(records[-1] == ("O1", None) for records in told.values())
    yield ("O1",)
    assert {join: story.channel(join) for join in JOINS} == told


def an_update_that_keeps_the_foreign_key_then_a_right_change(story: Story, _: Application) -> Steps:
    story.products({"P1": X})
    story.orders({"O1": order("P1", v=1)})
    yield ("O1", "P1")
    story.orders({"O1": order("P1", v=2)})
    yield ("O1",)
    story.products({"P1": Y})
    yield ("P1",)
    story.expect(O1=(order("P1", v=2), Y))
    assert len(story.channel("inner")) == 3


def an_insert_over_an_existing_key_then_either_row_deleted(story: Story, app: Application) -> Steps:
    story.products({"P1": X, "P2": Y})
    story.orders({"O1": order("P1"), "O2": order("P1")})
    yield ("O1", "O2")
    for key in ("O1", "O2"):
        inserted = f"""'"{story.prefix}{key}"', '{{"product_id":"{story.prefix}P2"}}', TIMESTAMP'2100-01-01'"""
        app.sql(f"INSERT INTO orders VALUES ({inserted})")  # noqa: S608  a test's literals
    yield ("O1", "O2")
    story.expect(O1=(order("P2"), Y), O2=(order("P2"), Y))
    assert story.reasons("inner") == story.reasons("left") == ["duplicate key"] * 2

    for key, product in (("O1", "P2"), ("O2", "P1")):  # deletes the newer row of O1 and the older row of O2
        mine = f"""key = '"{story.prefix}{key}"' AND value LIKE '%/{product}%'"""
        app.sql(f"DELETE FROM orders WHERE {mine}")  # noqa: S608  a test's literals
    yield ("O1", "O2")
    story.expect(O1=(order("P1"), X), O2=(order("P2"), Y))


def an_extractor_that_raises_on_the_old_row(story: Story, _: Application) -> Steps:
    """The old foreign key comes from the state: the extractor is not called for the old row again."""
    broken = {"no_product": True}
    story.products({"P1": X})
    story.orders({"O1": broken})
    yield ("O1",)
    story.expect(O1=(broken, None))
    story.orders({"O1": order("P1")})
    yield ("O1",)
    story.expect(O1=(order("P1"), X))
    story.orders({"O1": broken})
    yield ("O1",)
    story.products({"P1": Y})
    yield ("P1",)
    story.expect(O1=(broken, None))
    assert story.reasons("inner") == story.reasons("left") == ["extractor failed"] * 2


def a_source_at_a_newer_version_than_its_feed(story: Story, _: Application) -> Steps:
    """Look-ups are ahead of the change feed. When the feed catches up, nothing more is emitted."""
    story.orders({"O1": order("P1")})
    yield ("O1",)
    story.products({"P1": X})
    yield ()  # x is written, and y before the batch of x
    story.products({"P1": Y})
    yield ("P1",)  # the batch of x: the table already has y
    story.expect(O1=(order("P1"), Y))
    told = {join: story.channel(join) for join in JOINS}
    yield ("P1",)
    assert {join: story.channel(join) for join in JOINS} == told


def a_batch_that_is_appended_twice_is_emitted_once(story: Story, _: Application) -> Steps:
    story.orders({"O1": order("P1")})
    story.products({"P1": X})
    yield ("O1", "P1")
    story.expect(O1=(order("P1"), X))
    assert len(story.channel("inner")) == len(story.channel("left")) == 1


def values_of_a_megabyte_are_joined(story: Story, _: Application) -> Steps:
    big = "ü" * 500_000
    story.orders({"O1": order("P1", text=big)})
    story.products({"P1": {"name": big}})
    yield ("O1", "P1")
    story.expect(O1=(order("P1", text=big), {"name": big}))
    story.products({"P1": X})
    yield ("P1",)
    story.expect(O1=(order("P1", text=big), X))


STORIES: list[Callable[[Story, Application], Steps]] = [
    right_goes_from_x_to_y_and_back_while_a_left_change_looked_up_y,
    left_goes_from_v2_to_v3_and_back_while_a_right_change_met_v3,
    a_right_change_never_brings_an_old_left_row_back,
    an_update_that_keeps_the_foreign_key_then_a_right_change,
    an_insert_over_an_existing_key_then_either_row_deleted,
    an_extractor_that_raises_on_the_old_row,
    a_source_at_a_newer_version_than_its_feed,
    a_batch_that_is_appended_twice_is_emitted_once,
    values_of_a_megabyte_are_joined,
]


append: Callable[..., Any] = Log.append


def appended_twice(*arguments: Any) -> Any:
    """Append a batch twice: the reply to the commit was lost, and the process takes the append for failed."""
    append(*arguments)
    return append(*arguments)


@pytest.fixture(scope="module")
def endings(joins: Joins) -> dict[str, Exception | None]:
    """Run all stories at the same time, so that they share batches, each of which is appended twice.

    Returns the error of each, or None.
    """
    told = {story_function.__name__: Story(story_function.__name__, joins) for story_function in STORIES}
    going = {
        story_function.__name__: story_function(told[story_function.__name__], joins.app) for story_function in STORIES
    }
    ended: dict[str, Exception | None] = {}
    while going:
        touched: list[tuple[str, str]] = []
        for name, steps in list(going.items()):
            try:
                touched += told[name].sides(next(steps))
            except StopIteration:
                ended[name] = None
            except Exception as error:  # noqa: BLE001  raised by the test of that story
                ended[name] = error
        going = {name: steps for name, steps in going.items() if name not in ended}
        for table in ("orders", "products"):
            joins.put(table, [row for story in told.values() for row in story.written[table].items()])
        if touched:
            with mock.patch.object(Log, "append", appended_twice):
                joins.batch(touched)
        for story in told.values():
            story.written = {"orders": {}, "products": {}}
    return ended


@pytest.mark.parametrize("name", [story_function.__name__ for story_function in STORIES])
def test_joins_stay_correct_in_each_story(endings: dict[str, Exception | None], name: str) -> None:
    error = endings[name]
    if error is not None:
        raise error


@pytest.mark.slow
@pytest.mark.parametrize("fold", ["fold", "fold_result", "fold_subscriptions"])
def test_a_restart_folds_an_unfolded_batch_as_it_was_committed(
    joins: Joins, fold: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(f"ended in {fold}", joins)
    put(joins, story, orders={"O1": order("P1"), "O2": order("P1")}, products={"P1": X, "P2": Z})
    joins.batch(story.sides(["O1", "O2"]))
    put(joins, story, orders={"O1": order("P2")})
    with monkeypatch.context() as patched:
        patched.setattr(Folding if fold == "fold" else ForeignKeyJoin, fold, lost_power)
        with pytest.raises(InterruptedError):
            joins.batch(story.sides(["O1"]))
    for join in JOINS:
        # The channel has the committed record; the result has it only if ``fold_subscriptions`` failed.
        left = {**order("P2"), **story.product_of(order("P2"))}
        assert story.channel(join)[-1] == ("O1", (left, Z))
        assert (story.result(join)["O1"] == (left, Z)) is (fold == "fold_subscriptions")

    put(joins, story, orders={"O1": order("P1", v=2), "O2": None}, products={"P2": Y})
    joins.start()  # the restart folds the batch as it was committed
    for join in JOINS:
        joins.batches[join] -= 1
    joins.batch(story.sides(["O1"]))  # the replay of the batch: it is in the log, so nothing is computed
    story.expect(O1=(order("P2"), Z), O2=(order("P1"), X))
    joins.batch(story.sides(["O1", "O2", "P2"]))
    story.expect(O1=(order("P1", v=2), X))


def put(joins: Joins, story: Story, *, orders: Rows | None = None, products: Rows | None = None) -> None:
    story.orders(orders or {})
    story.products(products or {})
    for table, rows in story.written.items():
        joins.put(table, list(rows.items()))
        rows.clear()


@pytest.mark.slow
def test_an_agent_reads_the_channel_while_the_fold_lags(joins: Joins, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story("lagging", joins)
    put(joins, story, orders={"O1": {"order_id": "lagging", "product_id": "P1"}})
    with monkeypatch.context() as patched:
        patched.setattr(Folding, "fold", lost_power)
        with pytest.raises(InterruptedError):
            joins.batch(story.sides(["O1"]), joins=("left",))
    assert story.result("left") == {}
    joins.app.run(only=["agent/name-products"])
    assert named(joins.app) == ["Unknown"]
    joins.start()
    joins.app.run(only=["agent/name-products"])
    assert named(joins.app) == ["Unknown"]
    assert list(story.result("left")) == ["O1"]


def named(app: Application) -> list[str]:
    values = values_of(app, "named")
    return [value["product_name"] for value in values if value["order_id"] == "lagging"]


ODD_KEYS: list[Any] = [
    *("P1", "P10", "P100", " P1", "P1 ", 1, "1", 1.5, 0, "", False, "false", "null", "a:b", "a\x00b", '"', "\\"),
    *("ü€🎈", "e\u0301", "é", ["eu", 1], ["eu", "1"], [["eu"], 1], {"region": "eu", "id": 1}, "x" * 5_000),
]


def test_a_key_of_any_kind_finds_its_own_row_and_triggers_only_its_subscribers(joins: Joins) -> None:
    """Composite, list and object keys, separators and NUL inside keys, prefixes, look-alikes of other types."""
    app, texts = joins.app, joins.app.table("orders").table.text
    app.table("orders").put([(["odd", key], order(key)) for key in ODD_KEYS])
    app.table("products").put([(key, {"of": texts.key(key)}) for key in ODD_KEYS])
    joins.batch([("left", ["odd", key]) for key in ODD_KEYS])
    own = {texts.key(["odd", key]): texts.key(key) for key in ODD_KEYS}
    for join in JOINS:
        rows = {texts.key(key): row for key, row in app.join(join).rows()}
        assert {key: rows[key]["right"]["of"] for key in own} == own

    triggered = ("P1", 1, "", ["eu", 1])
    told = {join: len(app.channel(channel).records()) for join, channel in CHANNELS.items()}
    app.table("products").put([(key, {"of": "changed"}) for key in triggered])
    joins.batch([("right", key) for key in triggered])
    for join, channel in CHANNELS.items():
        new = app.channel(channel).records()[told[join] :]
        assert {texts.key(record["key"]) for record in new} == {texts.key(["odd", key]) for key in triggered}
