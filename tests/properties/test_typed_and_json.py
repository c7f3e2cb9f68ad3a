"""Random histories of two tables, kept with columns and in JSON: both give the same joins, record by record."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timezone
from itertools import count
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.serde.typed_values import written
from kaspr_delta.spec.ddl import Type

MANIFESTS = Path(__file__).with_name("typed_and_json.yaml")
SIDES = {"left": "visits", "right": "hours"}

COUNTRIES, NUMBERS, DAYS = ["D\\", 'é"\n'], [10, -(2**31)], [date(2024, 2, 29), date(1969, 12, 31)]
MOMENTS = st.datetimes(datetime(1950, 1, 1), datetime(2150, 1, 1))  # noqa: DTZ001  zones are given below
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


def or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values, or null in one of eight cases. `one_of` has no weights: it drops strategies that are equal."""
    return st.integers(0, 7).flatmap(lambda luck: values if luck else st.none())


VISITS = st.fixed_dictionaries({
    "shop": or_null(
        st.fixed_dictionaries({
            "country": or_null(st.sampled_from(COUNTRIES)),
            "number": or_null(st.sampled_from(NUMBERS)),
        })
    ),
    "day": or_null(st.sampled_from(DAYS)),
    "price": or_null(st.decimals(-99999999, 99999999, places=2)),
    "at": or_null(MOMENTS.map(lambda moment: moment.replace(tzinfo=timezone.utc))),
    "share": or_null(st.floats(allow_nan=False, allow_infinity=False)),
    "tags": or_null(st.dictionaries(TEXTS, or_null(TEXTS), max_size=2)),
    "notes": or_null(st.lists(st.fixed_dictionaries({"text": TEXTS, "local": or_null(MOMENTS)}), max_size=2)),
    "bits": or_null(st.binary(max_size=3)),
})  # fmt: skip
HOURS = st.fixed_dictionaries({
    "opens": or_null(MOMENTS.map(lambda moment: moment.replace(tzinfo=timezone.utc))),
    "rate": or_null(st.decimals(-(10**19), 10**19, places=18)),
    "name": or_null(TEXTS),
})  # fmt: skip
KEYS = {
    "left": st.sampled_from([f"V{number}" for number in range(12)]),
    "right": st.tuples(st.sampled_from(COUNTRIES), st.sampled_from(NUMBERS), st.sampled_from(DAYS)),
}
ROWS = {"left": VISITS, "right": HOURS}

Commit = tuple[str, dict[Any, "dict[str, Any] | None"]]
"""A side, and its rows by their keys; None deletes."""
COMMITS = {
    side: st.tuples(st.just(side), st.dictionaries(KEYS[side], or_null(ROWS[side]), min_size=5, max_size=8))
    for side in SIDES
}
# Before each run both sides change, and then one of them again.
CHANGES = st.tuples(*COMMITS.values(), st.one_of(*COMMITS.values()))


class TypedAndJson:
    """An application with the tables and joins of both kinds."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.app = Application.open(MANIFESTS, warehouse=folder, spark=spark)
        typed = {side: self.app.table(f"{name}-typed").table.plan.typed for side, name in SIDES.items()}
        self.keys = {side: plan.key for side, plan in typed.items() if plan}
        self.types: dict[str, Type] = {side: plan.row for side, plan in typed.items() if plan}

    def put(self, commit: Commit) -> None:
        print(commit)  # noqa: T201  a failure shows it
        side, rows = commit
        self.app.table(f"{SIDES[side]}-typed").put(rows)
        in_json: list[tuple[Any, Any]] = []
        for key, row in rows.items():
            parts = key if isinstance(key, tuple) else (key,)
            named = dict(zip(self.keys[side], parts, strict=True))
            exact = None if row is None else written(self.types[side], {**row, **named}, "the row")
            spelled = [part.isoformat() if isinstance(part, date) else part for part in parts]
            in_json.append((spelled if len(spelled) > 1 else spelled[0], exact))
        self.app.table(f"{SIDES[side]}-json").put(in_json)

    def result(self, join: str) -> list[tuple[Any, Any]]:
        """The rows of a result, in order, in JSON."""
        return [(key, self.as_json(join, pair)) for key, pair in self.app.join(join).rows()]

    def emitted(self, join: str) -> list[tuple[Any, Any]]:
        """The emissions of a join, in order, in JSON."""
        records = self.app.channel(f"{join}-channel").records()
        return [(record["key"], self.as_json(join, record["value"])) for record in records]

    def as_json(self, join: str, pair: Any) -> Any:
        if pair is None or join.endswith("-json"):
            return pair
        return {side: written(of, pair[side], side) for side, of in self.types.items()}


def check_history(spark: SparkSession, folder: Path, joins: Sequence[str], *, seed: int, runs: int) -> None:
    """Run a random history of so many runs, and compare both kinds of joins. Some rows must match."""
    numbers = count()
    histories = st.lists(CHANGES, min_size=runs, max_size=runs)
    once = settings(
        max_examples=1,
        phases=[Phase.generate],  # to shrink a failing history would take hours
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )

    @hypothesis.seed(seed)
    @once
    @given(history=histories, luck=st.integers(0, 1_000))
    def same_joins(history: list[tuple[Commit, ...]], luck: int) -> None:
        assume(luck)  # rejects Hypothesis's first example, the simplest one, which is not worth its minutes
        pairs = TypedAndJson(spark, folder / str(next(numbers)))
        matched = 0
        for commits in history:
            for commit in commits:
                pairs.put(commit)
            pairs.app.run(only=[f"join/{join}-{kind}" for join in joins for kind in ("typed", "json")])
            for join in joins:
                result = pairs.result(f"{join}-typed")
                assert result == pairs.result(f"{join}-json")
                matched += sum(pair["right"] is not None for _, pair in result)
        for join in joins:
            assert pairs.emitted(f"{join}-typed") == pairs.emitted(f"{join}-json")
        assert pairs.app.dead_letters() == []
        assert matched, "no visit was in a shop's hours"

    same_joins()
    assert next(numbers) == 1, "no history was made"


@pytest.mark.spark
@pytest.mark.slow  # `test_typed.py` and recorded cases, which always run, show the same with fewer values
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    ("joins", "seed", "runs"), [(["left"], 1, 2), *((["inner", "left"], seed, 8) for seed in range(2, 8))]
)
def test_typed_tables_are_joined_like_tables_in_json(
    spark: SparkSession, tmp_path: Path, joins: list[str], seed: int, runs: int
) -> None:
    check_history(spark, tmp_path, joins, seed=seed, runs=runs)
