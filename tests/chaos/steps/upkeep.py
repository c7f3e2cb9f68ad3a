"""Upkeep of tables by other programs, which changes no row."""

from __future__ import annotations

import random

from tests.chaos.shapes.shape import Recipe, any_source, one_of
from tests.chaos.sources import Source
from tests.chaos.steps.step import action
from tests.chaos.world import World

_COMPACTIONS = ("OPTIMIZE {table}", "OPTIMIZE {table} ZORDER BY ({column})", "REORG TABLE {table} APPLY (PURGE)")
_FEATURES = (
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
_COLUMN_CHANGES = (
    "ADD COLUMN {name} STRING",
    "ADD COLUMN {name} STRING FIRST",
    "ADD COLUMN {name} STRING AFTER n",
    "ALTER COLUMN n FIRST",
    "ALTER COLUMN n AFTER day",
)


def _any_foreign_source(dice: random.Random, recipe: Recipe) -> str:
    return dice.choice([name for name, source in recipe.sources.items() if source.is_foreign])


def _column(source: Source) -> str:
    return "n" if source.has_columns else "key"


@action(weight=3, source=any_source, statement=one_of(*_COMPACTIONS))
def compact(world: World, source: Source, statement: str) -> str | None:
    """Files are rewritten with the same rows."""
    if "ZORDER" in statement and world.has_feature(source, "clustering"):
        return "a clustered table has no Z-order"
    world.sql(statement.format(table=world.table(source), column=_column(source)))
    return None


@action(source=any_source)
def vacuum(world: World, source: Source) -> None:
    """Everything runs until quiet; then files that the newest version does not need are removed."""
    world.stop_continuous_run()
    world.run()
    world.vacuum(source)


@action(
    weight=6,
    source=_any_foreign_source,
    alteration=lambda dice, _: dice.choice(_COLUMN_CHANGES).format(name=f"more_{dice.randrange(10**6)}"),
)
def change_columns(world: World, source: Source, alteration: str) -> None:
    """A column of a table of others is added or moved, which the application sees when it is next opened.

    No later step restores the table to an older version: resources would wait for a column that is missing there.
    """
    world.reopen_before_next_run()
    world.sql(f"ALTER TABLE {world.table(source)} {alteration}")
    world.note_version(source)


@action(weight=3, source=any_source, change=one_of(*_FEATURES))
def change_feature(world: World, source: Source, change: str) -> str | None:
    """A feature of Delta is turned on or off."""
    if change.startswith("DROP") and not world.has_feature(source, change.rsplit(maxsplit=1)[-1]):
        return "it has no such feature"
    world.sql(f"ALTER TABLE {world.table(source)} {change.format(column=_column(source))}")
    if "columnMapping" in change:  # columns of a version without column mapping count as other columns
        world.note_version(source)
    return None
