"""The process that runs the steps: ``python -m tests.chaos.child DESCRIPTOR FOLDER``, started by ``engine.py``.

It receives commands from a pipe and answers each, until the pipe is closed or the process is killed. One JVM serves
many histories.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.chaos.recipe import Recipe
from tests.chaos.steps import Step, do_step
from tests.chaos.world import Quiet, World
from tests.empty_tables import empty_tables_copied_from
from tests.few_rows import session_for_few_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Child:
    """The commands of the child: the public methods. ``open`` is the first of them."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.world: World

    def open(self, recipe: dict[str, Any], warehouse: str) -> None:
        """Open an application, to which later steps apply."""
        with contextlib.suppress(Exception):  # there was no other one, or its history is over: failures do not count
            self.world.close()
            del self.world
        gc.collect()
        jvm: Any = self.spark._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # the logs of all histories would not fit in memory
        self.world = World(self.spark, Recipe.read(recipe), Path(warehouse))
        self.world.start()

    def do(self, step: Step) -> tuple[str | None, Quiet]:
        """Do a step. Its remark, and whether the application can be judged."""
        self.world.quiet = "no"
        remark = do_step(step, self.world)
        return remark, self.world.quiet

    def rows(self, folder: str) -> list[dict[str, Any]]:
        """All rows of a table."""
        return self.world.rows(Path(folder))


def main(descriptor: str, folder: str) -> None:
    """Answer commands until the pipe is closed: True and the result, or False and the error."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)  # shows where a command hangs
    pipe = Connection(int(descriptor))
    child = Child(session_for_few_rows(Path(folder, "spark.log")))
    with empty_tables_copied_from(Path(folder, "empty")), contextlib.suppress(EOFError):
        while True:
            command, *arguments = pipe.recv()
            try:
                answer = True, getattr(child, command)(*arguments)
            except Exception as error:  # noqa: BLE001  the parent judges it
                answer = False, (type(error).__name__, str(error), traceback.format_exc())
            pipe.send(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
