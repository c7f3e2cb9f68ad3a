"""Writes of rows: by the API of the package, and by SQL statements of other programs."""

from __future__ import annotations

import random
from collections.abc import Iterable

from tests.chaos.shapes.shape import Recipe, any_source
from tests.chaos.sources import KEY_COUNT, Row, Rows, Source, draw_row, draw_rows
from tests.chaos.steps.step import action
from tests.chaos.world import World


def _any_own_source(dice: random.Random, recipe: Recipe) -> str:
    return dice.choice([name for name, source in recipe.sources.items() if not source.is_foreign])


def _rows(dice: random.Random, _: Recipe) -> Rows:
    return draw_rows(dice)


def _keys(dice: random.Random, _: Recipe) -> list[int]:
    return dice.sample(range(KEY_COUNT), dice.randint(1, 3))


@action(weight=8, source=_any_own_source, rows=_rows)
def put(world: World, source: Source, rows: Rows) -> None:
    """Rows are written and deleted in one commit."""
    world.app.table(source.name).put(source.values(rows))


@action(source=any_source, rows=lambda dice, _: draw_rows(dice, 2, 0))
def insert(world: World, source: Source, rows: Rows) -> None:
    """Rows are added, even if their keys have rows already."""
    world.sql(f"INSERT INTO {world.table(source)} ({_columns(source)}) {_values(source, rows)}")


@action(source=any_source, rows=_rows)
def overwrite(world: World, source: Source, rows: Rows) -> None:
    """All rows are replaced."""
    kept = [(key, row) for key, row in rows if row is not None]
    some = _values(source, kept) if kept else f"SELECT {_columns(source)} FROM {world.table(source)} WHERE false"
    world.sql(f"INSERT OVERWRITE {world.table(source)} ({_columns(source)}) {some}")


@action(weight=4, source=any_source, rows=_rows, only_these=lambda dice, _: dice.random() < 0.2)
def merge(world: World, source: Source, rows: Rows, *, only_these: bool) -> None:
    """Rows are written and deleted by MERGE; ``only_these`` deletes all others."""
    by, *rest = source.types
    values = ", ".join(f"({_row(source, key, row)}, {str(row is None).lower()})" for key, row in rows)
    world.sql(
        f"MERGE INTO {world.table(source)} t USING (SELECT * FROM VALUES {values} AS r({_columns(source)}, gone)) s"
        f" ON t.{by} = s.{by} WHEN MATCHED AND s.gone THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in rest)}"
        f" WHEN NOT MATCHED AND NOT s.gone THEN INSERT ({_columns(source)})"
        f" VALUES ({', '.join(f's.{name}' for name in source.types)})"
        f"{' WHEN NOT MATCHED BY SOURCE THEN DELETE' if only_these else ''}"
    )


@action(weight=4, source=any_source, keys=_keys, row=lambda dice, _: draw_row(dice) if dice.random() < 0.8 else None)
def update(world: World, source: Source, keys: list[int], row: Row | None) -> None:
    """Rows of some keys get the same new value; without a ``row`` each is set to its current value."""
    names = [name for name in source.types if name not in {"id", "key", "timestamp"}]
    literals = source.literals(0, row)
    assigned = ", ".join(f"{name} = {name if row is None else literals[name]}" for name in names)
    world.sql(f"UPDATE {world.table(source)} SET {assigned} WHERE {source.key_condition(keys)}")


@action(source=any_source, keys=_keys)
def delete(world: World, source: Source, keys: list[int]) -> None:
    """Rows of some keys are deleted."""
    world.sql(f"DELETE FROM {world.table(source)} WHERE {source.key_condition(keys)}")


@action(weight=1, source=any_source)
def truncate(world: World, source: Source) -> None:
    """All rows are deleted."""
    world.sql(f"TRUNCATE TABLE {world.table(source)}")


@action(source=any_source, back=lambda dice, _: dice.randint(1, 4))
def restore(world: World, source: Source, back: int) -> str:
    """The table is restored to the version that it had ``back`` commits ago."""
    before = world.version(source) - back
    if before < world.oldest(source):
        return "not so many commits"
    world.sql(f"RESTORE TABLE {world.table(source)} TO VERSION AS OF {before}")
    world.reopen_before_next_run()
    return f"to version {before}"


def _columns(source: Source) -> str:
    return ", ".join(source.types)


def _row(source: Source, key: int, row: Row | None) -> str:
    return ", ".join(source.literals(key, row).values())


def _values(source: Source, rows: Iterable[tuple[int, Row | None]]) -> str:
    return "VALUES " + ", ".join(f"({_row(source, key, row)})" for key, row in rows)
