"""A step: an action, and arguments that are drawn at random."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from tests.chaos.shapes.shape import Draw, Recipe
from tests.chaos.world import World

Work = TypeVar("Work", bound="Callable[..., str | None]")

Step = dict[str, Any]
"""The name of an action, under ``step``, and its arguments, as JSON has them. Sources and shapes are names."""

LEFT_OUT: dict[str, str] = {}
"""Actions that are not drawn because they show known defects: by name, with the reason. A replay may have them."""


class Action(NamedTuple):
    """A function that does steps, and how its arguments are drawn. ``deadly``: it may kill the process."""

    work: Callable[..., str | None]
    draws: Mapping[str, Draw]
    weight: int
    deadly: bool


ACTIONS: dict[str, Action] = {}


def action(*, weight: int = 2, deadly: bool = False, **draws: Draw) -> Callable[[Work], Work]:
    """Register a function of the world and of arguments that ``draws`` has a function for.

    It can be called in every state, and does nothing if it does not apply. It returns a remark for the output, or None;
    any exception is a failure. If the application can be judged afterwards, it sets ``World.quiet``.
    """

    def registered(work: Work) -> Work:
        ACTIONS[work.__name__] = Action(work, draws, weight, deadly)
        return work

    return registered


def draw_step(dice: random.Random, recipe: Recipe) -> Step:
    """A random step that fits an application, drawn by weight."""
    names = [name for name in ACTIONS if name not in LEFT_OUT]
    while True:
        (name,) = dice.choices(names, [ACTIONS[name].weight for name in names])
        with contextlib.suppress(IndexError):  # the application has nothing for it
            return {"step": name, **{field: draw(dice, recipe) for field, draw in ACTIONS[name].draws.items()}}


def do_step(step: Step, world: World) -> str | None:
    """Do a step, unless its source or shape was left out of a shrunk history. Returns its remark."""
    arguments = {name: value for name, value in step.items() if name != "step"}
    known: dict[str, Mapping[str, Any]] = {"source": world.recipe.sources, "shape": world.recipe.shapes}
    for name in known.keys() & arguments.keys():
        if arguments[name] not in known[name]:
            return f"no such {name}"
        arguments[name] = known[name][arguments[name]]
    return ACTIONS[step["step"]].work(world, **arguments)
