"""A disk so small that it can be filled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SMALL = 512
"""The megabytes that a small disk has at most."""


@contextmanager
def small_disk(folder: Path) -> Iterator[str]:
    """Mount one on a folder until this ends; why that is not possible here, or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}m", "tmpfs", str(folder)]
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
