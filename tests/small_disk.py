"""A disk that a test can fill and free again."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

LARGEST = 512
"""The most megabytes of a small disk."""
_KILOBYTE = 1024


class SmallDisk:
    """A file system in memory. A filler file takes the space that must not be free."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill_except_for(self, kilobytes: int) -> None:
        """Fill the disk except for this many kilobytes."""
        self.free()
        disk = os.statvfs(self.folder)
        with self._filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, disk.f_bavail * disk.f_frsize - kilobytes * _KILOBYTE)

    def free(self) -> None:
        """Delete the filler file."""
        self._filler.unlink(missing_ok=True)


def is_small(folder: Path) -> bool:
    """Whether a folder is on a small disk, so that filling it does no harm."""
    return shutil.disk_usage(folder).total <= LARGEST << 20


@contextmanager
def mounted(folder: Path, megabytes: int = LARGEST) -> Iterator[str]:
    """Mount a small disk on a folder until the block ends. Yields the error if that fails, else an empty text."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)  # noqa: S603
        problem = done.stderr.strip() if done.returncode else ""
    except FileNotFoundError as error:
        problem = str(error)
    try:
        yield problem
    finally:
        if not problem:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S603, S607


@contextmanager
def small_disk(folder: Path, megabytes: int = 128) -> Iterator[SmallDisk]:
    """A disk in a new folder. Skips the test if it cannot be mounted."""
    with mounted(folder, megabytes) as problem:
        if problem:
            pytest.skip(f"no disk can be mounted here: {problem}")
        yield SmallDisk(folder)
