"""SQL statements by which other programs change rows."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.sources import KEY_COUNT, Row, Rows, Source, draw_row, draw_rows
from tests.chaos.steps.step import STEPS, SourceStep

if TYPE_CHECKING:
    from tests.chaos.recipe import Recipe
    from tests.chaos.world import World


@dataclass(frozen=True)
class _RowsStatement(SourceStep):
    """A statement that writes rows."""

    rows: Rows

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> _RowsStatement:
        return cls(_draw_source(dice, recipe), draw_rows(dice))


@dataclass(frozen=True)
class _KeysStatement(SourceStep):
    """A statement on the rows of some keys."""

    keys: list[int]

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> _KeysStatement:
        return cls(_draw_source(dice, recipe), dice.sample(range(KEY_COUNT), dice.randint(1, 3)))


@STEPS.add
@dataclass(frozen=True)
class Insert(_RowsStatement):
    """Rows are added, even if their keys have rows already."""

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Insert:
        return cls(_draw_source(dice, recipe), draw_rows(dice, 2, 0))

    def change(self, world: World, source: Source) -> None:
        world.sql(f"INSERT INTO {world.table(source)} ({_columns(source)}) {_values(source, self.rows)}")


@STEPS.add
@dataclass(frozen=True)
class Overwrite(_RowsStatement):
    """All rows are replaced."""

    def change(self, world: World, source: Source) -> None:
        kept = [(key, row) for key, row in self.rows if row is not None]
        some = _values(source, kept) if kept else f"SELECT {_columns(source)} FROM {world.table(source)} WHERE false"
        world.sql(f"INSERT OVERWRITE {world.table(source)} ({_columns(source)}) {some}")


@STEPS.add
@dataclass(frozen=True)
class Merge(_RowsStatement):
    """Rows are written and deleted by MERGE; ``only_these`` deletes all others."""

    only_these: bool

    weight = 4

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Merge:
        return cls(_draw_source(dice, recipe), draw_rows(dice), dice.random() < 0.2)

    def change(self, world: World, source: Source) -> None:
        by, rest = _key(source), [name for name in source.types if name != _key(source)]
        rows = ", ".join(
            f"({', '.join(source.literals(key, row).values())}, {_literal(row is None)})" for key, row in self.rows
        )
        world.sql(
            f"MERGE INTO {world.table(source)} t USING (SELECT * FROM VALUES {rows} AS r({_columns(source)}, gone)) s"
            f" ON t.{by} = s.{by} WHEN MATCHED AND s.gone THEN DELETE"
            f" WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in rest)}"
            f" WHEN NOT MATCHED AND NOT s.gone THEN INSERT ({_columns(source)})"
            f" VALUES ({', '.join(f's.{name}' for name in source.types)})"
            + " WHEN NOT MATCHED BY SOURCE THEN DELETE"
            * self.only_these
        )


@STEPS.add
@dataclass(frozen=True)
class Update(_KeysStatement):
    """Rows of some keys get the same new value; without a ``row`` each is set to its current value."""

    row: Row | None

    weight = 4

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Update:
        keys = dice.sample(range(KEY_COUNT), dice.randint(1, 3))
        return cls(_draw_source(dice, recipe), keys, draw_row(dice) if dice.random() < 0.8 else None)

    def change(self, world: World, source: Source) -> None:
        names = [name for name in source.types if name not in {_key(source), "timestamp"}]
        literals = source.literals(0, self.row)
        values = {name: name if self.row is None else literals[name] for name in names}
        assigned = ", ".join(f"{name} = {value}" for name, value in values.items())
        world.sql(f"UPDATE {world.table(source)} SET {assigned} WHERE {source.key_condition(self.keys)}")


@STEPS.add
@dataclass(frozen=True)
class Delete(_KeysStatement):
    """Rows of some keys are deleted."""

    def change(self, world: World, source: Source) -> None:
        world.sql(f"DELETE FROM {world.table(source)} WHERE {source.key_condition(self.keys)}")


@STEPS.add
@dataclass(frozen=True)
class Truncate(SourceStep):
    """All rows are deleted."""

    weight = 1

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Truncate:
        return cls(_draw_source(dice, recipe))

    def change(self, world: World, source: Source) -> None:
        world.sql(f"TRUNCATE TABLE {world.table(source)}")


@STEPS.add
@dataclass(frozen=True)
class Restore(SourceStep):
    """The table is restored to the version that it had ``back`` commits ago."""

    back: int

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Restore:
        return cls(_draw_source(dice, recipe), dice.randint(1, 4))

    def change(self, world: World, source: Source) -> str | None:
        before = world.version(source) - self.back
        if before < world.oldest(source):
            return "not so many commits"
        world.sql(f"RESTORE TABLE {world.table(source)} TO VERSION AS OF {before}")
        world.reopen_before_next_run()
        return f"to version {before}"


def _draw_source(dice: random.Random, recipe: Recipe) -> str:
    return dice.choice(recipe.sources).name


def _key(source: Source) -> str:
    return "id" if source.has_columns else "key"


def _columns(source: Source) -> str:
    return ", ".join(source.types)


def _values(source: Source, rows: Iterable[tuple[int, Row | None]]) -> str:
    return "VALUES " + ", ".join(f"({', '.join(source.literals(key, row).values())})" for key, row in rows)


def _literal(value: bool) -> str:
    return "true" if value else "false"
