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
from tests.chaos.shapes import SHAPES
from tests.chaos.shapes.aggregates import Sum
from tests.chaos.shapes.shape import Recipe
from tests.chaos.shapes.table_joins import ForeignKeyJoin
from tests.chaos.sources import Source
from tests.chaos.steps import ACTIONS
from tests.chaos.steps.step import LEFT_OUT
from tests.chaos.tables import Stored, Tables

DRAWN = [History.draw(seed) for seed in range(100)]
SOURCES = {"a": Source("a", "json", "text"), "b": Source("b", "json", "text")}
RECIPE = Recipe(SOURCES, {"join": ForeignKeyJoin("join", "a", "b", "inner", "function"), "total": Sum("total", "join")})


@pytest.mark.parametrize("history", DRAWN, ids=lambda history: str(history.seed))
def test_validate_accepts_every_drawn_application(history: History) -> None:
    _, findings = build_plans(load_text(history.recipe.manifests(Path("/chaos/warehouse")), "chaos.yaml"))
    assert not has_errors(findings), findings


def test_every_action_and_every_shape_is_drawn() -> None:
    assert {step["step"] for one in DRAWN for step in one.steps} == ACTIONS.keys() - LEFT_OUT
    assert {type(shape).__name__ for one in DRAWN for shape in one.recipe.shapes.values()} == SHAPES.keys()


def test_a_history_survives_writing_and_reading(tmp_path: Path) -> None:
    for history in DRAWN:
        history.write(tmp_path / "drawn")
        History.read(tmp_path / "drawn").write(tmp_path / "read")
        assert (tmp_path / "read").read_text() == (tmp_path / "drawn").read_text()


def test_a_history_is_shrunk_to_the_steps_and_shapes_that_matter() -> None:
    noise = [{"step": "insert"}] * 7
    reopen, rebuild, run = ({"step": name} for name in ("reopen", "rebuild", "run"))

    def fails(one: History) -> bool:
        return reopen in one.steps and rebuild in one.steps and "b" in one.recipe.sources

    short = History(1, RECIPE, (*noise, reopen, *noise, rebuild, *noise, run)).shrunk(fails, seconds=60)
    assert short.steps == (reopen, rebuild, run)
    assert [*short.recipe.shapes] == ["join"]


class FakeTables(Tables):
    """Tables whose rows and change feeds are given by a test. At first they have no failure: one pair, and its sum."""

    def __init__(self) -> None:
        super().__init__(Path("/chaos/warehouse"), cast("Any", None))
        row, other = '{"fk":"K2","g":"x","n":3}', '{"fk":null,"g":"y","n":1}'
        pair = {"key": '"K1"', "left": row, "right": other, "timestamp": None}
        totals = [{"key": '"x"', "value": "3"}, {"key": '"z"', "value": "0"}]
        insert = {"_change_type": "insert", "_commit_version": 1}
        self.current: dict[str, Stored] = {
            "a": [{"key": '"K1"', "value": row, "timestamp": None}],
            "b": [{"key": '"K2"', "value": other, "timestamp": None}],
            "join": [pair],
            "subscriptions__join": [{"key": '"K1"', "fk": '"K2"'}],
            "total": totals,
            "_kaspr_dead_letters": [{"resource": "join/join", "reason": "null key", "detail": ""}],
        }
        self.feeds: dict[str, Stored] = {
            "channel__join_channel": [{**pair, **insert, "kind": "value", "seq": 0}],
            "join": [{**pair, **insert}],
            "total": [{**total, **insert} for total in totals],
        }

    def _once(self, what: str, folder: Path, read: Any) -> Stored:
        return (self.current if what == "rows" else self.feeds)[folder.name]


def kinds(tables: Tables) -> set[str]:
    return {failure.kind for failure in judged(RECIPE, tables)}


def test_correct_tables_have_no_failures() -> None:
    assert kinds(FakeTables()) == set()


@pytest.mark.parametrize(("table", "kind"), [("join", "join"), ("subscriptions__join", "join"), ("total", "total")])
def test_a_missing_row_is_a_failure(table: str, kind: str) -> None:
    tables = FakeTables()
    del tables.current[table][0]
    assert kind in kinds(tables)


@pytest.mark.parametrize("feed", ["channel__join_channel", "join"])
@pytest.mark.parametrize("times", [0, 2])
def test_a_missing_or_repeated_record_is_a_failure(feed: str, times: int) -> None:
    tables = FakeTables()
    tables.feeds[feed] *= times
    assert kinds(tables) == {"join"}


def test_an_unexpected_dead_letter_is_a_failure() -> None:
    tables = FakeTables()
    tables.current["_kaspr_dead_letters"][0]["reason"] = "extractor failed"
    assert kinds(tables) == {"dead letter of join/join"}
