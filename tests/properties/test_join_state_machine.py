"""Foreign-key joins under random histories of both tables, checked against a join of two dictionaries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from pyspark.sql import SparkSession

from kaspr_delta import Application
from tests.folders import path_of
from tests.properties.naive_join import Sides, Texts, replayed, text
from tests.properties.shown import JOINS, MANIFESTS, TABLES, JoinReader

# Otherwise files younger than a week cannot be vacuumed.
VACUUM_ANYTHING = ("spark.databricks.delta.retentionDurationCheck.enabled", "false")

# Separators and NUL, a key that is the prefix of another, keys that are equal in Python, falsy keys.
KEYS = [text(key) for key in ("P1", "P10", 1, "1", True, 0, "", False, ["P1", 1], "ü:\x00|P1")]
LEFT_VALUES = st.builds(lambda key, n: f'{{"fk":{key},"n":{n}}}', st.sampled_from(["null", *KEYS]), st.integers(0, 2))
RIGHT_VALUES = st.sampled_from(['{"n":0}', '{"n":1}', "0", "false", '""', "[]"])

Drawn = TypeVar("Drawn")


def side_with(make_strategy: Callable[[st.SearchStrategy[str]], st.SearchStrategy[Drawn]]) -> st.SearchStrategy[Any]:
    """A side, and an example of the strategy that ``make_strategy`` makes from that side's values."""
    left, right = make_strategy(LEFT_VALUES), make_strategy(RIGHT_VALUES)
    return st.one_of(st.tuples(st.just("left"), left), st.tuples(st.just("right"), right))


ROWS = side_with(lambda values: values)


def rows_of(values: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(KEYS), values, min_size=least, max_size=8)


def some_deleted(values: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, str | None]]:
    """Rows of which one in four is deleted. ``one_of`` has no weights: it drops strategies that are equal."""
    return rows_of(st.integers(0, 3).flatmap(lambda luck: values if luck else st.none()), 3)


SIDES = st.sampled_from(["left", "right"])
PICKS = st.integers(0, len(KEYS) - 1)
FEW_KEYS = st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True)
MANY_KEYS = st.lists(st.sampled_from(KEYS), min_size=4, unique=True)
# Most steps run the engine. After the others, the next batch has several commits.
MOSTLY = st.sampled_from([True, True, True, True, False])
SELDOM = MOSTLY.map(lambda yes: not yes)


def print_line(what: str) -> None:
    """Print a line of the history, which a failure shows."""
    print(what)  # noqa: T201  pytest shows it


Rule = Callable[..., None]


def step(*, run: st.SearchStrategy[bool] = MOSTLY, **arguments: Any) -> Callable[[Rule], Any]:
    """A rule that is printed, counted and mostly followed by a run.

    Hypothesis leaves some rules out of an example, by the names of their functions. That is of no use in one long
    example: all these functions have one name, so that none is left out.
    """

    def decorate(what: Rule) -> Any:
        def any_step(self: JoinMachine, *, run: bool, **drawn: Any) -> None:
            self.steps.append(what.__name__)
            print_line(f"{len(self.steps)}. {what.__name__}")
            what(self, **drawn)
            if run:
                self.run_engine()

        as_rule: Any = rule(run=run, **arguments)
        return as_rule(any_step)

    return decorate


class JoinMachine(RuleBasedStateMachine):
    """Two tables, and an inner and a left join over them. Every rule can be applied in every state."""

    def __init__(self, spark: SparkSession, folder: Path, steps: list[str]) -> None:
        super().__init__()
        self.spark = spark
        self.folder = folder
        self.steps = steps
        self.sides = Sides()
        self.deleted: dict[str, set[str]] = {"left": set(), "right": set()}
        self.last_vacuumed = dict.fromkeys(JOINS, -1)
        self.unchecked = False

    @initialize(left=rows_of(LEFT_VALUES, 5), right=rows_of(RIGHT_VALUES, 5), run=MOSTLY, luck=st.integers(0, 1_000))
    def first_rows(self, left: Texts, right: Texts, run: bool, luck: int) -> None:
        assume(luck)  # rejects Hypothesis's first example, the simplest one, which is not worth its minutes
        self.restart_now()
        self._put("left", left)
        self._put("right", right)
        if run:
            self.run_engine()

    # -- changes through the package ----------------------------------------------------------------------------------

    @step(row=ROWS, pick=PICKS, again=SELDOM)
    def insert(self, row: tuple[str, str], pick: int, again: bool) -> None:
        """Insert a key, or one that was deleted ``again``."""
        side, value = row
        absent = sorted(self.deleted[side]) if again else [key for key in KEYS if key not in self.sides[side]]
        self._put(side, {self._choose(pick, absent): value})

    @step(side=SIDES, pick=PICKS, same=SELDOM)
    def update(self, side: str, pick: int, same: bool) -> None:
        key = self._existing_key(side, pick)
        self._put(side, {key: self._value_with(side, key, **({} if same else {"n": len(self.steps) + 10}))})

    @step(pick=PICKS, other=PICKS | st.none())
    def point_elsewhere_or_nowhere(self, pick: int, other: int | None) -> None:
        fk = None if other is None else json.loads(self._existing_key("right", other))
        self._put("left", {(key := self._existing_key("left", pick)): self._value_with("left", key, fk=fk)})

    @step(side=SIDES, pick=PICKS)
    def delete(self, side: str, pick: int) -> None:
        self._put(side, {self._existing_key(side, pick): None})

    @step(rows=side_with(lambda values: st.lists(st.none() | values, min_size=2, max_size=4)), pick=PICKS)
    def change_one_key_again_and_again(self, rows: tuple[str, list[str | None]], pick: int) -> None:
        side, values = rows
        key = self._existing_key(side, pick)
        for value in values:
            self._put(side, {key: value})

    @step(rows=side_with(some_deleted))
    def change_many_keys(self, rows: tuple[str, dict[str, str | None]]) -> None:
        self._put(*rows)

    # -- changes by others, in SQL ------------------------------------------------------------------------------------

    @step(rows=side_with(rows_of), kept=MANY_KEYS)
    def overwrite_by_sql(self, rows: tuple[str, Texts], kept: list[str]) -> None:
        side, values = rows
        values = {key: value for key, value in self.sides[side].items() if key in kept} | values
        nothing = f"SELECT * FROM {TABLES[side]} WHERE false"  # noqa: S608  own names
        listed = f"SELECT key, value, NULL FROM {_values(values)}" if values else nothing  # noqa: S608
        self._sql(side, f"INSERT OVERWRITE {TABLES[side]} {listed}", dict.fromkeys(self.sides[side]) | values)

    @step(rows=side_with(some_deleted), only_these=SELDOM)
    def merge_by_sql(self, rows: tuple[str, dict[str, str | None]], only_these: bool) -> None:
        side, values = rows
        statement = (
            f"MERGE INTO {TABLES[side]} t USING (SELECT * FROM {_values(values)}) s ON t.key = s.key"  # noqa: S608
            " WHEN MATCHED AND s.value IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET value = s.value"
            " WHEN NOT MATCHED AND s.value IS NOT NULL THEN INSERT (key, value) VALUES (s.key, s.value)"
        )
        gone = dict.fromkeys(self.sides[side]) if only_these else {}
        self._sql(side, statement + " WHEN NOT MATCHED BY SOURCE THEN DELETE" * only_these, gone | values)

    @step(side=SIDES, keys=FEW_KEYS)
    def delete_by_sql(self, side: str, keys: list[str]) -> None:
        where = f"key IN ({', '.join(map(_literal, keys))})"
        self._sql(side, f"DELETE FROM {TABLES[side]} WHERE {where}", dict.fromkeys(keys))  # noqa: S608  own names

    @step(row=side_with(lambda values: st.none() | values), keys=FEW_KEYS)
    def update_by_sql(self, row: tuple[str, str | None], keys: list[str]) -> None:
        """Set keys to a value, or each key to its old value."""
        side, value = row
        where = f"key IN ({', '.join(map(_literal, keys))})"
        assignment = "value = value" if value is None else f"value = {_literal(value)}"
        values = {key: value or old for key, old in self.sides[side].items() if key in keys}
        self._sql(side, f"UPDATE {TABLES[side]} SET {assignment} WHERE {where}", values)  # noqa: S608  own names

    @step(side=SIDES, pick=PICKS, other=PICKS)
    def rename_by_sql(self, side: str, pick: int, other: int) -> None:
        old = self._existing_key(side, pick)
        new = self._choose(other, [key for key in KEYS if key not in self.sides[side]])
        if old in self.sides[side] and new not in self.sides[side]:
            statement = f"UPDATE {TABLES[side]} SET key = {_literal(new)} WHERE key = {_literal(old)}"  # noqa: S608
            self._sql(side, statement, {old: None, new: self.sides[side][old]})

    # -- upkeep, restarts and replays ---------------------------------------------------------------------------------

    @step()
    def optimize_and_vacuum(self) -> None:
        """Vacuum the change feeds after they are read. Batches that were read cannot be replayed any more."""
        self.run_engine()
        self.spark.conf.set(*VACUUM_ANYTHING)
        try:
            for table in TABLES.values():
                self.app.sql(f"OPTIMIZE {table}")
                self.app.sql(f"VACUUM {table} RETAIN 0 HOURS")
        finally:
            self.spark.conf.unset(VACUUM_ANYTHING[0])
        self.last_vacuumed = {join: self._batches(join, "commits")[-1] for join in JOINS}

    @step()
    def restart(self) -> None:
        self.restart_now()

    def restart_now(self) -> None:
        self.app = Application.open(MANIFESTS, warehouse=self.folder, spark=self.spark)

    @step(join=st.sampled_from(JOINS))
    def replay_the_last_batch(self, join: str) -> None:
        """Delete the end of the last batch from Spark's checkpoint, so that Spark runs the batch again."""
        started, ended = self._batches(join, "offsets"), self._batches(join, "commits")
        if ended and ended[-1] == started[-1] > self.last_vacuumed[join]:
            print_line(f"   batch {ended[-1]} of {join}")
            for file in (str(ended[-1]), f".{ended[-1]}.crc"):
                (self._checkpoint(join) / "commits" / file).unlink()

    @step(run=st.just(value=True))
    def run(self) -> None:
        """Run the engine on the changes of earlier steps."""

    def run_engine(self) -> None:
        print_line("   run")
        self.app.run()
        self.unchecked = True

    # -- what always holds after a run --------------------------------------------------------------------------------

    @invariant()
    def results_feeds_channels_and_subscriptions_equal_the_join(self) -> None:
        if self.unchecked:
            self.unchecked = False
            for join in JOINS:
                shown = JoinReader(self.app, join)
                shown.assert_joins(self.sides)
                assert replayed(shown.feed()) == self.sides.joined(join), join

    # -- inside -------------------------------------------------------------------------------------------------------

    def _put(self, side: str, values: Mapping[str, str | None]) -> None:
        objects = [(json.loads(key), None if value is None else json.loads(value)) for key, value in values.items()]
        self.app.table(TABLES[side]).put(objects)
        self._apply_to_model(side, values)

    def _sql(self, side: str, statement: str, values: Mapping[str, str | None]) -> None:
        self.app.sql(statement).collect()
        self._apply_to_model(side, values)

    def _apply_to_model(self, side: str, values: Mapping[str, str | None]) -> None:
        """Apply the changes to the dictionaries."""
        for key, value in values.items():
            print_line(f"   {side} {key} = {value}")
            before = self.sides[side].pop(key, None)
            if value is not None:
                self.sides[side][key] = value
                self.deleted[side].discard(key)
            elif before is not None:
                self.deleted[side].add(key)

    def _choose(self, pick: int, among: list[str]) -> str:
        """One of these keys; any key if there are none."""
        among = among or KEYS
        return among[pick % len(among)]

    def _existing_key(self, side: str, pick: int) -> str:
        return self._choose(pick, sorted(self.sides[side]))

    def _value_with(self, side: str, key: str, **changed: Any) -> str:
        """The value of a key with some fields changed."""
        before = json.loads(self.sides[side].get(key, "{}"))
        fields = before if isinstance(before, dict) else {}
        if side == "left":
            return text({"fk": None, "n": 0} | fields | changed)
        return text(fields | changed) if changed else text(before)

    def _checkpoint(self, join: str) -> Path:
        home = path_of(self.app.delta.namespace.checkpoints / f"join-{join}")
        (checkpoint,) = home.iterdir() if home.is_dir() else [home]
        return checkpoint

    def _batches(self, join: str, log: str) -> list[int]:
        return sorted(int(file.name) for file in (self._checkpoint(join) / log).glob("*") if file.name.isdigit())


def _literal(value: str | None) -> str:
    if value is None:
        return "CAST(NULL AS STRING)"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _values(rows: Mapping[str, str | None]) -> str:
    listed = ", ".join(f"({_literal(key)}, {_literal(value)})" for key, value in rows.items())
    return f"VALUES {listed} AS rows(key, value)"


def run_random_history(spark: SparkSession, folder: Path, *, seed: int, steps: int) -> None:
    """Run a random history of at least so many steps."""
    examples: list[list[str]] = []

    @hypothesis.seed(seed)
    class JoinMachineHere(JoinMachine):
        def __init__(self) -> None:
            examples.append([])
            super().__init__(spark, folder / f"example-{len(examples)}", examples[-1])

    once = settings(
        max_examples=1,
        stateful_step_count=steps + 1,  # the first step writes the first rows
        phases=[Phase.generate],  # to shrink a failing history would take hours
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(JoinMachineHere, settings=once)
    made = max(examples, key=len)
    print_line(f"seed {seed}: {len(made)} steps: {dict(Counter(made))}")
    assert len(made) >= steps


@pytest.mark.spark
@pytest.mark.slow
def test_joins_equal_the_model_after_each_run_of_a_short_history(spark: SparkSession, tmp_path: Path) -> None:
    run_random_history(spark, tmp_path, seed=0, steps=4)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(1, 8))
def test_joins_equal_the_model_after_each_run_of_a_long_history(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    run_random_history(spark, tmp_path, seed=seed, steps=45)
