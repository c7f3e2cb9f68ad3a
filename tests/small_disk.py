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
"""The megabytes that a small disk has at most."""
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


def is_small(folder: Path) -> bool:
    """Whether a folder is on a small disk, so that filling it does no harm."""
    return shutil.disk_usage(folder).total <= LARGEST << 20


@contextmanager
def mounted(folder: Path, megabytes: int = LARGEST) -> Iterator[str]:
    """Mount a small disk on a folder until this ends. Gives why that is not possible here, or nothing."""
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
    """A disk in a new folder. Skips the test where nothing can be mounted."""
    with mounted(folder, megabytes) as problem:
        if problem:
            pytest.skip(f"no disk can be mounted here: {problem}")
        yield SmallDisk(folder)
