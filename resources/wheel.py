"""Build the wheel that jobs install. Its file time is that of the last change of its code.

The Databricks CLI makes the version from the file time (``dynamic_version``): jobs get a new version if the code has
changed, and keep theirs if it is the same.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = ("src", "pyproject.toml")


def main() -> None:
    """Build the wheel into ``dist``, and set its file time."""
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--no-isolation"], cwd=ROOT, check=True)
    age = age_of_code()
    for wheel in (ROOT / "dist").glob("*.whl"):
        os.utime(wheel, ns=(age, age))


def age_of_code() -> int:
    """The time of the code's last change, in nanoseconds: of its commit or, if it is not committed, of its files."""
    changed = _git("status", "--porcelain", "--", *CODE)
    committed = _git("log", "-1", "--format=%ct", "--", *CODE)
    if changed == "" and committed:
        return int(committed) * 1_000_000_000
    # Folders count too: the time of a folder changes when a file in it is deleted.
    files = [
        file for part in CODE for file in (ROOT / part, *(ROOT / part).rglob("*")) if "__pycache__" not in str(file)
    ]
    return max(file.stat().st_mtime_ns for file in files)


def _git(*arguments: str) -> str | None:
    """The output of git; None if git is missing or does not know this folder."""
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
