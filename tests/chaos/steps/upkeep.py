"""What others do to tables without changing a row."""

from __future__ import annotations

import random
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tests.chaos.steps.step import STEPS, OfSource

if TYPE_CHECKING:
    from typing_extensions import Self

    from tests.chaos.recipe import Recipe
    from tests.chaos.sources import Source
    from tests.chaos.world import World


@STEPS.add
@dataclass(frozen=True)
class Compact(OfSource):
    """Files are written anew, with all rows they have."""

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
class Vacuum(OfSource):
    """Files that nobody needs are removed, once all have read what they tell."""

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Vacuum:
        return cls(dice.choice(recipe.sources).name)

    def change(self, world: World, source: Source) -> None:
        world.stop_following()
        world.run()
        world.vacuum(source)


@dataclass(frozen=True)
class _OfOthers(OfSource):
    """A change of the columns of a table of others, which is seen here at the next start.

    It is not taken back: without a column that they know of, resources would wait for it.
    """

    alteration: str

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self | None:
        foreign = [source.name for source in recipe.sources if source.is_foreign]
        return cls(dice.choice(foreign), cls.drawn(dice)) if foreign else None

    @classmethod
    @abstractmethod
    def drawn(cls, dice: random.Random) -> str:
        """What is altered, in SQL."""

    def change(self, world: World, source: Source) -> None:
        world.columns_may_differ()
        world.sql(f"ALTER TABLE {world.table(source)} {self.alteration}")
        world.note(source.name, world.version(source))


@STEPS.add
@dataclass(frozen=True)
class AddColumn(_OfOthers):
    """Another column, behind the others."""

    @classmethod
    def drawn(cls, dice: random.Random) -> str:
        return f"ADD COLUMN more_{dice.randrange(10**6)} STRING"


@STEPS.add
@dataclass(frozen=True)
class InsertColumn(_OfOthers):
    """Another column, before the others or among them."""

    @classmethod
    def drawn(cls, dice: random.Random) -> str:
        return f"ADD COLUMN more_{dice.randrange(10**6)} STRING {dice.choice(['FIRST', 'AFTER n'])}"


@STEPS.add
@dataclass(frozen=True)
class MoveColumn(_OfOthers):
    """A column stands elsewhere."""

    @classmethod
    def drawn(cls, dice: random.Random) -> str:
        return f"ALTER COLUMN n {dice.choice(['FIRST', 'AFTER day'])}"


@STEPS.add
@dataclass(frozen=True)
class Feature(OfSource):
    """A feature of Delta is turned on."""

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
    def draw(cls, dice: random.Random, recipe: Recipe) -> Feature:
        return cls(dice.choice(recipe.sources).name, dice.choice(cls._CHANGES))

    def change(self, world: World, source: Source) -> str | None:
        if self.change_by.startswith("DROP") and not world.has_feature(source, self.change_by.split()[-1]):
            return "it has no such feature"
        world.sql(
            f"ALTER TABLE {world.table(source)} {self.change_by.format(column='n' if source.has_columns else 'key')}"
        )
        if "columnMapping" in self.change_by:  # without it columns count as others
            world.note(source.name, world.version(source))
        return None
