"""Writes by the API of the package."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.sources import Rows, Source, draw_rows
from tests.chaos.steps.step import STEPS, SourceStep

if TYPE_CHECKING:
    from tests.chaos.recipe import Recipe
    from tests.chaos.world import World


@STEPS.add
@dataclass(frozen=True)
class Put(SourceStep):
    """Rows are written and deleted in one commit."""

    rows: Rows

    weight = 8

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Put | None:
        own = [source.name for source in recipe.sources if not source.is_foreign]
        return cls(dice.choice(own), draw_rows(dice)) if own else None

    def change(self, world: World, source: Source) -> None:
        world.app.table(source.name).put(source.values(self.rows))
