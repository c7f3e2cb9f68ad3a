"""Upkeep of tables by other programs, which changes no row."""

from __future__ import annotations

import random
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tests.chaos.steps.step import STEPS, SourceStep

if TYPE_CHECKING:
    from typing_extensions import Self

    from tests.chaos.recipe import Recipe
    from tests.chaos.sources import Source
    from tests.chaos.world import World


@STEPS.add
@dataclass(frozen=True)
class Compact(SourceStep):
    """Files are rewritten with the same rows."""

    statement: str

    weight = 3
    _STATEMENTS: ClassVar[tuple[str, ...]] = (
        "OPTIMIZE {table}",
        "OPTIMIZE {table} ZORDER BY ({column})",
        "REORG TABLE {table} APPLY (PURGE)",
    )

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Compact:
        return cls(dice.choice(recipe.sources).name, dice.choice(cls._STATEMENTS))

    def change(self, world: World, source: Source) -> str | None:
        if "ZORDER" in self.statement and world.has_feature(source, "clustering"):
            return "a clustered table has no Z-order"
        column = "n" if source.has_columns else "key"
        world.sql(self.statement.format(table=world.table(source), column=column))
        return None


@STEPS.add
@dataclass(frozen=True)
class Vacuum(SourceStep):
    """Everything runs until quiet; then files that the newest version does not need are removed."""

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Vacuum:
        return cls(dice.choice(recipe.sources).name)

    def change(self, world: World, source: Source) -> None:
        world.stop_continuous_run()
        world.run()
        world.vacuum(source)


@dataclass(frozen=True)
class _ColumnChange(SourceStep):
    """A change of the columns of a table of others, which the application sees when it is next opened.

    No later step restores the table to an older version: resources would wait for a column that is missing there.
    """

    alteration: str

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self | None:
        foreign = [source.name for source in recipe.sources if source.is_foreign]
        return cls(dice.choice(foreign), cls.draw_alteration(dice)) if foreign else None

    @classmethod
    @abstractmethod
    def draw_alteration(cls, dice: random.Random) -> str:
        """The alteration, in SQL."""

    def change(self, world: World, source: Source) -> None:
        world.reopen_before_next_run()
        world.sql(f"ALTER TABLE {world.table(source)} {self.alteration}")
        world.note(source.name, world.version(source))


@STEPS.add
@dataclass(frozen=True)
class AddColumn(_ColumnChange):
    """A column is added as the last one."""

    @classmethod
    def draw_alteration(cls, dice: random.Random) -> str:
        return f"ADD COLUMN more_{dice.randrange(10**6)} STRING"


@STEPS.add
@dataclass(frozen=True)
class InsertColumn(_ColumnChange):
    """A column is added as the first one, or after ``n``."""

    @classmethod
    def draw_alteration(cls, dice: random.Random) -> str:
        return f"ADD COLUMN more_{dice.randrange(10**6)} STRING {dice.choice(['FIRST', 'AFTER n'])}"


@STEPS.add
@dataclass(frozen=True)
class MoveColumn(_ColumnChange):
    """The column ``n`` is moved."""

    @classmethod
    def draw_alteration(cls, dice: random.Random) -> str:
        return f"ALTER COLUMN n {dice.choice(['FIRST', 'AFTER day'])}"


@STEPS.add
@dataclass(frozen=True)
class ChangeFeature(SourceStep):
    """A feature of Delta is turned on or off."""

    change_by: str

    weight = 3
    _CHANGES: ClassVar[tuple[str, ...]] = (
        "SET TBLPROPERTIES (delta.enableDeletionVectors = true)",
        "SET TBLPROPERTIES (delta.enableDeletionVectors = false)",
        "SET TBLPROPERTIES (delta.enableRowTracking = true)",
        "SET TBLPROPERTIES (delta.enableInCommitTimestamps = true)",
        "SET TBLPROPERTIES (delta.checkpointPolicy = 'v2')",
        "SET TBLPROPERTIES (delta.columnMapping.mode = 'name')",
        "SET TBLPROPERTIES (delta.enableTypeWidening = true)",
        "CLUSTER BY ({column})",
        "DROP FEATURE deletionVectors",
    )

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> ChangeFeature:
        return cls(dice.choice(recipe.sources).name, dice.choice(cls._CHANGES))

    def change(self, world: World, source: Source) -> str | None:
        if self.change_by.startswith("DROP") and not world.has_feature(source, self.change_by.split()[-1]):
            return "it has no such feature"
        world.sql(
            f"ALTER TABLE {world.table(source)} {self.change_by.format(column='n' if source.has_columns else 'key')}"
        )
        if "columnMapping" in self.change_by:  # columns of a version without column mapping count as other columns
            world.note(source.name, world.version(source))
        return None
