"""The steps of a history: actions on an application, its tables and its process."""

from tests.chaos.steps import accidents, kills, records, runs, statements, upkeep
from tests.chaos.steps.step import ACTIONS, Step, do_step, draw_step

__all__ = ["ACTIONS", "Step", "accidents", "do_step", "draw_step", "kills", "records", "runs", "statements", "upkeep"]
