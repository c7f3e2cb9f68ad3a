"""Runs of the application."""

from __future__ import annotations

import subprocess
import sys

from tests.chaos.shapes.shape import Shape, any_shape
from tests.chaos.steps.step import action
from tests.chaos.world import World, WrongError

_PATIENCE = 300


@action(weight=10)
def run(world: World) -> str | None:
    """Everything runs until quiet."""
    return world.run()


@action(shape=any_shape(lambda one: one.runs))
def run_only(world: World, shape: Shape) -> str | None:
    """One resource runs until quiet, the others do not run."""
    return world.run(shape.ref)


@action(weight=1, shape=any_shape(lambda one: one.can_rebuild))
def rebuild(world: World, shape: Shape) -> str | None:
    """The state of a resource is rebuilt."""
    return world.rebuild(shape.ref)


@action(weight=1)
def reopen(world: World) -> None:
    """The application is opened again, as by another command."""
    world.open()


@action()
def start_continuous_run(world: World) -> None:
    """A continuous run starts, and goes on beside the steps that follow."""
    world.start_continuous_run()


@action(weight=6)
def wait_until_quiet(world: World) -> str | None:
    """The judge waits until the continuous run has caught up; without one, everything runs until quiet."""
    if not world.runs_continuously():
        return world.run()
    world.quiet = "soon"
    return None


@action(weight=5)
def stop_continuous_run(world: World) -> None:
    """The continuous run is stopped."""
    world.stop_continuous_run()


@action(weight=1)
def run_elsewhere(world: World) -> str:
    """Another process runs everything. During a continuous run its run is refused, without a traceback."""
    world.open()
    command = [sys.executable, "-m", "kaspr_delta", "--warehouse", str(world.warehouse), "run", str(world.manifests)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)  # noqa: S603
    output = f"exit code {done.returncode}: {done.stdout}{done.stderr}"
    refused = world.runs_continuously()
    if "Traceback" in output or done.returncode != int(refused) or (refused and "already runs" not in output):
        raise WrongError(output)
    world.quiet = "no" if refused else "yes"
    return "refused" if refused else "done"
