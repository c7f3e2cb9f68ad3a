"""The progress of a run on standard error: live on a terminal, and always a last line with the seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator

from kaspr_delta.cli.progress import console


def steps(count: int, what: str) -> Iterator[int]:
    """Count the steps of a run, and show them while they are taken."""
    screen, started = console(), time.monotonic()
    with screen.status(what) as status:  # shows nothing where there is no terminal
        for step in range(count):
            status.update(f"{what}: step {step + 1} of {count} …")
            yield step
    screen.print(f"{what}: {count} steps, {time.monotonic() - started:.1f} s", style="dim")
