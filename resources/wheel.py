"""Build the wheel that jobs install, as old as the code in it.

The Databricks CLI makes a version of that age (``dynamic_version``): jobs whose code has changed get another version,
and those whose code is the same keep theirs.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = ("src", "pyproject.toml")


def main() -> None:
    """Build it into ``dist``."""
    # Commands of this script's own.
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--no-isolation"], cwd=ROOT, check=True)
    age = age_of_code()
    for wheel in (ROOT / "dist").glob("*.whl"):
        os.utime(wheel, ns=(age, age))


def age_of_code() -> int:
    """When the code was last changed, in nanoseconds: by the commit, or else by the files."""
    changed = _git("status", "--porcelain", "--", *CODE)
    committed = _git("log", "-1", "--format=%ct", "--", *CODE)
    if changed == "" and committed:
        return int(committed) * 1_000_000_000
    # A folder changes when a file leaves it.
    files = [
        file for part in CODE for file in (ROOT / part, *(ROOT / part).rglob("*")) if "__pycache__" not in str(file)
    ]
    return max(file.stat().st_mtime_ns for file in files)


def _git(*arguments: str) -> str | None:
    """What git says; None where it does not know this folder."""
    try:
        done = subprocess.run(  # noqa: S603
            ["git", *arguments],  # noqa: S607
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


if __name__ == "__main__":
    main()
