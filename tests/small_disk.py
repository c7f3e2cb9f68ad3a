"""A disk that a test can fill and free again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_KILOBYTE = 1024


class SmallDisk:
    """A file system in memory, of which a file takes the space that is not to be free."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def leave(self, kilobytes: int) -> None:
        """Fill the disk, but for so much."""
        self.free()
        disk = os.statvfs(self.folder)
        with self._filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, disk.f_bavail * disk.f_frsize - kilobytes * _KILOBYTE)

    def free(self) -> None:
        """Free the space again."""
        self._filler.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, megabytes: int = 128) -> Iterator[SmallDisk]:
    """A disk in a new folder. Skips the test where nothing can be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S603, S607
