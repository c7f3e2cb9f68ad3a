"""Accidents around a process: unfinished commits, full disks, clocks that jump."""

from __future__ import annotations

import shutil
from uuid import uuid4

from kaspr_delta import KasprError
from tests.chaos.shapes.shape import one_of
from tests.chaos.steps.step import action
from tests.chaos.world import World
from tests.small_disk import SmallDisk, is_small


@action(table=lambda dice, recipe: dice.choice([*recipe.sources, *recipe.shapes]))
def half_commit(world: World, table: str) -> str:
    """A data file and a temporary commit file appear that belong to no version: a writer died before its commit."""
    source = world.recipe.sources.get(table)
    folder = world.warehouse / "chaos" / table if source is None else source.folder(world.warehouse)
    files = sorted(folder.glob("*.parquet"))
    if not files:
        return "it has no file"
    shutil.copy(files[0], folder / f"part-00000-{uuid4()}-c000.snappy.parquet")
    newest = max((folder / "_delta_log").glob("?" * 20 + ".json"))
    shutil.copy(newest, folder / "_delta_log" / f"_commit_{uuid4()}.json.tmp")
    return "done"


@action(kilobytes=one_of(0, 8, 64, 512))
def fill_disk(world: World, kilobytes: int) -> str:
    """Everything runs on a nearly full disk, and may fail with a KasprError. The disk is freed afterwards."""
    if not is_small(world.warehouse):
        return "the disk is not a small one"
    world.stop_continuous_run()
    disk = SmallDisk(world.warehouse.parent)
    disk.fill_except_for(kilobytes)
    try:
        world.run()
    except KasprError as error:
        return str(error)
    finally:
        disk.free()
        world.quiet = "no"
    return "there was room"


@action(hours=one_of(1, 24, -1, -24))
def move_clock(world: World, hours: int) -> None:
    """The clock of the child and of the children after it jumps; it goes on from the new time."""
    world.move_clock(3_600 * hours)
