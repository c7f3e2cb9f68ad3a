"""What happens to an application, step by step."""

from tests.chaos.steps import disasters, records, runs, statements, upkeep, writes
from tests.chaos.steps.step import STEPS, Step, draw_step

__all__ = ["STEPS", "Step", "disasters", "draw_step", "records", "runs", "statements", "upkeep", "writes"]
