"""Runs several statements at the same time. Only speed depends on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")
# Statements are planned on the driver: more of them at once would only wait for each other.
_MOST = 4


def side_by_side(actions: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run independent Spark actions at the same time. The first failure is raised after all have ended."""
    with ThreadPoolExecutor(_MOST) as pool:
        return [done.result() for done in [pool.submit(action) for action in actions]]
