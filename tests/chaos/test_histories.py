"""Drawing, storing, shrinking and judging of histories, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.spec.diagnostics import has_errors
from kaspr_delta.spec.loader import load_text
from tests.chaos.history import History
from tests.chaos.judge import judged
from tests.chaos.known import LEFT_OUT
from tests.chaos.recipe import Recipe
from tests.chaos.shapes import SHAPES
from tests.chaos.shapes.aggregates import Sum
from tests.chaos.shapes.table_joins import ForeignKeyJoin
from tests.chaos.shrink import shrunk
from tests.chaos.sources import Source
from tests.chaos.steps import STEPS
from tests.chaos.steps.runs import Rebuild, Reopen, Run
from tests.chaos.tables import Stored, Tables

SEEDS = range(100)
SOURCES = (Source("a", "json", "text"), Source("b", "json", "text"))
JOIN = ForeignKeyJoin("join", "a", "b", "inner", "function")
RECIPE = Recipe(SOURCES, (JOIN, Sum("total", "join")))


@pytest.mark.parametrize("seed", SEEDS)
def test_validate_accepts_every_drawn_application(seed: int) -> None:
    _, findings = build_plans(load_text(History.draw(seed).recipe.manifests(Path("/chaos/warehouse")), "chaos.yaml"))
    assert not has_errors(findings)


def test_every_step_and_every_shape_is_drawn() -> None:
    histories = [History.draw(seed) for seed in SEEDS]
    assert {type(step).__name__ for one in histories for step in one.steps} == STEPS.classes.keys() - LEFT_OUT
    assert {type(shape).__name__ for one in histories for shape in one.recipe.shapes} == SHAPES.classes.keys()


def test_a_history_survives_writing_and_reading(tmp_path: Path) -> None:
    for seed in SEEDS:
        History.draw(seed).write(tmp_path / "drawn")
        History.read(tmp_path / "drawn").write(tmp_path / "read")
        assert (tmp_path / "read").read_text() == (tmp_path / "drawn").read_text()


def test_a_history_is_shrunk_to_the_steps_and_shapes_that_matter() -> None:
    noise = [Rebuild("join")] * 7
    history = History(1, RECIPE, (*noise, Reopen(), *noise, Rebuild("total"), *noise, Run()))

    def fails(one: History) -> bool:
        return Reopen() in one.steps and Rebuild("total") in one.steps and one.recipe.source("b") is not None

    short = shrunk(history, fails, seconds=60)
    assert short.steps == (Reopen(), Rebuild("total"), Run())
    assert [shape.name for shape in short.recipe.shapes] == ["join"]


class FakeTables(Tables):
    """Tables whose rows and change feeds are given by a test."""

    def __init__(self, tables: dict[str, Stored], feeds: dict[str, Stored]) -> None:
        super().__init__(Path("/chaos/warehouse"), cast("Any", None))
        self.contents = {"rows": tables, "feed": feeds}

    def _once(self, what: str, folder: Path, read: Any) -> Stored:
        return self.contents[what][folder.name]


def right() -> tuple[dict[str, Stored], dict[str, Stored]]:
    """Tables and change feeds without a failure: a join with one pair, and its sum."""
    row, other = '{"fk":"K2","g":"x","n":3}', '{"fk":null,"g":"y","n":1}'
    pair = {"key": '"K1"', "left": row, "right": other, "timestamp": None}
    insert = {"_change_type": "insert", "_commit_version": 1}
    tables: dict[str, Stored] = {
        "a": [{"key": '"K1"', "value": row, "timestamp": None}],
        "b": [{"key": '"K2"', "value": other, "timestamp": None}],
        "join": [pair],
        "subscriptions__join": [{"key": '"K1"', "fk": '"K2"'}],
        "total": [{"key": '"x"', "value": "3"}, {"key": '"z"', "value": "0"}],
        "_kaspr_dead_letters": [{"resource": "join/join", "reason": "null key", "detail": ""}],
    }
    feeds: dict[str, Stored] = {
        "channel__join_channel": [{**pair, **insert, "kind": "value", "seq": 0}],
        "join": [{**pair, **insert}],
        "total": [{**row, **insert} for row in tables["total"]],
    }
    return tables, feeds


def test_correct_tables_have_no_failures() -> None:
    assert list(judged(RECIPE, FakeTables(*right()))) == []


@pytest.mark.parametrize(
    ("table", "kind"),
    [("join", "join"), ("subscriptions__join", "join"), ("total", "total")],
)
def test_a_missing_row_is_a_failure(table: str, kind: str) -> None:
    tables, feeds = right()
    tables[table] = tables[table][1:]
    assert kind in {failure.kind for failure in judged(RECIPE, FakeTables(tables, feeds))}


@pytest.mark.parametrize("feed", ["channel__join_channel", "join"])
def test_a_missing_or_repeated_record_is_a_failure(feed: str) -> None:
    for times in (0, 2):
        tables, feeds = right()
        feeds[feed] = feeds[feed] * times
        assert [failure.kind for failure in judged(RECIPE, FakeTables(tables, feeds))] == ["join"]


def test_an_unexpected_dead_letter_is_a_failure() -> None:
    tables, feeds = right()
    tables["_kaspr_dead_letters"][0]["reason"] = "extractor failed"
    (failure,) = judged(RECIPE, FakeTables(tables, feeds))
    assert failure.kind == "dead letter of join/join"
