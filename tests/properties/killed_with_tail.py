"""``python -m tests.properties.killed_with_tail MANIFESTS WAREHOUSE SEED MOMENT``: dies at a fold."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

import pytest

from kaspr_delta import Application
from kaspr_delta.engine.progress import Progress
from tests.properties.following import History, never_due

STEPS = ("left", "right", "left", "right")


def rows_of(seed: int, app: Application) -> History:
    """The history whose steps are the same in every process."""
    return History(app, random.Random(seed))  # noqa: S311  no secret


def main(manifests: str, warehouse: str, seed: str, moment: str) -> None:
    """Make the steps, each a batch of its own, and die: before the fold of all, or before that is written down."""
    patched = pytest.MonkeyPatch()
    never_due(patched)
    history = rows_of(int(seed), Application.open(manifests, warehouse=Path(warehouse)))
    with history.following():
        for side in STEPS:
            history.step(side, 8)
            history.wait()
        if moment == "before":
            die()
        patched.setattr(Progress, "record", die)


def die(*_: object) -> None:
    """At once."""
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
