"""What happens to an application, step by step."""

from tests.chaos.steps import accidents, kills, records, runs, statements, upkeep, writes
from tests.chaos.steps.step import STEPS, Step, draw_step

__all__ = ["STEPS", "Step", "accidents", "draw_step", "kills", "records", "runs", "statements", "upkeep", "writes"]
