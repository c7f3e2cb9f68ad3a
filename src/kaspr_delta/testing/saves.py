"""Wait for files of a folder that were saved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

# Seconds between two looks for changed files.
_LOOK = 0.3


def saves(folder: Path, stopped: Callable[[float], bool], without: Path | None = None) -> Iterator[None]:
    """Now, and each time that files of a folder have changed, until ``stopped``, which waits for so many seconds.

    Hidden folders, caches of Python and the folder ``without`` are not looked at.
    """
    before: Mapping[str, int] | None = None
    while True:
        now = dict(_times(folder, without))
        if now != before:
            yield
        before = now
        if stopped(_LOOK):
            return


def _times(folder: Path, without: Path | None) -> Iterator[tuple[str, int]]:
    other = without and without.resolve()
    for parent, folders, files in os.walk(folder):
        kept = (name for name in folders if not name.startswith((".", "__")))
        folders[:] = [name for name in kept if Path(parent, name).resolve() != other]
        for name in files:
            with suppress(FileNotFoundError):  # an editor puts a new file in place of the old one
                yield (with_time := str(Path(parent, name))), Path(with_time).stat().st_mtime_ns
