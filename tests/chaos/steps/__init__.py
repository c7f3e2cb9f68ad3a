"""What happens to an application, step by step."""

from tests.chaos.steps import disasters, runs, statements, upkeep, writes
from tests.chaos.steps.step import STEPS, Step, draw_step

__all__ = ["STEPS", "Step", "disasters", "draw_step", "runs", "statements", "upkeep", "writes"]
