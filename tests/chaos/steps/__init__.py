"""The steps of a history: actions on an application, its tables and its process."""

from tests.chaos.steps import accidents, kills, records, runs, statements, upkeep, writes
from tests.chaos.steps.step import STEPS, Step, draw_step

__all__ = ["STEPS", "Step", "accidents", "draw_step", "kills", "records", "runs", "statements", "upkeep", "writes"]
